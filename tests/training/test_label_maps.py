"""Labels with more axes than the samples: maps, sequences, and labels that are left out."""

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import nescio
from nescio import NescioError, losses, nets
from nescio.data.augmentation import crops, mirrors
from nescio.models import ensemble, mc_dropout, plain

CLASSES, IGNORED = 3, 255
QUIET = {"progress": False}


def fully_convolutional():
    layers = nn.Conv2d(2, 6, 3, padding=1), nn.ReLU(), nn.Dropout2d(0.2)
    return nn.Sequential(*layers, nn.Conv2d(6, CLASSES, 1)).double()


@pytest.fixture
def maps():
    source = torch.Generator().manual_seed(0)
    x = torch.rand(13, 2, 6, 7, generator=source, dtype=torch.double)
    y = (3 * x.mean(1)).long().clamp(0, CLASSES - 1)
    y[:, :2] = IGNORED
    y[3] = IGNORED
    return x, y


OPTIONS = {"epochs": 3, "batch_size": 4, "ignore_index": IGNORED, **QUIET}


def test_a_member_in_the_stack_equals_the_same_member_alone(maps):
    options = {**OPTIONS, "augment": [crops(1), mirrors()], "validation": maps}
    both = nescio.train(fully_convolutional, maps, members=2, **options)
    alone = nescio.train(fully_convolutional, maps, members=[1], **options)
    for name, weight in alone.tensors.items():
        assert torch.equal(weight[0], both.tensors[name][1])
    assert torch.equal(alone.history.train[:, 0], both.history.train[:, 1])


def test_a_run_resumes_to_the_same_bits(maps, tmp_path, monkeypatch):
    from nescio.training import loop

    options = {**OPTIONS, "members": 2, "augment": [crops(1), mirrors()], "validation": maps}
    whole = nescio.train(fully_convolutional, maps, **options)
    real, steps = loop.Saver.after_step, []

    def stop(saver, state):
        steps.append(1)
        saver.stop = len(steps) == 5
        real(saver, state)

    monkeypatch.setattr(loop.Saver, "after_step", stop)
    with pytest.raises(KeyboardInterrupt):
        nescio.train(fully_convolutional, maps, run=tmp_path, **options)
    monkeypatch.setattr(loop.Saver, "after_step", real)
    resumed = nescio.train(fully_convolutional, maps, run=tmp_path, **options)
    for name, weight in whole.tensors.items():
        assert torch.equal(weight, resumed.tensors[name])
    assert torch.equal(whole.history.train, resumed.history.train)


def test_the_score_is_that_of_torch_over_the_labels_that_count(maps):
    x, y = maps
    model = nescio.train(fully_convolutional, maps, validation=maps, **OPTIONS)
    expected = F.cross_entropy(model.member(0)(x), y, ignore_index=IGNORED)
    assert model.history.validation[-1, 0].item() == pytest.approx(expected.item(), abs=1e-12)


def test_one_step_is_that_of_torch(maps):
    x, y = maps
    options = {**OPTIONS, "epochs": 1, "batch_size": None, "optimizer": "sgd"}
    make = lambda: nn.Conv2d(2, CLASSES, 1).double()  # noqa: E731
    options["learning_rate"] = 0.5
    model = nescio.train(make, maps, **options)
    start = nescio.train(make, maps, **{**options, "learning_rate": 1e-300}).member(0)
    F.cross_entropy(start(x), y, ignore_index=IGNORED).backward()
    stepped = start.weight - 0.5 * start.weight.grad
    torch.testing.assert_close(model.tensors["weight"][0], stepped, rtol=0, atol=1e-12)


def test_the_history_is_weighted_by_the_labels_that_count(maps):
    """Batches of one image have between 0 and 28 labels; the mean over labels is that of all."""
    options = {**OPTIONS, "epochs": 1, "batch_size": 1, "learning_rate": 1e-300}
    make = lambda: nn.Conv2d(2, CLASSES, 1).double()  # noqa: E731
    model = nescio.train(make, maps, **options)
    expected = F.cross_entropy(model.member(0)(maps[0]), maps[1], ignore_index=IGNORED)
    assert model.history.train[0, 0].item() == pytest.approx(expected.item(), abs=1e-12)


def test_bytes_are_the_same_labels(maps):
    x, y = maps
    wide = nescio.train(fully_convolutional, maps, augment=crops(1), **OPTIONS)
    small = nescio.train(fully_convolutional, (x, y.to(torch.uint8)), augment=crops(1), **OPTIONS)
    assert torch.equal(wide.tensors["3.weight"], small.tensors["3.weight"])


def test_an_ignore_index_that_bytes_do_not_hold_ignores_none_of_them(maps):
    x, y = maps
    y = torch.where(y == IGNORED, 0, y)
    options = {**OPTIONS, "ignore_index": -256}  # a byte would wrap it to 0
    wide = nescio.train(fully_convolutional, (x, y), augment=crops(1), **options)
    small = nescio.train(fully_convolutional, (x, y.to(torch.uint8)), augment=crops(1), **options)
    assert torch.equal(wide.tensors["3.weight"], small.tensors["3.weight"])


def test_every_predictor_answers_each_pixel_and_files_keep_it(maps, tmp_path):
    x, _ = maps
    model = nescio.train(fully_convolutional, maps, members=2, **OPTIONS)
    shape = (13, 6, 7)
    sampled = mc_dropout(model, passes=3)
    several = ensemble([model.member(0), model.member(1)])
    for predictor, members in ((model, 2), (plain(model.member(0)), 1), (several, 2), (sampled, 6)):
        p = predictor(x)
        assert (p.members, tuple(p.batch_shape), p.classes) == (members, shape, CLASSES)
    logits = torch.stack([model.member(m)(x).movedim(1, -1) for m in range(2)])
    torch.testing.assert_close(model(x).logits, logits)
    torch.testing.assert_close(several(x).logits, logits)
    one = nescio.core.measure_all(model(x))
    assert all(values.shape == shape for values in one.values())
    model.save(tmp_path)
    again = nescio.load(tmp_path, net=fully_convolutional)
    assert torch.equal(again(x).logits, model(x).logits)


def test_steps_of_a_sequence_have_labels(tmp_path):
    source = torch.Generator().manual_seed(0)
    x = torch.randn(30, 9, 4, generator=source)  # steps, features
    y = x[..., :CLASSES].argmax(-1)
    y[:, 7:] = -100
    linear = lambda: nets.classes_last(nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 3)))  # noqa: E731
    options = {"epochs": 30, "batch_size": 10, "learning_rate": 0.02, **QUIET}
    model = nescio.train(linear, (x, y), ignore_index=-100, members=2, **options)
    right = (model(x).labels == y)[y != -100].double().mean()
    assert right > 0.9
    model.save(tmp_path)
    assert torch.equal(nescio.load(tmp_path, net=linear)(x).logits, model(x).logits)
    convolution = nescio.train(
        lambda: nn.Conv1d(4, CLASSES, 1), (x.mT, y), ignore_index=-100, **options
    )
    assert tuple(convolution(x.mT).batch_shape) == (30, 9)


def test_one_logit_for_each_pixel_is_binary(maps):
    x, y = maps
    y = torch.where(y == IGNORED, IGNORED, (y > 0).long())
    model = nescio.train(lambda: nn.Conv2d(2, 1, 1).double(), (x, y), **OPTIONS)
    assert model.head.name == "binary"
    assert tuple(model(x).probs.shape) == (13, 6, 7, 2)


def test_labels_of_samples_can_be_left_out():
    source = torch.Generator().manual_seed(0)
    x = torch.randn(40, 3, generator=source)
    y = (x[:, 0] > 0).long()
    marked = torch.where(torch.arange(40) < 20, y, 7)
    options = {"epochs": 4, "batch_size": None, **QUIET}
    make = lambda: nets.mlp(3, 2)  # noqa: E731
    some = nescio.train(make, (x, marked), ignore_index=7, **options)
    only = nescio.train(make, (x[:20], y[:20]), **options)
    for name, weight in only.tensors.items():
        torch.testing.assert_close(some.tensors[name], weight, rtol=1e-4, atol=1e-6)


BAD = {
    "a class": ({"ignore_index": 2}, "ignore_index=2 is a class"),
    "a float": ({"ignore_index": 1.5}, "must be a whole number"),
    "none": ({"ignore_index": None}, "labels must lie in 0..2"),
    "another": ({"ignore_index": 254}, "labels must lie in 0..2"),
    "twice": ({"loss": losses.nll(ignore_index=254)}, "say it once"),
    "regression": ({"loss": losses.squared_error()}, "has none"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_ignore_indices_are_refused(maps, name):
    options, said = BAD[name]
    with pytest.raises(NescioError, match=said):
        nescio.train(fully_convolutional, maps, **{**OPTIONS, **options})


def test_labels_that_all_are_ignored_are_refused(maps):
    x, y = maps
    nothing = torch.full_like(y, IGNORED)
    with pytest.raises(NescioError, match="all 546 labels are ignored"):
        nescio.train(fully_convolutional, (x, nothing), **OPTIONS)
    with pytest.raises(NescioError, match="all 546 labels are ignored"):
        nescio.train(fully_convolutional, maps, validation=(x, nothing), **OPTIONS)


AXES = {
    "one label": (lambda y: y[:, 2, 0], "need a network that returns"),
    "other size": (lambda y: y[:, ::2], "interpolate"),
    "channel": (lambda y: y[:, None], r"labels\[:, 0\]"),
}


@pytest.mark.parametrize("name", AXES)
def test_labels_of_other_axes_are_refused(maps, name):
    change, said = AXES[name]
    x, y = maps
    with pytest.raises(NescioError, match=said):
        nescio.train(fully_convolutional, (x, change(y)), **OPTIONS)


def test_classes_on_the_last_axis_are_named(maps):
    x = torch.rand(8, 5, 4)
    y = torch.arange(40).reshape(8, 5) % 3
    with pytest.raises(NescioError, match="classes_last"):
        nescio.train(lambda: nets.mlp((4,), 3), (x, y), **QUIET)
    ends = nn.Sequential(nn.Linear(4, 3), nn.Dropout(0.5), nn.Linear(3, 3))
    for predictor in (plain(ends), mc_dropout(ends, passes=2)):
        with pytest.raises(NescioError, match="ends in a linear layer.*classes_last"):
            predictor(x)
    assert plain(nets.classes_last(ends))(x).batch_shape == (8, 5)
    assert plain(ends, output=lambda result: result.movedim(-1, 1))(x).batch_shape == (8, 5)

    class Own(nn.Module):
        def __init__(self):
            super().__init__()
            self.last = nn.Linear(4, 3)

        def forward(self, x):
            return self.last(x)

    with pytest.raises(NescioError, match="on the last axis, give nescio.nets.classes_last"):
        nescio.train(Own, (x, y), **QUIET)


def test_weights_of_samples_multiply_the_labels_that_count(maps):
    x, y = maps
    weight = torch.arange(13) / 4
    options = {**OPTIONS, "epochs": 1, "batch_size": 5, "learning_rate": 1e-300}
    make = lambda: nn.Conv2d(2, CLASSES, 1).double()  # noqa: E731
    model = nescio.train(make, maps, sample_weight=weight, **options)
    each = F.cross_entropy(model.member(0)(x), y, ignore_index=IGNORED, reduction="none")
    both = weight[:, None, None] * (y != IGNORED)
    expected = (both * each).sum() / both.sum()
    assert model.history.train[0, 0].item() == pytest.approx(expected.item(), abs=1e-12)


def test_members_with_rows_of_their_own_are_those_alone(maps):
    rows = [torch.arange(5), torch.arange(2, 13)]
    options = {**OPTIONS, "augment": crops(1)}
    both = nescio.train(fully_convolutional, maps, members=2, rows=rows, **options)
    alone = nescio.train(fully_convolutional, maps, members=[1], rows=rows[1:], **options)
    for name, weight in alone.tensors.items():
        assert torch.equal(weight[0], both.tensors[name][1])


def test_a_stepper_takes_label_maps(maps):
    x, y = maps
    make = lambda: nn.Conv2d(2, CLASSES, 1).double()  # noqa: E731
    stepper = nescio.stepper(make, loss=losses.nll(ignore_index=IGNORED), members=2)
    start = stepper.model().member(1)
    found = stepper.step(x, y.to(torch.uint8))
    expected = F.cross_entropy(start(x), y, ignore_index=IGNORED)
    assert found[1].item() == pytest.approx(expected.item(), abs=1e-12)


def test_logits_of_three_axes_under_a_name_are_asked_for():
    class Tagger(nn.Module):
        def __init__(self):
            super().__init__()
            self.last = nn.Linear(4, 3)

        def forward(self, x):
            return {"logits": self.last(x), "hidden": x}

    x = torch.rand(5, 7, 4)
    for output in (None, "logits"):
        with pytest.raises(NescioError, match=r"result\['logits'\]\.movedim\(-1, 1\)"):
            plain(Tagger(), output=output)(x)
    found = plain(Tagger(), output=lambda result: result["logits"].movedim(-1, 1))(x)
    assert tuple(found.batch_shape) == (5, 7)
    assert tuple(found.probs.shape) == (5, 7, 3)


def test_maps_are_refused_where_one_label_per_sample_is_read(maps):
    x, y = (part.float() if part.is_floating_point() else part % 3 for part in maps)
    net = nn.Conv2d(2, CLASSES, 1)
    for call in (nescio.audit, nescio.observe):
        with pytest.raises(NescioError, match=r"docs/methods/segmentation\.md"):
            call(net, (x, y))
    with pytest.raises(NescioError, match="not exchangeable"):
        nescio.conformal.adaptive(plain(net)(x), y)


def test_a_function_that_reads_no_weights_is_refused_with_ignored_labels(maps):
    def mean_of_all(forward, batch, _):
        return losses.nll().score(forward(batch.x), batch.y).flatten(1).mean(1)

    def mean_of_counted(forward, batch, _):
        return batch.mean(losses.nll().score(forward(batch.x), batch.y))

    with pytest.raises(NescioError, match="batch.mean"):
        nescio.train(fully_convolutional, maps, loss=mean_of_all, **OPTIONS)
    own = nescio.train(fully_convolutional, maps, loss=mean_of_counted, **OPTIONS)
    named = nescio.train(fully_convolutional, maps, loss=losses.nll(), **OPTIONS)
    assert torch.equal(own.history.train, named.history.train)


def test_maps_of_floats_are_refused_and_the_ignore_index_is_named(maps):
    x, y = maps
    with pytest.raises(NescioError, match=r"must be integers, got torch.float32 \(13, 6, 7\)"):
        nescio.train(fully_convolutional, (x, y.float()), head="categorical", epochs=1, **QUIET)
    with pytest.raises(NescioError, match="got 0..255; .*ignore_index"):
        nescio.train(fully_convolutional, (x, y), epochs=1, **QUIET)
