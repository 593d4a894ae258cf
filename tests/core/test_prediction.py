"""Prediction values: mixtures against brute force in float64, and everything they refuse."""

import itertools
import math

import numpy as np
import pytest
import torch
from scipy import stats
from torch import distributions

from nescio.core import Categorical, Dirichlet, DoubleExponential, Gaussian, NescioError
from nescio.core.measures import variation_ratio

KINDS = (Categorical, Dirichlet, Gaussian, DoubleExponential)


def example(kind, *shape, dtype=torch.float64, seed=0):
    """A prediction of the kind with tensors of the shape; positive tensors suit every field."""
    rng = torch.Generator().manual_seed(seed)
    first, second = (torch.rand(*shape, generator=rng).to(dtype) * 3 + 0.1 for _ in range(2))
    return kind(first) if kind in (Categorical, Dirichlet) else kind(first, second)


def target_of(prediction):
    rng = torch.Generator().manual_seed(9)
    if isinstance(prediction, (Categorical, Dirichlet)):
        return torch.randint(prediction.classes, prediction.batch_shape, generator=rng)
    return torch.randn(*prediction.batch_shape, prediction.mean.shape[-1], generator=rng).double()


def components(prediction, member):
    if isinstance(prediction, Categorical):
        return distributions.Categorical(logits=prediction.logits[member])
    if isinstance(prediction, Dirichlet):
        alpha = prediction.alpha[member]
        return distributions.Categorical(probs=alpha / alpha.sum(-1, keepdim=True))
    if isinstance(prediction, Gaussian):
        member_law = distributions.Normal(
            prediction.mean[member], prediction.variance[member] ** 0.5
        )
    else:
        member_law = distributions.Laplace(prediction.mean[member], prediction.scale[member])
    return distributions.Independent(member_law, 1)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("shape", [(1, 5, 3), (4, 5, 3), (3, 2, 4, 5, 2)])
def test_log_prob_is_that_of_the_uniform_mixture(kind, shape):
    prediction = example(kind, *shape)
    target = target_of(prediction)
    densities = [components(prediction, m).log_prob(target).exp() for m in range(shape[0])]
    expected = torch.stack(densities).mean(0).log()
    assert prediction.log_prob(target).shape == prediction.batch_shape
    torch.testing.assert_close(prediction.log_prob(target), expected, rtol=0, atol=1e-12)


def test_log_prob_of_a_gaussian_mixture_far_out_does_not_underflow():
    prediction = Gaussian(torch.tensor([[[0.0]], [[10.0]]]), torch.ones(2, 1, 1))
    expected = stats.norm.logpdf(100.0, 10.0, 1.0) - math.log(2)  # the other member adds nothing
    assert prediction.log_prob(torch.tensor([[100.0]])).item() == pytest.approx(expected, rel=1e-6)


def test_probabilities_are_averaged_not_logits():
    logits = torch.tensor([[[4.0, 0.0, 0.0]], [[0.0, 0.0, 0.0]]], dtype=torch.float64)
    prediction = Categorical(logits)
    expected = logits.softmax(-1).mean(0)
    torch.testing.assert_close(prediction.probs, expected, rtol=0, atol=1e-15)
    assert (prediction.probs - logits.mean(0).softmax(-1)).abs().max() > 0.05
    torch.testing.assert_close(prediction.log_probs.exp(), prediction.probs)


def test_the_label_is_that_of_the_average():
    logits = torch.tensor([[[9.0, 0.0, 1.0]], [[0.0, 1.0, 0.9]], [[0.0, 1.0, 0.9]]])
    prediction = Categorical(logits)
    assert prediction.member_log_probs.argmax(-1).flatten().tolist() == [0, 1, 1]
    assert prediction.labels.tolist() == [0]


def test_log_probs_hold_where_probabilities_underflow():
    prediction = Categorical(torch.tensor([[[500.0, 0.0]], [[498.0, 0.0]]]))
    assert prediction.probs[0, 1] == 0
    expected = np.logaddexp(-500.0, -498.0) - math.log(2)
    assert prediction.log_probs[0, 1].item() == pytest.approx(expected, rel=1e-6)
    assert prediction.log_prob(torch.tensor([1])).item() == pytest.approx(expected, rel=1e-6)


def test_from_probs_keeps_probabilities_and_zeros():
    probs = torch.tensor([[[0.2, 0.8, 0.0]], [[1.0, 0.0, 0.0]]], dtype=torch.float64)
    prediction = Categorical.from_probs(probs)
    torch.testing.assert_close(prediction.member_probs, probs, rtol=0, atol=1e-15)
    torch.testing.assert_close(prediction.probs, probs.mean(0), rtol=0, atol=1e-15)
    assert prediction.log_prob(torch.tensor([2])).item() == -math.inf


def test_dirichlet_mean_and_precision():
    prediction = Dirichlet.from_alpha(torch.tensor([[[1.0, 3.0]], [[6.0, 2.0]]]))
    torch.testing.assert_close(
        prediction.member_probs, torch.tensor([[[0.25, 0.75]], [[0.75, 0.25]]])
    )
    torch.testing.assert_close(prediction.probs, torch.tensor([[0.5, 0.5]]))
    assert prediction.member_log_precision.exp().tolist() == [[4.0], [8.0]]
    assert prediction.precision.tolist() == pytest.approx([6.0])
    assert prediction.log_precision.tolist() == pytest.approx([math.log(6.0)])
    torch.testing.assert_close(prediction.alpha, torch.tensor([[[1.0, 3.0]], [[6.0, 2.0]]]))


def test_concentrations_that_overflow_are_refused_and_their_logarithms_are_not():
    large = Dirichlet(torch.tensor([[[1000.0, 999.0]]]))
    assert large.log_precision.item() == pytest.approx(1000 + math.log1p(math.exp(-1)))
    assert large.probs[0, 0].item() == pytest.approx(1 / (1 + math.exp(-1)))
    for name, instead in (("alpha", "log_alpha"), ("precision", "log_precision")):
        with pytest.raises(NescioError, match=rf"overflow.* 1000.*float32 .*use \.{instead}"):
            getattr(large, name)
    with pytest.raises(NescioError, match=r"from_alpha: .* finite; .*Dirichlet\(log_alpha\)"):
        Dirichlet.from_alpha(torch.full((1, 1, 3), 3e38))


@pytest.mark.parametrize("kind", [Gaussian, DoubleExponential])
def test_moments_follow_the_law_of_total_variance(kind):
    prediction = example(kind, 5, 7, 2)
    laws = [components(prediction, m) for m in range(5)]
    first = torch.stack([law.mean for law in laws]).mean(0)
    second = torch.stack([law.variance + law.mean**2 for law in laws]).mean(0)
    torch.testing.assert_close(prediction.mixture_mean, first)
    torch.testing.assert_close(prediction.mixture_variance, second - first**2)
    total = prediction.aleatoric + prediction.epistemic
    torch.testing.assert_close(prediction.mixture_variance, total)


def test_the_variance_of_a_laplace_density_is_twice_the_squared_scale():
    prediction = DoubleExponential(torch.zeros(1, 1, 1), torch.full((1, 1, 1), 3.0))
    assert prediction.mixture_variance.item() == 18.0 == stats.laplace.var(scale=3.0)


def test_epistemic_variance_does_not_cancel_in_float64():
    mean = torch.tensor([1e8 - 1e-3, 1e8, 1e8 + 1e-3], dtype=torch.float64).reshape(3, 1, 1)
    exact = mean - 1e8  # exact differences
    prediction = Gaussian(mean, torch.zeros(3, 1, 1, dtype=torch.float64))
    truth = exact.var(0, correction=0).item()
    assert prediction.epistemic.item() == pytest.approx(truth, rel=1e-12)


@pytest.mark.parametrize("steps", [(0, 1), (0, 1, 2), (0, 3, 4, 9, 11)])
def test_epistemic_variance_is_exact_for_close_float32_means(steps):
    one = np.spacing(np.float32(1e4))
    mean = (torch.tensor(1e4) + torch.tensor(steps) * one).reshape(-1, 1, 1)
    prediction = Gaussian(mean, torch.zeros_like(mean))
    truth = mean.double().var(0, correction=0).item()
    assert prediction.epistemic.item() == pytest.approx(truth, rel=1e-5)


@pytest.mark.parametrize("members", [3, 7, 10])
def test_equal_members_have_no_epistemic_variance(members):
    mean = torch.randn(1, 50, 2, generator=torch.Generator().manual_seed(1)).expand(members, -1, -1)
    assert (Gaussian(mean, torch.ones_like(mean)).epistemic == 0).all()


@pytest.mark.parametrize("kind", KINDS)
def test_slicing_chooses_samples_and_keeps_axes(kind):
    prediction = example(kind, 3, 6, 2)
    whole = prediction._tensors()[0]
    mask = torch.tensor([True, False, True, True, False, False])
    choices = {
        "int": (2, whole[:, 2:3]),
        "last": (-1, whole[:, -1:]),
        "slice": (slice(1, 4), whole[:, 1:4]),
        "stride": (slice(None, None, 2), whole[:, ::2]),
        "mask": (mask, whole[:, mask]),
        "tensor": (torch.tensor([4, 0, 0]), whole[:, [4, 0, 0]]),
        "list": ([5, 1], whole[:, [5, 1]]),
        "all": (..., whole),
    }
    for name, (index, expected) in choices.items():
        assert torch.equal(prediction[index]._tensors()[0], expected), name
        assert type(prediction[index]) is kind
    assert len(prediction) == 6
    assert len(prediction[2]) == 1


def test_slicing_commutes_with_properties():
    prediction = example(Gaussian, 3, 6, 2)
    part = prediction[torch.tensor([1, 5])]
    assert torch.equal(part.mixture_variance, prediction.mixture_variance[[1, 5]])
    assert torch.equal(
        part.log_prob(torch.zeros(2, 2)), prediction.log_prob(torch.zeros(6, 2))[[1, 5]]
    )


def test_slicing_maps_with_several_batch_axes():
    prediction = example(Categorical, 2, 4, 5, 6, 3)
    logits = prediction.logits
    assert prediction.batch_shape == (4, 5, 6)
    assert torch.equal(prediction[1].logits, logits[:, 1:2])
    assert torch.equal(prediction[1, 2].logits, logits[:, 1:2, 2:3])
    assert torch.equal(prediction[:, :, -1].logits, logits[:, :, :, -1:])
    assert torch.equal(prediction[:2, 1:3, ::2].logits, logits[:, :2, 1:3, ::2])
    mask = logits[0, ..., 0] > 1.5
    assert torch.equal(prediction[mask].logits, logits[:, mask])
    assert prediction[mask].batch_shape == (int(mask.sum()),)


def test_an_ellipsis_stands_for_batch_axes_not_for_classes():
    prediction = example(Categorical, 2, 4, 5, 6, 3)
    assert torch.equal(prediction[..., 0].logits, prediction.logits[:, :, :, :1])
    assert torch.equal(prediction[1, ..., 2:].logits, prediction.logits[:, 1:2, :, 2:])


def test_index_tensors_apart_keep_the_member_axis_first():
    prediction = example(Categorical, 2, 4, 5, 6, 3)
    rows, columns = torch.tensor([0, 3, 1]), torch.tensor([5, 0, 2])
    chosen = prediction[rows, :, columns]
    assert chosen.members == 2
    assert sorted(chosen.batch_shape) == [3, 5]
    assert torch.equal(
        prediction[rows, 0, columns].logits.flatten(1, -2), prediction.logits[:, rows, 0, columns]
    )


@pytest.mark.parametrize("index", [6, -7, (0, 0), (slice(None), 1)])
def test_indices_ood_the_batch_are_refused(index):
    with pytest.raises((NescioError, IndexError)):
        example(Categorical, 2, 6, 3)[index]


def test_iterating_gives_the_samples_and_ends():
    prediction = example(Categorical, 2, 3, 4)
    samples = list(itertools.islice(prediction, 10))
    assert len(samples) == 3
    assert torch.equal(Categorical.join(samples).logits, prediction.logits)


@pytest.mark.parametrize("index", [np.int64(2), torch.tensor(2)])
def test_integers_of_numpy_and_torch_are_integers(index):
    prediction = example(Categorical, 2, 6, 3)
    assert torch.equal(prediction[index].logits, prediction.logits[:, 2:3])


@pytest.mark.parametrize("kind", KINDS)
def test_join_pool_and_choose_are_inverse_to_slicing(kind):
    prediction = example(kind, 4, 6, 3)
    joined = kind.join([prediction[:2], prediction[2:]])
    pooled = kind.pool([prediction.choose(slice(0, 1)), prediction.choose([1, 2, 3])])
    for field, first, second in zip(
        prediction._tensors(), joined._tensors(), pooled._tensors(), strict=True
    ):
        assert torch.equal(field, first)
        assert torch.equal(field, second)
    mask = torch.tensor([True, False, False, True])
    assert torch.equal(prediction.choose(mask)._tensors()[0], prediction._tensors()[0][[0, 3]])
    assert prediction.choose(slice(2)).members == 2


def test_pooling_averages_all_members():
    first, second = example(Categorical, 1, 5, 3), example(Categorical, 3, 5, 3, seed=1)
    pooled = Categorical.pool([first, second])
    torch.testing.assert_close(pooled.probs, (first.probs + 3 * second.probs) / 4)


@pytest.mark.parametrize("kind", KINDS)
def test_to_converts_every_field(kind):
    prediction = example(kind, 2, 3, 4, dtype=torch.float32).to(torch.float64)
    assert {tensor.dtype for tensor in prediction._tensors()} == {torch.float64}
    assert prediction.log_prob(target_of(prediction)).dtype == torch.float64


@pytest.mark.parametrize("kind", KINDS)
def test_an_empty_batch_is_a_prediction_of_nothing(kind):
    prediction = example(kind, 2, 0, 3)
    assert len(prediction) == 0
    assert prediction.log_prob(target_of(prediction)).shape == (0,)


ONE = torch.ones(1, 2, 3)
NAN, INF = torch.full_like(ONE, math.nan), torch.full_like(ONE, math.inf)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Categorical(NAN), "logits contains NaN"),
        (lambda: Gaussian(ONE, NAN), "variance contains NaN"),
        (lambda: Dirichlet(NAN), "log_alpha contains NaN"),
        (lambda: Categorical(INF), "below"),
        (lambda: Categorical(-INF), "not all -inf"),
        (lambda: Gaussian(ONE, -ONE), "must not be negative"),
        (lambda: Gaussian(INF, ONE), "finite"),
        (lambda: Gaussian(ONE, INF), "finite"),
        (lambda: DoubleExponential(ONE, -ONE), "must not be negative"),
        (lambda: DoubleExponential(-INF, ONE), "finite"),
        (lambda: Dirichlet.from_alpha(-ONE), "positive"),
        (lambda: Dirichlet.from_alpha(0 * ONE), "positive"),
        (lambda: Dirichlet(INF), "finite"),
        (lambda: Categorical(ONE[0]), "member axis"),
        (lambda: Categorical(torch.ones(0, 2, 3)), "members"),
        (lambda: Categorical(torch.ones(2, 3, 0)), "C"),
        (lambda: Gaussian(ONE, torch.ones(1, 2, 1)), "must agree"),
        (lambda: Categorical(ONE.long()), "floating point"),
        (lambda: Categorical(ONE.numpy()), "floating point"),
        (lambda: Categorical.from_probs(ONE / 2), "sum to 1"),
        (lambda: Categorical.from_probs(-ONE), "negative"),
        (lambda: Categorical.from_probs(NAN), "NaN"),
        (lambda: Categorical.from_probs(ONE.long()), "floating point"),
        (lambda: Categorical.from_probs(ONE[0] / 3), "member axis"),
        (lambda: Categorical.from_probs(ONE.half() / 6), "sum to 1"),
        (lambda: Categorical.from_probs(ONE.bfloat16()), "sum to 1"),
        (lambda: Categorical.join([]), "empty"),
        (lambda: Categorical.join([Categorical(ONE), Dirichlet(ONE)]), "different kinds"),
        (lambda: Categorical.join([Categorical(ONE), Categorical(ONE[..., :2])]), "do not fit"),
        (lambda: Categorical.pool([Categorical(ONE), Categorical(ONE[:, :1])]), "do not fit"),
    ],
)
def test_values_that_make_no_sense_are_refused(make, message):
    with pytest.raises(NescioError, match=message):
        make()


def test_probabilities_with_rounding_errors_are_accepted():
    probs = torch.rand(2, 50, 1000, generator=torch.Generator().manual_seed(0)).softmax(-1)
    torch.testing.assert_close(Categorical.from_probs(probs).member_probs, probs)


@pytest.mark.parametrize(
    ("target", "message"),
    [
        (torch.zeros(2), "integers"),
        (torch.zeros(2, dtype=torch.bool), "integers"),
        (torch.zeros(3, dtype=torch.long), "shape"),
        (torch.zeros(2, 1, dtype=torch.long), "shape"),
        (torch.tensor([0, 3]), r"0\.\.2"),
        (torch.tensor([-1, 0]), r"0\.\.2"),
    ],
)
@pytest.mark.parametrize("kind", [Categorical, Dirichlet])
def test_labels_that_do_not_fit_are_refused(kind, target, message):
    with pytest.raises(NescioError, match=message):
        kind(ONE).log_prob(target)


@pytest.mark.parametrize("kind", [Gaussian, DoubleExponential])
def test_targets_that_do_not_fit_are_refused(kind):
    with pytest.raises(NescioError, match=r"\(2,\), expected \(2, 3\)"):
        kind(ONE, ONE).log_prob(torch.zeros(2))
    with pytest.raises(NescioError, match="variance 0"):
        kind(ONE, 0 * ONE).log_prob(torch.zeros(2, 3))


@pytest.mark.parametrize("kind", [torch.float16, torch.bfloat16])
def test_half_precision_is_widened(kind):
    votes = torch.zeros(3000, 1, 2, dtype=kind)
    votes[:2000, 0, 0], votes[2000:, 0, 1] = 4.0, 4.0
    prediction = Categorical(votes)
    assert prediction.logits.dtype == torch.float32
    ratio = variation_ratio(prediction)
    assert float(ratio) == pytest.approx(1 / 3)  # counts in half precision end at 2048, or at 256
    wide = Gaussian(
        torch.tensor([[[-300.0]], [[300.0]]], dtype=kind), torch.ones(2, 1, 1, dtype=kind)
    )
    assert float(wide.epistemic) == 90_000.0  # above the largest float16
