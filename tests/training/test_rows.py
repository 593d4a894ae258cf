"""Rows by member: a member of a stack trains as if its rows were all the data."""

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
from nescio import NescioError, heads, losses, nets, train

DRAW = torch.Generator().manual_seed(0)
X = torch.randn(60, 3, generator=DRAW, dtype=torch.float64)
Y = (X[:, 0] + 0.5 * X[:, 1] * X[:, 2] > 0).long()
T = 40 + 7 * torch.stack([X[:, 0] * X[:, 1], X[:, 2].sin()], 1)
T += torch.randn(60, 2, generator=DRAW, dtype=torch.float64)
COUNTS = (30, 41, 17, 30, 56)  # with batches of 15: 2, 3, 2 (16 + ...), 2 and 4 steps an epoch
ROWS = [torch.randperm(60, generator=DRAW)[:count] for count in COUNTS]
REST = [torch.tensor([i for i in range(60) if i not in set(own.tolist())]) for own in ROWS]


def small():
    return nets.mlp(3, 2, widths=(8, 6)).double()


def masked():
    return nets.mlp(3, 2, widths=(8, 6), dropout=0.2).double()


def normed():
    layers = nn.Linear(3, 5), nn.BatchNorm1d(5), nn.ReLU(), nn.Linear(5, 2)
    return nn.Sequential(*layers).double()


def regressor():
    return nets.mlp(3, 4, widths=(8,)).double()


def own_function(forward, batch, rng):
    return nn.functional.cross_entropy(
        forward(batch.x).movedim(-1, 1), batch.y, reduction="none"
    ).mean(1)


def same(one, other, member, atol=1e-9):
    for key, tensor in one.tensors.items():
        torch.testing.assert_close(tensor[0], other.tensors[key][member], rtol=0, atol=atol)


WAYS = {
    "closed form": (small, losses.nll()),
    "autograd": (small, losses.brier()),
    "adversarial": (small, losses.adversarial(losses.nll(), share=0.05)),
    "virtual": (small, losses.virtual_adversarial(losses.nll(), radius=0.1)),
    "anchored": (small, losses.anchored(losses.nll())),
    "dropout": (masked, losses.nll()),
    "batchnorm": (normed, losses.nll()),
    "own function": (small, own_function),
}


@pytest.mark.parametrize("batch_size", [15, None])
@pytest.mark.parametrize("name", WAYS)
def test_a_member_equals_the_same_member_alone_and_on_its_own_data(name, batch_size):
    make, loss = WAYS[name]
    options = {"loss": loss, "epochs": 5, "batch_size": batch_size, "clip": 0.5, "seed": 3}
    options |= {"schedule": "cosine", "learning_rate": 0.01}
    together = train(make, (X, Y), members=5, rows=ROWS, **options)
    for member in (2, 4):
        own = ROWS[member]
        alone = train(make, (X, Y), members=[member], rows=[own], **options)
        same(alone, together, member)
        cut = train(make, (X[own], Y[own]), members=[member], **options)
        same(cut, together, member)
        torch.testing.assert_close(
            cut.history.train[:, 0], together.history.train[:, member], rtol=0, atol=1e-9
        )


@pytest.mark.parametrize("loss", [losses.nll(), own_function])
def test_lbfgs_finds_the_minimum_of_each_member(loss):
    make = lambda: nn.Linear(3, 2).double()  # noqa: E731
    decayed = losses.weight_decay(losses.as_loss(loss), strength=0.01)
    options = {"loss": decayed, "epochs": 200, "batch_size": None, "optimizer": "lbfgs"}
    together = train(make, (X, Y), members=5, rows=ROWS, **options)
    assert together.history.gradient[-1].nan_to_num().max() <= 1e-8
    for member in (1, 2):
        own = ROWS[member]
        alone = train(make, (X[own], Y[own]), members=[member], **options)
        same(alone, together, member, atol=1e-6)


def test_the_number_of_updates_is_that_of_the_own_samples():
    model = train(normed, (X, Y), members=5, rows=ROWS, epochs=3, batch_size=15)
    steps = [-(-count // 15) - (count % 15 == 1) for count in COUNTS]
    assert model.tensors["1.num_batches_tracked"].tolist() == [3 * n for n in steps]


@pytest.mark.parametrize("make", [small, masked, normed])
def test_bootstrap_and_early_stopping_act_on_the_own_rows(make):
    options = {"bootstrap": True, "patience": 2, "learning_rate": 0.05, "epochs": 20, "seed": 1}
    options["batch_size"] = 20
    whole = {"rows": ROWS, "validation_rows": REST, "members": 5}
    together = train(make, (X, Y), **whole, **options)
    assert len(set(together.history.stopped)) > 1
    for member in (0, 2, 4):
        own, rest = ROWS[member], REST[member]
        pairs = {"data": (X[own], Y[own]), "validation": (X[rest], Y[rest])}
        alone = train(make, members=[member], **pairs, **options)
        assert alone.history.stopped[0] == together.history.stopped[member]
        same(alone, together, member)
        count = alone.history.stopped[0]
        torch.testing.assert_close(
            together.history.validation[:count, member], alone.history.validation[:, 0]
        )


@pytest.mark.parametrize("head", [heads.gaussian(), heads.double_exponential()])
def test_scaling_is_by_the_own_rows_and_answers_are_in_the_units_of_the_targets(head, tmp_path):
    options = {"loss": losses.nll(head), "epochs": 6, "batch_size": 15, "learning_rate": 0.01}
    options |= {"standardize": True, "standardize_targets": True, "seed": 2}
    together = train(regressor, (X, T), members=5, rows=ROWS, **options)
    for member in (0, 2, 4):
        own = ROWS[member]
        mean, scale = T[own].mean(0), T[own].std(0, correction=0)
        scaled = {**options, "standardize_targets": False}
        alone = train(regressor, (X[own], (T[own] - mean) / scale), members=[member], **scaled)
        same(alone, together, member)
        truth, ours = alone(X), together(X).choose([member])
        torch.testing.assert_close(ours.mean, truth.mean * scale + mean)
        torch.testing.assert_close(ours.member_variance, truth.member_variance * scale**2)
        one = together.choose([member])
        torch.testing.assert_close(one(X).mean, ours.mean)
        torch.testing.assert_close(one.history.train[:, 0], together.history.train[:, member])
        network = together.networks()[member]
        torch.testing.assert_close(network.head(network.net(X)[None]).mean, ours.mean)
        density = -ours.log_prob(T)
        torch.testing.assert_close(network.head.nll(network.net(X)[None], T)[0], density)
    together.save(tmp_path)
    again = nescio.load(tmp_path)(X)
    assert torch.equal(again.mean, together(X).mean)
    assert torch.equal(again.member_variance, together(X).member_variance)


def test_targets_of_all_rows_are_scaled_too_and_constant_features_are_centered():
    x = torch.cat([X, torch.full((60, 1), 5.0, dtype=torch.float64)], 1)
    make = lambda: nets.mlp(4, 2, widths=(8,)).double()  # noqa: E731
    options = {"loss": losses.nll(heads.gaussian()), "epochs": 4, "standardize": True}
    model = train(make, (x, T[:, :1]), members=2, standardize_targets=True, **options)
    mean, scale = T[:, :1].mean(0), T[:, :1].std(0, correction=0)
    plain = train(make, (x, (T[:, :1] - mean) / scale), members=2, **options)
    torch.testing.assert_close(model(x).mean, plain(x).mean * scale + mean)
    assert model.tensors["scaling.scale"][:, 3].tolist() == [1.0, 1.0]


def test_draws_of_dropout_are_in_the_units_of_their_member():
    make = lambda: nets.mlp(3, 2, widths=(8,), dropout=0.3).double()  # noqa: E731
    options = {"loss": losses.nll(heads.gaussian()), "epochs": 2, "standardize_targets": True}
    model = train(make, (X, T[:, :1]), members=5, rows=ROWS, **options)
    drawn = nescio.models.mc_dropout(model, passes=4)
    together = drawn(X)
    for member in range(5):
        alone = nescio.models.mc_dropout(model.choose([member]), passes=4)(X)
        torch.testing.assert_close(together.mean[4 * member : 4 * member + 4], alone.mean)
        network = drawn.networks()[4 * member + 1]
        assert network.head.options["units"]["mean"][0] == [
            pytest.approx(T[ROWS[member], 0].mean().item())
        ]


@pytest.mark.parametrize("make", [small, normed])
def test_a_weight_counts_as_copies_of_the_sample(make):
    """Full batch: weights 0, 1, 2 and 3 are as many copies, whatever their scale."""
    copies = torch.arange(60) % 4
    repeated = torch.arange(60).repeat_interleave(copies)
    options = {"epochs": 10, "batch_size": None, "learning_rate": 0.01}
    if make is normed:  # its statistics count samples of weight 0, so there are none
        copies, repeated = torch.ones(60), torch.arange(60)
    ours = train(make, (X, Y), sample_weight=0.3 * copies, **options)
    truth = train(make, (X[repeated], Y[repeated]), **options)
    for key, tensor in truth.tensors.items():
        torch.testing.assert_close(ours.tensors[key], tensor, rtol=0, atol=1e-9)
    torch.testing.assert_close(ours.history.train, truth.history.train)


def test_weights_by_member_with_rows_and_batches_equal_the_member_alone():
    weight = torch.rand(5, 60, generator=DRAW)
    options = {"epochs": 5, "batch_size": 15, "learning_rate": 0.01}
    for loss in (losses.nll(), losses.brier()):
        together = train(
            small, (X, Y), members=5, rows=ROWS, sample_weight=weight, loss=loss, **options
        )
        for member in (1, 2):
            own = ROWS[member]
            parts = {"data": (X[own], Y[own]), "sample_weight": weight[member, own]}
            alone = train(small, members=[member], loss=loss, **parts, **options)
            same(alone, together, member)
            torch.testing.assert_close(alone.history.train[:, 0], together.history.train[:, member])


def test_closed_form_gradients_of_weighted_samples_are_those_of_autograd():
    weight = torch.tensor([0.0, 1.0, 2.5] * 20)
    options = {"epochs": 5, "batch_size": 15, "sample_weight": weight, "loss": losses.nll()}
    plain = losses.nll()
    slow = losses.Loss(  # the same without its derivative
        description="nll", head=plain.head, score=plain.score, step=plain.step, weighted=True
    )
    ours, truth = (train(small, (X, Y), **{**options, "loss": loss}) for loss in (plain, slow))
    for key, tensor in truth.tensors.items():
        torch.testing.assert_close(ours.tensors[key], tensor, rtol=0, atol=1e-12)


def test_a_loss_sees_which_samples_they_are_and_their_range():
    seen = []

    def watch(forward, batch, rng):
        seen.append(batch)
        return own_function(forward, batch, rng)

    train(small, (X, Y), members=5, rows=ROWS, loss=watch, epochs=1, batch_size=15)
    found = {member: [] for member in range(5)}
    sizes = {30: [0, 3], 41: [1], 17: [2], 56: [4]}
    for batch in seen:
        assert torch.equal(batch.x, X[batch.index])
        assert torch.equal(batch.y, Y[batch.index])
        for place, member in enumerate(sizes[batch.points]):
            own = X[ROWS[member]]
            assert torch.equal(batch.low[place, 0], own.amin(0))
            assert torch.equal(batch.high[place, 0], own.amax(0))
            found[member] += batch.index[place].tolist()
    assert all(sorted(found[m]) == sorted(ROWS[m].tolist()) for m in range(5))
    seen.clear()
    train(small, (X, Y), loss=watch, epochs=1, batch_size=None)
    assert seen[0].index.tolist() == [list(range(60))]


def test_a_loss_that_stores_other_sizes_for_other_rows_is_refused():
    images = torch.rand(60, 4, generator=DRAW)
    noise = nescio.data.ood.uniform((4,))
    make = lambda: nets.mlp(4, 2, widths=(5,))  # noqa: E731
    rows = [torch.arange(60), torch.arange(20)]
    options = {"rows": rows, "members": 2, "epochs": 1, "batch_size": 3}
    with pytest.raises(NescioError, match="fixed size"):
        train(make, (images, Y), loss=losses.acet(losses.nll(), noise), **options)
    loss = losses.acet(losses.nll(), noise, pool=30)
    together = train(make, (images, Y), loss=loss, **options)
    alone = train(make, (images[:20], Y[:20]), loss=loss, members=[1], epochs=1, batch_size=3)
    same(alone, together, 1, atol=1e-6)


def test_training_inputs_are_recognized_by_the_rows_alone():
    rows = [torch.arange(20), torch.arange(10, 30)]
    model = train(small, (X, Y), members=2, rows=rows, epochs=1)
    assert torch.equal(model.seen, nescio.core.hash_inputs(X[:30]).unique())


SCRIPT = """
import sys, torch
from nescio import heads, losses, nets, train
torch.set_num_threads(1)
g = torch.Generator().manual_seed(0)
x = torch.randn(200, 3, generator=g)
y = x[:, :1] + torch.randn(200, 1, generator=g)
rows = [torch.randperm(200, generator=g)[:n] for n in (150, 97, 120)]
rest = [torch.randperm(200, generator=g)[:n] for n in (50, 40, 60)]
train(lambda: nets.mlp(3, 2, widths=(16, 16)), (x, y), loss=losses.nll(heads.gaussian()),
      members=3, rows=rows, validation_rows=rest, patience=500, epochs=25, batch_size=10,
      standardize=True, standardize_targets=True, sample_weight=torch.rand(200, generator=g),
      bootstrap=True, clip=1.0, average=0.99, run=sys.argv[1], checkpoint_seconds=0.01)
"""


def test_a_killed_run_goes_on_to_the_same_bits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    process = subprocess.Popen([sys.executable, "-c", SCRIPT, str(broken)])
    for _ in range(2400):
        if (broken / "checkpoint.safetensors").exists():
            break
        time.sleep(0.025)
    os.kill(process.pid, signal.SIGKILL)
    process.wait(timeout=60)
    assert not (broken / "model.safetensors").exists(), "the run was too short to be stopped"
    for folder in (broken, whole):  # in this process, which saves two starts
        monkeypatch.setattr(sys, "argv", ["-c", str(folder)])
        exec(SCRIPT, {"__name__": "__main__"})
    one, other = nescio.load(whole), nescio.load(broken)
    for key, tensor in one.tensors.items():
        assert torch.equal(tensor, other.tensors[key])
    assert torch.equal(one.history.train, other.history.train)
    assert one.head.options == other.head.options


def test_a_folder_of_a_run_with_other_rows_is_refused(tmp_path):
    options = {"members": 2, "epochs": 1, "run": tmp_path}
    train(small, (X, Y), rows=[ROWS[0], ROWS[1]], **options)
    train(small, (X, Y), rows=[ROWS[0].numpy(), ROWS[1].tolist()], **options)  # read again
    for other in (None, [ROWS[1], ROWS[0]]):
        with pytest.raises(NescioError, match="rows"):
            train(small, (X, Y), rows=other, **options)


LONG = [torch.arange(60)] * 2
REGRESSION = {"loss": losses.nll(heads.gaussian())}
BAD = [
    ({"rows": [torch.arange(60)]}, "rows are for 1 member"),
    ({"rows": torch.arange(60)}, r"\(members, n\)"),
    ({"rows": 3}, "list with the indices"),
    ({"rows": [torch.arange(60), torch.arange(0)]}, "rows of member 1 must be a list of at least"),
    ({"rows": [torch.arange(60), torch.tensor([3, 60])]}, r"rows of member 1 must be in 0\.\.59"),
    ({"rows": [torch.arange(60), torch.tensor([-1])]}, r"in 0\.\.59, got -1"),
    ({"rows": [torch.arange(60), torch.arange(60) > 5]}, "of a mask take"),
    ({"rows": [torch.arange(60), torch.rand(5)]}, "whole numbers"),
    ({"rows": [torch.arange(60), (Y == 1).nonzero()[:, 0]]}, "labels of member 1 are 1"),
    ({"rows": [3, 4]}, r"for one member: \[rows\]"),
    ({"learning_rate": "fast"}, "learning_rate must be a number"),
    ({"validation_rows": [[0]]}, "validation_rows are for 1 member"),
    ({"validation_rows": [[0], [70]]}, "validation_rows of member 1"),
    ({"validation_rows": LONG, "validation": (X, Y)}, "leave validation= out"),
    ({"sample_weight": torch.ones(59)}, r"must have shape \(60,\), or \(2, 60\)"),
    ({"sample_weight": -torch.ones(60)}, "not negative"),
    ({"sample_weight": torch.ones(60) * torch.nan}, "finite"),
    ({"sample_weight": torch.zeros(60)}, "0 for all samples of member 0"),
    ({"sample_weight": torch.eye(2, 60), "rows": [[0, 1], [0, 2]]}, "all samples of member 1"),
    ({"sample_weight": torch.ones(60), "loss": own_function}, "reads no weights"),
    ({"standardize_targets": True}, "for a regression"),
]


@pytest.mark.parametrize(("options", "said"), BAD)
def test_bad_input_is_refused(options, said):
    with pytest.raises(NescioError, match=said):
        train(small, (X, Y), members=2, **options)


def test_targets_without_variance_are_refused():
    constant = torch.cat([T[:, :1], torch.full_like(T[:, :1], 3.0)], 1)
    options = {"loss": losses.nll(heads.gaussian()), "standardize_targets": True, "members": 2}
    with pytest.raises(NescioError, match="target 1 is always 3; leave"):
        train(regressor, (X, constant), **options)
    constant[0, 1] = 4
    with pytest.raises(NescioError, match="target 1 is always 3 in the rows of member 1"):
        train(regressor, (X, constant), rows=[[0, 1, 2], [3, 4, 5]], **options)


def test_rows_of_any_kind_are_taken():
    forms = [torch.stack([ROWS[0], ROWS[3]]), np.stack([ROWS[0], ROWS[3]]), (ROWS[0], ROWS[3])]
    models = [train(small, (X, Y), members=2, rows=form, epochs=2) for form in forms]
    for model in models[1:]:
        assert torch.equal(model.tensors["0.weight"], models[0].tensors["0.weight"])


def test_a_head_in_units_is_not_scaled_again():
    model = train(regressor, (X, T), standardize_targets=True, epochs=1, **REGRESSION)
    with pytest.raises(NescioError, match="already"):
        train(regressor, (X, T), loss=losses.nll(model.head), standardize_targets=True, epochs=1)


def test_members_chosen_otherwise_than_the_head_knows_are_refused():
    model = train(
        regressor, (X, T), members=5, rows=ROWS, standardize_targets=True, epochs=1, **REGRESSION
    )
    with pytest.raises(NescioError, match=r"model\.choose"):
        model.head(model.outputs(X)[:2])


def test_a_bootstrap_sample_without_a_weight_is_said():
    weight = torch.zeros(60)
    weight[:2] = 1
    with pytest.raises(
        NescioError, match="bootstrap sample of member .* has no sample with a weig"
    ):
        train(small, (X, Y), members=20, bootstrap=True, sample_weight=weight, epochs=1)


def test_validation_rows_without_a_label_are_said():
    labels = torch.where(torch.arange(60) < 30, Y, 9)
    rows = [torch.arange(60), torch.arange(30, 60)]
    with pytest.raises(NescioError, match="validation_rows of member 1 are ignored"):
        train(small, (X, labels), members=2, ignore_index=9, validation_rows=rows, epochs=1)
