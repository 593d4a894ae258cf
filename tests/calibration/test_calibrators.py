"""What every calibration keeps: a better held-out likelihood, a predictor for a predictor."""

import inspect
import json

import pytest
import torch
from torch import nn

import nescio
from nescio import calibration, heads
from nescio.core import Categorical, NescioError
from nescio.core.registry import calibrators
from nescio.models import ensemble, mc_dropout, plain


def net(dropout=False):
    layers = [nn.Linear(2, 8), nn.Tanh(), *([nn.Dropout(0.3)] if dropout else []), nn.Linear(8, 3)]
    made = nn.Sequential(*layers).double()
    made[-1].weight.data.mul_(4)
    return made


def predictor(kind):
    with torch.random.fork_rng():
        torch.manual_seed(0)
        if kind == "one network":
            return plain(net())
        return (
            ensemble([net() for _ in range(3)])
            if kind == "ensemble"
            else mc_dropout(net(True), passes=10)
        )


def data(samples=300):
    """Labels that follow the predictor loosely: neither always right nor chance."""
    rng = torch.Generator().manual_seed(3)
    x = torch.randn(samples, 2, generator=rng, dtype=torch.float64)
    guess = predictor("one network")(x).labels
    return x, torch.where(
        torch.rand(samples, generator=rng) < 0.4, torch.randint(3, (samples,), generator=rng), guess
    )


KINDS = ["one network", "ensemble", "mc dropout"]
AFFINE = ("temperature", "platt", "vector", "matrix")  # act on each member
SMOOTH = (*AFFINE, "dirichlet")
STEPS = ("isotonic", "histogram")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", calibrators)
def test_the_likelihood_on_the_held_out_data_is_not_worse(name, kind):
    before, (x, y) = predictor(kind), data()
    after = calibrators[name](before, (x, y))
    assert isinstance(after(x), Categorical)
    assert after(x).members == (before(x).members if name in AFFINE else 1)
    assert -after(x).log_prob(y).mean() <= -before(x).log_prob(y).mean() + 1e-12
    torch.testing.assert_close(after(x).probs.sum(-1), torch.ones(len(x), dtype=torch.float64))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", AFFINE)
def test_member_logits_are_moved_before_the_average(name, kind):
    before, (x, y) = predictor(kind), data()
    after = calibrators[name](before, (x, y))
    weight, shift = after.map.state["weight"], after.map.state["intercept"]
    weight = weight if weight.ndim == 2 else torch.eye(3, dtype=torch.float64) * weight
    expected = torch.einsum("dc,mnc->mnd", weight, before(x).logits) + shift
    torch.testing.assert_close(after(x).logits, expected)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", sorted({*calibrators} - {*AFFINE}))
def test_the_others_read_the_average(name, kind):
    before, (x, y) = predictor(kind), data()
    after = calibrators[name](before, (x, y))
    averaged = nescio.Categorical(before(x).log_probs[None])
    torch.testing.assert_close(after(x).probs, after.map(averaged).probs)
    again = calibration.fit(name, averaged, y)
    torch.testing.assert_close(again(averaged).probs, after(x).probs, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("name", ["temperature", "platt"])
def test_calibrating_twice_changes_nothing_more(name):
    once = calibrators[name](predictor("one network"), data())
    twice = calibrators[name](once, data())
    assert twice.slope == pytest.approx(1, abs=1e-4)
    assert twice.intercept == pytest.approx((0, 0, 0), abs=1e-4)


@pytest.mark.parametrize("name", calibrators)
def test_each_sample_is_mapped_by_itself_in_any_batch_shape(name):
    model, (x, y) = predictor("ensemble"), data()
    found = calibrators[name](model, (x, y)).map
    whole = found(model(x))
    assert torch.equal(found(model(x)[7:9]).probs, whole.probs[7:9])
    maps = nescio.Categorical(model(x).logits.unflatten(1, (3, 10, 10)))
    torch.testing.assert_close(found(maps).probs.flatten(0, 2), whole.probs)


@pytest.mark.parametrize("name", calibrators)
def test_a_saved_map_is_the_same_map(name, tmp_path):
    model, (x, y) = predictor("ensemble"), data()
    found = calibrators[name](model, (x, y)).map
    again = nescio.load(found.save(tmp_path / "map.safetensors"))
    assert again.manifest() == found.manifest()
    assert torch.equal(again(model(x)).probs, found(model(x)).probs)
    parts = {f"inner/{key}": tensor for key, tensor in found.state.items()}
    state = {key.removeprefix("inner/"): tensor for key, tensor in parts.items()}
    rebuilt = calibration.Map.from_manifest(json.loads(json.dumps(found.manifest())), state)
    assert torch.equal(rebuilt(model(x)).probs, found(model(x)).probs)


@pytest.mark.parametrize("name", calibrators)
def test_fits_are_repeatable_and_do_not_see_the_scale_of_precision(name):
    model, (x, y) = predictor("ensemble"), data()
    one, two = (calibration.fit(name, model(x), y) for _ in range(2))
    assert all(torch.equal(one.state[key], two.state[key]) for key in one.state)
    narrow = calibration.fit(name, model(x).to(torch.float32), y)
    torch.testing.assert_close(narrow(model(x)).probs, one(model(x)).probs, rtol=0.05, atol=1e-3)


@pytest.mark.parametrize("name", calibrators)
@pytest.mark.parametrize("kind", [torch.float16, torch.bfloat16])
def test_half_precision_is_widened_first(name, kind):
    (x, y), model = data(), predictor("ensemble")
    for made in (model(x), nescio.Dirichlet.from_alpha(model(x).logits.exp() + 0.1)):
        half = made.to(kind)
        found = calibration.fit(name, half, y)
        wide = found(half.to(torch.float32)).probs
        assert found(half).probs.dtype == wide.dtype
        torch.testing.assert_close(found(half).probs, wide, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("name", calibrators)
def test_logits_probabilities_and_predictions_say_the_same(name):
    (x, y), model = data(), predictor("ensemble")
    logits = model(x).logits
    ready = calibration.fit(name, model(x), y)
    by_array = calibration.fit(name, logits.numpy(), y.numpy())
    torch.testing.assert_close(by_array(logits).probs, ready(model(x)).probs)
    single = logits[0].log_softmax(-1)
    by_probs = calibration.fit(name, single.exp(), y, probs=True)
    by_logits = calibration.fit(name, single, y)
    torch.testing.assert_close(
        by_probs(single.exp(), probs=True).probs, by_logits(single).probs, rtol=1e-4, atol=1e-6
    )


@pytest.mark.parametrize("name", calibrators)
def test_predictions_of_dirichlet_networks_are_calibrated_too(name):
    x, y = data()
    prediction = nescio.Dirichlet.from_alpha(predictor("ensemble")(x).logits.exp() + 0.1)
    found = calibration.fit(name, prediction, y)(prediction)
    assert found.log_prob(y).mean() >= prediction.log_prob(y).mean() - 1e-12


@pytest.mark.parametrize("name", SMOOTH)
def test_smooth_maps_have_gradients(name):
    model, (x, y) = predictor("ensemble"), data()
    z = x[:4].clone().requires_grad_()
    calibrators[name](model, (x, y)).answer(z).probs[:, 0].sum().backward()
    assert z.grad.abs().min() > 0


@pytest.mark.parametrize("name", STEPS)
def test_steps_refuse_to_give_gradients(name):
    model, (x, y) = predictor("ensemble"), data()
    with pytest.raises(NescioError, match="no gradients"):
        calibrators[name](model, (x, y)).answer(x[:4].clone().requires_grad_())


@pytest.mark.parametrize("name", calibrators)
def test_another_number_of_classes_is_refused(name):
    model, (x, y) = predictor("one network"), data()
    found = calibrators[name](model, (x, y)).map
    with pytest.raises(NescioError, match="fitted on 3 classes, this prediction has 4"):
        found(torch.zeros(2, 4))


@pytest.mark.parametrize("name", calibrators)
def test_predictions_without_classes_are_refused(name):
    model = plain(nn.Linear(2, 4), head=heads.gaussian())
    with pytest.raises(NescioError, match="predictions of classes; a Gaussian has none"):
        calibrators[name](model, (torch.randn(5, 2), torch.tensor([0, 1, 2, 0, 1])))


@pytest.mark.parametrize("name", SMOOTH)
def test_held_out_data_that_is_always_right_is_refused(name):
    model = predictor("one network")
    x, _ = data()
    with pytest.raises(NescioError, match="every calibration sample is classified right"):
        calibrators[name](model, (x, model(x).labels))


@pytest.mark.parametrize("name", calibrators)
@pytest.mark.parametrize(
    ("y", "message"),
    [
        (torch.zeros(7, dtype=torch.long), "300 inputs"),
        (torch.full((300,), 0.5), "integers"),
        (torch.full((300,), 3), r"0\.\.2"),
    ],
)
def test_labels_are_checked(name, y, message):
    with pytest.raises(NescioError, match=message):
        calibrators[name](predictor("one network"), (data()[0], y))


@pytest.mark.parametrize("name", STEPS)
def test_steps_learn_from_data_that_is_always_right(name):
    model, (x, _) = predictor("one network"), data()
    after = calibrators[name](model, (x, model(x).labels))(x)
    assert (after.probs.amax(-1) < 1).all()
    assert after.probs.amax(-1).mean() > model(x).probs.amax(-1).mean()


@pytest.mark.parametrize("name", calibrators)
@pytest.mark.parametrize(
    ("y", "message"),
    [
        (torch.zeros(300, dtype=torch.long), "300 calibration labels are of one class"),
        (torch.zeros(299, dtype=torch.long), r"expected \(300,\)"),
    ],
)
def test_labels_of_tensors_are_checked(name, y, message):
    logits = torch.randn(300, 3, generator=torch.Generator().manual_seed(0))
    with pytest.raises(NescioError, match=message):
        calibration.fit(name, logits, y)


@pytest.mark.parametrize("name", sorted({*calibrators} - {"temperature"}))
def test_a_class_without_a_held_out_sample_is_an_error(name):
    logits = torch.randn(300, 3, generator=torch.Generator().manual_seed(0))
    by_class = {"keep_argmax": False} if name in ("isotonic", "histogram") else {}
    with pytest.raises(NescioError, match="1 of 3 classes have no calibration sample"):
        calibration.fit(name, logits, torch.arange(300) % 2, **by_class)


@pytest.mark.parametrize("name", calibrators)
@pytest.mark.parametrize(
    ("table", "probs", "message"),
    [
        (torch.full((4, 3), float("nan")), False, "NaN"),
        (torch.full((4, 3), float("nan")), True, "NaN"),
        (torch.full((4, 3), 0.5), True, "sum to 1"),
        (torch.zeros(4, 1, 1, 2), False, r"\(samples, classes\)"),
        (torch.zeros(4, 3, dtype=torch.long), False, "floats"),
        ("text", False, "logits must be a tensor"),
    ],
)
def test_what_is_no_prediction_is_refused(name, table, probs, message):
    with pytest.raises(NescioError, match=message):
        calibration.fit(name, table, torch.tensor([0, 1, 2, 0]), probs=probs)


def test_an_unknown_name_and_a_damaged_file_are_refused(tmp_path):
    logits, labels = torch.randn(9, 3), torch.arange(9) % 3
    with pytest.raises(NescioError, match="unknown calibration 'heat'"):
        calibration.fit("heat", logits, labels)
    with pytest.raises(NescioError, match="no file"):
        nescio.load(tmp_path / "none")
    (tmp_path / "bad").write_bytes(b"nothing")
    with pytest.raises(NescioError, match="damaged"):
        nescio.load(tmp_path / "bad")
    with pytest.raises(NescioError, match="manifest of a calibration is damaged"):
        calibration.Map.from_manifest({"name": "platt"}, {})
    state = {"weight": torch.tensor(float("nan")).double()}
    with pytest.raises(NescioError, match="finite numbers in float64"):
        calibration.Map(name="platt", options={}, state=state, classes=3)


@pytest.mark.parametrize("name", calibrators)
def test_numbers_that_do_not_belong_to_a_map_are_refused_when_it_is_made(name):
    model, (x, y) = predictor("ensemble"), data()
    found = calibrators[name](model, (x, y)).map
    for key, tensor in found.state.items():
        rest = {other: value for other, value in found.state.items() if other != key}
        odd = torch.zeros(5, 7, dtype=torch.float64)
        for state in (rest, {**rest, key: odd}):
            with pytest.raises(NescioError, match=f"^{name}: options .* not those of 3 classes"):
                calibration.Map(name=name, options=found.options, state=state, classes=3)
        assert tensor.shape != odd.shape
    with pytest.raises(NescioError, match="not those of 3 classes"):
        calibration.Map(name="isotonic", options={}, state=found.state, classes=3)


@pytest.mark.parametrize(
    ("name", "known"),
    [("temperature", "none"), ("histogram", "bins, keep_argmax"), ("vector", "spread, shift")],
)
def test_an_unknown_option_is_refused(name, known):
    logits, labels = torch.randn(9, 3), torch.arange(9) % 3
    with pytest.raises(NescioError, match=f"^{name} has no option bin; its options: {known}$"):
        calibration.fit(name, logits, labels, bin=3)


def test_labels_of_any_whole_numbers_are_taken():
    model, (x, y) = predictor("one network"), data()
    truth = calibration.fit("temperature", model(x), y).temperature
    for kind in (torch.uint8, torch.uint16, torch.uint32, torch.int16):
        assert calibration.fit("temperature", model(x), y.to(kind)).temperature == truth


def test_matrices_refuse_classes_that_are_ruled_out():
    probs = torch.tensor([[0.5, 0.5, 0.0], [0.2, 0.3, 0.5], [0.6, 0.3, 0.1], [0.1, 0.1, 0.8]])
    for name in ("platt", "vector", "matrix", "dirichlet"):
        with pytest.raises(NescioError, match="probability 0"):
            calibration.fit(name, probs, torch.tensor([1, 0, 1, 2]), probs=True)


def test_a_label_of_probability_nought_has_no_best_temperature():
    probs = torch.tensor([[0.5, 0.5, 0.0], [0.2, 0.3, 0.5], [0.6, 0.3, 0.1]])
    with pytest.raises(NescioError, match="labels of probability 0"):
        calibration.fit("temperature", probs, torch.tensor([2, 0, 1]), probs=True)


@pytest.mark.parametrize("name", calibrators)
def test_the_signature_is_that_of_a_call(name):
    seen = inspect.signature(calibrators[name])
    assert [*seen.parameters][:3] == ["predictor", "data", "ignore_index"]
    assert seen.return_annotation is calibration.Calibrated
