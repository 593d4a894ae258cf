"""The guard of label maps: its guarantee over splits, its file, and what it refuses."""

import pickle

import numpy as np
import pytest
import torch
from torch import nn

import nescio
from nescio import models, nets
from nescio.core import FewSamplesWarning, NescioError, NotFiniteWarning, RangeWarning
from nescio.guards import MapDecisions, MapGuard, described

IGNORED = 255


def streets(count=40, *, seed=0, height=5, width=7, classes=3):
    """Images, and noisy label maps whose noise differs from image to image."""
    draws = torch.Generator().manual_seed(seed)
    x = 2 * torch.randn(count, classes, height, width, generator=draws).tanh()
    level = 0.5 * torch.rand(count, 1, 1, generator=draws)
    other = torch.randint(classes, x[:, 0].shape, generator=draws)
    noisy = torch.rand(other.shape, generator=draws) < level
    y = torch.where(noisy, other, x.argmax(1)).to(torch.uint8)
    y[:, 0] = IGNORED
    return x, y


def sharp(classes=3):
    net = nn.Conv2d(classes, classes, 1, bias=False)
    net.weight.data = 3 * torch.eye(classes)[..., None, None]
    return net.eval()


def made(**options):
    options = {"ignore_index": IGNORED, "risk": 0.1, **options}
    return nescio.guard(sharp(), streets(), **options)


def test_it_answers_pixels_below_the_threshold():
    guard, (x, y) = made(), streets(seed=1)
    assert isinstance(guard, MapGuard)
    found = guard(x)
    assert isinstance(found, MapDecisions)
    prediction = models.plain(sharp())(x)
    least = nescio.measures.least_confidence(prediction)
    assert torch.equal(found.labels, prediction.labels)
    torch.testing.assert_close(found.failure_score, least)
    assert torch.equal(found.answered, found.failure_score < guard.threshold)
    wrong = (found.labels != y) & found.answered & (y != IGNORED)
    losses = wrong.flatten(1).sum(1) / (y != IGNORED).flatten(1).sum(1)
    torch.testing.assert_close(found.losses(y), losses)
    about = found.summary(y)
    assert about["risk"] == pytest.approx(float(losses.mean()))
    assert about["answered"] == pytest.approx(float(found.answered.double().mean()))
    known = found.answered & (y != IGNORED)
    assert about["selective_risk"] == pytest.approx(int(wrong.sum()) / int(known.sum()))
    assert 0 < about["answered"] < 1


def test_the_expected_loss_over_many_splits_is_at_most_the_risk():
    net, losses = sharp(), []
    x, y = streets(1200, seed=7)
    for start in range(0, 1200, 20):
        rows = slice(start, start + 19)
        guard = nescio.guard(net, (x[rows], y[rows]), ignore_index=IGNORED, risk=0.1)
        losses.append(float(guard(x[start + 19 : start + 20]).losses(y[start + 19 : start + 20])))
    error = np.std(losses) / len(losses) ** 0.5
    assert np.mean(losses) <= 0.1 + 2 * error
    assert np.mean(losses) > 0.01  # it does answer


def test_words_and_numbers_say_what_is_guaranteed():
    guard = made(names=["road", "car", "sky"])
    first = guard.guarantees[0]
    assert "at most 10 % are answered and wrong" in first
    assert "exchangeable" in first
    assert any("among the answered" in line for line in guard.guarantees)
    assert "least_confidence below" in str(guard)
    about = described(guard)
    assert about["images"] == 40
    assert about["threshold"] == guard.threshold
    assert about["mean_loss"] <= about["limit"] < 0.1
    sure = nescio.guard(sharp(), streets(120), ignore_index=IGNORED, risk=0.2, confidence=0.9)
    assert "with a confidence of 90 %" in sure.guarantees[0]
    looser = nescio.guard(sharp(), streets(120), ignore_index=IGNORED, risk=0.2)
    assert sure.threshold < looser.threshold


@pytest.mark.parametrize("confidence", [None, 0.9])
def test_it_is_saved_and_loaded(tmp_path, confidence):
    net = nets.dilated_cnn((3, 5, 7), 3, width=4, depth=1, dropout=0.5)
    source = models.mc_dropout(net, passes=4, seed=3)
    guard = nescio.guard(
        source,
        streets(),
        ignore_index=IGNORED,
        risk=0.9,
        confidence=confidence,
        failure="mutual_information",
        names=["a", "b", "c"],
    )
    path = guard.save(tmp_path / "guard.safetensors", weights=True)
    again, (x, _) = nescio.load(path), streets(seed=2)
    assert isinstance(again, MapGuard)
    assert (again.control, again.names, again.passes) == (guard.control, ("a", "b", "c"), 4)
    assert again.guarantees == guard.guarantees
    for name in ("labels", "answered", "failure_score"):
        assert torch.equal(getattr(again(x), name), getattr(guard(x), name))
    guard.save(path)
    assert torch.equal(nescio.load(path, net=net)(x).answered, guard(x).answered)
    with pytest.raises(NescioError, match="weights of network 0 are not those"):
        nescio.load(path, net=nets.dilated_cnn((3, 5, 7), 3, width=4, depth=1, dropout=0.5))
    copy = pickle.loads(pickle.dumps(guard))
    assert torch.equal(copy(x).answered, guard(x).answered)


def test_ensembles_are_guarded_and_later_training_changes_nothing():
    members = [sharp(), nn.Conv2d(3, 3, 1)]
    guard, (x, _) = nescio.guard(members, streets(), ignore_index=IGNORED, risk=0.5), streets()
    before = guard(x).labels
    assert torch.equal(before, models.ensemble(members)(x).labels)
    members[0].weight.data.zero_()
    assert torch.equal(guard(x).labels, before)


def test_images_without_labels_are_left_out_and_absent_classes_are_said():
    x, y = streets()
    y[:5] = IGNORED
    y[y == 2] = 1
    guard = nescio.guard(
        sharp(), (x, y), ignore_index=IGNORED, risk=0.9, names=["road", "car", "sky"]
    )
    assert (guard.control.images, guard.notes["unlabeled"]) == (35, 5)
    assert any("has a pixel of sky" in line for line in guard.guarantees)
    assert guard(x).losses(y)[:5].isnan().all()
    assert guard(x).summary(y)["labeled"] == 35


def test_labels_without_an_ignore_index_are_maps_by_their_shape():
    x, y = streets()
    y[y == IGNORED] = 0
    guard = nescio.guard(sharp(), (x, y), risk=0.9)
    assert (type(guard), guard.ignore_index) == (MapGuard, None)


def test_sequences_are_guarded_step_by_step():
    x, y = streets(width=1)
    net = nn.Sequential(sharp(), nn.Flatten(2))  # (N, C, T)
    guard = nescio.guard(net, (x, y[..., 0]), ignore_index=IGNORED, risk=0.9)
    assert guard(x).labels.shape == (40, 5)


def test_training_images_are_refused_or_left_out():
    x, y = streets()
    with pytest.raises(NescioError, match="40 of 40 calibration inputs are among the training"):
        made(train=(x, y))
    more = streets(120, seed=5)
    mixed = torch.cat([more[0], x[:1]]), torch.cat([more[1], y[:1]])
    with pytest.warns(nescio.core.RepeatedInputsWarning, match="left out"):
        guard = nescio.guard(sharp(), mixed, train=x, ignore_index=IGNORED, risk=0.1)
    assert guard.control.images == 120


def test_images_that_are_not_finite_or_out_of_range_are_said():
    guard, (x, _) = made(), streets(4)
    x[1, 0, 2, 2], x[2] = torch.nan, 100 * x[2]
    with pytest.warns(NotFiniteWarning), pytest.warns(RangeWarning):
        found = guard(x)
    assert found.in_range.tolist() == [True, False, False, True]
    assert not found.answered[1].any()
    assert (found.labels[1] == -1).all()
    assert torch.equal(found[[0, 3]].labels, guard(x[[0, 3]]).labels)
    with pytest.warns(NotFiniteWarning):
        assert not guard(x[1:2]).answered.any()


def test_bad_input_is_refused():
    x, y = streets()
    some = {"ignore_index": IGNORED}
    with pytest.raises(
        NescioError, match="18 labeled images are too few for risk=0.05: it takes 19"
    ):
        nescio.guard(sharp(), (x[:18], y[:18]), **some)
    with pytest.raises(NescioError, match="all 1400 labels are ignored"):
        nescio.guard(sharp(), (x, torch.full_like(y, IGNORED)), **some)
    with pytest.raises(NescioError, match="ignore_index=2 is a class"):
        nescio.guard(sharp(), (x, y), ignore_index=2)
    with pytest.raises(NescioError, match="need a network that returns"):
        nescio.guard(sharp(), (x, y[:, :3]), **some)
    with pytest.raises(NescioError, match="labels must lie in 0..2"):
        nescio.guard(sharp(), (x, y), ignore_index=254)
    with pytest.raises(NescioError, match="is for label maps"):
        nescio.guard(sharp(), (x, y[:, 1, 1]), **some)
    with pytest.raises(NescioError, match="detector= is for a guard of one answer per input"):
        nescio.guard(sharp(), (x, y), detector="knn", **some)
    for_samples = {"false_alarm": 0.1, "calibration_map": "vector", "sets": 0.2, "pool": "mean"}
    for name, value in for_samples.items():
        with pytest.raises(NescioError, match=f"{name}= is for a guard of one answer per input"):
            nescio.guard(sharp(), (x, y), **some, **{name: value})
    with pytest.raises(NescioError, match="give it, not activations alone"):
        nescio.guard(None, (x, y), **some)
    with pytest.raises(NescioError, match="predictive_entropy"):
        nescio.guard(sharp(), (x, y), failure="entropy", **some)
    with pytest.raises(NescioError, match="2 names for 3 classes"):
        nescio.guard(sharp(), (x, y), names=["a", "b"], **some)
    with pytest.raises(NescioError, match="calibrated on"):
        made()(x[:, :, 1:])
    with pytest.raises(NescioError, match="whole numbers of shape"):
        made()(x).losses(y[:, 1:])


def test_confident_errors_leave_nothing_to_answer():
    x, _ = streets()
    wrong = (x.argmin(1)).to(torch.uint8)
    with pytest.warns(FewSamplesWarning, match="abstain on every pixel"):
        guard = nescio.guard(nn.Sequential(sharp(), Ones()), (x, wrong), risk=0.05)
    assert not guard(x).answered.any()


class Ones(nn.Module):
    """The same confidence everywhere: there is nothing to choose by."""

    def forward(self, x):
        return 5.0 * nn.functional.one_hot(x.argmax(1), 3).movedim(-1, 1).float()
