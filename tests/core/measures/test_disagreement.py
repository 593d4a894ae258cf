"""Class variance, variation ratio and pairwise divergence against their definitions."""

import pytest
import torch
from torch import distributions

from nescio.core import Categorical, Dirichlet, mutual_information
from nescio.core.measures import class_variance, expected_pairwise_kl, variation_ratio


def logits(members, samples, classes, seed=0):
    rng = torch.Generator().manual_seed(seed)
    return 2 * torch.randn(members, samples, classes, generator=rng, dtype=torch.float64)


def test_class_variance_is_the_population_variance_averaged_over_classes():
    probs = logits(6, 10, 4).softmax(-1)
    truth = (probs.square().mean(0) - probs.mean(0).square()).mean(-1)
    torch.testing.assert_close(class_variance(Categorical.from_probs(probs)), truth)


@pytest.mark.parametrize("classes", [2, 3, 10])
def test_class_variance_reaches_its_bound_with_one_member_a_class(classes):
    prediction = Categorical.from_probs(torch.eye(classes, dtype=torch.float64)[:, None])
    bound = (1 - 1 / classes) / classes
    assert class_variance(prediction).item() == pytest.approx(bound, abs=1e-14)


def test_variation_ratio_counts_votes():
    votes = torch.tensor([[0, 0, 0, 2], [1, 0, 0, 0], [2, 1, 0, 1], [2, 2, 0, 1]])  # (M, N)
    prediction = Categorical(torch.nn.functional.one_hot(votes, 3).double())
    assert variation_ratio(prediction).tolist() == [0.5, 0.5, 0.0, 0.5]


def test_variation_ratio_moves_in_steps_of_one_member():
    ratio = variation_ratio(Categorical(logits(7, 500, 5)))
    torch.testing.assert_close(7 * ratio, (7 * ratio).round(), rtol=0, atol=1e-12)
    assert ratio.unique().numel() > 3
    assert ratio.max() <= 1 - 2 / 7 + 1e-12  # 7 votes on 5 classes: some class has two


def brute_force(prediction):
    laws = [distributions.Categorical(logits=member) for member in prediction.logits]
    gaps = [distributions.kl_divergence(one, two) for one in laws for two in laws]
    return torch.stack(gaps).mean(0)


@pytest.mark.parametrize("members", [1, 2, 5])
def test_pairwise_divergence_is_the_mean_over_all_pairs(members):
    prediction = Categorical(logits(members, 10, 4))
    score = expected_pairwise_kl(prediction)
    torch.testing.assert_close(score, brute_force(prediction), rtol=0, atol=1e-12)
    assert (score >= mutual_information(prediction) - 1e-12).all()


def test_pairwise_divergence_is_small_and_right_for_close_members_in_float32():
    base, shift = torch.tensor([0.2, 0.8]).log(), torch.tensor([[[1e-3, 0.0]], [[-1e-3, 0.0]]])
    close = Categorical(base + shift)
    truth = brute_force(close.to(torch.float64)).item()
    assert expected_pairwise_kl(close).item() == pytest.approx(truth, rel=0.05)


def test_members_that_rule_out_each_other_are_infinitely_apart():
    prediction = Categorical.from_probs(torch.eye(2, dtype=torch.float64)[:, None])
    assert expected_pairwise_kl(prediction).item() == float("inf")


def test_a_class_that_nobody_expects_adds_nothing():
    probs = logits(3, 5, 3).softmax(-1)
    padded = torch.cat([probs, torch.zeros(3, 5, 1)], -1)
    for measure in (expected_pairwise_kl, mutual_information):
        torch.testing.assert_close(
            measure(Categorical.from_probs(padded)), measure(Categorical.from_probs(probs))
        )


@pytest.mark.parametrize("precision", [0.5, 10.0, 1e4])
def test_pairwise_divergence_of_one_dirichlet(precision):
    shares = torch.tensor([0.1, 0.3, 0.6], dtype=torch.float64)
    prediction = Dirichlet.from_alpha((precision * shares)[None, None])
    assert expected_pairwise_kl(prediction).item() == pytest.approx(2 / precision, rel=1e-9)
