"""Bayes-by-backprop at prediction: networks drawn from the distribution over weights."""

from copy import deepcopy
from dataclasses import replace

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from nescio.core import NescioError, generator
from nescio.core.registry import predictors
from nescio.models.model import Model
from nescio.models.predictor import check_passes
from nescio.nets.factory import made_by
from nescio.nets.mlp import VariationalLinear


@predictors.register
def weight_samples(model: Model, *, passes: int = 100, seed: int = 0) -> Model:
    """Members are `passes` draws of the weights of each network: ordinary networks, stacked.

    model: a trained model with variational layers, such as those of `nescio.nets.bayesian_mlp`.
    passes: number of draws of each network.
    seed: seed of the random draws.
    """
    check_passes(passes)
    if not hasattr(model, "tensors"):
        raise NescioError(f"weight_samples reads a trained model, got {type(model).__name__}")
    layers = [n for n, m in model.net.named_modules() if isinstance(m, VariationalLinear)]
    if not layers:
        raise NescioError(
            "weight_samples reads a model with variational layers, such as nets.bayesian_mlp"
        )
    drawn = {f"{n}.{p}" for n in layers for p in _PARTS}
    tensors = {
        name: tensor.repeat_interleave(passes, 0)
        for name, tensor in model.tensors.items()
        if name not in drawn
    }
    for layer in layers:
        for part in ("weight", "bias"):
            mean, rho = (model.tensors[f"{layer}.{part}_{kind}"] for kind in ("mean", "rho"))
            tensors[f"{layer}.{part}"] = _draw(mean, rho, f"{layer}.{part}", passes, seed)
    return replace(model, net=_fixed(model.net, layers), tensors=tensors)


_PARTS = ("weight_mean", "weight_rho", "bias_mean", "bias_rho")


def _draw(mean: Tensor, rho: Tensor, name: str, passes: int, seed: int) -> Tensor:
    """Draws `(M x T, ...)` of weights `(M, ...)`; a draw depends on seed, pass and name alone."""
    shape = mean.shape[1:]
    noise = torch.stack(
        [torch.randn(shape, generator=generator(seed, "draw", t, name)) for t in range(passes)]
    ).to(mean)
    return (mean[:, None] + F.softplus(rho)[:, None] * noise).flatten(0, 1)


def _fixed(net: nn.Module, layers: list[str]) -> nn.Module:
    """The network with ordinary linear layers in place of variational ones."""
    net = deepcopy(net)
    for name in layers:
        old = net.get_submodule(name)
        assert isinstance(old, VariationalLinear)
        new = nn.Linear(old.weight_mean.shape[1], old.weight_mean.shape[0]).to(old.weight_mean)
        net.set_submodule(name, new)
    for module in net.modules():
        made = made_by(module)
        if made is not None and made["net"] == "bayesian_mlp":  # a file then rebuilds what it is
            options = {k: v for k, v in made["options"].items() if k != "spread"}
            module.nescio_made = {"net": "mlp", "options": options}  # type: ignore[assignment]
    return net
