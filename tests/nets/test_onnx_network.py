"""ONNX files as networks: the same answers as the torch network they were made from."""

from pathlib import Path

import numpy as np
import pytest
import torch
from click.testing import CliRunner, Result
from torch import nn

import nescio
from nescio.cli.main import main
from nescio.core import NescioError

onnx = pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")
from onnx import TensorProto, helper, numpy_helper  # noqa: E402


def torch_net() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(2, 8), nn.ReLU(), nn.Linear(8, 3)).eval()


def write(
    path: Path,
    net: nn.Sequential,
    *,
    end: str | None = None,
    samples: object = "n",
    outputs: tuple[str, ...] = (),
    biased: bool = True,
) -> Path:
    """The network as an ONNX file, built by hand."""
    weights = {
        "w1": net[0].weight.T, "b1": net[0].bias, "w2": net[2].weight.T, "b2": net[2].bias,
    }  # fmt: skip
    known = [numpy_helper.from_array(w.detach().numpy(), n) for n, w in weights.items()]
    nodes = [
        helper.make_node("Gemm", ["x", "w1", "b1"], ["a"]),
        helper.make_node("Relu", ["a"], ["hidden"]),
        helper.make_node("MatMul", ["hidden", "w2"], ["product"]),
        helper.make_node("Add", ["product", "b2"], ["logits"]),
    ]
    last = "logits"
    if end is not None:
        nodes.append(helper.make_node(end, ["logits"], ["end"]))
        last = "end"
    given = [helper.make_tensor_value_info("x", TensorProto.FLOAT, [samples, 2])]
    named = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in (*outputs, last)
    ]
    graph = helper.make_graph(nodes, "net", given, named, known)
    opset = [helper.make_opsetid("", 13)]
    onnx.save(helper.make_model(graph, opset_imports=opset, ir_version=8), str(path))
    return path


def data(samples: int, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    """Inputs of normal noise; nine of ten labels are the network's."""
    draws = torch.Generator().manual_seed(seed)
    x = torch.randn(samples, 2, generator=draws)
    y = torch_net()(x).argmax(1)
    other = torch.rand(samples, generator=draws) < 0.05
    return x, torch.where(other, (y + 1) % 3, y)


@pytest.mark.parametrize("end", [None, "Softmax", "LogSoftmax", "Identity"])
def test_answers_and_features_are_those_of_the_network(tmp_path: Path, end: str | None) -> None:
    net, (x, y) = torch_net(), data(50)
    made = nescio.nets.onnx_network(write(tmp_path / "m.onnx", net, end=end))
    ours, theirs = nescio.observe(made, (x, y)), nescio.observe(net, (x, y))
    expected = theirs.logits.log_softmax(-1) if end == "LogSoftmax" else theirs.logits
    assert torch.allclose(ours.logits, expected, atol=1e-5)
    assert torch.allclose(
        ours.features["features"], next(iter(theirs.features.values())), atol=1e-5
    )


def test_a_fixed_number_of_samples_and_probabilities(tmp_path: Path) -> None:
    net, (x, _) = torch_net(), data(11)
    path = write(tmp_path / "m.onnx", net, end="Softmax", samples=4, outputs=("hidden",))
    with pytest.raises(NescioError, match="several outputs, hidden, end; say which"):
        nescio.nets.onnx_network(path)
    made = nescio.nets.onnx_network(path, output="end", features="a")
    assert torch.allclose(made(x), net(x), atol=1e-5)
    assert nescio.observe(made, x).features["features"].shape == (1, 11, 8)
    sure = write(tmp_path / "p.onnx", net, end="Exp")  # not a softmax that is seen
    assert torch.allclose(nescio.nets.onnx_network(sure, probabilities=True)(x), net(x), atol=1e-4)


def test_it_has_neither_gradients_nor_layers(tmp_path: Path) -> None:
    made = nescio.nets.onnx_network(write(tmp_path / "m.onnx", torch_net()))
    with pytest.raises(NescioError, match="no gradients"):
        made(torch.zeros(1, 2, requires_grad=True))
    with pytest.raises(NescioError, match="no layers"):
        nescio.geometry.far_field(made, torch.zeros(2), torch.ones(2))


def test_bad_files_and_names_are_refused(tmp_path: Path) -> None:
    path = write(tmp_path / "m.onnx", torch_net())
    with pytest.raises(NescioError, match="there is no file"):
        nescio.nets.onnx_network(tmp_path / "no.onnx")
    with pytest.raises(NescioError, match="logits"):
        nescio.nets.onnx_network(path, output="logit")
    with pytest.raises(NescioError, match="hidden"):
        nescio.nets.onnx_network(path, features="hiden")
    (tmp_path / "cut.onnx").write_bytes(path.read_bytes()[:60])
    with pytest.raises(NescioError, match="not an ONNX file, is cut off|no output"):
        nescio.nets.onnx_network(tmp_path / "cut.onnx")
    made = nescio.nets.onnx_network(path)
    with pytest.raises(NescioError, match="does not take|m.onnx"):
        nescio.observe(made, torch.zeros(3, 5))


def test_a_guard_knows_its_file_by_its_content(tmp_path: Path) -> None:
    path = write(tmp_path / "m.onnx", torch_net())
    made = nescio.nets.onnx_network(path)
    how = {"risk": 0.3, "false_alarm": 0.05}
    guard = nescio.guard(made, data(600), train=data(300, 1), **how)
    file = guard.save(tmp_path / "guard.safetensors")
    again = nescio.load(file, net=nescio.nets.onnx_network(path))
    x, _ = data(100, 2)
    assert torch.equal(again(x).decision, guard(x).decision)
    other = torch_net()
    with torch.no_grad():
        other[2].bias += 1e-3
    with pytest.raises(NescioError, match="are not those"):
        nescio.load(file, net=nescio.nets.onnx_network(write(tmp_path / "o.onnx", other)))
    with pytest.raises(NescioError, match="are not those"):
        nescio.load(file, net=nescio.nets.onnx_network(path, features="a"))


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "m.onnx", torch_net(), end="Softmax")
    for name, (count, seed) in {"cal": (600, 0), "train": (300, 1), "new": (200, 2)}.items():
        x, y = data(count, seed)
        np.savez(f"{name}.npz", x=x.numpy(), y=y.numpy())
    np.save("far.npy", data(200, 3)[0].numpy() + 20)
    return tmp_path


def run(*words: str) -> Result:
    return CliRunner().invoke(main, list(words))


def test_guard_score_and_monitor_on_the_command_line(home: Path) -> None:
    wish = ["--risk", "0.3", "--false-alarm", "0.05", "--out", "g.safetensors"]
    made = run("guard", "m.onnx", "--calibration", "cal.npz", "--train", "train.npz", *wish)
    assert made.exit_code == 0, made.output
    assert "--net m.onnx" in made.output
    scored = run("score", "g.safetensors", "new.npz", "--net", "m.onnx", "--out", "d.csv")
    assert scored.exit_code == 0, scored.output
    assert (home / "d.csv").read_text().count("\n") == 201
    lost = run("score", "g.safetensors", "new.npz", "--out", "e.csv")
    assert "guards an ONNX file; say where it is: --net model.onnx" in lost.output
    state = ["--net", "m.onnx", "--state", "s.safetensors"]
    drift = run("monitor", "g.safetensors", "far.npy", *state)
    assert drift.exit_code == 3, drift.output
    other = run("guard", "m.onnx:output=end:layers=3", "--calibration", "cal.npz")
    assert "follow output=NAME, features=NAME and probabilities" in other.output


def test_compare_on_the_command_line(home: Path) -> None:
    words = [
        "--train",
        "train.npz",
        "--ood",
        "far=far.npz",
        "--detector",
        "knn",
        "--resamples",
        "0",
    ]
    np.savez("far.npz", x=np.load("far.npy"))
    found = run("compare", "m.onnx:features=a", "--data", "new.npz", *words)
    assert found.exit_code == 0, found.output
    assert "knn" in found.output
