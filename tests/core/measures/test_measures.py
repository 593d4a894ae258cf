"""What every measure keeps: shape, range, sign, independence of samples, and a telling error."""

import inspect
import math

import pytest
import torch

from nescio import measures
from nescio.core import Categorical, Dirichlet, DoubleExponential, Gaussian, NescioError
from nescio.core.registry import measures as registry

KINDS = (Categorical, Dirichlet, Gaussian, DoubleExponential)
EPISTEMIC = (
    "mutual_information",
    "class_variance",
    "expected_pairwise_kl",
    "epistemic_variance",
    "variation_ratio",
)


def example(kind, *shape, dtype=torch.float64, seed=0, spread=3.0):
    rng = torch.Generator().manual_seed(seed)
    first, second = (torch.rand(*shape, generator=rng).to(dtype) * spread + 0.1 for _ in "ab")
    return kind(first) if kind in (Categorical, Dirichlet) else kind(first, second)


PAIRS = [
    pytest.param(registry[name], kind, id=f"{name}-{kind.__name__}")
    for kind in KINDS
    for name in measures.applicable(example(kind, 1, 1, 1))
]
STRANGERS = [
    pytest.param(registry[name], kind, id=f"{name}-{kind.__name__}")
    for kind in KINDS
    for name in registry
    if name not in measures.applicable(example(kind, 1, 1, 1))
]


def highest(name, members, classes):
    """The upper end of the range of a measure of classes."""
    bounds = {
        "predictive_entropy": math.log(classes),
        "expected_entropy": math.log(classes),
        "mutual_information": math.log(classes),
        "least_confidence": 1 - 1 / classes,
        "class_variance": (1 - 1 / classes) / classes,
        "variation_ratio": 1 - 1 / min(members, classes),
        "log_odds": math.log(classes - 1),
        "differential_entropy": -math.lgamma(classes),  # of the flat Dirichlet
    }
    return bounds.get(name, math.inf)


def test_every_measure_reads_some_kind():
    assert {pair.values[0].__name__ for pair in PAIRS} == set(registry)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("shape", [(1, 7, 4), (5, 7, 4), (3, 2, 3, 4, 2)])
@pytest.mark.parametrize(("measure", "kind"), PAIRS)
def test_shape_type_and_range(measure, kind, shape, dtype):
    prediction = example(kind, *shape, dtype=dtype)
    score = measure(prediction)
    assert score.shape == prediction.batch_shape
    assert score.dtype == dtype
    assert score.isfinite().all()
    assert (score <= highest(measure.__name__, shape[0], shape[-1]) + 1e-6).all()
    if measure.__name__ not in ("log_odds", "differential_entropy", "negative_log_precision"):
        assert (score >= 0).all()


@pytest.mark.parametrize(("measure", "kind"), PAIRS)
def test_samples_do_not_see_each_other(measure, kind):
    prediction = example(kind, 4, 9, 3)
    score = measure(prediction)
    index = torch.tensor([8, 0, 3])
    torch.testing.assert_close(measure(prediction[index]), score[index], rtol=1e-13, atol=1e-15)
    for sample in range(9):
        torch.testing.assert_close(measure(prediction[sample]), score[sample : sample + 1])
    maps = measure(type(prediction)(*(t.unflatten(1, (3, 3)) for t in prediction._tensors())))
    torch.testing.assert_close(maps.flatten(), score)


@pytest.mark.parametrize(("measure", "kind"), PAIRS)
def test_an_empty_batch_has_no_scores(measure, kind):
    assert measure(example(kind, 2, 0, 3)).shape == (0,)


@pytest.mark.parametrize(("measure", "kind"), PAIRS)
def test_the_order_of_members_does_not_matter(measure, kind):
    prediction = example(kind, 4, 9, 3)
    mixed = prediction.choose([2, 0, 3, 1])
    torch.testing.assert_close(measure(prediction), measure(mixed), rtol=1e-12, atol=1e-14)


def surer(kind):
    """Pairs of predictions of which the second is less sure in every sense."""
    sharp, vague = torch.eye(4).double() * 8, torch.eye(4).double() * 2
    if kind is Categorical:  # members agree on class 0; members disagree, softly
        return sharp[[0, 0, 0], None], vague[[0, 1, 2], None]
    if kind is Dirichlet:
        sure, unsure = 50 + 900 * sharp[[0, 0, 0], None], 1 + 0.2 * vague[[0, 1, 2], None]
        return sure.log(), unsure.log()
    near, far = (
        torch.zeros(3, 1, 2).double(),
        torch.arange(3.0).double()[:, None, None].expand(3, 1, 2),
    )
    return (near, near + 0.1), (far, near + 0.5)


@pytest.mark.parametrize(("measure", "kind"), PAIRS)
def test_larger_where_the_model_is_less_sure(measure, kind):
    sure, unsure = surer(kind)
    make = kind if kind in (Categorical, Dirichlet) else lambda pair: kind(*pair)
    assert measure(make(unsure)) > measure(make(sure))


AGREEING = [
    pair
    for pair in PAIRS
    if pair.values[0].__name__ in EPISTEMIC and pair.values[1] is not Dirichlet
]  # a Dirichlet knows of its own ignorance


@pytest.mark.parametrize(("measure", "kind"), AGREEING)
def test_equal_members_have_no_knowledge_uncertainty(measure, kind):
    prediction = example(kind, 1, 6, 3)
    for members in (prediction, prediction.choose([0] * 5)):
        assert measure(members).abs().max() < 1e-12


@pytest.mark.parametrize("classes", [2, 3, 10])
def test_extremes_of_certainty_and_of_flatness(classes):
    hot = Categorical.from_probs(torch.eye(classes, dtype=torch.float64)[None, :1])
    flat = Categorical(torch.zeros(1, 1, classes, dtype=torch.float64))
    for name in ("predictive_entropy", "expected_entropy", "least_confidence"):
        assert registry[name](hot).item() == 0
        assert registry[name](flat).item() == pytest.approx(highest(name, 1, classes), abs=1e-14)
    assert measures.log_odds(hot).item() == -math.inf
    assert measures.log_odds(flat).item() == pytest.approx(math.log(classes - 1), abs=1e-14)


@pytest.mark.parametrize(("measure", "kind"), STRANGERS)
def test_another_kind_of_prediction_is_refused_with_the_measures_that_apply(measure, kind):
    prediction = example(kind, 1, 2, 3)
    with pytest.raises(NescioError, match=measure.__name__) as caught:
        measure(prediction)
    for name in measures.applicable(prediction):
        assert name in str(caught.value)


WITH_BASE = [name for name in registry if "base" in inspect.signature(registry[name]).parameters]


@pytest.mark.parametrize("name", WITH_BASE)
@pytest.mark.parametrize("kind", [Categorical, Dirichlet])
def test_the_base_of_the_logarithm(name, kind):
    prediction = example(kind, 4, 9, 3)
    nats = registry[name](prediction)
    torch.testing.assert_close(registry[name](prediction, base=2), nats / math.log(2))
    normalized = registry[name](prediction, base=prediction.classes)
    torch.testing.assert_close(normalized, nats / math.log(3))
    assert (normalized >= 0).all()
    assert (normalized <= 1 + 1e-12).all()


@pytest.mark.parametrize("name", WITH_BASE)
@pytest.mark.parametrize("base", [1, 0, -2, math.nan])
def test_a_base_without_a_logarithm_is_refused(name, base):
    with pytest.raises(NescioError, match="base"):
        registry[name](example(Categorical, 2, 2, 3), base=base)


def test_unknown_options_are_refused():
    with pytest.raises(TypeError, match="bases"):
        measures.predictive_entropy(example(Categorical, 1, 2, 3), bases=2)


def test_measure_all_gives_every_applicable_measure():
    prediction = example(Dirichlet, 2, 4, 3)
    table = measures.measure_all(prediction)
    assert set(table) == set(measures.applicable(prediction))
    for name, score in table.items():
        assert torch.equal(score, registry[name](prediction))
    assert "differential_entropy" in table
    assert "total_variance" not in table
    assert measures.applicable("not a prediction") == ()
