"""The training loop: stacked equals alone, killed equals whole, wrong input is said to be wrong."""

import functools
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

import nescio
from nescio import NescioError, data, heads, losses, nets, train
from nescio.core import load_tensors
from nescio.core.schedules import drops


def toy(points: int = 60, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    draw = torch.Generator().manual_seed(seed)
    x = torch.randn(points, 3, generator=draw, dtype=torch.float64)
    return x, (x[:, 0] + 0.5 * x[:, 1] * x[:, 2] > 0).long()


def small() -> nn.Module:
    return nets.mlp(3, 2, widths=(8, 6), dropout=0.2).double()


class Wrapped(nn.Module):
    """The same network, in a form that cannot be stacked."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = small()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.inner(x)


LOSSES = {
    "nll": losses.nll(),
    "adversarial": losses.adversarial(losses.nll(), share=0.05),
    "virtual": losses.virtual_adversarial(losses.nll(), radius=0.1),
    "anchored": losses.anchored(losses.nll()),
    "decay": losses.weight_decay(losses.brier(), strength=1e-2),
}


@pytest.mark.parametrize("name", LOSSES)
def test_a_member_of_a_stack_equals_the_same_member_alone(name: str) -> None:
    options = {"loss": LOSSES[name], "epochs": 25, "batch_size": 15, "clip": 0.5, "seed": 3}
    together = train(small, toy(), members=3, learning_rate=0.01, **options)  # 100 steps
    for member in range(3):
        alone = train(small, toy(), members=[member], learning_rate=0.01, **options)
        for key, tensor in alone.tensors.items():
            torch.testing.assert_close(tensor[0], together.tensors[key][member], rtol=0, atol=1e-9)


@pytest.mark.parametrize("name", ["nll", "adversarial"])
def test_a_network_that_cannot_be_stacked_gives_the_same_result(name: str) -> None:
    options = {"loss": LOSSES[name], "epochs": 25, "batch_size": 15, "clip": 0.5, "members": 3}
    stacked, looped = (train(make, toy(), **options) for make in (small, Wrapped))
    assert stacked.architecture.stacked
    assert not looped.architecture.stacked
    for key, tensor in stacked.tensors.items():
        torch.testing.assert_close(looped.tensors[f"inner.{key}"], tensor, rtol=0, atol=1e-9)


def test_early_stopping_acts_per_member_and_restores_the_best_weights() -> None:
    options = {"validation": toy(40, seed=1), "patience": 2, "learning_rate": 0.05, "epochs": 40}
    together = train(small, toy(), members=4, **options)
    history = together.history
    assert len(set(history.stopped)) > 1  # members stop at different epochs
    x, y = options["validation"]
    for member in range(4):
        assert history.stopped[member] == history.best[member] + 3
        column = history.validation[:, member]
        assert column[history.stopped[member] :].isnan().all()
        best = torch.nan_to_num(column, nan=torch.inf).min()
        kept = nn.functional.cross_entropy(together.member(member)(x), y)
        torch.testing.assert_close(kept, best, rtol=1e-12, atol=0)
        alone = train(small, toy(), members=[member], **options)
        assert alone.history.stopped[0] == history.stopped[member]
        for key, tensor in alone.tensors.items():
            torch.testing.assert_close(tensor[0], together.tensors[key][member], rtol=0, atol=1e-9)


def test_members_differ_in_start_and_batch_order_and_seeds_repeat() -> None:
    a, b = (train(small, toy(), members=2, epochs=2, batch_size=20, seed=5) for _ in range(2))
    other = train(small, toy(), members=2, epochs=2, batch_size=20, seed=6)
    for key, tensor in a.tensors.items():
        assert torch.equal(tensor, b.tensors[key])
        assert not torch.equal(tensor, other.tensors[key])
        assert not torch.equal(tensor[0], tensor[1])


def test_the_global_generator_is_left_alone() -> None:
    torch.manual_seed(1)
    expected = torch.rand(3)
    torch.manual_seed(1)
    train(Wrapped, toy(), epochs=1)
    assert torch.equal(torch.rand(3), expected)


def test_it_learns_half_moons() -> None:
    moons = data.half_moons()
    make = lambda: nets.mlp(2, 2, widths=(25, 25))  # noqa: E731
    model = train(make, moons.train, members=2, epochs=40, learning_rate=0.01)
    x, y = moons.validation
    assert nescio.metrics.accuracy(model(x).probs, y) > 0.97


@pytest.mark.parametrize("head", [heads.gaussian(), heads.double_exponential()])
def test_it_learns_a_cubic_and_its_noise(head: heads.Head) -> None:
    cubic = data.cubic(points=200)
    make = lambda: nets.mlp(1, 2, widths=(30, 30))  # noqa: E731
    options = {"epochs": 400, "batch_size": None, "learning_rate": 0.03, "standardize": True}
    model = train(make, cubic.train, loss=losses.nll(head), members=2, **options)
    prediction = model(cubic.test[0])
    residual = (prediction.mixture_mean - cubic.test[1]).abs().mean()
    assert residual < 4  # the noise has a mean absolute value of 2.4
    assert 1 < prediction.aleatoric.mean().sqrt() < 6


@pytest.mark.parametrize("optimizer", ["adam", "sgd"])
@pytest.mark.parametrize("schedule", ["constant", "cosine", "drops", drops((0.5,), by=0.5)])
def test_optimizers_and_schedules_lower_the_loss(optimizer: str, schedule: object) -> None:
    rate = {"adam": 0.02, "sgd": 0.1}[optimizer]
    options = {"epochs": 15, "learning_rate": rate, "batch_size": 20}
    model = train(small, toy(), optimizer=optimizer, schedule=schedule, **options)
    assert model.history.train[-1] < 0.9 * model.history.train[0]


def test_the_history_is_the_mean_loss_of_each_epoch() -> None:
    x, y = toy()
    model = train(lambda: nets.mlp(3, 2).double(), (x, y), epochs=1, batch_size=None)
    start = train(lambda: nets.mlp(3, 2).double(), (x, y), epochs=1, learning_rate=1e-30)
    expected = nn.functional.cross_entropy(start.member(0)(x), y)
    torch.testing.assert_close(model.history.train[0, 0], expected)


def test_batchnorm_statistics_are_trained_per_member() -> None:
    def make() -> nn.Module:
        return nn.Sequential(
            nn.Linear(3, 5), nn.BatchNorm1d(5), nn.ReLU(), nn.Linear(5, 2)
        ).double()

    model = train(make, toy(), members=2, epochs=34, batch_size=20)
    assert model.tensors["1.num_batches_tracked"].tolist() == [102, 102]
    assert not torch.equal(model.tensors["1.running_mean"][0], model.tensors["1.running_mean"][1])
    alone = train(make, toy(), members=[1], epochs=34, batch_size=20)
    for key, tensor in alone.tensors.items():  # the bias has no gradient, only rounding: exact
        assert torch.equal(tensor[0], model.tensors[key][1]), key


def test_channels_last_weights_train_as_contiguous_ones() -> None:
    x = torch.randn(20, 3, 4, 4, dtype=torch.float64)
    y = torch.arange(20) % 2

    def make(form: torch.memory_format) -> nn.Module:
        net = nn.Sequential(nn.Conv2d(3, 5, 3), nn.ReLU(), nn.Flatten(), nn.Linear(20, 2))
        return net.double().to(memory_format=form)

    forms = (torch.contiguous_format, torch.channels_last)
    one, other = (train(lambda f=form: make(f), (x, y), epochs=5) for form in forms)
    for key, tensor in one.tensors.items():
        torch.testing.assert_close(tensor, other.tensors[key], rtol=0, atol=1e-9)


def test_a_single_sample_left_over_joins_the_last_batch() -> None:
    def make() -> nn.Module:
        return nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Linear(4, 2)).double()

    x, y = toy(41)
    model = train(make, (x, y), epochs=2, batch_size=20)
    assert model.tensors["1.num_batches_tracked"].tolist() == [4]


def test_validation_scores_that_are_not_finite_stop_the_run() -> None:
    x, y = data.cubic().train
    far = (x, torch.full_like(y, 1e30))
    with pytest.raises(NescioError, match="validation score of member 0"):
        train(
            lambda: nets.mlp(1, 2),
            (x, y),
            loss=losses.nll(heads.gaussian()),
            validation=far,
            patience=2,
            epochs=3,
        )


def test_weights_that_are_lost_in_the_last_step_are_refused() -> None:
    def step(forward, batch, rng):
        total = sum(w.flatten(1).sum(1) for w in forward.parameters.values())
        return (total - total).sqrt()  # 0, with an infinite slope

    base = losses.nll()
    bad = losses.Loss(description="bad", head=base.head, score=base.score, step=step)
    with pytest.raises(NescioError, match="became NaN or infinite"):
        train(small, toy(), loss=bad, epochs=1, batch_size=None)


def test_frozen_weights_stay() -> None:
    def make() -> nn.Module:
        net = small()
        net[0].weight.requires_grad_(False)
        return net

    model = train(make, toy(), epochs=3)
    start = train(make, toy(), epochs=1, learning_rate=1e-30)
    assert torch.equal(model.tensors["0.weight"], start.tensors["0.weight"])
    assert not torch.equal(model.tensors["0.bias"], start.tensors["0.bias"])


SCRIPT = """
import sys, torch
from nescio import nets, train
torch.set_num_threads(1)
g = torch.Generator().manual_seed(0)
x = torch.randn(200, 3, generator=g)
y = (x[:, 0] > 0).long()
make = lambda: nets.mlp(3, 2, widths=(16, 16), dropout=0.1)
model = train(make, (x, y), members=3, epochs=int(sys.argv[2]), batch_size=10, clip=1.0,
              validation=(x[:50], y[:50]), patience=500, run=sys.argv[1], checkpoint_seconds=0.05)
"""


def run_script(folder: Path, epochs: int, **options: object) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-c", SCRIPT, str(folder), str(epochs)], **options)


def run_here(code: str, *words: object) -> None:
    """The same in this process, which saves a start."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["-c", *map(str, words)])
        exec(code, {"__name__": "__main__"})


def wait_for(path: Path, process: subprocess.Popen[bytes]) -> None:
    for _ in range(1200):
        if path.exists():
            return
        assert process.poll() is None, "the run ended before its first checkpoint"
        time.sleep(0.05)
    raise AssertionError("no checkpoint after a minute")


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a run that nothing stopped."""
    folder = tmp_path_factory.mktemp("whole")
    run_here(SCRIPT, folder, 120)
    return folder


@pytest.mark.parametrize("stop", [signal.SIGKILL, signal.SIGINT])
def test_a_stopped_run_goes_on_to_the_same_bits(
    stop: signal.Signals, whole: Path, tmp_path: Path
) -> None:
    broken = tmp_path / "broken"
    for _ in range(2):  # stopped twice
        before = _mtime(broken / "checkpoint.safetensors")
        process = run_script(broken, 120, stderr=subprocess.DEVNULL)
        while _mtime(broken / "checkpoint.safetensors") == before and process.poll() is None:
            time.sleep(0.02)
        os.kill(process.pid, stop)
        process.wait(timeout=60)
        assert not (broken / "model.safetensors").exists(), "the run was too short to be stopped"
    run_here(SCRIPT, broken, 120)
    one, other = nescio.load(whole), nescio.load(broken)
    for key, tensor in one.tensors.items():
        assert torch.equal(tensor, other.tensors[key])
    assert torch.equal(one.history.train, other.history.train)
    assert not (broken / "checkpoint.safetensors").exists()


def _mtime(path: Path) -> float | None:
    return path.stat().st_mtime if path.exists() else None


def test_numbers_of_any_kind_and_functions_without_a_name_are_options(tmp_path: Path) -> None:
    rate, count = np.float32(1e-3), np.int64(2)
    rule = functools.partial(lambda by, step, steps: by, 0.5)
    options = {"learning_rate": rate, "epochs": count, "members": count, "schedule": rule}
    assert train(small, toy(), run=tmp_path, **options).members == 2
    assert train(small, toy(), run=tmp_path, **options).members == 2  # read again


def test_a_finished_run_is_read_not_trained_again(tmp_path: Path) -> None:
    first = train(small, toy(), epochs=2, run=tmp_path)
    stamp = (tmp_path / "model.safetensors").stat().st_mtime_ns
    again = train(small, toy(), epochs=2, run=tmp_path)
    assert (tmp_path / "model.safetensors").stat().st_mtime_ns == stamp
    assert torch.equal(first.tensors["0.weight"], again.tensors["0.weight"])


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"seed": 1}, "seed: 0 there, 1 here"),
        ({"loss": losses.brier()}, "loss: nll"),
        ({"data": toy(seed=9)}, "data:"),
        ({"learning_rate": 0.5}, "learning_rate"),
        ({"schedule": drops((0.5,), by=0.5)}, "schedule"),
    ],
)
def test_a_folder_of_another_run_is_refused(change: dict, said: str, tmp_path: Path) -> None:
    train(small, toy(), epochs=2, run=tmp_path)
    options = {"data": toy(), "epochs": 2, "run": tmp_path, **change}
    with pytest.raises(NescioError, match=said):
        train(small, options.pop("data"), **options)


def by_hand(forward, batch, _):
    return forward(batch.x).square().mean((1, 2))


def test_a_function_with_another_head_is_another_run(tmp_path: Path) -> None:
    x, y = toy()[0], toy()[0][:, :1]
    options = {"loss": by_hand, "epochs": 1, "run": tmp_path}
    model = train(small, (x, y), head="gaussian", **options)
    assert model.loss.endswith("by_hand(gaussian(floor=1e-06))")
    with pytest.raises(NescioError, match="gaussian.* there, .*double_exponential"):
        train(small, (x, y), head="double_exponential", **options)


@pytest.mark.parametrize(
    ("loss", "said"),
    [
        (lambda f, b, _: f(b.x).square().mean(), r"shape \(2,\), got \(\)"),
        (lambda f, b, _: f(b.x).square().mean(-1), r"shape \(2,\), got \(2, 60\)"),
        (lambda f, b, _: 0.0, "got float"),
        (lambda f, b, _: f(b.x).detach().square().mean((1, 2)), "does not depend on the weights"),
    ],
)
def test_a_loss_that_is_not_a_number_for_each_member_is_refused(loss, said: str) -> None:
    with pytest.raises(NescioError, match=said):
        train(small, toy(), loss=loss, members=2, epochs=1)


def test_a_truncated_checkpoint_is_refused_and_kept(tmp_path: Path) -> None:
    process = run_script(tmp_path, 5000)
    wait_for(tmp_path / "checkpoint.safetensors", process)
    process.kill()
    process.wait()
    file = tmp_path / "checkpoint.safetensors"
    file.write_bytes(file.read_bytes()[:500])
    with pytest.raises(NescioError, match="(?s)damaged.*delete it to start this run again"):
        run_here(SCRIPT, tmp_path, 5000)
    assert file.stat().st_size == 500


def test_a_loss_that_turns_nan_names_member_epoch_and_cure() -> None:
    x, y = data.cubic().train
    make = lambda: nets.mlp(1, 2)  # noqa: E731
    with pytest.raises(NescioError, match=r"member \d .* epoch \d+; try a smaller learning_rate"):
        train(make, (x, y), loss=losses.nll(heads.gaussian()), epochs=50, learning_rate=1e30)


X, Y = toy()
BAD = [
    ((X.clone().fill_(torch.nan), Y), {}, "NaN or infinite"),
    ((X.clone().index_fill_(0, torch.tensor([7]), torch.inf), Y), {}, "sample 7"),
    ((X[:0], Y[:0]), {}, "empty"),
    ((X, torch.zeros_like(Y)), {}, "two classes"),
    ((X, Y + 1), {}, r"0\.\.1"),
    ((X, Y - 1), {}, r"-1, which is not a class"),
    ((X, Y[:-1]), {}, "60 inputs"),
    ((X, Y + 0.5), {}, "fixed_variance: Mean of D"),
    ((X[:, :2], Y), {}, "does not take inputs of shape"),
    ((X[:, 0], Y), {}, "single feature"),
    (X, {}, "pair"),
    ((X, Y), {"members": 0}, "members must be positive"),
    ((X, Y), {"epochs": 0}, "epochs must be positive"),
    ((X, Y), {"batch_size": -1}, "batch_size must be positive"),
    ((X, Y), {"learning_rate": -0.1}, "learning_rate must be positive"),
    ((X, Y), {"learning_rate": float("nan")}, "learning_rate must be positive"),
    ((X, Y), {"patience": 3}, "validation"),
    ((X, Y), {"epochs": 2.5}, "epochs must be a whole number"),
    ((X, Y), {"members": 1.5}, "members must be a whole number"),
    ((X, Y), {"members": [1, 1]}, "different member numbers"),
    ((X, Y), {"optimizer": "adem"}, "unknown optimizer"),
    ((X, Y), {"schedule": "cosin"}, "unknown schedule"),
    ((X, Y), {"loss": losses.nll(heads.gaussian())}, "need 2 network outputs|must be|outputs"),
    ((X, Y), {"validation": (X * torch.nan, Y)}, "validation data"),
]


@pytest.mark.parametrize(("given", "options", "said"), BAD)
def test_bad_input_is_refused(given: object, options: dict, said: str) -> None:
    loss = options.get("loss")
    if loss is not None:
        given = (X, torch.stack([Y, Y], 1).double())
    with pytest.raises(NescioError, match=said):
        train(small, given, **options)


def test_bad_factories_are_refused() -> None:
    net = small()
    with pytest.raises(NescioError, match="factory"):
        train(net, toy())
    with pytest.raises(NescioError, match="same network twice"):
        train(lambda: net, toy(), members=2)
    with pytest.raises(NescioError, match="not an nn.Module"):
        train(lambda: 3, toy())
    sizes = iter((4, 5))
    with pytest.raises(NescioError, match="same architecture"):
        train(lambda: nets.mlp(3, 2, widths=(next(sizes),)).double(), toy(), members=2)
    with pytest.raises(NescioError, match=r"\(samples, outputs\)"):
        train(lambda: nn.Flatten(0), toy())


def test_a_folder_that_cannot_be_made_is_said_before_the_work(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(NescioError, match="cannot make the folder"):
        train(small, toy(), run=tmp_path / "file" / "run")


KEEPING = """
import sys, torch
from torch import nn
from nescio import losses, nets, train
from nescio.data.augmentation import crops
from nescio.data.ood import uniform
torch.set_num_threads(1)
g = torch.Generator().manual_seed(0)
x = torch.rand(200, 1, 4, 4, generator=g).mul(255).byte()
y = (x[:, 0, 0, 0] > 127).long()
loss = losses.acet(losses.nll(), uniform((1, 4, 4)), free=0.3, ramp=0.5)
make = lambda: nn.Sequential(nn.Flatten(), nets.mlp(16, 2, widths=(16,), dropout=0.1))
train(make, (x, y), members=2, epochs=30, batch_size=30, loss=loss, augment=crops(1),
      validation=(x[:50], y[:50]), patience=500, run=sys.argv[1], checkpoint_seconds=0.02)
"""


def test_a_killed_run_goes_on_with_what_its_loss_has_kept(tmp_path: Path) -> None:
    """Kept perturbations, the free step, the ramp and augmentation: the same bits."""

    whole, broken = tmp_path / "whole", tmp_path / "broken"
    process = subprocess.Popen([sys.executable, "-c", KEEPING, str(broken)])
    wait_for(broken / "checkpoint.safetensors", process)
    os.kill(process.pid, signal.SIGKILL)
    process.wait(timeout=60)
    assert not (broken / "model.safetensors").exists(), "the run was too short to be stopped"
    saved, manifest = load_tensors(broken / "checkpoint.safetensors", "checkpoint")
    (kept,) = (tensor for name, tensor in saved.items() if name.startswith("memory/"))
    assert kept.shape == (2, 31, 1, 4, 4)  # as many as the largest batch may take
    assert kept.dtype == torch.int8
    assert manifest["epoch"] < 30
    run_here(KEEPING, broken)
    run_here(KEEPING, whole)
    make = nn.Sequential(nn.Flatten(), nets.mlp(16, 2, widths=(16,), dropout=0.1))
    one, other = (nescio.load(folder, net=make) for folder in (whole, broken))
    for key, tensor in one.tensors.items():
        assert torch.equal(tensor, other.tensors[key])
    assert torch.equal(one.history.train, other.history.train)
