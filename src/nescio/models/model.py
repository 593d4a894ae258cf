"""A trained model: M networks of one architecture, their stacked weights and their head."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from nescio.core import (
    MODEL,
    PREDICTOR,
    Bundle,
    Head,
    Inputs,
    NescioError,
    Prediction,
    Saved,
    asked,
    categorical,
    head_from_file,
    head_of_members,
    head_to_file,
    readers,
    save_tensors,
    write_json,
)
from nescio.data import Columns, door
from nescio.nets import (
    columns_of,
    copied,
    encoded,
    entering,
    reads_tokens,
    refusing_shapes,
    unwrapped,
)
from nescio.nets.factory import is_scaled, made_by, needed_by, rebuild, scaled
from nescio.nets.stack import Stack

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Made = nn.Module | Callable[..., nn.Module] | None

READABLE = "manifest.json"  # a copy of what the file of a model says, for people
CLASSES = categorical()  # of a bare network: its outputs are class logits
SURE = 20  # samples after which outputs that are all between 0 and 1 are no logits


@dataclass(frozen=True, eq=False, kw_only=True)
class Member:
    """One fixed network of a predictor, and how its outputs are read.

    The logits are `slope * z + intercept` where the network gives z.

    net: the network; in evaluation mode it is the member, apart from dropout masks.
    head: how its outputs are read.
    masks: seed and number of the dropout pass; None: there is no dropout.
    slope: factor on the logits.
    intercept: what is added to the logits, `(C,)`; None: nothing.
    template: a network that is the same for members that differ in their weights only.
    """

    net: nn.Module
    head: Head = CLASSES
    masks: tuple[int, int] | None = None
    slope: float = 1.0
    intercept: tuple[float, ...] | None = None
    template: nn.Module | None = None

    @cached_property
    def is_bare(self) -> bool:
        """Whether the network itself is the member: no masks, no scaling."""
        return self.masks is None and self.slope == 1.0 and self.intercept is None

    def networks(self) -> "list[Member]":
        """Itself."""
        return [self]

    inner = None


def networks(source: Any) -> list[Member]:
    """The networks of `source`, a module or a predictor, one per member of its predictions."""
    if isinstance(source, nn.Module):
        return [Member(net=unwrapped(source))]
    answer = getattr(source, "networks", None)
    if not callable(answer):
        raise NescioError(
            f"a {type(source).__name__} shows no networks; pass an nn.Module, a model, or a "
            "predictor of nescio"
        )
    return list(answer())


def encoding_of(source: Any) -> Columns | None:
    """How the networks of `source`, a module or predictor, encode tables; None: as numbers."""
    source = innermost(source)
    net = source if isinstance(source, nn.Module) else getattr(source, "net", None)
    if net is None and callable(getattr(source, "networks", None)):
        net = source.networks()[0].net
    return columns_of(net) if isinstance(net, nn.Module) else None


def takes_tokens(source: Any) -> bool:
    """Whether whole numbers enter the networks of `source`, a module or predictor, as they are."""
    source = innermost(source)
    if isinstance(source, nn.Module):
        return reads_tokens(source)
    members = source.networks()[:1] if callable(getattr(source, "networks", None)) else ()
    return any(reads_tokens(member.net) for member in members)


def innermost(source: Any) -> Any:
    """The module or predictor behind calibrations and samplers that wrap it in `source`."""
    while not isinstance(source, nn.Module) and getattr(source, "inner", None) is not None:
        source = source.inner
    return source


@dataclass(frozen=True, eq=False)
class History:
    """Losses by epoch and member; NaN after a member has stopped."""

    train: Tensor  # (E, M)
    _: KW_ONLY
    validation: Tensor | None = None  # (E, M)
    gradient: Tensor | None = None  # (E, M) norm after each epoch, of lbfgs
    stopped: tuple[int, ...] = ()  # epochs each member was trained
    best: tuple[int, ...] = ()  # the epoch whose weights each member has

    def choose(self, members: Sequence[int]) -> "History":
        """The history of some of the members, by index."""
        chosen = list(members)
        every = {name: value for name, value in vars(self).items() if value is not None}
        picked: dict[str, Any] = {
            name: value[:, chosen] if isinstance(value, Tensor) else tuple(value[m] for m in chosen)
            for name, value in every.items()
        }
        return History(**picked)


@dataclass(frozen=True, eq=False, repr=False)
class Model:
    """M trained networks; calling it on inputs gives a prediction with M members.

    net: one of the networks, whose weights are not read.
    tensors: parameters and buffers of all members by name, each `(M, ...)`.
    head: how outputs are read.
    history: losses by epoch; None: not trained by nescio.
    notes: how it was trained; JSON.
    seen: hashes of the training inputs, `(n,)` of int64, ascending; None: unknown.
    """

    net: nn.Module
    tensors: Mapping[str, Tensor]
    head: Head
    _: KW_ONLY
    history: History | None = None
    notes: Mapping[str, Any] = field(default_factory=dict)
    seen: Tensor | None = None
    inner = None  # it wraps nothing

    def __repr__(self) -> str:
        kind = type(self.net).__name__
        trained = "" if self.loss is None else f", {self.loss}"
        return f"Model({self.members} member(s) of {kind}, {self.head.name}{trained}, {self.dtype})"

    def _repr_html_(self) -> str:
        from nescio.report import model_html

        return model_html(self)

    def plot(self) -> "Figure":
        """The loss of each member by epoch."""
        from nescio.report import plots

        figure: Figure = plots.history_plot(self)
        return figure

    @property
    def loss(self) -> str | None:
        """The loss it was trained with, in words; None: not by nescio, so that nobody knows."""
        said = self.notes.get("loss")
        return None if said is None else str(said)

    @cached_property
    def architecture(self) -> Stack:
        """The network as a function of stacked weights."""
        return Stack(self.net)

    @property
    def members(self) -> int:
        """M, the number of networks."""
        return len(next(iter(self.tensors.values())))

    @property
    def device(self) -> torch.device:
        """Where the weights live."""
        return next(iter(self.tensors.values())).device

    @property
    def dtype(self) -> torch.dtype:
        """Number type of the weights."""
        kinds = [t.dtype for t in self.tensors.values() if t.is_floating_point()]
        return kinds[0] if kinds else torch.float32

    @torch.no_grad()
    def outputs(self, x: Any, *, batch_size: int = 1024) -> Tensor:
        """Raw outputs `(M, N, *axes, O)`, on the device of `x`.

        x: one array, or a tuple or mapping of several, as the network reads them. uint8 images `(N,
          C, H, W)` are converted a batch at a time; 255 is 1.
        batch_size: number of samples that the networks read at a time.
        """
        x = door.as_network_inputs(
            x, dtype=self.dtype, tokens=reads_tokens(self.net), columns=columns_of(self.net)
        )
        with refusing_shapes(x):
            chunks = [self._forward(part).to(x.device) for part in x.split(batch_size)]
        return torch.cat(chunks, dim=1).contiguous()

    def _forward(self, x: Inputs) -> Tensor:
        """Raw outputs `(M, N, *axes, O)` in one go."""
        x = entering(x, self.device, self.dtype, tokens=reads_tokens(self.net))

        def repeated(part: Tensor) -> Tensor:
            return part.expand(self.members, *part.shape)

        wide = x.map(repeated) if isinstance(x, Bundle) else repeated(x)
        return self.architecture(self.tensors, wide)

    def answer(self, x: Inputs) -> Prediction:
        """The prediction for `x` in one go, with gradients with respect to the inputs."""
        return self.head(self._forward(x))

    def __call__(self, x: Any, *, batch_size: int = 1024) -> Prediction:
        """The prediction of the members for inputs, on their device.

        x: one array, or a tuple or mapping of several, as the network reads them. uint8 images `(N,
          C, H, W)` are converted a batch at a time; 255 is 1.
        batch_size: number of samples that the networks read at a time.
        """
        outputs = self.outputs(x, batch_size=batch_size)
        check_logits(outputs, self.head)
        return self.head(outputs)

    def member(self, index: int) -> nn.Module:
        """Member number `index` as a module in evaluation mode, with its input scaling."""
        if not -self.members <= index < self.members:
            raise NescioError(f"member {index} of a model with {self.members} members")
        net = copied(self.net)
        first = next(iter(self.tensors))
        own = {**dict(net.named_parameters()), **dict(net.named_buffers())}
        if (own[first].device, own[first].dtype) != (self.device, self.tensors[first].dtype):
            net.to(device=self.device, dtype=self.dtype)
            own = {**dict(net.named_parameters()), **dict(net.named_buffers())}
        with torch.no_grad():
            for name, tensor in self.tensors.items():
                own[name].copy_(tensor[index])
        return net.eval()

    def networks(self) -> list[Member]:
        """Its members, as ordinary modules."""
        return [
            Member(
                net=self.member(index), head=head_of_members(self.head, [index]), template=self.net
            )
            for index in range(self.members)
        ]

    def choose(self, members: Sequence[int]) -> "Model":
        """A model of some of the `members`, by index."""
        chosen, every = list(members), range(-self.members, self.members)
        if not chosen or any(index not in every for index in chosen):
            raise NescioError(
                f"choose one or more members of 0..{self.members - 1}, got {chosen[:5]}"
            )
        tensors = {name: tensor[chosen] for name, tensor in self.tensors.items()}
        head = head_of_members(self.head, chosen)
        history = None if self.history is None else self.history.choose(chosen)
        return replace(self, tensors=tensors, head=head, history=history)

    def to(self, where: torch.device | torch.dtype | str) -> "Model":
        """The same model on the device, or in the number type, `where`; counters stay integers."""
        moved = {
            name: t if isinstance(where, torch.dtype) and not t.is_floating_point() else t.to(where)
            for name, t in self.tensors.items()
        }
        return replace(self, tensors=moved)

    def save(self, folder: str | Path) -> Path:
        """Write `model.safetensors` (complete by itself) and `manifest.json` into `folder`.

        The folder then holds this model alone: how an earlier one was calibrated is removed.
        """
        path = self.write(folder)
        path.with_name(PREDICTOR).unlink(missing_ok=True)
        return path

    def write(self, folder: str | Path) -> Path:
        """Write the files of `save` into `folder`, and leave the predictor there as it is."""
        path = Path(folder) / MODEL
        tensors = {f"weights/{name}": tensor for name, tensor in self.tensors.items()}
        logs = {} if self.history is None else vars(self.history)
        tensors |= {f"history/{n}": log for n, log in logs.items() if isinstance(log, Tensor)}
        tensors |= {} if self.seen is None else {"seen": self.seen}
        tensors |= {f"head/{name}": answer for name, answer in self.head_file[1].items()}
        save_tensors(path, tensors, self.manifest)
        write_json(path.with_name(READABLE), self.manifest)
        return path

    @cached_property
    def head_file(self) -> tuple[dict[str, Any], dict[str, Tensor]]:
        """What a file says of its head, and of one that is not nescio's, how it answers."""
        return head_to_file(self.head, members=self.members, net=self.net)

    @property
    def manifest(self) -> dict[str, Any]:
        """What its file says beside the tensors; JSON."""
        history = self.history or History(torch.empty(0))
        return {
            "kind": "model",
            "members": self.members,
            **describe(self.net),
            "head": self.head_file[0],
            "history": {"stopped": list(history.stopped), "best": list(history.best)},
            "notes": dict(self.notes),
        }


@readers.named("model")
def _read(saved: Saved, *, net: Made = None, head: Head | str | None = None) -> Model:
    """A saved model; a network that is not one of nescio's, or what makes it, is `net`.

    head: so is a head that is not one of nescio's.
    """
    manifest, weights = saved.manifest, saved.under("weights/")
    whole = rebuilt(manifest, net)
    read = saved_head(saved, head)
    epochs = {key: tuple(value) for key, value in manifest["history"].items()}
    check_weights(whole, weights, saved.path)
    logs = saved.under("history/")
    fields: dict[str, Any] = {**logs, **epochs}
    history = History(**fields) if logs else None
    known = {"history": history, "notes": manifest["notes"], "seen": saved.tensors.get("seen")}
    return Model(whole, weights, read, **known)


def saved_head(saved: Saved, head: Head | str | None = None) -> Head:
    """The head of a `saved` file.

    head: the head, or its name, where nescio has none of the name in the file; None: nescio has it.
    """
    return head_from_file(saved.manifest["head"], saved.under("head/"), head, saved.path)


def describe(net: nn.Module) -> dict[str, Any]:
    """What `rebuilt` needs of `net`: how nescio made it, its layers, scaling, encoding."""
    scaling: Any = net
    inner, shape = (scaling[1], list(scaling[0].mean.shape)) if is_scaled(net) else (net, None)
    columns = columns_of(net)
    encoding = {} if columns is None else {"encoding": columns.manifest()}
    return {"net": made_by(inner), "layers": str(inner), "standardize": shape, **encoding}


def _made(net: Any, encoding: Mapping[str, Any] | None) -> nn.Module:
    """A network, or what a factory makes; of an encoded table it may take the number of inputs."""
    if not isinstance(net, nn.Module) and callable(net):
        needed = needed_by(net)
        if len(needed) > (encoding is not None):
            raise NescioError(
                f"the factory takes {', '.join(needed)}; it is called without arguments, or with "
                "the number of inputs where the model was trained on a table"
            )
        net = net(Columns.from_manifest(encoding).width) if needed and encoding else net()
    if not isinstance(net, nn.Module):
        raise NescioError(
            f"net must be an nn.Module or a function that makes one, got {type(net).__name__}"
        )
    return net


def rebuilt(manifest: Mapping[str, Any], net: Made = None) -> nn.Module:
    """The network of a `manifest`, with its input scaling.

    net: the network, or a function that makes it; None: one of nescio's own, made from its options.
    """
    net = None if net is None else _made(net, manifest.get("encoding"))
    inner = unwrapped(net) if net is not None else rebuild(manifest["net"])
    if net is None and str(inner) != manifest["layers"]:
        raise NescioError(
            "the network was changed after nescio made it, so it cannot be rebuilt from its "
            "options; pass it: nescio.load(folder, net=make_net())"
        )
    inner = with_encoding(manifest, inner)
    if manifest["standardize"] is None:
        return inner
    one = torch.ones(manifest["standardize"])
    return scaled(inner, one, one)


def with_encoding(manifest: Mapping[str, Any], net: nn.Module) -> nn.Module:
    """The network with the encoding of a manifest, if it has one."""
    if manifest.get("encoding") is None:
        return net
    own, columns = columns_of(net), Columns.from_manifest(manifest["encoding"])
    if own not in (None, columns):
        raise NescioError(
            "the network given encodes its columns otherwise than the file says; give the one that "
            "was saved, or the network without an encoding"
        )
    return net if own is not None else encoded(net, columns)


def check_logits(outputs: Tensor, head: Head) -> None:
    """Refuse probabilities where logits are expected, and one logit where several are."""
    if head.name == "categorical" and outputs.shape[-1] < 2:
        raise NescioError(f"the network has one output, not one logit for each class; {asked()}")
    if head.name in ("binary", "multilabel"):
        refuse_sigmoid(outputs)
    if head.name != "categorical" or outputs.shape[1] < 2 or (outputs < 0).any():
        return
    if (outputs.sum(-1) - 1).abs().max() < 1e-5:
        raise NescioError(
            "the network's outputs are probabilities already (a softmax at its end?); nescio "
            "reads logits: leave the softmax out, or give their logarithm"
        )


def refuse_sigmoid(outputs: Tensor) -> None:
    """Refuse probabilities where logits of labels are expected."""
    if outputs[0, ..., 0].numel() < SURE or outputs.amin() < 0 or outputs.amax() > 1:
        return
    raise NescioError(
        "all outputs of the network are between 0 and 1: probabilities (a sigmoid at its end?); "
        "nescio reads logits: leave the sigmoid out, or give torch.logit of them"
    )


def check_weights(net: nn.Module, weights: Mapping[str, Tensor], path: Path) -> None:
    """Refuse stacked `weights`, of the file `path`, that are not those of `net`."""
    expected = {**dict(net.named_parameters()), **dict(net.named_buffers())}
    wanted = {name: tuple(tensor.shape) for name, tensor in expected.items()}
    found = {name: tuple(tensor.shape[1:]) for name, tensor in weights.items()}
    if wanted != found:
        differ = sorted(k for k in wanted | found if wanted.get(k) != found.get(k))
        raise NescioError(f"{path} does not fit the network; these weights differ: {differ[:5]}")
