"""The exact parts of the half-moons experiment: pieces, statements, assumptions and limits."""

import json
import math

import numpy as np
import pytest
import torch
from torch import nn

from nescio import nets
from nescio.core import categorical
from nescio.geometry.exact.exact import exact_regions
from nescio.geometry.rays.limit_map import limit_map
from nescio.models.model import Model
from nescio.nets.stack import stack
from nescio_papers import Settings, named, run_experiment
from nescio_papers.know_your_limits import limits_by_members as by_members
from nescio_papers.know_your_limits import models as world_models
from nescio_papers.know_your_limits.assumption_shares import (
    DEAD,
    EQUAL,
    MET,
    STILL,
    SURE,
    TIED,
    ZERO,
    broken,
    of_network,
)
from nescio_papers.know_your_limits.hein import dead_pieces, radial_bound
from nescio_papers.know_your_limits.limits_by_members import Method, areas, methods, of_method
from nescio_papers.know_your_limits.models import trained
from nescio_papers.know_your_limits.piece_figures import BOX, colored, found, has_zero, neighbors
from nescio_papers.know_your_limits.proofs import verdicts
from nescio_papers.know_your_limits.random_networks import check_ends, check_maps, drawn, linear
from nescio_papers.know_your_limits.statement import CORRECTED, FALSE, PRINTED, verdict
from nescio_papers.know_your_limits.surfaces import ENTROPY, INFORMATION, LEAST, VARIANCE
from nescio_papers.know_your_limits.tessellation import counted
from nescio_papers.know_your_limits.tessellation import of_network as counts_of
from nescio_papers.know_your_limits.votes import votes

QUICK = Settings(quick=True)
PARTS = ["pieces", "assumptions", "exact-limits", "statements"]
CACHES = (trained, methods, areas, broken, counted, verdicts, dead_pieces)


@pytest.fixture(scope="module", autouse=True)
def _short_training():
    for cache in CACHES:
        cache.cache_clear()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(world_models, "_budget", lambda *_: {"epochs": 8, "learning_rate": 2e-2})
        yield
    for cache in CACHES:
        cache.cache_clear()


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("limits")
    run_experiment(named("know-your-limits"), folder, settings=QUICK, only=PARTS, show=False)
    return folder


def record(folder, part):
    return json.loads((folder / f"{part}.json").read_text())


def joined(*members):
    return Model(members[0], stack(list(members)), categorical())


def gap_of(x, y):
    """Two classes, class 1 where x x_1 + y x_2 > 0."""
    return linear((0.0, 0.0), (x, y))


def test_parts_write_figures_captions_and_claims(folder):
    summary = (folder / "summary.md").read_text()
    judged = json.loads((folder / "results.json").read_text())["parts"]
    for part in PARTS:
        made = record(folder, part)
        for name, caption in made["figures"].items():
            assert (folder / name).read_bytes().startswith(b"\x89PNG")
            assert len(caption) > 40
            assert name in summary
        assert judged[part]["claims"]
        for claim in judged[part]["claims"]:
            assert any(letter.isdigit() for letter in claim["measured"])
    assert [len(record(folder, part)["figures"]) for part in PARTS] == [1, 1, 2, 0]


# -- pieces


def test_pieces_are_those_of_exact_fractions():
    torch.manual_seed(3)
    net = nets.mlp(2, 9, widths=(5, 5)).double()
    exact = exact_regions(net, BOX)
    row = counts_of(net)
    assert row["pieces in the box"] == len(exact)
    areas_ = [float(a) for a in exact.areas]
    zero = [(m[:, :2] == 0).any() for m in exact.maps]
    share = sum(a for a, z in zip(areas_, zero, strict=True) if z) / 100
    assert row["zero area"] == pytest.approx(share, abs=1e-12)
    assert row["unbounded in the box"] <= row["unbounded of the plane"]
    assert row["pieces of the plane"] <= row["bounds"]["Serra et al. 2018"]


def test_a_dead_half_plane_is_counted_as_area():
    net = nn.Sequential(linear((1.0, 0.0), (2.0, 0.0)), nn.ReLU(), nn.Linear(2, 2).double())
    row = counts_of(net)
    assert row["pieces in the box"] == 2
    assert row["merged in the box"] == 2
    assert row["zero area"] == pytest.approx(1.0)  # x_2 has no say anywhere
    assert row["zero area, dead"] == pytest.approx(0.5)
    assert row["unbounded in the box"] == row["zero unbounded pieces"] == 2


def test_neighbors_have_different_colors():
    torch.manual_seed(1)
    inside = found(nets.mlp(2, 3, widths=(4, 4)).double())
    near, colors = neighbors(inside), colored(inside)
    assert all(i in near[j] for i, some in enumerate(near) for j in some)
    assert all(near)
    assert all(colors[i] != colors[j] for i, some in enumerate(near) for j in some)
    assert not has_zero(inside).any() or inside.maps.eq(0).any()


def test_pieces_are_set_beside_the_published_count(folder):
    made = record(folder, "pieces")
    rows = {row["what"]: row for row in made["comparisons"]}
    assert rows["figure 1b: pieces in [-5, 5]^2"]["published"] == 42
    starts = made["numbers"]["starts"]
    assert len(starts) == 5
    box = made["numbers"]["pieces in the box"]
    assert box["low"] <= box["median"] <= box["high"]
    assert all(row["merged in the box"] <= row["pieces in the box"] for row in starts)


# -- statements


def sigmoid(z):
    return 1 / (1 + math.exp(-z))


def test_counter_examples_are_their_closed_forms(folder):
    rows = record(folder, "statements")["numbers"]["statements"]
    p, q = sigmoid(0.6), sigmoid(-0.9)  # probabilities of class 1 of the two matrices
    rise, fall = 2 * p * (1 - p), -3 * q * (1 - q)  # and their slopes in x_2
    assert rows["prop1"]["miss"] == pytest.approx(0.4576, abs=5e-5)
    assert rows["prop1"]["miss"] == pytest.approx(rise)
    assert rows["lemma3"]["miss"] == pytest.approx(rise)
    assert rows["lemma4"]["miss"] == pytest.approx(abs(rise + fall) / 2)
    assert rows["lemma5"]["miss"] == pytest.approx(abs((p - q) / 2 * (rise - fall)))
    assert rows["lemma6"]["miss"] == pytest.approx(0.6 * rise)
    mean = (p + q) / 2
    total = -math.log(mean / (1 - mean)) * (rise + fall) / 2
    assert rows["lemma7"]["miss"] == pytest.approx(abs(total + (0.6 * rise - 0.9 * fall) / 2))
    assert rows["softmax"]["miss"] == pytest.approx(0.25)
    assert rows["lemma10"]["miss"] == pytest.approx(1 / (p * (1 - p)), rel=1e-6)
    assert 1 - rows["prop2"]["miss"] == pytest.approx(p)
    assert rows["polytope"]["miss"] == 1


def test_every_statement_has_its_verdict(folder):
    rows = record(folder, "statements")["numbers"]["statements"]
    false = {"monotone", "lemma10", "prop1", "polytope", *(f"lemma{i}" for i in range(3, 8))}
    corrected = {"affine", "softmax", "prop2"}
    assert {key for key, row in rows.items() if row["verdict"] == FALSE} == false
    assert {key for key, row in rows.items() if row["verdict"] == CORRECTED} == corrected
    others = [row for key, row in rows.items() if key not in false | corrected]
    assert len(others) == 6
    assert all(row["verdict"] == PRINTED for row in others)


def test_a_verdict_follows_from_the_numbers():
    assert verdict(1e-12) == PRINTED
    assert verdict(1e-12, corrected=True) == CORRECTED
    assert verdict(1e-12, miss=0.4) == FALSE
    assert verdict(1e-3) == FALSE
    assert verdict(float("nan")) == FALSE


def test_checks_run_over_networks_with_and_without_rounding():
    groups = list(drawn(QUICK))
    assert sum(group.whole for group in groups) == len(groups) / 2
    for group in groups:
        assert (group.points != 0).all()
        weights = torch.cat([w.flatten() for net in group.members for w in net.parameters()])
        assert bool((weights == weights.round()).all()) == group.whole
    maps, ends = check_maps(QUICK), check_ends(QUICK)
    assert maps["product with L - l"]["largest"] < 1e-12 < maps["product as printed"]["largest"]
    assert maps["monotone"]["samples"] > 50
    assert 0.1 < maps["bound of Lemma 6"]["largest"] <= 1
    assert max(row["largest"] for row in ends.values()) < 1e-12
    assert ends["axis"]["samples"] > 300


def test_a_radial_network_keeps_within_its_bound():
    ratio, count = radial_bound(QUICK)
    assert 0 < ratio <= 1
    assert count == 500


def test_the_table_says_what_was_checked(folder):
    made = record(folder, "statements")
    for name in ("Lemma 10", "Proposition 1", "Theorem 1", "Hein et al., Theorem 3.2"):
        assert f"| {name} |" in made["text"]
    assert "0.4576" in made["text"]
    dead = made["numbers"]["dead"]
    assert 0 < dead["with dead directions"] <= dead["networks"]
    assert dead["lowest confidence"] < 1


# -- assumptions


def test_assumptions_of_one_matrix():
    x = torch.tensor([[1.0, 2.0], [-1.0, 0.5], [0.0, 3.0], [2.0, 0.0]])
    row = of_network(linear((1.0, 1.0), (1.0, -1.0)), x)
    assert row[STILL] == 0.25
    assert row[ZERO] == row[DEAD] == 0
    assert row[EQUAL] == row[TIED] == 3 / 8  # along the first axis
    assert row[MET] == row[SURE] == 3 / 8  # along the second
    row = of_network(linear((1.0, 0.0), (2.0, -1.0), (2.0, 3.0)), x)
    assert row[ZERO] == 0.75
    assert row[EQUAL] == 3 / 8
    assert row[TIED] == 2 / 8  # where x_1 is negative the first class alone grows fastest


def test_assumptions_are_counted_on_three_data_sets(folder):
    numbers = record(folder, "assumptions")["numbers"]
    assert list(numbers) == ["half-moons", "nine blobs", "digits"]
    from sklearn.datasets import load_digits

    zero = (load_digits().data == 0).mean()
    assert numbers["digits"][STILL]["mean"] == pytest.approx(zero, abs=0.05)
    assert numbers["digits"]["accuracy"] > 0.8
    for row in numbers.values():
        broken_ = row[STILL]["mean"] + row[ZERO]["mean"] + row[EQUAL]["mean"]
        assert row[MET]["mean"] <= 1 - row[STILL]["mean"] + 1e-12
        assert row[MET]["mean"] >= 1 - broken_ - 1e-12
        assert row[TIED]["mean"] <= row[EQUAL]["mean"]


# -- votes and limits


def test_votes_of_two_half_planes_split_a_square_in_quarters():
    model = joined(gap_of(1.0, 0.01), gap_of(-0.02, 1.0))
    parts = votes(model, ((-1.0, 1.0), (-1.0, 1.0)))
    assert parts.areas([0]) == pytest.approx([2, 2])
    assert parts.areas([1]) == pytest.approx([2, 2])
    tilt = (0.01 - 0.02) / 2  # what the lines take from a quarter and give to the next
    assert parts.areas([0, 1]) == pytest.approx([1 + tilt, 2 - 2 * tilt, 1 + tilt], abs=1e-4)


def test_votes_agree_with_a_fine_grid():
    torch.manual_seed(5)
    made = [nets.mlp(2, 2, widths=(12, 12)).double() for _ in range(4)]
    model, box = joined(*made), ((-3.0, 4.0), (-2.0, 3.0))
    steps = (np.arange(700) + 0.5) / 700
    grid = np.stack(np.meshgrid(-3 + 7 * steps, -2 + 5 * steps), -1).reshape(-1, 2)
    with torch.no_grad():
        logits = model.outputs(torch.from_numpy(grid))
    chosen = (logits[..., 1] > logits[..., 0]).numpy()
    parts = votes(model, box)
    for members in ([0], [2], [0, 1], [1, 2, 3], [0, 1, 2, 3]):
        expected = np.bincount(chosen[members].sum(0), minlength=len(members) + 1) * 35 / 700**2
        assert parts.areas(members) == pytest.approx(expected, abs=0.02)
        assert parts.areas(members).sum() == pytest.approx(35)
    assert parts.tied == 0


def test_a_piece_with_equal_logits_is_a_tie():
    net = nn.Sequential(linear((1.0, 0.0)), nn.ReLU(), linear((1.0,), (-1.0,)))
    assert votes(joined(net), ((-1.0, 1.0), (0.0, 1.0))).tied == pytest.approx(1.0)


def test_limits_of_half_planes_are_the_entropy_of_votes():
    members = [gap_of(1.0, 0.0), gap_of(0.0, 1.0), gap_of(1.0, 0.0), gap_of(1.0, 0.0)]
    model = joined(*members)
    rows = of_method(Method((model,), (limit_map(model),), pooled=True), QUICK)
    assert list(rows) == ["1", "2"]
    assert rows["1"]["groups"] == 4
    assert rows["1"]["agree"]["mean"] == pytest.approx(1)
    pair = rows["2"]  # the first pair disagrees in two quarters, the second never
    assert pair["groups"] == 2
    assert pair["disagree"]["values"] == pytest.approx([0.5, 0.0])
    assert pair["disagree"]["mean"] == pytest.approx(0.25)
    for name in (ENTROPY, INFORMATION):
        assert pair[f"{name}, mean"]["high"] == pytest.approx(0.5 * math.log(2))
    assert pair[f"{LEAST}, mean"]["high"] == pytest.approx(0.25)
    assert pair[f"{VARIANCE}, mean"]["high"] == pytest.approx(0.125)
    assert pair["expected entropy, mean"]["high"] == 0


def test_limits_depend_on_votes_alone(folder):
    made = record(folder, "exact-limits")
    assert max(made["numbers"]["apart"].values()) < 1e-12
    assert len(made["numbers"]["methods"]) == 5
    for rows in made["numbers"]["methods"].values():
        assert rows["1"][f"{ENTROPY}, mean"]["mean"] == pytest.approx(0, abs=1e-9)
        for row in rows.values():
            shares = [row[key]["mean"] for key in ("agree", "disagree", "tie or constant")]
            assert sum(shares) == pytest.approx(1)
            gap = row[f"{ENTROPY}, mean"]["mean"] - row[f"{INFORMATION}, mean"]["mean"]
            assert gap == pytest.approx(row["expected entropy, mean"]["mean"], abs=1e-9)
    for rows in made["numbers"]["areas"].values():
        differ = [row["differ"] for row in rows.values()]
        assert differ == sorted(differ)
        assert differ[0] == 0


def test_other_starts_have_scaled_weights():
    torch.manual_seed(0)
    plain = [p.clone() for p in by_members._scaled(1.0).parameters()]
    torch.manual_seed(0)
    wide = list(by_members._scaled(2.0).parameters())
    assert all(torch.equal(2 * a, b) for a, b in zip(plain, wide, strict=True))
