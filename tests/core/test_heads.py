"""Heads: what they read, what they score, and how far apart two readings are."""

import math
from dataclasses import replace

import pytest
import torch
from torch import distributions, nn
from torch.nn import functional as F

from nescio import heads, train
from nescio.core import (
    Categorical,
    Dirichlet,
    DoubleExponential,
    Gaussian,
    MultiLabel,
    NescioError,
    StudentT,
)
from nescio.core.registry import heads as registry

KINDS = {
    "binary": Categorical,
    "multilabel": MultiLabel,
    "categorical": Categorical,
    "dirichlet": Dirichlet,
    "gaussian": Gaussian,
    "fixed_variance": Gaussian,
    "double_exponential": DoubleExponential,
    "normal_inverse_gamma": StudentT,
    "with_score": Categorical,
    "gaussian_logits": Categorical,
}
OUTPUTS = {"binary": 1}  # of the heads in these tests; otherwise 4
OWN = ("dirichlet", "gaussian_logits")  # their options have tests of their own
WITH_OPTIONS = [name for name in registry if registry[name]().options and name not in OWN]


def outputs(*shape, seed=0, scale=2.0):
    rng = torch.Generator().manual_seed(seed)
    return scale * torch.randn(*shape, generator=rng, dtype=torch.float64)


def target(head, *batch, values=4):
    rng = torch.Generator().manual_seed(9)
    if head.name == "binary":
        return torch.randint(2, batch, generator=rng)
    if head.task == "multilabel":
        return torch.randint(2, (*batch, values), generator=rng)
    if head.task == "classification":
        classes = (values - (head.name == "with_score")) // head.width  # one output is no class
        return torch.randint(classes, batch, generator=rng)
    return torch.randn(*batch, values // head.width, generator=rng, dtype=torch.float64)


@pytest.mark.parametrize("batch", [(5,), (2, 3, 4)])
@pytest.mark.parametrize("name", registry)
def test_the_score_is_the_log_probability_of_the_reading(name, batch):
    head = registry[name]()
    raw, y = outputs(1, *batch, OUTPUTS.get(name, 4)), target(head, *batch)
    prediction = head(raw)
    assert isinstance(prediction, KINDS[name])
    assert prediction.batch_shape == batch
    torch.testing.assert_close(head.nll(raw, y[None])[0], -prediction.log_prob(y))


@pytest.mark.parametrize("name", registry)
def test_the_score_has_one_number_a_member_and_sample(name):
    head = registry[name]()
    raw, y = outputs(3, 5, OUTPUTS.get(name, 4)), target(head, 3, 5)
    score = head.nll(raw, y)
    assert score.shape == (3, 5)
    for member in range(3):
        torch.testing.assert_close(score[member], head.nll(raw[member, None], y[member, None])[0])


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("name", registry)
def test_divergence_is_zero_at_equality_and_not_negative(name, dtype):
    head = registry[name]()
    size = OUTPUTS.get(name, 4)
    one = outputs(2, 200, size).to(dtype)
    assert head.divergence(one, one).shape == (2, 200)
    assert head.divergence(one, one).abs().max() < 1e-6
    for distance in (1e-3, 0.1, 3.0):
        gap = head.divergence(one, one + distance * outputs(2, 200, size, seed=1).to(dtype))
        assert gap.min() > -1e-6
        assert gap.mean() > 0


def law(head, raw):
    prediction = head(raw)
    if isinstance(prediction, Categorical):
        return distributions.Categorical(logits=prediction.logits)
    if isinstance(prediction, Dirichlet):
        return distributions.Categorical(probs=prediction.member_probs)
    if isinstance(prediction, MultiLabel):
        return distributions.Independent(distributions.Bernoulli(logits=prediction.logits), 1)
    if isinstance(prediction, Gaussian):
        member = distributions.Normal(prediction.mean, prediction.variance.sqrt())
    else:
        member = distributions.Laplace(prediction.mean, prediction.scale)
    return distributions.Independent(member, 1)


@pytest.mark.parametrize("name", [name for name in registry if KINDS[name] is not StudentT])
def test_divergence_is_that_of_torch(name):
    head = registry[name]()
    size = OUTPUTS.get(name, 4)
    one, two = outputs(3, 50, size), outputs(3, 50, size, seed=1)
    truth = distributions.kl_divergence(law(head, one), law(head, two))
    torch.testing.assert_close(head.divergence(one, two), truth, rtol=1e-9, atol=1e-12)


WITH_SLOPE = [name for name in registry if registry[name]().nll_slope]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("name", WITH_SLOPE)
def test_the_derivative_in_closed_form_is_that_of_autograd(name, dtype):
    head = registry[name]()
    raw, y = outputs(3, 50, 4, scale=5.0).to(dtype).requires_grad_(), target(head, 3, 50)
    y = y if head.task == "classification" else y.to(dtype)
    truth = head.nll(raw, y)
    (slope,) = torch.autograd.grad(truth.sum(), raw)
    kept = raw.detach().clone()
    ours, rise = head.nll_slope(raw.detach(), y)
    tight = {"rtol": 1e-4, "atol": 1e-4} if dtype == torch.float32 else {"rtol": 1e-9, "atol": 1e-9}
    torch.testing.assert_close(ours, truth.detach(), **tight)
    torch.testing.assert_close(rise, slope, **tight)
    assert torch.equal(raw.detach(), kept)


@pytest.mark.parametrize("name", registry)
def test_the_center_is_the_log_probability_or_the_mean(name):
    head, raw = registry[name](), outputs(3, 5, OUTPUTS.get(name, 4))
    prediction = head(raw)
    if head.task == "multilabel":
        truth = prediction.logits.sigmoid().log()
    else:
        regression = head.task == "regression"
        truth = prediction.mean if regression else prediction.member_log_probs
    torch.testing.assert_close(head.center(raw), truth)


def test_readings_by_hand():
    raw = torch.tensor([[[1.0, -2.0]]], dtype=torch.float64)
    spread = math.log1p(math.exp(-2.0))
    assert heads.categorical()(raw).probs[0, 0].item() == pytest.approx(1 / (1 + math.exp(-3)))
    assert heads.gaussian(floor=0.1)(raw).variance.item() == pytest.approx(spread + 0.1)
    assert heads.double_exponential(floor=0.1)(raw).scale.item() == pytest.approx(spread + 0.1)
    assert heads.gaussian()(raw).mean.item() == 1.0
    assert heads.fixed_variance(variance=0.3)(raw).variance.tolist() == [[[0.3, 0.3]]]
    expected = [math.log1p(math.exp(v)) + 1 for v in (1.0, -2.0)]
    softplus = heads.dirichlet(activation="softplus")
    assert softplus(raw).alpha[0, 0].tolist() == pytest.approx(expected)
    assert torch.equal(heads.dirichlet()(raw).log_alpha, raw)
    more = heads.dirichlet(activation="exp", floor=0.5)(raw).alpha[0, 0].tolist()
    assert more == pytest.approx([math.exp(1) + 0.5, math.exp(-2) + 0.5])


def test_the_prior_network_predicts_by_softmax_exactly():
    raw = outputs(2, 5, 4, scale=30.0)
    head = heads.dirichlet()
    torch.testing.assert_close(head(raw).member_probs, raw.softmax(-1), rtol=1e-12, atol=0)
    assert head.logits(raw) is raw


def test_a_head_of_an_earlier_file_is_read_as_it_was_written():
    """Then the only activation was softplus, and the only option, always written, a floor."""
    assert heads.dirichlet(floor=1.0).options == {"activation": "softplus", "floor": 1.0}


def test_softplus_of_a_far_output_is_an_exponential():
    raw = torch.tensor([[[-1000.0, -40.0, 1000.0]]])
    found = heads.dirichlet(activation="softplus", floor=0.0)(raw).log_alpha
    torch.testing.assert_close(found[0, 0], torch.tensor([-1000.0, -40.0, math.log(1000.0)]))


def test_means_come_first_then_spreads():
    raw = torch.tensor([[[1.0, 2.0, 3.0, 4.0]]], dtype=torch.float64)
    prediction = heads.gaussian()(raw)
    assert prediction.mean.tolist() == [[[1.0, 2.0]]]
    torch.testing.assert_close(prediction.variance, F.softplus(raw[..., 2:]) + 1e-6)


@pytest.mark.parametrize("name", ["gaussian", "double_exponential", "dirichlet"])
@pytest.mark.parametrize("floor", [1e-6, 0.5, 2.0])
def test_the_floor_holds_for_outputs_far_below_zero(name, floor):
    raw = torch.full((1, 3, 2), -1000.0)
    prediction = registry[name](floor=floor)(raw)
    spread = prediction.alpha if name == "dirichlet" else prediction._tensors()[-1]
    torch.testing.assert_close(spread, torch.full_like(spread, floor))
    assert registry[name](floor=floor).options["floor"] == floor


def test_large_outputs_do_not_overflow():
    raw = torch.full((1, 3, 2), 1e4)
    assert heads.gaussian()(raw).variance.isfinite().all()
    assert heads.dirichlet()(raw).log_precision.isfinite().all()
    assert (
        heads.categorical()
        .nll(raw * torch.tensor([1, -1]), torch.ones(1, 3).long())
        .isfinite()
        .all()
    )


@pytest.mark.parametrize("value", [0.0, -1.0, math.nan, math.inf])
@pytest.mark.parametrize("name", WITH_OPTIONS)
def test_options_must_be_positive(name, value):
    option = next(iter(registry[name]().options))
    with pytest.raises(NescioError, match=f"{option} must be positive"):
        registry[name](**{option: value})


def test_options_of_a_dirichlet_that_make_no_sense_are_refused():
    for floor in (-1.0, math.nan, math.inf):
        with pytest.raises(NescioError, match="floor must be finite and not negative"):
            heads.dirichlet(floor=floor)
    with pytest.raises(NescioError, match="activation must be 'exp' or 'softplus', got 'relu'"):
        heads.dirichlet(activation="relu")


@pytest.mark.parametrize("make", [heads.gaussian, heads.double_exponential])
def test_an_odd_number_of_outputs_cannot_be_split(make):
    with pytest.raises(NescioError, match="two outputs per target"):
        make()(torch.zeros(1, 2, 3))


@pytest.mark.parametrize("name", registry)
def test_a_head_can_be_made_again_from_its_name_and_options(name):
    numbers = [key for key, value in registry[name]().options.items() if isinstance(value, float)]
    head = registry[name](**dict.fromkeys(numbers, 0.25))
    again = registry[head.name](**head.options)
    raw = outputs(1, 3, OUTPUTS.get(name, 4))
    for one, two in zip(head(raw)._tensors(), again(raw)._tensors(), strict=True):
        assert torch.equal(one, two)


def test_a_head_of_the_user_that_answers_wrongly_is_refused():
    plain = heads.categorical()
    raw, labels = outputs(2, 3, 4), torch.arange(3)
    with pytest.raises(NescioError, match="task of classification"):
        replace(plain, task="classify")
    with pytest.raises(NescioError, match="width=0"):
        replace(plain, width=0)
    with pytest.raises(NescioError, match="must return a prediction.*got a Tensor"):
        replace(plain, name="mine", read=lambda raw: raw)(raw)
    mean = replace(plain, name="mine", nll=lambda o, y: plain.nll(o, y).mean(), nll_slope=None)
    with pytest.raises(NescioError, match=r"one score per sample, of shape \(\d, 3\).*got \(\)"):
        train(lambda: nn.Linear(4, 4), (raw[0].float(), labels), head=mean, members=2, epochs=1)
    assert repr(heads.gaussian(floor=0.5)) == "Head(gaussian(floor=0.5), regression)"
