"""What a predictor is: inputs `(N, ...)` to a prediction with a member axis."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from nescio.core import (
    MODEL,
    PREDICTOR,
    DamagedError,
    Head,
    NescioError,
    Prediction,
    Regression,
    answer,
    asked,
    categorical,
    is_whole,
    known_head,
    load_manifest,
    save_tensors,
)
from nescio.core.registry import heads, predictors
from nescio.data import door
from nescio.models.model import (
    Member,
    Model,
    encoding_of,
    innermost,
    networks,
    takes_tokens,
)
from nescio.nets import (
    Output,
    called,
    entering,
    reads_tokens,
    refusing_shapes,
    returning,
    selected,
    sharing,
    unwrapped,
)
from nescio.nets.stack import stack


class Predictor(Protocol):
    """Anything that answers inputs with a prediction: a model, sampled passes, a scaled model.

    Calling it takes any inputs, in parts, without gradients. Those that can be attacked also have
    `answer(x)`, which keeps the gradients with respect to the inputs. Those with networks answer
    two questions more, and nobody asks which kind of predictor it is: `networks()` gives a `Member`
    for each member, `inner` what it wraps, or None.
    """

    def __call__(self, x: Any, /) -> Prediction:
        """The prediction for inputs `x`, in parts, without gradients."""
        ...


def as_head(head: Head | str | None, net: nn.Module | None = None) -> Head:
    """The head that is meant: a value, a name, or without one that of class logits.

    head: a head, or its name, which may have options, as on the command line:
      "gaussian,floor=0.001", "binary,label=2"; None: class logits.
    net: the network, which is refused without a head if it has one output; None: unknown.
    """
    if isinstance(head, str):
        found: Head = heads.built(head)()
        return found
    if isinstance(head, Head):
        return head
    if head is not None:
        raise NescioError(
            "head= takes a head, such as nescio.heads.gaussian(), or its name, one of "
            f"{', '.join(heads)}; got a {type(head).__name__}"
        )
    if net is not None and _has_one_output(net):
        raise NescioError(f"the network has one output, not one logit for each class; {asked()}")
    return categorical()


def _has_one_output(net: nn.Module) -> bool:
    """Whether it is known, without inputs, that the network ends in a single number."""
    while type(net) is nn.Sequential and len(net):
        net = net[-1]
    return isinstance(net, nn.Linear) and net.out_features == 1


def _last_width(net: nn.Module) -> int:
    """Outputs of the linear layer that was made last; 0 where there is none."""
    widths = [layer.out_features for layer in net.modules() if isinstance(layer, nn.Linear)]
    return widths[-1] if widths else 0


def with_head(
    source: Any, data: Any, *, head: Head | str | None = None, output: Output = None
) -> Any:
    """Networks by themselves as models of a head: the one given, or what the data tell.

    A network of class logits stays as it is; so do models and predictors, which have their heads.

    source: one, or several by name or in a list.
    data: inputs and labels, to look at a few.
    head: how the outputs of networks are read, a head or its name; None: what the data tell.
    output: where the outputs are in what the network returns, as for `nescio.observe`.
    """
    again = partial(with_head, data=data, head=head, output=output)
    if isinstance(source, Mapping):
        return {name: again(one) for name, one in source.items()}
    if isinstance(source, (list, tuple)):
        return type(source)(again(one) for one in source)
    if not isinstance(source, nn.Module):
        _check_own(source, head, output)
        return source
    read = _looked_up(source, data, output) if head is None else as_head(head)
    if read.name == "categorical" and output is None:
        return source
    return plain(source, head=read, output=output)


def _check_own(source: Any, head: Head | str | None, output: Output) -> None:
    """Refuse another head, or an output, for what has its own."""
    own = networks(source)[:1] if callable(getattr(source, "networks", None)) else []
    if output is not None and own:
        raise NescioError("output= (--output) is for networks; a model or run folder needs none")
    if head is None or not own:
        return
    if not same_head(own[0].head, as_head(head)):
        raise NescioError(
            f"a model has its own head, here {own[0].head.name!r}; leave head= (--head) out, or "
            "give its network"
        )


def task_of(source: Any, head: Head | str | None = None) -> str:
    """What a network, read with a head, or a model is for; class labels if nothing says it.

    source: a network, a model or a predictor, or a list of them.
    head: how the outputs of a network are read, a head or its name; None: unknown.
    """
    if head is not None:
        return as_head(head).task
    if isinstance(source, (list, tuple)) and source:
        return task_of(source[0])
    own = networks(source) if callable(getattr(source, "networks", None)) else []
    return own[0].head.task if own else "classification"


def has_labels(source: Any, head: Head | str | None = None) -> bool:
    """Whether a network is read, or a model was made, with a logit for each of several labels.

    source: a network, a model or a predictor.
    head: how the outputs of a network are read, a head or its name; None: class logits.
    """
    return task_of(source, head) == "multilabel"


def is_regression(source: Any, data: Any, head: Head | str | None = None) -> bool:
    """Whether networks predict numbers: by the head, or where none is known by the targets.

    source: a network, a model or a predictor.
    data: data with targets; those of a network without a head tell a regression where some are not
      whole.
    head: how the outputs of a network are read, a head or its name; None: unknown.
    """
    if head is not None:
        return as_head(head).task == "regression"
    if callable(getattr(source, "networks", None)):
        return networks(source)[0].head.task == "regression"
    if isinstance(data, Iterator):  # can be read only once
        return False
    net = source if isinstance(source, nn.Module) else None
    reads: dict[str, Any] = {"tokens": takes_tokens(source), "columns": encoding_of(source)}
    x, y = door.batches(data, targets=True, finite=False, **reads).first
    if net is None:
        return isinstance(source(x[:1]), Regression)
    return y is not None and y.is_floating_point() and bool((y != y.round()).any())


def same_head(first: Head, second: Head) -> bool:
    """Whether the heads `first` and `second` read outputs alike."""
    return (first.name, dict(first.options)) == (second.name, dict(second.options))


@torch.no_grad()
def _looked_up(net: nn.Module, data: Any, output: Output) -> Head:
    """The head that the outputs for a few inputs and their labels tell."""
    if isinstance(data, Iterator):  # can be read only once
        return categorical()
    weight = next(net.parameters(), torch.zeros(()))
    tokens = reads_tokens(net)
    reads: dict[str, Any] = {"dtype": weight.dtype, "tokens": tokens, "columns": encoding_of(net)}
    given = door.batches(data, targets=True, finite=False, **reads)
    x, y = given.first
    whole = y is None or (y.ndim == 1 and not y.is_floating_point())
    if whole and (y is None or bool((y > 1).any()) or _last_width(net) > 1):
        return categorical()  # without a run; one output is refused later
    few = entering(x[:2], weight.device, weight.dtype, tokens=tokens)
    with refusing_shapes(few):
        result = called(sharing(unwrapped(net)), few.clone())
        outputs = selected(result, output, net=net if output is None else None)
    maps = y is not None and y.ndim == outputs.ndim - 1  # a label for each pixel or step
    return known_head(outputs.shape[-1], y.flatten() if y is not None and maps else y)


def check_passes(passes: object) -> None:
    """Refuse a number of draws that is not whole, or below 1."""
    if not is_whole(passes, 1):
        raise NescioError(f"passes must be a whole number from 1 up, got {passes!r}")


@predictors.register
def plain(net: nn.Module, *, head: Head | str | None = None, output: Output = None) -> Model:
    """The answer of one network in evaluation mode: a model with one member.

    net: the network.
    head: how the outputs of a network are read, a head or its name; None: class logits.
    output: where the outputs are in what the network returns, as for `nescio.observe`.
    """
    if not isinstance(net, nn.Module):
        raise NescioError(f"plain reads an nn.Module, got {type(net).__name__}")
    net = returning(net, output)
    return Model(net, stack([net]), as_head(head, net))


@predictors.register
def ensemble(
    nets: Sequence[nn.Module | Predictor], *, head: Head | str | None = None, output: Output = None
) -> "Model | Pooled":
    """The uniform mixture of networks that were trained separately; `train(members=M)` trains one.

    Networks of one architecture are stacked. Others, and predictors, answer one after the other.

    nets: the networks or predictors.
    head: how the outputs of networks are read, a head or its name; None: class logits.
    output: where the outputs are in what the networks return, as for `nescio.observe`.
    """
    if callable(nets) or not isinstance(nets, Iterable) or not (nets := list(nets)):
        raise NescioError("ensemble reads a list of networks: ensemble([net_a, net_b])")
    for net in nets:
        if not callable(net):
            raise NescioError(f"an ensemble has networks and predictors, got {type(net).__name__}")
    nets = [returning(net, output) if isinstance(net, nn.Module) else net for net in nets]
    if all(isinstance(net, nn.Module) for net in nets) and len(set(map(str, nets))) == 1:
        same = [net for net in nets if isinstance(net, nn.Module)]
        return Model(same[0], stack(same), as_head(head, same[0]))
    return Pooled(tuple(plain(n, head=head) if isinstance(n, nn.Module) else n for n in nets))


@dataclass(frozen=True, eq=False)
class Pooled:
    """Several predictors as one: their members together."""

    predictors: tuple[Predictor, ...]
    inner = None

    def networks(self) -> list[Member]:
        """Those of all parts, in their order."""
        return [member for part in self.predictors for member in networks(part)]

    def __call__(self, x: Any) -> Prediction:
        return Prediction.pool([predictor(x) for predictor in self.predictors])

    def answer(self, x: Tensor) -> Prediction:
        """The prediction in one go, with gradients with respect to the inputs."""
        return Prediction.pool([answer(predictor, x) for predictor in self.predictors])


@contextmanager
def unfinished(folder: str | Path) -> Iterator[None]:
    """Say, before its model is written, that a predictor is to come: without it, none is read.

    So a process that is killed between the two leaves no model that is taken for the whole.
    """
    path = Path(folder) / PREDICTOR
    new = not path.exists()
    if new:
        save_tensors(path, {}, {"kind": "predictor", "unfinished": True})
    try:
        yield
    except BaseException:
        if new and not path.with_name(MODEL).exists():  # there is nothing to be finished
            path.unlink(missing_ok=True)
        raise


def save_predictor(folder: str | Path, predictor: Any, **settings: Any) -> Path:
    """Write the model of a predictor, and beside it the settings of both, as `save_settings`."""
    model = innermost(predictor)
    if isinstance(model, nn.Module):
        model = plain(model, head=predictor.head)
    if not isinstance(model, Model):
        raise NescioError(
            f"a {type(model).__name__} has no file; save the models that it is made of, each in "
            "a folder of its own"
        )
    with unfinished(folder):
        model.write(folder)
        return save_settings(folder, **{**getattr(predictor, "settings", {}), **settings})


def save_settings(
    folder: str | Path,
    *,
    sampler: str | None = None,
    sampling: Mapping[str, Any] | None = None,
    calibration: Mapping[str, Any] | None = None,
    state: Mapping[str, Tensor] | None = None,
) -> Path:
    """Describe the predictor of the model in a folder; `nescio.load(folder)` then reads both.

    sampler, sampling: the name of a predictor that draws members, and its options.
    calibration, state: the manifest and the tensors of a calibration map.
    """
    path = Path(folder) / PREDICTOR
    settings = {"sampler": sampler, "sampling": dict(sampling or {}), "calibration": calibration}
    model = load_manifest(path.with_name(MODEL), "model")["digest"]
    save_tensors(path, state or {}, {"kind": "predictor", "model": model, **settings})
    return path


def check_model(path: Path, manifest: Mapping[str, Any]) -> None:
    """Refuse settings that are still to come, or that were saved for another model."""
    if manifest.get("unfinished"):
        raise NescioError(
            f"{path.parent} holds an unfinished run; repeat the command that made it, or delete "
            f"{path} to read the model alone, without its calibration and its sampling"
        )
    if manifest["model"] != load_manifest(path.with_name(MODEL), "model")["digest"]:
        raise DamagedError(
            f"{path} was saved with another {MODEL} than the one beside it; save the predictor "
            f"again, or delete {path.name} to read the model alone"
        )
