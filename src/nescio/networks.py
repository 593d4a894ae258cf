"""A user's own network on the command line: `package.module:factory` and a weights file."""

import importlib
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from nescio.errors import NescioError


def factory_named(text: str) -> Callable[[], nn.Module]:
    """The factory that `package.module:factory` names; the current folder is searched first."""
    module_name, colon, name = text.partition(":")
    if not (colon and module_name and name):
        raise NescioError(f"a network is named package.module:factory, got {text!r}")
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        raise NescioError(
            f"cannot import {module_name!r}: {error}; run from its folder or install it"
        ) from error
    factory = getattr(module, name, None)
    if not callable(factory):
        there = ", ".join(n for n in vars(module) if not n.startswith("_")) or "nothing"
        raise NescioError(f"{module_name} has no function {name!r}; it has: {there}")
    made: Callable[[], nn.Module] = factory
    return made


def network(text: str, weights: str | Path | None = None) -> nn.Module:
    """The network that `package.module:factory` makes, with weights from a file, in eval mode."""
    try:
        net = factory_named(text)()
    except TypeError as error:
        raise NescioError(f"{text} must be callable without arguments: {error}") from error
    if not isinstance(net, nn.Module):
        raise NescioError(f"{text} returned {type(net).__name__}, not an nn.Module")
    if weights is not None:
        load_weights(net, Path(weights))
    return net.eval()


def load_weights(net: nn.Module, path: Path) -> None:
    """Load a state dict from .safetensors, or from .pt / .pth read with weights only."""
    state = _read(path)
    try:
        net.load_state_dict(state)
    except RuntimeError as error:
        raise NescioError(f"{path} does not fit the network: {error}") from error


def _read(path: Path) -> dict[str, Tensor]:
    if not path.is_file():
        raise NescioError(f"no weights file {path}")
    try:
        if path.suffix == ".safetensors":
            from safetensors.torch import load_file

            return load_file(path)
        found: Any = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # each reader has errors of its own; all mean the same here
        raise NescioError(
            f"cannot read weights from {path}: {type(error).__name__}: {error}. Save a state dict: "
            "safetensors.torch.save_file(net.state_dict(), 'w.safetensors')"
        ) from error
    if isinstance(found, dict) and isinstance(found.get("state_dict"), dict):
        found = found["state_dict"]
    if not isinstance(found, dict) or not all(isinstance(t, Tensor) for t in found.values()):
        raise NescioError(f"{path} holds no state dict; save net.state_dict(), not the network")
    return found
