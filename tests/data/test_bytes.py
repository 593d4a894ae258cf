"""Images of bytes give the bits that the same images as floats give, everywhere."""

from importlib import import_module

import numpy as np
import pytest
import torch
from torch import nn

import nescio
from nescio import losses, models, nets, train
from nescio.calibration import temperature
from nescio.core import as_batch, as_inputs
from nescio.evaluation.answers import see
from nescio.training.loop import Plan

BYTES = torch.randint(0, 256, (60, 2, 6, 5), dtype=torch.uint8, generator=torch.manual_seed(0))
FLOATS = BYTES.float() / 255
LABELS = torch.arange(60) % 3


def small_cnn():
    return nn.Sequential(
        nn.Conv2d(2, 4, 3), nn.ReLU(), nn.Dropout(0.2), nn.Flatten(), nn.Linear(48, 3)
    )


def small_mlp():
    return nets.mlp((2, 6, 5), 3, widths=(8,))


def trained(x, make, **options):
    how = {"epochs": 3, "batch_size": 16, "members": 2, "progress": False, **options}
    return train(make, (x, LABELS), **how)


def same(a, b):
    return all(torch.equal(a.tensors[name], b.tensors[name]) for name in a.tensors)


def test_every_byte_is_its_share_of_255():
    every = torch.arange(256, dtype=torch.uint8)
    exact = (np.arange(256) / 255).astype(np.float32)  # rounded once more, and yet the same
    assert as_batch(every).tolist() == exact.tolist()
    assert as_batch(every, torch.float64).tolist() == (np.arange(256) / 255).tolist()
    assert torch.equal(every, torch.arange(256, dtype=torch.uint8))


def test_floats_are_left_alone():
    assert as_batch(FLOATS) is FLOATS
    assert as_batch(FLOATS, torch.float64).dtype == torch.float64


def test_inputs_stay_bytes_only_where_asked():
    assert as_inputs(BYTES, keep_bytes=True).data_ptr() == BYTES.data_ptr()
    assert torch.equal(as_inputs(BYTES.numpy()), FLOATS)
    assert as_inputs(FLOATS, keep_bytes=True).dtype == torch.float32


@pytest.mark.parametrize("shape", [(3, 4), (3, 4, 4), (3, 1, 2, 2, 2)])
def test_other_bytes_are_refused(shape):
    for keep in (True, False):
        with pytest.raises(nescio.NescioError, match=r"uint8 of shape .* only images .* x / 255"):
            as_inputs(torch.zeros(shape, dtype=torch.uint8), keep_bytes=keep)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"batch_size": None},
        {"bootstrap": True},
        {"standardize": True},
        {"validation": True, "patience": 1, "epochs": 6},
        {"loss": losses.adversarial(losses.nll())},
        {"loss": losses.virtual_adversarial(losses.nll())},
    ],
    ids=["plain", "one batch", "bootstrap", "standardize", "patience", "adversarial", "virtual"],
)
@pytest.mark.parametrize("make", [small_cnn, small_mlp])
def test_training_is_the_same_to_the_bit(make, options):
    ways = []
    for x in (BYTES, FLOATS):
        how = options | ({"validation": (x[:9], LABELS[:9])} if "validation" in options else {})
        ways.append(trained(x, make, **how))
    assert same(*ways)
    torch.testing.assert_close(ways[0].history.train, ways[1].history.train, rtol=0, atol=0)


def test_training_in_float64():
    ways = [trained(x, lambda: small_cnn().double()) for x in (BYTES, BYTES.double() / 255)]
    assert same(*ways)
    assert ways[0].dtype == torch.float64


def test_a_run_resumes_from_bytes(tmp_path):
    first = trained(BYTES, small_mlp, run=tmp_path)
    assert same(first, trained(BYTES, small_mlp, run=tmp_path))


def test_the_loop_holds_bytes_and_its_range_is_in_floats(monkeypatch):
    seen = []
    module = import_module("nescio.training.train")  # the package has a function of this name
    monkeypatch.setattr(module, "run_loop", lambda state, plan, *_: seen.append((state, plan)))
    trained(BYTES, small_mlp, epochs=1)
    state, plan = seen[0]
    assert isinstance(plan, Plan)
    assert plan.data[0].data_ptr() == BYTES.data_ptr()
    assert state.sums.dtype == torch.float32
    batches = []

    def watch(forward, batch, rng):
        batches.append(batch)
        return forward(batch.x).mean((1, 2))

    monkeypatch.undo()
    trained(BYTES, small_mlp, epochs=1, loss=watch)
    assert {batch.x.dtype for batch in batches} == {torch.float32}
    assert torch.equal(batches[0].low, FLOATS.amin(0))
    assert torch.equal(batches[0].high, FLOATS.amax(0))


def test_predictions_are_the_same_to_the_bit():
    model = trained(FLOATS, small_cnn, epochs=1)
    assert torch.equal(model.outputs(BYTES), model.outputs(FLOATS))
    assert torch.equal(model.outputs(BYTES.numpy(), batch_size=7), model.outputs(FLOATS))
    sampled = models.mc_dropout(model, passes=3)
    assert torch.equal(sampled.outputs(BYTES), sampled.outputs(FLOATS))
    assert torch.equal(models.plain(model.member(0)).outputs(BYTES), model.outputs(FLOATS)[:1])
    noisy = (model(FLOATS).labels + (torch.arange(60) % 5 == 0)) % 3
    fitted = [temperature(model, (x, noisy)).temperature for x in (BYTES, FLOATS)]
    assert fitted[0] == fitted[1]
    ways = [see(model, x) for x in (BYTES, FLOATS)]
    assert torch.equal(ways[0].log_probs, ways[1].log_probs)
    wide = model.to(torch.float64)
    assert torch.equal(wide.outputs(BYTES), wide.outputs(BYTES.double() / 255))


def test_an_audit_is_the_same(tmp_path):
    model = trained(FLOATS, small_cnn, epochs=1)
    found = [
        nescio.audit(
            model,
            (x, LABELS),
            train=(x, LABELS),
            ood={"other": x.flip(3)},
            rays=3,
            skip=["provenance"],  # it tells bytes from floats
        )
        for x in (BYTES, FLOATS)
    ]
    assert found[0].to_json() == found[1].to_json()


def test_a_data_set_holds_bytes():
    whole = nescio.data.Dataset("mine", (BYTES, LABELS), None, (FLOATS, LABELS), 3)
    assert whole.features == (2, 6, 5)
    assert whole.train[0] is BYTES
    with pytest.raises(nescio.NescioError, match=r"or uint8 of shape \(N, C, H, W\).*got uint8"):
        nescio.data.Dataset("mine", (BYTES.flatten(1), LABELS), None, None, 3)
