"""The network that a command works on."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import click

from nescio.core import NescioError

WEIGHTS = click.option(
    "--weights", type=click.Path(), help="State dict: .safetensors, or .pt / .pth."
)
NET_OF_RUN = click.option(
    "--net", "net_name", help="package.module:factory of a run folder trained on your own network."
)
OUTPUT = click.option(
    "--output",
    help="Where the logits are in what NETWORK returns: an index or a key, as in logits.",
)


def output_named(text: str | None) -> int | str | None:
    """An index or a key of what a network returns; digits are an index."""
    return int(text) if text is not None and text.isdigit() else text


@dataclass(frozen=True)
class Picked:
    """A network that returns its logits alone, and what was done to it."""

    net: Any
    output: int | str
    hook: int

    def restored(self, guard: Any) -> Any:
        """A guard of this network, for the network as its factory makes it."""
        for net in guard.nets:
            net._forward_hooks.pop(self.hook, None)
        found = (guard.detector, guard.failure)
        fitted = (
            None if one is None else replace(one, about={**one.about, "output": self.output})
            for one in found
        )
        detector, failure = fitted
        return replace(guard, detector=detector, failure=failure)


def picked(net: Any, output: int | str) -> Picked:
    """A network of the user's that from now on returns one thing of the several it makes."""
    from torch import nn

    from nescio.nets import selected

    if not isinstance(net, nn.Module):
        raise NescioError("--output goes with package.module:factory; a run folder needs none")
    handle = net.register_forward_hook(lambda _, __, found: selected(found, output))
    return Picked(net, output, handle.id)


def named_predictor(network: str, weights: str | None, net_name: str | None) -> Any:
    """A network of the user's, or the predictor in a run folder."""
    from nescio.calibration.saving import load
    from nescio.cli.network_files import likely, load_network

    if ":" in network:
        if weights is None:
            click.echo("no --weights: the network is used as its factory makes it", err=True)
        return load_network(network, weights)
    if not Path(network).exists():
        raise NescioError(
            f"{network!r} is neither package.module:factory nor a folder written by nescio train"
            f"{likely(network)}"
        )
    if weights is not None:
        raise NescioError("--weights goes with package.module:factory; a run folder has its own")
    return load(network, net=None if net_name is None else load_network(net_name))


def named_networks(network: str, weights: str | None, net_name: str | None) -> Any:
    """The same without a calibration or passes of dropout: a module, or a model.

    A model of a run folder knows the data it was trained on.
    """
    from nescio.calibration import Calibrated
    from nescio.cli.network_files import load_network
    from nescio.models.mc_dropout import MCDropout
    from nescio.models.model import Model

    found = named_predictor(network, weights, net_name)
    inner: Any = found.predictor if isinstance(found, Calibrated) else found
    sampled = isinstance(inner, MCDropout)
    if ":" not in network and (sampled or inner.seen is None):
        net = None if net_name is None else load_network(net_name)
        trained = Model.load(network, net=net)
        inner = trained if sampled else replace(inner, seen=trained.seen)
    if sampled or isinstance(found, Calibrated):
        click.echo("the networks alone are guarded: no passes, no earlier calibration", err=True)
    return inner
