"""Audits of arrays: the numbers are those of the network that gave them."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from click.testing import CliRunner
from torch import nn

import nescio
from nescio.cli.main import main
from nescio.core import NescioError
from nescio.evaluation.audit.answers_only import NO_INPUTS

Pair = tuple[torch.Tensor, torch.Tensor]


def net_of() -> nn.Sequential:
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(2, 16), nn.ReLU(), nn.Linear(16, 3)).eval()
    with torch.no_grad():
        net[2].weight *= 5
    return net


def data(samples: int, seed: int) -> Pair:
    draws = torch.Generator().manual_seed(seed)
    x = torch.randn(samples, 2, generator=draws)
    y = net_of()(x).argmax(1)
    other = torch.rand(samples, generator=draws) < 0.04
    return x, torch.where(other, (y + 1) % 3, y)


def arrays(x: torch.Tensor) -> dict[str, np.ndarray]:
    net = net_of()
    with torch.no_grad():
        hidden = net[1](net[0](x))
        return {"logits": net[2](hidden).numpy(), "features": hidden.numpy()}


@pytest.fixture(scope="module")
def parts() -> dict[str, Pair]:
    return {"test": data(500, 0), "train": data(400, 1), "validation": data(600, 2)}


@pytest.fixture(scope="module")
def found(parts: dict[str, Pair]) -> nescio.Audit:
    given = {name: nescio.recorded(**arrays(x), labels=y) for name, (x, y) in parts.items()}
    far = nescio.recorded(**arrays(data(200, 3)[0] + 8))
    ours = {name: given[name] for name in ("train", "validation")}
    return nescio.audit(None, given["test"], **ours, ood={"far": far}, class_names=["a", "b", "c"])


def test_the_numbers_are_those_of_the_network(found: nescio.Audit, parts: dict[str, Pair]) -> None:
    theirs = nescio.audit(
        net_of(),
        parts["test"],
        train=parts["train"],
        validation=parts["validation"],
        ood={"far": data(200, 3)[0] + 8},
        budget="quick",
        skip=["attack", "far field", "shift", "scaled inputs"],
    )
    for metric in ("accuracy", "nll", "brier", "ece", "mean_max_confidence"):
        expected = theirs.results.value("network", "test", metric)
        assert found.results.value("network", "test", metric) == pytest.approx(expected, abs=1e-6)
    for metric in ("mean_max_confidence", "log_odds auroc"):
        expected = theirs.results.value("network", "far", metric)
        assert found.results.value("network", "far", metric) == pytest.approx(expected, abs=1e-6)
    ours, other = (one.findings.predictors["network"].calibration for one in (found, theirs))
    assert ours.temperature == pytest.approx(other.temperature, rel=1e-4)


def test_what_needs_inputs_is_listed_with_the_reason(found: nescio.Audit) -> None:
    for name in ("noise", "attack", "scaled inputs", "far field", "shift"):
        assert found.findings.not_run[name] == NO_INPUTS
    assert found.guard is not None
    assert found.findings.guard.arrays == ("logits", "features")
    assert found.findings.guard.ood["far"].ood > 0.5
    assert NO_INPUTS.split(",")[0] in " ".join(str(found).split())


def test_it_is_saved_with_a_guard_of_arrays(found: nescio.Audit, tmp_path: Path) -> None:
    page = found.bound_for(tmp_path).save(tmp_path).read_text()
    assert "--logits logits.npy --features features.npy" in page
    again = nescio.load(tmp_path / "guard.safetensors")
    new = nescio.recorded(**arrays(data(50, 5)[0]))
    assert torch.equal(again(new).decision, found.guard(new).decision)
    assert json.loads((tmp_path / "audit.json").read_text())["guard"]["arrays"][0] == "logits"


def test_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for start, (count, seed) in {"": (600, 0), "t": (300, 1)}.items():
        x, y = data(count, seed)
        np.save(f"{start}y.npy", y.numpy())
        for name, array in arrays(x).items():
            np.save(f"{start}{name}.npy", array)
    ours = ["--logits", "logits.npy", "--features", "features.npy", "--labels", "y.npy"]
    train = ["--train-logits", "tlogits.npy", "--train-features", "tfeatures.npy"]
    words = ["audit", *ours, *train, "--train-labels", "ty.npy", "--out", "a", "--seed", "1"]
    done = CliRunner().invoke(main, words)
    assert done.exit_code in (0, 2, 3), done.output
    told = json.loads((tmp_path / "a" / "audit.json").read_text())
    assert told["not_run"]["attack"] == NO_INPUTS
    assert told["samples"] == 600
    bad = CliRunner().invoke(main, [*words, "--rays", "3"])
    assert bad.exit_code == 1
    assert "--rays: with --logits there is no NETWORK" in bad.output
    none = CliRunner().invoke(main, ["audit", "--logits", "logits.npy", "--out", "b"])
    assert "must have labels" in none.output


def test_several_networks_are_one_predictor_with_members() -> None:
    x, y = data(400, 0)
    one = arrays(x)["logits"]
    both = np.stack([one, one[:, ::-1] * 0.5])
    found = nescio.audit(None, nescio.recorded(both, labels=y), budget="quick")
    assert found.findings.predictors["network"].members == 2
    expected = torch.tensor(both.copy()).softmax(-1).mean(0).argmax(-1)
    accuracy = (expected == y).double().mean().item()
    assert found.results.value("network", "test", "accuracy") == pytest.approx(accuracy)


def test_bad_arrays_are_refused() -> None:
    x, y = data(60, 0)
    own = arrays(x)
    test = nescio.recorded(**own, labels=y)
    with pytest.raises(NescioError, match="must have labels"):
        nescio.audit(None, nescio.recorded(**own))
    with pytest.raises(NescioError, match="training data are 1 network.s., 3 classes, 3 features"):
        nescio.audit(None, test, train=nescio.recorded(own["logits"], labels=y))
    with pytest.raises(NescioError, match="OOD data 'far' are what one gave"):
        nescio.audit(None, test, ood={"far": x})
    with pytest.raises(NescioError, match="come by name"):
        nescio.audit(None, test, ood=test)
    with pytest.raises(NescioError, match="test data are what one gave"):
        nescio.audit(None, (x, y))
