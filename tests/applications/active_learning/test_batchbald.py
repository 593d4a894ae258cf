"""BatchBALD against joint entropies over all configurations, and against draws from the members."""

import itertools
import math

import numpy as np
import pytest
import torch

from nescio.applications.active_learning import pick
from nescio.applications.active_learning.batchbald import _thinned
from nescio.core import Categorical, Dirichlet, NescioError, generator, measures


def members(passes=6, samples=20, classes=3, seed=0, name="members"):
    """Members that differ along a few directions, in float64."""
    draws = generator(seed, name)
    base = 2 * torch.randn(1, samples, classes, generator=draws)
    feature = torch.randn(samples, 4, generator=draws)
    weight = torch.randn(passes, 4, classes, generator=draws)
    return Categorical((base + torch.einsum("nf,mfc->mnc", feature, weight)).double())


def joint_information(prediction, batch):
    """Mutual information of the labels of a batch and the member, by all configurations."""
    probs = prediction.member_probs.double().numpy()[:, batch]  # (M, k, C)
    labels = np.array(list(itertools.product(range(probs.shape[-1]), repeat=len(batch))))
    joint = np.prod([probs[:, k, column] for k, column in enumerate(labels.T)], axis=0).mean(0)
    total = -(joint * np.log(np.maximum(joint, 1e-300))).sum()
    return total + (probs * np.log(np.maximum(probs, 1e-300))).sum(-1).mean(0).sum()


def greedy(prediction, size):
    batch, values = [], [0.0]
    for _ in range(size):
        rest = [n for n in range(len(prediction)) if n not in batch]
        found = {n: joint_information(prediction, [*batch, n]) for n in rest}
        batch.append(max(found, key=found.get))
        values.append(found[batch[-1]])
    return batch, np.diff(values)


@pytest.mark.parametrize("seed", range(4))
def test_it_is_the_greedy_choice_by_all_configurations(seed):
    prediction = members(seed=seed)
    batch, gains = greedy(prediction, 5)
    chosen = pick(prediction, 5, "batchbald")
    assert chosen.index.tolist() == batch
    np.testing.assert_allclose(chosen.score.numpy(), gains, atol=1e-9)
    single = pick(prediction.to(torch.float32), 5, "batchbald")
    assert single.index.tolist() == batch
    np.testing.assert_allclose(single.score.numpy(), gains, atol=1e-5)


def test_the_first_of_a_batch_is_that_of_bald():
    prediction = members(samples=100, classes=10, passes=20)
    first, bald = pick(prediction, 1, "batchbald"), pick(prediction, 1, "bald")
    assert torch.equal(first.index, bald.index)
    torch.testing.assert_close(first.score, bald.score)


def test_bounds_leave_out_nothing():
    """Candidates of which a bound shows that they are not the best are not computed again."""
    prediction = members(passes=10, samples=300, classes=4)
    quick = pick(prediction, 5, "batchbald")
    chosen = quick.index.tolist()
    for step in range(1, 5):
        before = joint_information(prediction, chosen[:step])
        some = [n for n in range(0, 300, 15) if n not in chosen[:step]]
        best = max(joint_information(prediction, [*chosen[:step], n]) - before for n in some)
        assert best <= float(quick.score[step]) + 1e-9


def test_gains_fall_and_do_not_exceed_what_is_to_know():
    """Submodularity; the labels cannot tell more than which of M members it is."""
    for seed in range(5):
        prediction = members(passes=8, samples=100, classes=5, seed=seed)
        score = pick(prediction, 12, "batchbald,samples=500").score
        assert (score >= 0).all()
        assert (score[1:] <= score[:-1] + 2e-3).all()
        assert float(score.sum()) <= math.log(8) + 0.02


@pytest.mark.parametrize("samples", [50, 500])
def test_drawn_configurations_are_right_within_their_spread(samples):
    """The gain of the last of 6, drawn by 25 seeds, against all 4^6 configurations."""
    prediction = members(passes=12, samples=6, classes=4)
    truth = joint_information(prediction, list(range(6)))
    found = torch.stack(
        [pick(prediction, 6, f"batchbald,samples={samples}", seed=s).score.sum() for s in range(25)]
    )
    error = float(found.std()) / 5
    assert abs(float(found.mean()) - truth) < 4 * error + 1e-9
    assert float(found.std()) < 0.25 / samples**0.5


def test_drawn_configurations_against_labels_drawn_from_members():
    """The joint information of a batch by Monte Carlo: log p(labels | member) - log p(labels)."""
    prediction = members(passes=15, samples=8, classes=10)
    chosen = pick(prediction, 8, "batchbald")
    logs = prediction.member_log_probs
    draws = generator(0, "monte carlo")
    which = torch.randint(15, (100_000,), generator=draws)
    labels = [
        torch.multinomial(logs[:, n].exp()[which], 1, generator=draws)[:, 0] for n in range(8)
    ]
    each = sum(logs[:, n, label].T for n, label in enumerate(labels))  # (draws, M)
    own = each.gather(1, which[:, None])[:, 0]
    values = own - each.logsumexp(1) + math.log(15)
    error = float(values.std()) / len(values) ** 0.5
    assert float(chosen.score.sum()) == pytest.approx(float(values.mean()), abs=4 * error + 5e-3)


def test_a_sample_and_its_copy_are_not_both_chosen_where_bald_takes_them():
    prediction = members(passes=20, samples=10, classes=4)
    thrice = Categorical(prediction.logits.repeat(1, 3, 1))
    copies = {int(n) % 10 for n in pick(thrice, 3, "bald").index}
    assert len(copies) == 1
    batch = {int(n) % 10 for n in pick(thrice, 3, "batchbald").index}
    assert len(batch) == 3


def test_a_single_member_has_nothing_to_tell():
    one = members(passes=1, samples=200, classes=10)
    chosen = pick(one, 10, "batchbald", seed=3)
    assert torch.equal(chosen.score, torch.zeros(10, dtype=torch.float64))
    assert "with a single member, batchbald is 0" in chosen.why[0]
    assert not torch.equal(chosen.index, pick(one, 10, "batchbald", seed=4).index)
    first = [int(pick(one[:5], 1, "batchbald", seed=seed).index) for seed in range(100)]
    assert set(first) == set(range(5))


def test_when_all_is_known_the_rest_is_drawn_at_random():
    """Two members that contradict each other about everything: one label tells which is right."""
    sides = torch.tensor([[50.0, -50.0], [-50.0, 50.0]])[:, None].repeat(1, 50, 1)
    chosen = pick(Categorical(sides), 4, "batchbald")
    torch.testing.assert_close(chosen.score, torch.tensor([math.log(2), 0.0, 0.0, 0.0]))
    again = [pick(Categorical(sides), 4, "batchbald", seed=seed).index for seed in range(3)]
    assert len({tuple(index.tolist()) for index in again}) == 3


def test_of_one_dirichlet_it_is_the_sum_of_mutual_information():
    """Probabilities of different inputs are independent, so nothing is learned from another."""
    alpha = 5 * torch.rand(1, 30, 4, generator=generator(0, "alpha")).double() + 0.1
    prediction = Dirichlet.from_alpha(alpha)
    chosen, bald = pick(prediction, 5, "batchbald"), pick(prediction, 5, "bald")
    assert torch.equal(chosen.index, bald.index)
    torch.testing.assert_close(chosen.score, bald.score)
    assert "with a single member" not in chosen.why[0]


def test_of_several_dirichlets_members_are_told_apart_by_their_means():
    alpha = 5 * torch.rand(4, 12, 3, generator=generator(0, "alphas")).double() + 0.1
    prediction = Dirichlet.from_alpha(alpha)
    means = Categorical(prediction.member_log_probs)
    within = measures.mutual_information(prediction) - measures.mutual_information(means)
    chosen = pick(prediction, 3, "batchbald")
    batch = chosen.index.tolist()
    truth = joint_information(means, batch) + float(within[batch].sum())
    assert float(chosen.score.sum()) == pytest.approx(truth, abs=1e-9)


def test_extreme_probabilities():
    logits = torch.tensor([[1e4, 0.0, -1e4], [-1e4, 0.0, 1e4], [0.0, 0.0, 0.0]])
    zeros = torch.tensor(
        [[0.0, -math.inf, -math.inf], [-math.inf, 0.0, 0.0], [0.0, -math.inf, 0.0]]
    )
    prediction = Categorical(torch.stack([logits, zeros, logits.flip(0)], 1))
    chosen = pick(prediction, 3, "batchbald")
    truth = joint_information(prediction.to(torch.float64), [0, 1, 2])
    assert float(chosen.score.sum()) == pytest.approx(truth, abs=1e-5)


def test_what_it_refuses():
    with pytest.raises(NescioError, match="samples must be a whole number from 1 up, got 0"):
        pick(members(), 2, "batchbald,samples=0")
    maps = Categorical(torch.zeros(2, 4, 3, 3, 5))
    with pytest.raises(NescioError, match="label maps are not computed. Use bald"):
        pick(maps, 2, "batchbald")


@pytest.mark.parametrize("samples", [1, 3, 20])
def test_thinned_weights_are_right_in_expectation(samples):
    weight = torch.rand(40, generator=generator(0, "weights")).double() ** 4
    weight = weight / weight.sum()
    total = torch.zeros_like(weight)
    steps = 500
    for step in range(steps):
        index, new = _thinned(weight, samples, (step + 0.5) / steps)
        assert len(index) == samples
        assert len(index.unique()) == samples
        assert float(new.sum()) == pytest.approx(1)
        total[index] += new / steps
    torch.testing.assert_close(total, weight, atol=4e-3, rtol=0)
