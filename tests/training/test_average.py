"""A moving average of the weights: an oracle by hand, validated, returned, read by losses."""

import pytest
import torch
from torch import nn

import nescio
from nescio import NescioError, losses, nets, train
from nescio.core import load_tensors
from nescio.training import loop

DRAW = torch.Generator().manual_seed(0)
X = torch.randn(60, 3, generator=DRAW, dtype=torch.float64)
Y = (X[:, 0] + 0.5 * X[:, 1] * X[:, 2] > 0).long()
ROWS = [torch.randperm(60, generator=DRAW)[:count] for count in (30, 45, 17)]


def small():
    return nets.mlp(3, 2, widths=(8, 6)).double()


def normed():
    layers = nn.Linear(3, 5), nn.BatchNorm1d(5), nn.ReLU(), nn.Linear(5, 2)
    return nn.Sequential(*layers).double()


@pytest.mark.parametrize("make", [small, normed])
def test_it_is_the_mean_of_the_weights_at_first_and_then_decays(make, monkeypatch):
    """By hand, from the weights after every step."""
    after = []
    inner = loop._average

    def watched(average, weights, decay, step):
        after.append({name: tensor.clone() for name, tensor in weights.items()})
        inner(average, weights, decay, step)

    monkeypatch.setattr(loop, "_average", watched)
    model = train(make, (X, Y), epochs=4, batch_size=10, average=0.9)
    assert len(after) == 24
    for name in model.tensors:
        mean = torch.zeros_like(after[0][name], dtype=torch.float64)
        for step, weights in enumerate(after):
            keep = min(0.9, step / (step + 1))
            mean = keep * mean + (1 - keep) * weights[name]
            if step == 5:
                plain = torch.stack([one[name].double() for one in after[:6]]).mean(0)
                torch.testing.assert_close(mean, plain)
        if model.tensors[name].is_floating_point():
            torch.testing.assert_close(model.tensors[name], mean)
        else:
            assert torch.equal(model.tensors[name], after[-1][name])  # a counter


@pytest.mark.parametrize("make", [small, normed])
def test_a_member_of_a_stack_equals_the_same_member_alone(make):
    options = {"epochs": 6, "batch_size": 10, "average": 0.95, "learning_rate": 0.01, "seed": 3}
    options |= {"validation": (X, Y), "patience": 3}
    together = train(make, (X, Y), members=3, rows=ROWS, **options)
    for member in range(3):
        alone = train(make, (X, Y), members=[member], rows=[ROWS[member]], **options)
        for key, tensor in alone.tensors.items():
            torch.testing.assert_close(tensor[0], together.tensors[key][member], rtol=0, atol=1e-9)


def test_the_average_is_what_is_validated_and_returned():
    options = {"epochs": 8, "batch_size": 20, "learning_rate": 0.05, "members": 2}
    model = train(small, (X, Y), validation=(X, Y), average=0.99, **options)
    plain = train(small, (X, Y), **options)
    assert torch.equal(model.history.train, plain.history.train)  # the training is the same
    assert not torch.equal(model.tensors["0.weight"], plain.tensors["0.weight"])
    best = train(small, (X, Y), validation=(X, Y), average=0.99, patience=3, **options)
    for trained in (model, best):
        for member in range(2):
            epoch = trained.history.best[member]
            score = nn.functional.cross_entropy(trained.member(member)(X), Y)
            torch.testing.assert_close(score, trained.history.validation[epoch, member])


def mean_teacher(seen):
    """The likelihood, and the distance from what the averaged networks say under other masks."""
    base = losses.nll()

    def step(forward, batch, rng):
        teacher = forward.average
        kept = {name: tensor.clone() for name, tensor in forward.averaged.items()}
        target = teacher.again("teacher")(batch.x).softmax(-1)
        assert not target.requires_grad
        assert all(torch.equal(kept[name], tensor) for name, tensor in forward.averaged.items())
        seen.append((forward.average.frozen()(batch.x), forward(batch.x).detach()))
        gap = (forward(batch.x).softmax(-1) - target).square().sum(-1)
        return base(forward, batch, rng) + batch.mean(gap)

    return base.with_step("mean teacher", step, weighted=True)


@pytest.mark.parametrize("make", [small, normed, lambda: nets.mlp(3, 2, dropout=0.3).double()])
def test_losses_read_the_averaged_networks(make):
    seen = []
    options = {"epochs": 3, "batch_size": 20, "average": 0.9, "learning_rate": 0.05}
    together = train(make, (X, Y), members=2, loss=mean_teacher(seen), **options)
    if make is small:
        torch.testing.assert_close(*seen[0])  # before the first step the average is the start
        assert not torch.allclose(*seen[-1])
    alone = train(make, (X, Y), members=[1], loss=mean_teacher([]), **options)
    for key, tensor in alone.tensors.items():
        torch.testing.assert_close(tensor[0], together.tensors[key][1], rtol=0, atol=1e-9)


def test_outlier_losses_pass_the_average_on():
    noise = nescio.data.ood.uniform((3,))
    loss = losses.ceda(mean_teacher([]), noise)
    train(lambda: nets.mlp(3, 2), (X.float(), Y), loss=loss, epochs=1, average=0.9)


def test_a_loss_that_reads_it_needs_it():
    with pytest.raises(NescioError, match=r"average=0\.999"):
        train(small, (X, Y), loss=mean_teacher([]), epochs=1)


@pytest.mark.parametrize("decay", [0.0, 1.0, -0.5, float("nan")])
def test_a_decay_is_between_0_and_1(decay):
    with pytest.raises(NescioError, match="decay between 0 and 1"):
        train(small, (X, Y), epochs=1, average=decay)


def test_lbfgs_has_no_steps_to_average():
    with pytest.raises(NescioError, match="does not go with average"):
        train(small, (X, Y), epochs=1, batch_size=None, optimizer="lbfgs", average=0.9)


def test_a_stopped_run_goes_on_to_the_same_bits(tmp_path, monkeypatch):
    """Stopped after some steps, in the middle of an epoch."""
    options = {"epochs": 6, "batch_size": 10, "average": 0.9, "members": 3, "rows": ROWS}
    options |= {"loss": mean_teacher([]), "validation": (X, Y), "patience": 2}
    options |= {"unlabeled": X, "checkpoint_seconds": 0.0}
    whole = train(normed, (X, Y), run=tmp_path / "whole", **options)
    inner, steps = loop.Saver.after_step, []

    def stopping(self, state):
        inner(self, state)
        steps.append(state.step)
        if len(steps) == 8:
            raise KeyboardInterrupt

    monkeypatch.setattr(loop.Saver, "after_step", stopping)
    with pytest.raises(KeyboardInterrupt):
        train(normed, (X, Y), run=tmp_path / "broken", **options)
    assert steps[-1] > 0
    saved, _ = load_tensors(tmp_path / "broken" / "checkpoint.safetensors", "checkpoint")
    assert saved["average/0.weight"].shape == (3, 5, 3)
    monkeypatch.undo()
    broken = train(normed, (X, Y), run=tmp_path / "broken", **options)
    for key, tensor in whole.tensors.items():
        assert torch.equal(tensor, broken.tensors[key])
    one, other = (model.history.validation.nan_to_num(-1) for model in (whole, broken))
    assert torch.equal(one, other)
    with pytest.raises(NescioError, match="average"):
        train(normed, (X, Y), run=tmp_path / "whole", **{**options, "average": 0.5})


def test_masks_of_another_pass_differ_beside_outliers_too():
    """A consistency term inside an outlier loss is not silently 0."""
    gaps = []
    base = losses.nll()

    def step(forward, batch, rng):
        two = forward(batch.x), forward.again("second")(batch.x)
        gaps.append((two[0] - two[1]).abs().max().item())
        return base(forward, batch, rng)

    loss = losses.ceda(base.with_step("two", step), nescio.data.ood.uniform((3,)))
    train(lambda: nets.mlp(3, 2, dropout=0.5), (X.float(), Y), loss=loss, epochs=1)
    assert min(gaps) > 0
