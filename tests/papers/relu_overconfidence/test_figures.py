"""The figures of Hein et al.: polytopes against exact limits, similarity, and captions judged."""

import math

import numpy as np
import pytest
import torch

from nescio.geometry import far_field, through_origin
from nescio_papers import Settings
from nescio_papers.relu_overconfidence import polytopes as plane
from nescio_papers.relu_overconfidence.figure_claims import (
    JUDGED,
    NEAR,
    PAPERS,
    TEST,
    figure_claims,
)
from nescio_papers.relu_overconfidence.figures import _order, similarity
from nescio_papers.relu_overconfidence.pictures import figure_of_histograms

QUICK = Settings(quick=True)
COLUMNS = ("plain", "CEDA", "ACET")


@pytest.fixture(scope="module")
def found():
    return plane.polytopes(QUICK)


def test_pieces_are_those_of_the_network(found):
    numbers = found.numbers
    assert 1 < numbers["unbounded"] < numbers["pieces of the plane"]
    assert numbers["pieces in the box"] <= numbers["pieces of the plane"]
    assert len(found.near) == numbers["pieces in the box"]
    area = float(found.near.areas.sum())
    assert area == pytest.approx((2 * plane.NEAR) ** 2)  # the pieces fill the box
    assert found.near.unbounded.sum() <= numbers["unbounded"]


def test_directions_end_where_single_rays_do():
    model = plane.wide(_linear([[2.0, 0.0], [0.0, 0.0]]))
    numbers = plane._directions(model)
    # a direction is sure in the end unless its first coordinate is 0, in two of 3600
    assert numbers["limit 1"] == pytest.approx(1 - 2 / 3600, abs=1e-3)
    assert numbers["lowest limit"] >= 0.5
    one = far_field(model, *through_origin(torch.tensor([[1.0, 0.0]], dtype=torch.float64)))
    assert float(one.confidence) == 1


def test_figure_1_shows_two_views_and_says_what_is_seen(found):
    figure = plane.figure_of_polytopes(found)
    assert [axis.get_xlim() for axis in figure.axes[:2]] == [(-3.5, 4.5), (-15.5, 16.5)]
    caption = plane.polytope_caption(found.numbers)
    assert str(found.numbers["unbounded"]) in caption
    claim = plane.polytope_claim({**found.numbers, "limit 1": 1.0})
    assert claim.verdict == "holds"
    assert plane.polytope_claim({**found.numbers, "limit 1": 0.5}).verdict == "holds in part"


def _linear(rows):
    from nescio.core import categorical
    from nescio.models.model import Model
    from nescio.nets.stack import stack

    layer = torch.nn.Linear(2, 2)
    layer.weight.data, layer.bias.data = torch.tensor(rows), torch.zeros(2)
    return Model(layer, stack([layer]), categorical())


def test_similarity_is_the_largest_correlation():
    source = torch.Generator().manual_seed(0)
    known = torch.rand(5, 3, 4, 4, generator=source)
    x = torch.rand(2, 3, 4, 4, generator=source)
    parts = [[np.asarray(c).ravel() - c.mean().item() for c in image] for image in x]
    pairs = [
        max(
            np.corrcoef(
                np.concatenate(own),
                np.concatenate([c.numpy().ravel() - c.mean().item() for c in other]),
            )[0, 1]
            for other in known
        )
        for own in parts
    ]
    assert similarity(x, known).tolist() == pytest.approx(pairs, abs=1e-5)
    painted = 0.5 * known[:1] + torch.tensor([0.1, 0.4, 0.2])[:, None, None]  # another color
    assert float(similarity(painted, known)) == pytest.approx(1, abs=1e-5)


def test_drawn_images_come_first_and_none_comes_twice():
    assert _order(4, 9).tolist() == [0, 2, 1, 3, 4, 5, 6, 7, 8]
    assert _order(6, 6).tolist() == [0, 2, 4, 1, 3, 5]
    assert len(set(_order(8, 100).tolist())) == 100


def numbers_of(sure, low, alike=0.2):
    """Numbers of 100 noise images and 900 samples a seed: confidences, and counts below 0.2."""
    confidence = {
        column: {"noise": [0.1] * 100, PAPERS: [0.1] * 100, JUDGED: [value] * 100}
        for column, value in zip(COLUMNS, sure, strict=True)
    }
    near = NEAR.format(JUDGED)
    similar = {"noise": [0.2] * 100, near: [alike] * 100, TEST: [0.6] * 10 + [0.9] * 90}
    samples = {
        column: {PAPERS: {"mean": 0.1}, JUDGED: {"mean": 0.5, "by_seed": [[count, 900]] * 3}}
        for column, count in zip(COLUMNS, low, strict=True)
    }
    wrong = {column: [5, 1000] for column in COLUMNS}
    block = {"confidence": confidence, "similarity": similar, "wrong": wrong}
    return {"MNIST": block, "samples": samples}


@pytest.mark.parametrize(
    ("sure", "low", "verdicts"),
    [
        ((1.0, 0.1, 0.1), (0, 0, 900), ["holds", "holds", "holds"]),
        # the strong judge finds noise that CEDA is sure of; the paper's attack is not asked
        ((1.0, 0.96, 0.1), (0, 0, 900), ["holds", "holds in part", "holds"]),
        ((1.0, 0.96, 0.96), (0, 0, 0), ["holds", "does not hold", "holds in part"]),
        ((1.0, 0.1, 0.1), (0, 900, 900), ["holds", "holds", "holds in part"]),
        ((1.0, 0.1, 0.1), (0, 0, 450), ["holds", "holds", "open"]),
        # an attack that moves nothing tests nothing
        ((0.3, 0.1, 0.1), (0, 0, 900), ["holds", "not reached here", "holds"]),
    ],
)
def test_captions_are_judged_by_the_strong_judge(sure, low, verdicts):
    claims = figure_claims(numbers_of(sure, low))
    assert [claim.source[-1] for claim in claims] == ["2", "2", "4"]
    assert [claim.verdict for claim in claims] == verdicts


def test_one_training_does_not_say_what_trainings_do():
    numbers = numbers_of((1.0, 0.1, 0.1), (0, 0, 900))
    for column, pairs in zip(COLUMNS, ([[0, 900]], [[0, 900]], [[900, 900]]), strict=True):
        numbers["samples"][column][JUDGED]["by_seed"] = pairs
    assert figure_claims(numbers)[-1].verdict == "open"
    # three that differ widely: their mean is above a half, its interval is not
    numbers["samples"]["ACET"][JUDGED]["by_seed"] = [[880, 900], [500, 900], [300, 900]]
    fact = figure_claims(numbers)[-1].facts[-1]
    assert fact.value == pytest.approx((880 + 500 + 300) / 2700)
    assert fact.low < 0.5 < fact.value < fact.high <= 1


def test_networks_that_learned_nothing_are_not_judged():
    numbers = numbers_of((1.0, 0.1, 0.1), (0, 0, 900))
    numbers["MNIST"]["wrong"]["CEDA"] = [300, 1000]
    assert [claim.verdict for claim in figure_claims(numbers)][1:] == ["not reached here"] * 2


@pytest.mark.parametrize("alike", [0.95, 0.7])  # as the middle of the data, as the least of them
def test_similar_noise_is_seen(alike):
    claim = figure_claims(numbers_of((1.0, 0.1, 0.1), (0, 0, 900), alike))[0]
    assert claim.verdict == "holds in part"  # of noise it is so, of adversarial noise not
    assert "adversarial noise (the strong judge)" in claim.facts[1].what


def test_absent_numbers_are_left_out():
    assert figure_claims({"missing": {"MNIST": "not at hand"}}) == []


def test_histograms_have_a_panel_for_each_attack_and_network():
    sure = {attack: {c: torch.rand(20) for c in COLUMNS} for attack in (PAPERS, JUDGED)}
    sure[JUDGED]["ACET"] = torch.empty(0)
    figure = figure_of_histograms(sure)
    assert len(figure.axes) == 6
    titles = [axis.get_title(loc="left") for axis in figure.axes]
    assert titles[-1] == "ACET: 0 samples"
    assert titles[0].startswith("plain: 20 samples, mean 0.")
    counts = [sum(bar.get_height() for bar in axis.patches) for axis in figure.axes]
    assert counts == [20] * 5 + [0]
    assert not math.isnan(sum(counts))
