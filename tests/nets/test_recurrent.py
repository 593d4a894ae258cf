"""nets.lstm and nets.gru: PyTorch's layers are the oracle, and padding never changes an answer."""

from functools import partial

import pytest
import torch
from torch import Tensor, nn

import nescio
from nescio import models, nets
from nescio.core import NescioError, Rng, generator
from nescio.data.augmentation import noise
from nescio.losses import Batch
from nescio.nets.modes import MaskPerPass, masks_from
from nescio.nets.stack import Forward, Stack, stack

CELLS = {"lstm": (nets.lstm, nn.LSTM), "gru": (nets.gru, nn.GRU)}
LENGTHS = torch.tensor([11, 4, 7, 1])


def sequences(samples: int = 4, channels: int = 3, length: int = 11) -> Tensor:
    draws = torch.Generator().manual_seed(0)
    x = torch.randn(samples, channels + 1, length, generator=draws)
    lengths = LENGTHS.repeat(samples)[:samples]
    x[:, -1] = (torch.arange(length) < lengths[:, None]).float()
    x[:, :-1] *= x[:, -1:]
    return x


def torch_layers(cell: str, body: nn.Module) -> nn.Module:
    """PyTorch's layers with the same weights."""
    layers: nn.Module = CELLS[cell][1](3, 8, num_layers=2, batch_first=True)
    with torch.no_grad():
        for layer in range(2):
            for name in ("weight_ih", "weight_hh"):
                getattr(layers, f"{name}_l{layer}").copy_(getattr(body, f"{name}_{layer}"))
            getattr(layers, f"bias_ih_l{layer}").copy_(getattr(body, f"bias_{layer}"))
            other = getattr(layers, f"bias_hh_l{layer}").zero_()
            if cell == "gru":
                other[16:] = getattr(body, f"bias_hn_{layer}")
    return layers


@pytest.mark.parametrize("cell", CELLS)
@pytest.mark.parametrize("form", ["last", "mean", "per_step"])
def test_states_are_those_of_pytorch(cell: str, form: str) -> None:
    options = {"per_step": True} if form == "per_step" else {"pooling": form}
    body = CELLS[cell][0]((4, 11), 5, width=8, depth=2, **options)[0]
    x = sequences()
    packed = nn.utils.rnn.pack_padded_sequence(
        x[:, :-1].transpose(1, 2), LENGTHS, batch_first=True, enforce_sorted=False
    )
    steps, final = torch_layers(cell, body)(packed)
    steps, _ = nn.utils.rnn.pad_packed_sequence(steps, batch_first=True)  # (N, L, H), zero-padded
    found = body(x)
    if form == "last":
        wanted = (final[0] if cell == "lstm" else final)[-1]
    elif form == "mean":
        wanted = steps.sum(1) / LENGTHS[:, None]
    else:
        found, wanted = (found * x[:, -1:]), steps.transpose(1, 2)
    assert torch.allclose(found, wanted, atol=1e-6)


@pytest.mark.parametrize("cell", CELLS)
@pytest.mark.parametrize("pooling", ["last", "mean"])
def test_padding_never_changes_an_answer(cell: str, pooling: str) -> None:
    net = CELLS[cell][0]((4, 11), 5, width=8, depth=2, pooling=pooling).eval()
    x = sequences()
    noisy = torch.cat([x, torch.zeros(4, 4, 6)], 2)
    noisy[:, :-1] += 100 * torch.randn(4, 3, 17) * (noisy[:, -1:] == 0)
    before = torch.cat([torch.zeros(4, 4, 3), x], 2)  # the padding may stand anywhere
    for other in (noisy, before):
        assert torch.allclose(net(other), net(x), atol=1e-6)
    alone = torch.cat([net(one[None, :, : int(n)]) for one, n in zip(x, LENGTHS, strict=True)])
    assert torch.allclose(alone, net(x), atol=1e-6)


def test_padding_of_tokens_and_of_passes_of_dropout() -> None:
    net = nets.gru(9, 3, vocabulary=20, width=8, dropout=0.3, word_dropout=0.2)
    tokens = torch.randint(1, 20, (6, 9), generator=generator(0))
    tokens[1, 3:] = 0
    longer = torch.cat([tokens, torch.zeros(6, 5, dtype=torch.int64)], 1)
    predictor = models.mc_dropout(net, passes=4)
    assert torch.allclose(predictor.outputs(longer), predictor.outputs(tokens), atol=1e-6)


@pytest.mark.parametrize("kind", ["variational", "naive"])
@pytest.mark.parametrize("tokens", [False, True])
def test_a_stack_draws_and_answers_as_each_member_alone(kind: str, tokens: bool) -> None:
    make = partial(nets.lstm, (4, 11), 5)
    if tokens:
        make = partial(nets.lstm, 11, 5, vocabulary=20, word_dropout=0.2, embedding=6)
    options = {"width": 8, "depth": 2, "dropout": 0.4, "dropout_kind": kind}
    each = [make(**options) for _ in range(3)]
    x = torch.randint(1, 20, (4, 11), generator=generator(1)) if tokens else sequences()
    every, tensors = Stack(each[0]), stack(each)
    wide = x.expand(3, *x.shape)
    assert every.stacked
    assert every.takes(x.shape[1:])
    assert every.draws
    alone = torch.stack([net.eval()(x) for net in each])
    assert torch.allclose(every(tensors, wide), alone, atol=1e-6)
    rng = nescio.core.Rng(0, (0, 1, 2), (0, 0))
    drawn = []
    for net, source in zip(each, rng.generators("dropout"), strict=True):
        with masks_from(source):
            drawn.append(net.train()(x))
    assert torch.allclose(every(tensors, wide, rng), torch.stack(drawn), atol=1e-6)


def masks_of(kind: str, *, passes: int = 1) -> list[Tensor]:
    """What the states of 30 steps of ones are multiplied by: read from the gates of a GRU."""
    seen: list[Tensor] = []

    class Watch(MaskPerPass):
        def _dropout(self, function: object, *args: Tensor, **kwargs: Tensor) -> Tensor:
            found = super()._dropout(function, *args, **kwargs)
            seen.append(self.expanded(found).clone())
            return found

    net = nets.gru((4, 30), 2, width=8, dropout=0.5, dropout_kind=kind).eval()
    with Watch([generator(0, "pass", t) for t in range(passes)], 5):
        net(torch.ones(5, 4, 30))
    return seen


def test_variational_masks_are_tied_and_naive_ones_are_not() -> None:
    inputs, states, outputs = masks_of("variational")
    assert inputs.shape == (5, 3)
    assert states.shape == (5, 8)
    assert torch.equal(states, states[:1].expand(5, 8))  # a pass is one network
    inputs, outputs = masks_of("naive")  # none for states
    assert inputs.shape == (5, 30, 3)
    assert not torch.equal(inputs[0, 0].expand(30, 3), inputs[0])
    assert (outputs == 0).any()


def test_dropped_states_stay_dropped_over_all_steps() -> None:
    """Where the mask of the state is 0, no weight of that unit is read at any step."""
    net = nets.lstm((4, 11), 5, width=8, dropout=0.5, input_dropout=0.0).eval()
    x = sequences()
    with MaskPerPass([generator(3)], 4):
        before = net[0](x)
    mask = nets.modes.draw_mask((8,), 0.5, generator(3), torch.ones(1))
    with torch.no_grad():
        net[0].weight_hh_0[:, mask == 0] += 5.0
    with MaskPerPass([generator(3)], 4):
        assert torch.equal(net[0](x), before)
        assert not torch.allclose(nets.modes.draw_mask((8,), 0.5, generator(4), mask), mask)


def test_word_dropout_drops_types_in_the_whole_sequence() -> None:
    net = nets.gru(6, 2, vocabulary=9, embedding=4, width=8, word_dropout=0.5).train()
    body = net[0]
    tokens = torch.tensor([[1, 2, 1, 3, 2, 1]]).repeat(200, 1)
    with masks_from(generator(0)):
        drop = []
        embedded = body._embedded(
            {"embedding.weight": body.embedding.weight[None]},
            tokens[None],
            lambda shape, p: (
                drop.append(shape) or nn.functional.dropout(torch.ones(200, *shape), p)[None]
            ),
        )[0]
    zero = (embedded == 0).all(-1)  # (200, 6)
    assert drop == [(9,)]
    assert torch.equal(zero[:, 0], zero[:, 2])
    assert torch.equal(zero[:, 0], zero[:, 5])
    assert torch.equal(zero[:, 1], zero[:, 4])
    assert not torch.equal(zero[:, 0], zero[:, 1])
    assert 0.3 < zero[:, 0].float().mean() < 0.7
    kept = embedded[~zero[:, 0], 0][0]
    assert torch.allclose(kept, 2 * body.embedding.weight[1])  # 1 / (1 - p)


@pytest.mark.parametrize("kind", ["variational", "naive"])
def test_passes_run_together_and_do_not_depend_on_the_batch(kind: str) -> None:
    net = nets.lstm((4, 11), 5, width=8, depth=2, dropout=0.4, dropout_kind=kind)
    x = sequences(12)
    predictor = models.mc_dropout(net, passes=6)
    with MaskPerPass([generator(0, "pass", t) for t in range(6)], 12):
        assert len(net.eval()(x)) == 6 * 12
    whole = predictor.outputs(x)
    assert torch.allclose(predictor.outputs(x[3:4]), whole[:, 3:4], atol=1e-6)
    for t in range(6):
        with MaskPerPass([generator(0, "pass", t)], 12):
            assert torch.allclose(net(x), whole[t], atol=1e-6)
    assert whole.std(0).mean() > 0.01


def test_answers_at_every_step_train_and_abstain_in_the_padding() -> None:
    x = sequences(40)
    y = (x[:, 0].cumsum(-1) > 0).long()
    y[x[:, -1] == 0] = 255
    model = nescio.train(
        lambda: nets.gru((4, 11), 2, width=8, dropout=0.1, per_step=True),
        (x, y),
        epochs=60,
        learning_rate=0.02,
        ignore_index=255,
    )
    labels = model(x).labels
    assert labels.shape == (40, 11)
    assert (labels == y)[y != 255].float().mean() > 0.85


def test_scaling_is_by_channel_over_the_steps_there_are() -> None:
    x = sequences(40)
    x[:, 0] = (5 + 2 * x[:, 0]) * x[:, -1]
    net = nets.standardized(nets.lstm((4, 11), 3), x)
    values = x[:, 0][x[:, -1] == 1]
    assert net[0].mean.shape == (4, 1)
    assert torch.allclose(net[0].mean[0, 0], values.mean(), atol=1e-5)
    assert torch.allclose(net[0].scale[0, 0], values.std(correction=0), atol=1e-5)
    assert net[0].mean[-1] == 0
    assert net[0].scale[-1] == 1
    assert torch.equal(net[0](x)[:, -1], x[:, -1])


def test_noise_leaves_the_marks_of_steps_as_they_are() -> None:
    x, seen = sequences(), []

    def watched(forward: Forward, batch: Batch, rng: Rng) -> Tensor:
        seen.append(batch.x[0])
        return forward(batch.x).square().mean((1, 2))

    options = {"epochs": 1, "batch_size": None, "augment": noise(2.0)}
    nescio.train(
        lambda: nets.gru((4, 11), 3, width=4), (x, torch.arange(4) % 3), loss=watched, **options
    )
    assert torch.equal(seen[-1][:, -1], x[:, -1])
    assert not torch.equal(seen[-1][:, :-1], x[:, :-1])


def test_a_model_of_sequences_is_saved_and_loaded(tmp_path) -> None:
    x = sequences(8)
    model = nescio.train(
        lambda: nets.lstm((4, 11), 2, width=4, dropout=0.1),
        (x, torch.arange(8) % 2),
        members=2,
        epochs=1,
        standardize=True,
    )
    model.save(tmp_path)
    again = nescio.load(tmp_path)
    assert torch.equal(again(x).probs, model(x).probs)
    longer = torch.cat([x, torch.zeros(8, 4, 3)], 2)
    assert torch.allclose(again(longer).probs, model(x).probs, atol=1e-6)


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"dropout_kind": "tied"}, "kind of dropout"),
        ({"pooling": "first"}, "pooling"),
        ({"width": 0}, "width 0"),
        ({"word_dropout": 0.1}, "word_dropout drops tokens"),
        ({"input_dropout": 1.0}, "dropout must be in"),
        ({"inputs": 11}, "tokens need vocabulary="),
        ({"inputs": (1, 11)}, "no other"),
        ({"inputs": 11, "vocabulary": 5, "padding": 5}, "one of the 5 tokens"),
    ],
)
def test_options_that_do_not_fit_are_refused(options: dict, match: str) -> None:
    with pytest.raises(NescioError, match=match):
        nets.lstm(**{"inputs": (4, 11), "outputs": 3, **options})


def test_sequences_without_a_step_are_refused() -> None:
    net = models.plain(nets.lstm((4, 11), 3, width=4))
    x = sequences()
    x[2, -1] = 0
    with pytest.raises(NescioError, match=r"all padding \(first: sample 2 "):
        net(x)
    with pytest.raises(NescioError, match="all padding"):
        net(torch.zeros(3, 4, 11))
    with pytest.raises(NescioError, match="length 0"):
        net(torch.zeros(3, 4, 0))
    with pytest.raises(NescioError, match="length 0"):
        nets.lstm((4, 11), 3)(torch.zeros(3, 4, 0))
    tokens = nets.gru(5, 2, vocabulary=7)
    with pytest.raises(NescioError, match="all padding"):
        models.plain(tokens)(torch.zeros(2, 5, dtype=torch.int64))
    with pytest.raises(NescioError, match="vocabulary of the network; got 1 to 7"):
        models.plain(tokens)(torch.tensor([[1, 7]]))
    with pytest.raises(NescioError, match="reads tokens"):
        models.plain(tokens)(torch.ones(2, 5))
    with pytest.raises(NescioError, match="4, length"):
        net(torch.ones(2, 5, 11))


@pytest.mark.parametrize("cell", CELLS)
@pytest.mark.parametrize("padding", [float("nan"), float("inf")])
def test_padding_never_changes_a_gradient(cell: str, padding: float) -> None:
    net, x = CELLS[cell][0]((4, 11), 3, width=4, depth=2), sequences()
    wanted = torch.autograd.grad(net(x).square().sum(), list(net.parameters()))
    x[:, :-1] = x[:, :-1].where(x[:, -1:] > 0, padding)
    found = torch.autograd.grad(net(x).square().sum(), list(net.parameters()))
    assert all(torch.equal(a, b) for a, b in zip(found, wanted, strict=True))


@pytest.mark.parametrize("cell", CELLS)
def test_an_empty_batch_has_no_answers_and_half_numbers_run(cell: str) -> None:
    net, x = CELLS[cell][0]((4, 11), 3, width=4), sequences()
    assert net(x[:0]).shape == (0, 3)
    with pytest.raises(NescioError, match="length 0"):
        net(x[:0, :, :0])
    with torch.autocast("cpu", dtype=torch.bfloat16):
        half = net(x)
    assert torch.allclose(half.float(), net(x), atol=0.05)
