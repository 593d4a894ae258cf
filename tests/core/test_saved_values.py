"""Every value that has a file: what is saved is read by `nescio.load`, and damage is refused."""

import json
from dataclasses import replace
from importlib import import_module

import numpy as np
import pytest
import torch

import nescio
from nescio import Activations, NescioError, calibration, conformal, detectors, metrics, nets
from nescio.core import DamagedError, NewerError, WrongKindError
from nescio.core import files as module
from nescio.data import learn_columns, read_table
from nescio.models import mc_dropout

X = torch.linspace(-2, 2, 60).reshape(30, 2)
LOGITS, LABELS = torch.randn(200, 3, generator=torch.Generator().manual_seed(0)), torch.arange(200)
LABELS = LABELS % 3
TABLE = read_table({"age": [20.0, 30.0, 41.5, 52.0] * 5, "sex": ["F", "M", "F", "F"] * 5})


def model():
    torch.manual_seed(0)
    return nescio.models.ensemble([nets.mlp(2, 3, widths=(4,), dropout=0.5) for _ in range(2)])


def guard():
    noise = torch.randn(LOGITS.shape, generator=torch.Generator().manual_seed(1))
    labels = (LOGITS + noise).argmax(-1)  # a temperature fits them
    made = Activations(logits=LOGITS, features=LOGITS[:, :2], labels=labels)
    options = {"detector": detectors.energy(), "false_alarm": 0.05, "risk": 0.9}
    return nescio.guard(None, made, **options), made


def saved_model(folder):
    value = model()
    return value.save(folder), value, lambda one: one(X).logits


def saved_predictor(folder):
    value = calibration.scaled(mc_dropout(model(), passes=3), 0.5, (0.0, 1.0, 0.0))
    return value.save(folder), value, lambda one: one(X).logits


def saved_calibration(folder):
    value = calibration.fit("platt", LOGITS, LABELS)
    return value.save(folder / "map"), value, lambda one: one(LOGITS).logits


def saved_sets(folder):
    value = conformal.threshold(LOGITS, LABELS)
    return value.save(folder / "sets"), value, lambda one: one(LOGITS)


def saved_intervals(folder):
    value = conformal.residual(LOGITS[:, :1], LOGITS[:, 1:2])
    return value.save(folder / "bands"), value, lambda one: torch.stack(list(one(LOGITS[:, :1])))


def saved_detector(folder):
    made = Activations(logits=LOGITS, features=LOGITS[:, :2], labels=LABELS)
    value = detectors.knn(made, k=3)
    return value.save(folder / "knn"), value, lambda one: one(made)


def saved_guard(folder):
    value, made = guard()
    return value.save(folder / "guard"), value, lambda one: one.decide(made).p_value


def saved_monitor(folder):
    scores = LOGITS[:, 0].numpy()
    value = nescio.monitor(scores).update(scores[:77])
    after = lambda one: torch.tensor(one.update(scores[77:]).log_martingale)  # noqa: E731
    return value.save(folder / "monitor"), value, after


def saved_risk(folder):
    wrong = (LABELS == 0).numpy()
    drawn = (LOGITS[:, 0] > 0).numpy()
    value = nescio.monitoring.risk_monitor(least=0.5).update(wrong[:77], drawn[:77], 0.5)
    after = lambda one: torch.tensor(one.update(wrong[77:], drawn[77:], 0.5).upper)  # noqa: E731
    return value.save(folder / "risk"), value, after


def saved_accuracy(folder):
    probability = LOGITS.softmax(-1).amax(-1).numpy()
    value = nescio.monitoring.estimated_accuracy().update(probability[:77])
    after = lambda one: torch.tensor(one.update(probability[77:]).interval)  # noqa: E731
    return value.save(folder / "accuracy"), value, after


def saved_sketch(folder):
    value = metrics.sketch(LOGITS[:, 0].numpy(), LOGITS[:, 1].numpy())
    return value.save(folder / "sketch"), value, lambda one: torch.tensor(one.auroc.value)


def saved_columns(folder):
    value = learn_columns(TABLE)
    return value.save(folder / "columns.json"), value, lambda one: one.encode(TABLE).x


def saved_stepper(folder):
    value = nescio.stepper(lambda: nets.mlp(2, 3, widths=(4,)), members=2)
    value.step(X, LABELS[: len(X)])
    return value.save(folder / "stepper"), value, lambda one: one(X).logits


SAVED = {
    "model": saved_model,
    "predictor": saved_predictor,
    "calibration": saved_calibration,
    "prediction sets": saved_sets,
    "prediction intervals": saved_intervals,
    "detector": saved_detector,
    "guard": saved_guard,
    "monitor": saved_monitor,
    "sketch": saved_sketch,
    "columns": saved_columns,
    "stepper": saved_stepper,
    "risk monitor": saved_risk,
    "accuracy estimate": saved_accuracy,
}


def test_every_kind_is_tested_and_has_a_reader():
    for room in module.ROOMS.values():
        import_module(f"nescio.{room}")
    assert set(SAVED) == set(module.ROOMS) == set(module.readers)


@pytest.fixture(params=SAVED)
def kind(request):
    return request.param


def test_what_is_saved_is_read_with_equal_answers(kind, tmp_path):
    path, value, answer = SAVED[kind](tmp_path)
    again = nescio.load(path)
    assert type(again) is type(value)
    assert torch.equal(answer(again), answer(value))
    assert type(nescio.load(str(path), kind=kind)) is type(value)


@pytest.mark.parametrize("part", [0.0, 0.02, 0.5, 0.99])
def test_a_truncated_file_is_refused(kind, part, tmp_path):
    path, *_ = SAVED[kind](tmp_path)
    whole = path.read_bytes()
    path.write_bytes(whole[: int(part * len(whole))])
    with pytest.raises(DamagedError, match=path.name):
        nescio.load(path)


def test_a_flipped_bit_is_refused_wherever_it_is(kind, tmp_path):
    path, *_ = SAVED[kind](tmp_path)
    whole = path.read_bytes()
    said = [at for at, byte in enumerate(whole) if byte not in b" \n"]  # others may be padding
    for at in np.random.default_rng(0).choice(said, 40).tolist():
        turned = bytearray(whole)
        turned[at] ^= 1
        path.write_bytes(bytes(turned))
        with pytest.raises(NescioError, match=path.name):
            nescio.load(path)


def test_another_kind_is_refused(kind, tmp_path):
    path, *_ = SAVED[kind](tmp_path)
    other = "guard" if kind != "guard" else "monitor"
    with pytest.raises(WrongKindError, match=f"holds a {kind}, expected a {other}"):
        nescio.load(path, kind=other)


def test_a_newer_file_asks_for_an_upgrade(kind, tmp_path, monkeypatch):
    monkeypatch.setattr(module, "FORMAT", module.FORMAT + 1)
    path, *_ = SAVED[kind](tmp_path)
    monkeypatch.undo()
    with pytest.raises(NewerError, match="newer nescio; upgrade"):
        nescio.load(path)


def test_wrong_options_are_said_to_be_wrong(kind, tmp_path):
    path, *_ = SAVED[kind](tmp_path)
    with pytest.raises(NescioError, match=f"holds a {kind}, which is read without colour="):
        nescio.load(path, colour="red")


def test_kinds_that_are_no_values_are_refused(tmp_path):
    module.save_tensors(tmp_path / "x", {}, {"kind": "os.system"})
    with pytest.raises(WrongKindError, match=r"holds a os.system, which nescio.load does not read"):
        nescio.load(tmp_path / "x")
    with pytest.raises(NescioError, match="no file"):
        nescio.load(tmp_path / "none")
    with pytest.raises(NescioError, match=r"no file .*model.safetensors"):
        nescio.load(tmp_path)
    (tmp_path / "other.json").write_text(json.dumps({"a": 1}))
    with pytest.raises(DamagedError, match="not written by nescio"):
        nescio.load(tmp_path / "other.json")
    (tmp_path / "checkpoint.safetensors").write_bytes(b"")
    with pytest.raises(NescioError, match="unfinished run"):
        nescio.load(tmp_path)


def test_a_file_whose_manifest_lacks_something_is_refused(kind, tmp_path):
    path, *_ = SAVED[kind](tmp_path)
    saved = module.read_saved(path)
    own = {k: v for k, v in saved.manifest.items() if k in ("kind", "bits", "bets", "model")}
    module.save_tensors(path, saved.tensors, own)
    if kind == "sketch":  # its tensors and bits are all there is
        return
    with pytest.raises(NescioError, match="damaged"):
        nescio.load(path)


def test_a_detector_is_read_onto_a_device(tmp_path):
    path, value, answer = saved_detector(tmp_path)
    again = nescio.load(path, device="cpu")
    assert torch.equal(answer(replace(again, about=value.about)), answer(value))
