"""The network that a command works on: a factory with weights, or the folder of a run."""

import importlib
import importlib.util
import os
import sys
import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from nescio.cli.options import device, note
from nescio.core import NescioError, load
from nescio.guards import Guard, MapGuard, RegressionGuard, about
from nescio.models import MCDropout, innermost
from nescio.nets import OnnxNetwork, onnx_network


def named_predictor(network: str, weights: str | None, net_name: str | None) -> Any:
    """A network of the user's, or the predictor in a run folder.

    A factory whose networks have other weights each time is refused without `weights`: what is
    found out about them holds for no network that anyone has.
    """
    if is_onnx(network):
        if weights is not None:
            raise NescioError(
                "--weights goes with package.module:factory; an .onnx file has its own"
            )
        return onnx_named(network)
    if ":" in network:
        net = load_network(network, weights)
        if weights is None:
            _refuse_random(network, net)
            note("no --weights: the network is used as its factory makes it")
        return on_device(net)
    if not Path(network).exists():
        raise NescioError(
            f"{network!r} is neither package.module:factory, nor a folder written by nescio train, "
            f"nor an .onnx file"
            f"{likely(network)}"
        )
    if weights is not None:
        raise NescioError("--weights goes with package.module:factory; a run folder has its own")
    return on_device(load(network, net=None if net_name is None else factory_named(net_name)))


def is_onnx(network: str) -> bool:
    """Whether a name is that of an .onnx file, perhaps with what to read in it after colons."""
    return network.partition(":")[0].endswith(".onnx")


def onnx_named(text: str) -> OnnxNetwork:
    """The network of `model.onnx`, or of `model.onnx:output=probs:features=pool:probabilities`."""
    path, *words = text.split(":")
    options: dict[str, Any] = {}
    for word in words:
        name, equals, value = word.partition("=")
        if name not in ("output", "features", "probabilities") or bool(equals) == (
            name == "probabilities"
        ):
            raise NescioError(
                "after an .onnx file follow output=NAME, features=NAME and probabilities, apart by "
                f"colons; got {word!r}"
            )
        options[name] = value or True
    return onnx_network(path, **options)


def on_device(source: Any) -> Any:
    """A network or a predictor where --device says; its answers come back to the inputs."""
    if device().type == "cpu":
        return source
    if getattr(source, "inner", None) is not None:
        return replace(source, inner=on_device(source.inner))
    return source.to(device())


def named_networks(network: str, weights: str | None, net_name: str | None) -> Any:
    """The same without a calibration or passes of dropout: a module, or a model.

    A model of a run folder knows the data it was trained on. Of a regression, the passes of dropout
    stay: its guard reads what they predict.
    """
    predictor = named_predictor(network, weights, net_name)
    if isinstance(predictor, MCDropout) and predictor.head.task == "regression":
        return predictor
    inner = innermost(predictor)
    if inner is not predictor:
        note("only the networks are guarded, without dropout passes and earlier calibration")
    return inner


def _refuse_random(network: str, net: nn.Module) -> None:
    again = dict(load_network(network).named_parameters())
    if any(not torch.equal(one, again.get(name, one)) for name, one in net.named_parameters()):
        raise NescioError(
            f"{network} makes networks of random weights, which differ from call to call; "
            "give trained ones: --weights FILE, or a factory that loads them"
        )


def load_guard(
    path: str, net_name: str | None, weights: str | None
) -> Guard | RegressionGuard | MapGuard:
    """A guard with its network; weights in the file go into a network of the user's."""
    try:
        manifest = about(path)
    except NescioError:
        if Path(path).suffix == ".safetensors" or not Path(path).exists():
            raise
        raise NescioError(  # as where arguments are swapped
            f"{path} is not a guard file; the guard comes first, a .safetensors file that `nescio "
            "guard` wrote, then the inputs"
        ) from None
    if net_name is None:
        if weights is not None:
            raise NescioError("--weights goes with --net package.module:factory")
        users = [one["layers"] for one in manifest["networks"] if one["net"] is None]
        if users:
            raise NescioError(_which(path, users[0], weights=manifest["weights"]))
        if manifest["networks"] and not manifest["weights"]:
            raise NescioError(
                f"{path} holds no weights; say where they are: --net RUN_FOLDER, or --net "
                "package.module:factory --weights FILE"
            )
        net = None
    elif ":" in net_name and not is_onnx(net_name) and weights is None and manifest["weights"]:
        net = factory_named(net_name)  # the weights of the file go into it
    else:
        net = innermost(named_networks(net_name, weights, None))
    loaded: Guard | RegressionGuard | MapGuard = load(path, net=net)
    return replace(loaded, nets=tuple(map(on_device, loaded.nets)))


def _which(path: str, layers: str, *, weights: bool) -> str:
    """The words for a guard whose network the file does not have."""
    kind = layers.split("(")[0]
    if kind == OnnxNetwork.__name__:
        return f"{path} guards an ONNX file; say where it is: --net model.onnx"
    files = "" if weights else " --weights FILE"
    return (
        f"{path} guards a network of yours, a {kind}; say what makes it: --net "
        f"package.module:factory{files}"
    )


def output_named(text: str | None) -> int | str | None:
    """An index or a key of what a network returns; digits are an index."""
    return int(text) if text is not None and text.isdigit() else text


def factory_named(text: str) -> Callable[..., nn.Module]:
    """The factory that `package.module:factory` names; the current folder is searched first."""
    module_name, colon, name = text.partition(":")
    if not (colon and module_name and name):
        raise NescioError(f"a network is named package.module:factory, got {text!r}{likely(text)}")
    if module_name.endswith(".py"):
        raise NescioError(f"name the module without .py: {module_name[:-3]}:{name}")
    search_here()
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        raise NescioError(
            f"cannot import {module_name!r}: {error}; run from its folder or install it"
        ) from error
    factory = getattr(module, name, None)
    if not callable(factory):
        own = {n: v for n, v in vars(module).items() if getattr(v, "__module__", "") == module_name}
        there = ", ".join(n for n in own if callable(own[n])) or "none"
        raise NescioError(f"{module_name} has no function {name!r}; its functions: {there}")
    if isinstance(factory, nn.Module):
        kind = type(factory).__name__
        raise NescioError(
            f"{text} is a network, a {kind}; name a function that returns it, such as "
            f"def make_net(): return {kind}(...)"
        )
    made: Callable[..., nn.Module] = factory
    return made


def likely(text: str) -> str:
    """For a message: what `package.module.factory`, a dot in place of the colon, may have meant."""
    module_name, _, name = text.rpartition(".")
    if not all(part.isidentifier() for part in text.split(".")) or not module_name or name == "py":
        return ""
    search_here()
    try:
        there = importlib.util.find_spec(module_name) is not None
    except (ImportError, ValueError):
        there = False
    return f"; did you mean {module_name}:{name}?" if there else ""


def search_here() -> None:
    """Find modules of the current folder first."""
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())


def load_network(text: str, weights: str | Path | None = None) -> nn.Module:
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
    state = _state_dict(path)
    wanted = net.state_dict()
    if not set(state) & set(wanted) and all(name.startswith("module.") for name in state):
        state = {name.removeprefix("module."): t for name, t in state.items()}  # DataParallel
    for what, names in (("lacks", set(wanted) - set(state)), ("adds", set(state) - set(wanted))):
        if names:
            shown = ", ".join(sorted(names)[:3])
            raise NescioError(f"{path} does not fit the network: it {what} {len(names)}: {shown}")
    for name, tensor in wanted.items():
        if state[name].shape != tensor.shape:
            raise NescioError(
                f"{path} does not fit the network: {name} has shape {tuple(state[name].shape)}, "
                f"the network wants {tuple(tensor.shape)}"
            )
    net.load_state_dict(state)


def _check_whole(path: Path) -> None:
    """Refuse a file that was cut off or altered: torch.load does not look at the checksums."""
    with path.open("rb") as file:
        start = file.read(8)
    why = ""
    if not start:
        why = "it is empty"
    elif start[:2] == b"PK":  # what torch.save writes is a zip archive
        try:
            with zipfile.ZipFile(path) as archive:
                bad = archive.testzip()
            why = f"the checksum of {bad} is wrong" if bad else ""
        except (zipfile.BadZipFile, OSError, NotImplementedError, EOFError) as error:
            why = f"it is cut off ({error})"
    elif path.suffix == ".safetensors":
        from safetensors import SafetensorError, safe_open

        try:
            with safe_open(path, framework="pt") as file:
                file.keys()
        except (SafetensorError, OSError) as error:
            why = f"it is cut off, or not safetensors ({error})"
    if why:
        raise NescioError(f"{path} is damaged: {why}; copy it again, or save the weights again")


def _state_dict(path: Path) -> dict[str, Tensor]:
    if not path.is_file():
        raise NescioError(f"no weights file {path}")
    _check_whole(path)
    try:
        if path.suffix == ".safetensors":
            from safetensors.torch import load_file

            return load_file(path)
        content: Any = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # each reader has errors of its own; all mean the same here
        raise NescioError(
            f"{path} cannot be read as weights alone. Save a state dict, not a whole network: "
            "torch.save(net.state_dict(), 'w.pt') or safetensors.torch.save_file(...)"
        ) from error
    for key in ("state_dict", "model_state_dict", "model", "net"):
        if isinstance(content, dict) and isinstance(content.get(key), dict):
            content = content[key]
    if not isinstance(content, dict) or not all(isinstance(t, Tensor) for t in content.values()):
        raise NescioError(f"{path} holds no state dict; save net.state_dict()")
    return content
