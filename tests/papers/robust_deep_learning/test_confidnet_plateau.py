"""ConfidNet to a plateau: when it stops, what it takes, and how its claim is judged."""

import json
import math
from dataclasses import replace

import pytest
import torch
from torch import nn

from nescio.evaluation.compare import Absent
from nescio_papers import Settings
from nescio_papers.kit.images import InData
from nescio_papers.robust_deep_learning import confidnet_plateau, confidnet_words, failure

TINY = replace(confidnet_plateau.QUICK, heads=(4,), most=2, resamples=10)


def learned(precisions, **options):
    """A network that is judged as said after each epoch."""
    given = iter(precisions)
    return confidnet_plateau.to_a_plateau(
        nn.Linear(2, 1),
        (torch.zeros(4, 2), torch.ones(4, 1)),
        lambda net: (next(given), 0.5),
        **{"rate": 0.1, "most": 9, "patience": 2, "seed": 0, **options},
    )


def test_learning_stops_when_epochs_bring_nothing_better():
    found = learned([0.1, 0.3, 0.25, 0.2, 0.9])
    assert (found.best, len(found.precisions), found.plateau) == (2, 4, True)
    assert found.numbers()["validation"] == [0.1, 0.3, 0.25, 0.2]


def test_learning_goes_on_while_the_mean_over_epochs_rises():
    curve = [0.1, 0.4, 0.1, 0.2, 0.3, 0.3, 0.3, 0.3, 0.3]
    found = learned(curve)
    assert (found.best, len(found.precisions), found.plateau) == (2, 8, True)
    assert not learned(curve, most=7).plateau  # 0.3 and 0.3 after 0.2 and 0.3
    assert confidnet_words.rise(curve[:7]) == pytest.approx(0.05)


def test_a_rise_is_of_means_over_a_third_of_the_epochs_up_to_sixteen():
    assert confidnet_words.rise([9.0, 1.0, 3.0]) == 2
    assert confidnet_words.rise([9.0] * 68 + [1.0] * 16 + [4.0] * 16) == 3
    assert math.isnan(confidnet_words.rise([0.1, 0.9]))  # as in a quick run


def test_without_a_plateau_the_last_epoch_says_so():
    found = learned([0.1, 0.2, 0.3], most=3)
    assert (found.best, found.plateau) == (3, False)


def test_the_weights_are_those_of_the_best_epoch():
    weights = []
    net = nn.Linear(2, 1)

    def judged(net):
        weights.append(net.weight.detach().clone())
        return (0.2, 0.5) if len(weights) == 2 else (0.1, 0.5)

    data = (torch.ones(8, 2), torch.zeros(8, 1))
    found = confidnet_plateau.to_a_plateau(net, data, judged, rate=0.1, most=4, patience=3, seed=0)
    assert found.best == 2
    torch.testing.assert_close(found.net.weight.detach(), weights[1])


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    def images(name, **_):
        if name == "cifar10":
            return Absent("no photographs")
        rng = torch.Generator().manual_seed(0)
        labels = torch.randint(10, (260,), generator=rng)
        rows = 0.3 * torch.rand(260, 1, 28, 28, generator=rng)
        rows[torch.arange(260), 0, labels, :4] += 0.4
        return InData((rows[:200], labels[:200]), (rows[200:], labels[200:]), 10)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(confidnet_plateau, "all_images", images)
        patch.setattr(failure, "QUICK", replace(failure.QUICK, width=8))
        patch.setattr(confidnet_plateau, "QUICK", TINY)
        settings = Settings(quick=True, folder=tmp_path_factory.mktemp("run"))
        yield confidnet_plateau.run(settings)


def test_both_stages_are_measured_drawn_and_set_beside_published_numbers(found):
    numbers = json.loads(json.dumps(found.numbers))
    part = numbers["MNIST"]
    assert set(part["stages"]) == {"stage one", "stage two"}
    assert part["errors"]["validation"] <= 20
    assert "CIFAR-10 is not at hand" in found.text
    assert list(found.figures) == ["confidnet-plateau.png"]
    assert [row.published for row in found.comparisons] == [37.70, 57.37]
    assert all("recalled from the paper" in row.note for row in found.comparisons)
    at = part["stages"]["stage two"]
    assert found.comparisons[1].ours == pytest.approx(100 * at["test"][at["best"] - 1])
    gain = part["gains"]["stage two"]["value"]
    base = part["maximum probability"]["test"]
    assert gain == pytest.approx(at["test"][at["best"] - 1] - base)
    assert len(confidnet_words.judge(numbers)) == 1


def numbers_of(low, high, *, plateau=True, name="MNIST", error=0.45):
    curve = [0.3] * 30 if plateau else [0.01 * epoch for epoch in range(30)]
    stage = {"epochs": 30, "best": 20, "plateau": True, "validation": curve}
    gain = {"value": (low + high) / 2, "low": low, "high": high}
    return {name: {
        "error": error,
        "stages": dict.fromkeys(("stage one", "stage two"), stage),
        "gains": dict.fromkeys(("stage one", "stage two"), gain),
        "errors": {"training": 100, "validation": 20},
    }}  # fmt: skip


def test_the_claim_is_judged_at_the_plateau_only():
    verdicts = [confidnet_words.judge(numbers_of(*ends))[0].verdict
                for ends in ((0.01, 0.2), (-0.2, -0.01), (-0.1, 0.1))]  # fmt: skip
    assert verdicts == ["holds", "does not hold", "open"]
    (rising,) = confidnet_words.judge(numbers_of(-0.2, -0.1, plateau=False))
    assert rising.verdict == "not reached here"
    assert "not tested, since stage one: rise of the mean AP" in rising.measured
    assert "last 10 of 30 epochs over the 10 before 0.1, expected below 0.005" in rising.measured
    assert confidnet_words.judge({"MNIST": {"absent": "no digits"}}) == []


@pytest.mark.parametrize(("error", "verdict"), [(0.45, "not reached here"), (0.15, "holds")])
def test_photographs_must_have_been_learned(error, verdict):
    (claim,) = confidnet_words.judge(numbers_of(0.01, 0.2, name="CIFAR-10", error=error))
    assert claim.verdict == verdict
