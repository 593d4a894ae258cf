"""Part stability: a quick run whose verdicts stay open, and the bounds of moved digits."""

from dataclasses import replace

import pytest
import torch
from torch import nn

from nescio_papers import Settings, named, run_experiment
from nescio_papers.kit import numbers_of
from nescio_papers.robust_deep_learning import (
    stability_deformations,
    stability_lipschitz,
    stability_networks,
    stability_verdicts,
)
from nescio_papers.robust_deep_learning.stability_pairs import differences

QUICKLY = Settings(quick=True)
FIGURES = ("lipschitz-map", "lipschitz", "examples", "deformations", "features", "translations")


@pytest.fixture(scope="module")
def run(image_files, tmp_path_factory):
    data = image_files(tmp_path_factory.mktemp("data"), train=60, test=30, letters=26)
    folder = tmp_path_factory.mktemp("stability")
    small = replace(
        stability_networks.QUICK, toy_epochs=2, epochs=1, points=3, segments=1, draws=5, deformed=4
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("NESCIO_DATA", str(data))
        patch.setattr(stability_networks, "QUICK", small)
        part = {"settings": QUICKLY, "only": ["stability"], "show": False}
        page = run_experiment(named("robust-deep-learning"), folder, **part)
        yield folder, page.read_text()


def test_a_quick_run_writes_the_pictures_and_leaves_claims_open(run):
    folder, text = run
    assert {path.name for path in folder.iterdir()} >= {f"stability-{n}.png" for n in FIGURES}
    claims = text[text.index("## What the source says") :]
    assert claims.count("| open |") >= 6
    assert all(f"| {word} |" not in claims for word in ("holds", "does not hold", "holds in part"))


def test_exact_constants_lie_between_the_bounds(run):
    folder, _ = run
    numbers = numbers_of(replace(QUICKLY, folder=folder), "stability")
    toy = numbers["half_moons"]
    assert toy["relative_error_against_jacobians"] < 1e-9
    assert toy["sampled"] <= toy["largest"] <= toy["product"]
    for row in numbers["lipschitz"].values():
        assert max(row["sampled"], row["largest"], row["largest_on_segments"]) <= row["product"]
        assert row["median"] <= row["largest"]


def test_moved_images_are_within_both_bounds():
    x = torch.rand(5, 1, 12, 12, generator=torch.Generator().manual_seed(0))
    found = stability_deformations.translations(x, 2)
    assert found["within"] == [1.0] * len(stability_deformations.PIXELS)
    assert all(c <= b for c, b in zip(found["change"], found["shift_bound"], strict=True))


def near(value):
    return {"value": value, "low": value - 0.01, "high": value + 0.01}


def curves(gaps, *, accuracy=0.98):
    """Numbers of one deformation; the gaps by pair, the second of them at the worst size."""
    one = {"change": [0.0, 0.5], "bound": [0.0, 1.0]}
    pairs = {name: {"mean": near(mean), "by_size": [near(mean), near(worst)]}
             for name, (mean, worst) in gaps.items()}  # fmt: skip
    return {
        "accuracy": {"scattering": accuracy, "small_cnn": accuracy},
        "outputs": {"rotation": {"subjects": {"small_cnn": dict(one)}}},
        "features": {"rotation": {"subjects": {"inputs": {"change": [0.0, 0.5]}}}},
        "translations": {"J = 1": {"within": [1.0, 1.0]}},
        "paired": {"rotation": pairs},
    }


NAMES = ("than the images", "than trained features", "logits", "logits, labels")


def test_deformations_are_judged_digit_by_digit():
    def judged(mean, worst, **options):
        numbers = curves(dict.fromkeys(NAMES, (mean, worst)), **options)
        return [claim.verdict for claim in stability_verdicts.claims(numbers)]

    assert judged(-0.2, -0.1) == ["holds", "holds", "holds"]
    assert judged(-0.2, 0.1) == ["holds in part", "holds", "holds"]  # more at one size
    assert judged(0.1, 0.2) == ["does not hold", "does not hold", "holds"]
    assert judged(-0.2, -0.1, accuracy=0.5)[:2] == ["not reached here"] * 2
    older = curves({})
    older.pop("paired")
    assert [claim.verdict for claim in stability_verdicts.claims(older)] == [
        "open",
        "open",
        "holds",
    ]


def test_a_change_beyond_its_bound_refutes_the_bounds():
    numbers = curves({})
    numbers["outputs"]["rotation"]["subjects"]["small_cnn"]["bound"] = [0.0, 0.4]
    assert stability_verdicts.claims(numbers)[-1].verdict == "holds in part"
    numbers["translations"]["J = 1"]["within"] = [1.0, 0.9]
    assert stability_verdicts.claims(numbers)[-1].verdict == "does not hold"


def test_constants_outside_their_bounds_refute_them():
    toy = {"largest": 2.0, "sampled": 1.0, "product": 3.0, "relative_error_against_jacobians": 0.0}
    row = {"product": 3.0, "largest": 2.0, "largest_on_segments": 2.5, "sampled": 2.6}
    found = stability_lipschitz.claims({"half_moons": toy, "lipschitz": {"mlp": row}})
    assert [claim.verdict for claim in found] == ["holds", "holds"]
    assert {claim.source for claim in found} == {"here"}  # the lecture states no such bound
    wrong = {**toy, "sampled": 2.5, "product": 1.0, "relative_error_against_jacobians": 0.1}
    found = stability_lipschitz.claims(
        {"half_moons": wrong, "lipschitz": {"mlp": {**row, "sampled": 4.0}}}
    )
    assert [claim.verdict for claim in found] == ["does not hold", "does not hold"]


def test_differences_are_paired_by_digit():
    x = torch.rand(30, 1, 5, 5, generator=torch.Generator().manual_seed(0))
    nets = {"a": nn.Flatten(), "b": nn.Sequential(nn.Flatten(), nn.ReLU())}
    moved = [lambda: x + 0.1 * x.flip(0), lambda: x - 2.0]
    found = differences(nets, x, moved, {"pair": ("a", "b")}, ("pair",))
    flat = x.flatten(1)
    unit = (2 * (flat - flat.mean(0)).square().sum(1).mean()).sqrt()
    second = (flat - 2 - flat).norm(dim=1) - flat.norm(dim=1)  # the second net gives zeros
    assert found["pair"]["by_size"][0]["value"] == pytest.approx(0, abs=1e-6)
    assert found["pair"]["by_size"][1]["value"] == pytest.approx(
        float((second / unit).mean()), rel=1e-4
    )
    assert found["pair"]["mean"]["value"] == pytest.approx(
        found["pair"]["by_size"][1]["value"] / 2, abs=1e-6
    )
    assert found["pair, labels"]["by_size"][0]["value"] == 0
