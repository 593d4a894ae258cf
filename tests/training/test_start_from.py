"""Training that starts from the weights of a trained model."""

import pytest
import torch
from torch import nn

import nescio
from nescio import nets
from nescio.core import NescioError

X = torch.rand(40, 3, 8, 8, generator=torch.Generator().manual_seed(0))
Y = (X.mean((1, 2, 3)) > 0.5).long()


def trained(width: int = 4, **options):
    kept = {"epochs": 1, "batch_size": 10, "progress": False, "learning_rate": 1e-3, **options}
    return nescio.train(lambda: nets.resnet((3, 8, 8), 2, blocks=1, width=width), (X, Y), **kept)


def test_it_starts_where_the_other_ended() -> None:
    first = trained(seed=3)
    second = trained(seed=4, start=first, learning_rate=1e-30, optimizer="sgd")
    for name, tensor in first.tensors.items():
        if "running" not in name and "num_batches" not in name:
            assert torch.equal(second.tensors[name], tensor), name


def test_statistics_of_batch_norm_come_along() -> None:
    first = trained(seed=3, epochs=5)
    second = trained(seed=4, start=first, learning_rate=1e-30, optimizer="sgd")
    fresh = trained(seed=4, learning_rate=1e-30, optimizer="sgd")
    name = next(n for n in first.tensors if n.endswith("running_var"))
    near = (second.tensors[name] - first.tensors[name]).abs().max()
    assert near < (fresh.tensors[name] - first.tensors[name]).abs().max()


def test_a_module_and_several_members() -> None:
    net = nets.resnet((3, 8, 8), 2, blocks=1, width=4)
    model = trained(members=2, start=net, learning_rate=1e-30, optimizer="sgd")
    for member in range(2):
        assert torch.equal(model.tensors["0.weight"][member], net[0].weight)
    again = trained(members=2, start=model, learning_rate=1e-30, optimizer="sgd", seed=9)
    assert torch.equal(again.tensors["0.weight"], model.tensors["0.weight"])


def test_what_does_not_fit_is_refused() -> None:
    with pytest.raises(NescioError, match="do not fit the network"):
        trained(start=trained(width=8))
    with pytest.raises(NescioError, match="one for all"):
        trained(members=3, start=trained(members=2))
    with pytest.raises(NescioError, match="do not fit"):
        trained(start=nn.Linear(2, 2))


def test_a_run_is_not_resumed_from_another_start(tmp_path) -> None:
    trained(run=tmp_path, start=trained(seed=1))
    with pytest.raises(NescioError, match="start"):
        trained(run=tmp_path, start=trained(seed=2))
