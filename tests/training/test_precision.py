"""Training in numbers of 16 bits."""

import pytest
import torch

import nescio
from nescio import nets
from nescio.core import NescioError

X = torch.rand(64, 3, 8, 8, generator=torch.Generator().manual_seed(0))
Y = (X.mean((1, 2, 3)) > 0.5).long()


def trained(**options):
    return nescio.train(
        lambda: nets.resnet((3, 8, 8), 2, blocks=1, width=4),
        (X, Y),
        epochs=2,
        batch_size=16,
        seed=1,
        progress=False,
        **options,
    )


def test_weights_stay_float32_and_differ_by_rounding() -> None:
    whole, half = trained(), trained(precision="bfloat16")
    for name, tensor in whole.tensors.items():
        assert half.tensors[name].dtype == tensor.dtype
    first = torch.cat([t.flatten() for t in whole.tensors.values() if t.is_floating_point()])
    second = torch.cat([t.flatten() for t in half.tensors.values() if t.is_floating_point()])
    assert not torch.equal(first, second)
    assert (first - second).abs().max() < 0.1


def test_the_loss_sees_float32() -> None:
    kinds = set()

    def loss(forward, batch, rng):
        outputs = forward(batch.x)
        kinds.add(outputs.dtype)
        return outputs.square().mean((1, 2))

    trained(loss=loss, head="categorical", precision="bfloat16")
    assert kinds == {torch.float32}


def test_an_mlp_too() -> None:
    flat = X.flatten(1)
    model = nescio.train(
        lambda: nets.mlp(192, 2), (flat, Y), epochs=3, precision="bfloat16", progress=False
    )
    assert model.notes["precision"] == "bfloat16"
    assert model(flat).log_probs.dtype == torch.float32


def test_an_unknown_precision_is_refused() -> None:
    with pytest.raises(NescioError, match="bfloat16"):
        trained(precision="float16")


def test_a_run_is_not_resumed_in_another_precision(tmp_path) -> None:
    trained(run=tmp_path)
    with pytest.raises(NescioError, match="precision"):
        trained(run=tmp_path, precision="bfloat16")


def test_float64_is_not_rounded_to_16_bits() -> None:
    with pytest.raises(NescioError, match="float32 networks"):
        nescio.train(
            lambda: nets.mlp(4, 2, widths=(8,)).double(),
            (torch.rand(20, 4).double(), torch.arange(20) % 2),
            epochs=1,
            precision="bfloat16",
            progress=False,
        )
