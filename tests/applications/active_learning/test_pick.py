"""Picking a batch: ties, reasons, functions of the user, refusals."""

import pytest
import torch

from nescio.applications.active_learning import because, pick
from nescio.core import (
    Categorical,
    Gaussian,
    MultiLabel,
    NescioError,
    NotFiniteError,
    generator,
    measures,
)


@pytest.fixture
def prediction():
    return Categorical(2 * torch.randn(5, 30, 3, generator=generator(0, "pick")))


def test_the_largest_scores_are_picked_in_order(prediction):
    chosen = pick(prediction, 4, "bald")
    scores, index = measures.mutual_information(prediction).topk(4)
    assert torch.equal(chosen.index, index)
    torch.testing.assert_close(chosen.score, scores)
    assert repr(chosen) == f"Chosen(4 samples: {index.tolist()})"


def test_a_single_member_makes_bald_a_draw_at_random_that_says_so():
    """Under a delta posterior BALD is 0 everywhere: the batch is that of `random`."""
    one = Categorical(torch.randn(1, 1000, 10, generator=generator(0, "delta")))
    chosen = pick(one, 10, "bald", seed=1)
    assert torch.equal(chosen.score, torch.zeros(10))
    assert torch.equal(chosen.index, pick(one, 10, "random", seed=1).index)
    assert not torch.equal(chosen.index, pick(one, 10, "bald", seed=2).index)
    assert "drawn at random: with a single member, bald is 0 for every sample" in chosen.why[0]


def test_ties_are_said(prediction):
    few = prediction[:6]
    chosen = pick(few, 3, lambda candidates: [2.0, 1.0, 1.0, 1.0, 0.0, 0.0])
    assert chosen.index[0] == 0
    assert set(chosen.index[1:].tolist()) < {1, 2, 3}
    assert "at random" not in chosen.why[0]
    assert "drawn at random among 3 with this score" in chosen.why[1]
    every = pick(few, 4, lambda candidates: [2.0, 1.0, 1.0, 1.0, 0.0, 0.0])
    assert not any("at random" in sentence for sentence in every.why)


def test_an_acquisition_of_the_user(prediction):
    @because("It is far along: {score:.1f}")
    def position(candidates):
        return torch.arange(len(candidates))

    chosen = pick(prediction, 2, position)
    assert chosen.index.tolist() == [29, 28]
    assert chosen.why[0].startswith("It is far along: 29.0; class ")

    def last(candidates):
        first = len(candidates) - candidates.size
        return torch.arange(first, len(candidates)), torch.ones(candidates.size)

    chosen = pick(prediction, 3, last)
    assert chosen.index.tolist() == [27, 28, 29]
    assert chosen.why[0].startswith("Its score by last is 1; class ")


@pytest.mark.parametrize(
    ("returned", "message"),
    [
        (torch.zeros(29), "one score per sample"),
        (torch.zeros(30, 1), "one score per sample"),
        (torch.full((30,), torch.nan), "NaN for 30 of 30 samples"),
        ((torch.tensor([0, 0]), torch.zeros(2)), "different whole numbers"),
        ((torch.tensor([0, 30]), torch.zeros(2)), "below 30"),
        ((torch.tensor([0, -1]), torch.zeros(2)), "below 30"),
        ((torch.tensor([0]), torch.zeros(1)), r"of shape \(2,\) each"),
        ((torch.tensor([0.0, 1.0]), torch.zeros(2)), "whole numbers"),
        ((torch.tensor([0, 1]), torch.tensor([0.0, torch.nan])), "NaN"),
        ("scores", "scores must be a tensor"),
    ],
)
def test_what_a_function_of_the_user_must_not_return(prediction, returned, message):
    with pytest.raises(NescioError, match=message):
        pick(prediction, 2, lambda candidates: returned)


def test_only_classes_are_read():
    with pytest.raises(NescioError, match=r"several labels\. Choose one: prediction.label\(0\)"):
        pick(MultiLabel(torch.zeros(2, 5, 3)), 1)
    numbers = Gaussian(torch.zeros(2, 5, 1), torch.ones(2, 5, 1))
    with pytest.raises(NescioError, match="got a Gaussian.*epistemic_variance"):
        pick(numbers, 1)
    with pytest.raises(NescioError, match="got a Tensor; make one of arrays"):
        pick(torch.zeros(2, 5, 3), 1)


def test_names_and_options_are_checked(prediction):
    with pytest.raises(NescioError, match="unknown acquisition 'blad'; did you mean 'bald'"):
        pick(prediction, 1, "blad")
    with pytest.raises(NescioError, match="bald has no option 'k'"):
        pick(prediction, 1, "bald,k=3")
    with pytest.raises(NescioError, match="a function of Candidates, got a int"):
        pick(prediction, 1, 3)
    with pytest.raises(NotFiniteError, match="features contain NaN"):
        pick(prediction, 1, lambda c: c.features.sum(1), features=torch.full((30, 2), torch.nan))
    with pytest.raises(NescioError, match=r"must be floats of shape \(30, features\)"):
        pick(prediction, 1, lambda c: c.features.sum(1), features=torch.zeros(29, 2))
    with pytest.raises(NescioError, match="this acquisition reads features"):
        pick(prediction, 1, lambda c: c.features.sum(1))
