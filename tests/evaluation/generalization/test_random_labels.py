"""Networks on random labels: against trainings of their own, by hand and alone."""

import numpy as np
import pytest
import torch
from matplotlib.figure import Figure
from torch import nn

from nescio import NescioError, data, geometry, metrics, nets, stepper
from nescio.evaluation import RandomLabels, fit_random_labels
from nescio.evaluation.generalization import noisy_labels

MOONS = data.half_moons(train=40, validation=0, test=60)
OPTIONS = {"epochs": 60, "looks": 3, "learning_rate": 0.02, "progress": False}


def make():
    return nets.mlp(2, 2, widths=(48,))


def tanh(width):
    return nn.Sequential(nn.Linear(2, width), nn.Tanh(), nn.Linear(width, 2))


@pytest.fixture(scope="module")
def found():
    return fit_random_labels(make, MOONS.train, MOONS.test, shares=(0.0, 1.0), seeds=3, **OPTIONS)


def test_labels_of_a_share_are_drawn_anew():
    y = torch.arange(1000) % 10
    half, all_ = (noisy_labels(y, share, 10, 0) for share in (0.5, 1.0))
    assert 400 < int((half != y).sum()) < 500  # 9 of 10 of 500, less chance
    assert abs(int((all_ == y).sum()) - 100) < 40
    changed = half != y
    assert torch.equal(half[changed], all_[changed])  # a smaller share is a part of a larger one
    assert torch.equal(noisy_labels(y, 0.0, 10, 0), y)
    counts = all_.bincount(minlength=10).double()
    assert float(((counts - 100) ** 2 / 100).sum()) < 27.9  # chi-square with 9, 0.1 %


def test_shapes_and_epochs(found):
    assert found.train.shape == found.loss.shape
    assert found.train.shape[:2] == (2, 3)
    assert found.test.shape == (2, 3, len(found.epochs))
    assert found.epochs[:2].tolist() == [1, 2]
    assert found.epochs[-1] == found.train.shape[-1]
    assert found.model.members == 6


def test_true_labels_are_fitted_sooner_and_mean_more(found):
    assert (found.train[0, :, -1] >= 0.95).all()
    assert found.interval("test")[0].value > 0.85
    assert abs(found.interval("test")[1].value - 0.5) < 0.25
    assert found.generalization_error[1].mean() > found.generalization_error[0].mean()


def test_a_member_is_what_a_stepper_alone_makes(found):
    x, y = MOONS.train
    state = stepper(make, members=[4], learning_rate=0.02, seed=0)
    labels = noisy_labels(y, 1.0, 2, 1)  # share 1, seed 1: member 4 of 6
    state.fit((x, labels), epochs=8)
    own = state(x).member_probs[0].argmax(-1) == labels
    assert float(own.double().mean()) == pytest.approx(found.train[1, 1, 7], abs=1e-9)


def test_numbers_in_the_end_are_those_of_the_networks(found):
    x, y = MOONS.test
    for member in range(6):
        place = divmod(member, 3)
        net = found.model.member(member).double()
        probs = net(x.double()).softmax(-1).detach()
        right = probs.argmax(-1) == y
        assert found.test[place][-1] == pytest.approx(float(right.double().mean()))
        assert found.ece[place][-1] == pytest.approx(metrics.ece(probs.amax(-1), right), abs=1e-6)
        assert found.confidence[place][-1] == pytest.approx(float(probs.amax(-1).mean()), abs=1e-6)
        far = geometry.far_field(net, *geometry.through_origin(x[:20].double()))
        assert found.far_field[place][-1] == pytest.approx(float(far.confidence.mean()))


def test_epochs_to_fit_and_slow_down():
    train = np.array([[[0.5, 1.0, 1.0]], [[0.1, 0.2, 1.0]], [[0.1, 0.2, 0.3]]])
    end = np.full((3, 1, 1), 0.5)
    names = ("test", "ece", "confidence", "far_field", "far_factor")
    found = RandomLabels(
        samples=4, shares=(0.0, 0.5, 1.0), goal=1.0, loss=train, train=train, epochs=np.array([3]),
        **dict.fromkeys(names, end),
    )  # fmt: skip
    assert found.epochs_to_fit[:, 0].tolist() == [2, 3, np.inf]
    assert found.slow_down[:, 0].tolist() == [1, 1.5, np.inf]
    assert found.generalization_error[:, 0].tolist() == [0.5, 0.5, pytest.approx(-0.2)]
    assert "epochs_to_fit" in str(found)


def test_intervals_are_students(found):
    own, ends = found.test[0, :, -1], found.interval("test")[0]
    half = 4.302652729911275 * own.std(ddof=1) / np.sqrt(3)  # t of 2 degrees, 97.5 %
    assert (ends.value, ends.high) == pytest.approx((own.mean(), own.mean() + half))
    with pytest.raises(NescioError, match="number"):
        found.interval("accuracy")


def test_saved_loaded_and_drawn(found, tmp_path):
    again = RandomLabels.load(found.save(tmp_path / "found.json"))
    for name in ("loss", "train", "epochs", "test", "ece", "far_field", "far_factor"):
        np.testing.assert_array_equal(getattr(again, name), getattr(found, name))
    assert again.model is None
    assert isinstance(again.plot(), Figure)
    assert repr(again) == repr(found)


def test_a_run_that_stopped_goes_on_to_the_same_numbers(found, tmp_path):
    call = {"shares": (0.0, 1.0), "seeds": 3, **OPTIONS, "run": tmp_path / "run"}
    half = fit_random_labels(make, MOONS.train, MOONS.test, **call | {"epochs": 10})
    assert half.train.shape[-1] == 10
    whole = fit_random_labels(make, MOONS.train, MOONS.test, **call)
    np.testing.assert_array_equal(whole.train, found.train)
    np.testing.assert_array_equal(whole.loss, found.loss)
    np.testing.assert_array_equal(whole.test[..., -1], found.test[..., -1])
    with pytest.raises(NescioError, match="another run"):
        fit_random_labels(make, MOONS.train, MOONS.test, **call | {"learning_rate": 0.5})
    x, y = MOONS.test
    with pytest.raises(NescioError, match="another run"):
        fit_random_labels(make, MOONS.train, (x[:20], y[:20]), **call)
    with pytest.raises(NescioError, match="another run"):
        fit_random_labels(lambda: tanh(48), MOONS.train, MOONS.test, **call)
    with pytest.raises(NescioError, match="epochs=10 are fewer"):
        fit_random_labels(make, MOONS.train, MOONS.test, **call | {"epochs": 10})


def test_a_network_that_is_not_piecewise_affine_has_no_far_field():
    options = {"shares": (1.0,), "seeds": 1, **OPTIONS, "epochs": 2}
    found = fit_random_labels(lambda: tanh(4), MOONS.train, MOONS.test, **options)
    assert np.isnan(found.far_field).all()
    assert isinstance(found.plot(), Figure)
    assert "far_field" not in str(found)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"shares": ()}, "from 0 to 1"),
        ({"shares": (1.5,)}, "from 0 to 1"),
        ({"goal": 0}, "goal"),
        ({"seeds": 0}, "positive"),
        ({"epochs": 0}, "epochs"),
    ],
)
def test_what_cannot_be_is_refused(options, words):
    with pytest.raises(NescioError, match=words):
        fit_random_labels(make, MOONS.train, MOONS.test, **options)
