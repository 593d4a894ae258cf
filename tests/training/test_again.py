"""Two passes of one step: the same masks, and with a name others; stacked, alone, resumed."""

import pytest
import torch

import nescio
from nescio import NescioError, nets
from nescio.core import Rng
from nescio.nets.stack import Forward, Stack, stack

X = torch.rand(24, 1, 8, 8, generator=torch.Generator().manual_seed(0))
Y = torch.arange(24) % 3
NETS = {
    "stacked": (lambda: nets.mlp(64, 3, widths=(9,), dropout=0.3), X.flatten(1)),
    "looped": (lambda: nets.small_cnn((1, 8, 8), 3, width=2, dropout=0.3), X),
    "variational": (lambda: nets.bayesian_mlp(64, 3, widths=(9,)), X.flatten(1)),
}


def passes(name: str, members: tuple[int, ...] = (0, 1), place: tuple[int, ...] = (4, 2)):
    make, x = NETS[name]
    torch.manual_seed(0)
    every = [make() for _ in range(3)]
    tensors = stack([every[m] for m in members])
    forward = Forward(Stack(every[0]), tensors, Rng(7, members, place))
    return forward, x.expand(len(members), *x.shape)


@pytest.mark.parametrize("name", NETS)
def test_a_pass_with_a_name_draws_other_masks(name: str) -> None:
    forward, x = passes(name)
    first, second = forward(x), forward(x)
    assert torch.equal(first, second)  # why a consistency loss of two plain passes is 0
    named = forward.again("second")(x)
    assert not torch.equal(first, named)
    assert torch.equal(named, forward.again("second")(x))
    others = [forward.again(text)(x) for text in ("third", "second/third")]
    others += [forward.again("second").again("third")(x), passes(name, place=(4, 3))[0](x)]
    every = [first, named, *others]
    assert all(not torch.equal(a, b) for i, a in enumerate(every) for b in every[:i])


@pytest.mark.parametrize("name", NETS)
def test_a_member_draws_in_a_stack_what_it_draws_alone(name: str) -> None:
    forward, x = passes(name, (0, 1, 2))
    together = forward.again("second")(x)
    for member in range(3):
        alone, own = passes(name, (member,))
        torch.testing.assert_close(alone.again("second")(own)[0], together[member])


@pytest.mark.parametrize("name", NETS)
def test_in_evaluation_there_are_no_masks(name: str) -> None:
    forward, x = passes(name)
    still = Forward(forward.architecture, forward.tensors)
    assert torch.equal(still(x), still.again("second")(x))
    with pytest.raises(NescioError, match="the name of a pass is a text"):
        forward.again(2)


stop_at: list[int] = []


def consistency(forward: Forward, batch: nescio.losses.Batch, _: Rng) -> torch.Tensor:
    """Cross-entropy, and the squared difference of two passes."""
    if batch.step in stop_at:
        raise KeyboardInterrupt
    one, two = forward(batch.x), forward.again("second")(batch.x)
    gap = (one.softmax(-1) - two.softmax(-1)).square().sum(-1).mean(1)
    labels = torch.nn.functional.cross_entropy(one.movedim(-1, 1), batch.y, reduction="none")
    return labels.mean(1) + gap


@pytest.mark.parametrize("name", NETS)
def test_training_with_two_passes_resumes_to_the_same_bits_and_alone(name: str, tmp_path) -> None:
    make, x = NETS[name]
    options = {"loss": consistency, "epochs": 3, "batch_size": 8, "learning_rate": 0.01}
    whole = nescio.train(make, (x, Y), members=2, **options)
    stop_at.append(5)
    run = {"run": tmp_path / "run", "checkpoint_seconds": 0.0}
    with pytest.raises(KeyboardInterrupt):
        nescio.train(make, (x, Y), members=2, **options, **run)
    stop_at.clear()
    resumed = nescio.train(make, (x, Y), members=2, **options, **run)
    alone = nescio.train(make, (x, Y), members=[1], **options)
    for key, tensor in whole.tensors.items():
        assert torch.equal(tensor, resumed.tensors[key])
        torch.testing.assert_close(tensor[1], alone.tensors[key][0], rtol=1e-4, atol=1e-6)
