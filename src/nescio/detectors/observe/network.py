"""A network that is only read: its logits, and what chosen places hold, with gradients if asked."""

import inspect
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import chain
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from nescio.core import Head, Inputs, NescioError, asked, categorical, head_from, multilabel, parse
from nescio.core.registry import detectors
from nescio.data import Columns, door
from nescio.detectors.activations import (
    REGRESSION,
    View,
    check_finite,
    check_task,
    check_widths,
    mean_logits,
)
from nescio.detectors.observe.layers import (
    Call,
    Pool,
    Reading,
    as_is,
    check_pool,
    place,
    placed_in,
    pooled,
    traced,
)
from nescio.models import Member, as_head, same_head
from nescio.models import networks as members_of
from nescio.models.model import CLASSES, check_logits
from nescio.nets import (
    Copies,
    Output,
    called,
    columns_of,
    entering,
    reads_tokens,
    refusing_shapes,
    selected,
)
from nescio.nets.modes import QuickImages

if TYPE_CHECKING:
    from nescio.detectors.detector import Detector

HALVES = (torch.float16, torch.bfloat16)
NOTHING = nullcontext()


@dataclass(frozen=True, eq=False)
class Network:
    """A network, the places that are read in it, and how."""

    net: nn.Module
    output: Output = None
    pool: Pool = "mean"
    places: Sequence[str] = ()
    head: Head = CLASSES  # how its outputs are read
    fixed: bool = False  # whether nobody else can change the network

    @cached_property
    def _bare(self) -> Copies[Reading]:
        return Copies(self.net, partial(Reading, places=(), keep=as_is), fixed=self.fixed)

    @cached_property
    def _watched(self) -> Copies[Reading]:
        keep = partial(pooled, self.pool)
        return Copies(self.net, partial(Reading, places=self.places, keep=keep), fixed=self.fixed)

    @property
    def dtype(self) -> torch.dtype:
        """Number type of the weights."""
        return next((t.dtype for t in self._tensors if t.is_floating_point()), torch.float32)

    @property
    def _tensors(self) -> Iterator[Tensor]:
        return chain(self.net.parameters(), self.net.buffers())

    @cached_property
    def reads_tokens(self) -> bool:
        """Whether whole numbers enter as they are."""
        return reads_tokens(self.net)

    @cached_property
    def columns(self) -> Columns | None:
        """How tables are encoded; None: the network reads numbers as they are."""
        return columns_of(self.net)

    @cached_property
    def _linear(self) -> dict[str, nn.Module]:
        """Linear layers by name, once they were asked for."""
        return {}

    def linear(self, name: str, like: Tensor, head: Head | None = None) -> tuple[Tensor, Tensor]:
        """Weight `(C, F)` and bias `(C,)` of a linear layer, as `linear_layer` gives them."""
        if not self.fixed or name not in self._linear:
            self._linear[name] = place(name, self.net).layer
        return linear_layer(self._linear[name], like, head)

    @property
    def reads(self) -> dict[str, Any]:
        """What `nescio.data.door` needs to know of the numbers that the network reads."""
        kind = torch.float64 if self.dtype == torch.float64 else torch.float32
        return {"dtype": kind, "tokens": self.reads_tokens, "columns": self.columns}

    def __call__(self, x: Inputs) -> tuple[Tensor, dict[str, Tensor]]:
        """Logits `(N, C)` and rows `(N, F)` of each place, in single precision or double."""
        with self._watched.lent() as reading:
            reading.begin(len(x))
            logits = self.head.logits(self.picked(self._run(reading, x), x))
            return logits, reading.end()

    def answer(self, x: Inputs) -> Tensor:
        """Logits `(N, C)` of inputs, with gradients with respect to them."""
        return self.head.logits(self.outputs(x))

    def outputs(self, x: Inputs) -> Tensor:
        """Raw outputs `(N, O)`, with gradients with respect to the inputs."""
        return self.picked(self.raw(x), x)

    def raw(self, x: Inputs) -> Any:
        """What the network returns, in evaluation mode and with its weights frozen."""
        with self._bare.lent() as reading:
            return self._run(reading, x)

    def traced(self, x: Inputs) -> tuple[Any, list[Call]]:
        """What the network returns, and which layers it calls."""
        results: list[Any] = []
        with self._bare.lent() as reading:
            calls = traced(reading.net, lambda: results.append(self._run(reading, x)))
        return results[0], calls

    def held(self, x: Inputs, places: Sequence[str]) -> dict[str, Tensor]:
        """What places hold, not pooled."""
        reading = Reading(self.net, places=places, keep=as_is)
        reading.begin(len(x))
        self._run(reading, x)
        return reading.end()

    def picked(self, result: Any, x: Inputs) -> Tensor:
        """Raw outputs `(N, O)` in what the network returns."""
        logits = selected(result, self.output)
        if logits.ndim != 2 or len(logits) != len(x):
            raise NescioError(
                f"a network must return (samples, outputs), here ({len(x)}, ...), it returned "
                f"{tuple(logits.shape)}; output= takes a function of what it returns"
            )
        return logits.float() if logits.dtype in HALVES else logits

    def _run(self, reading: Reading, x: Inputs) -> Any:
        half = _refusing_half(reading.dtype) if reading.dtype in HALVES else NOTHING
        with half, refusing_shapes(x), QuickImages() if _is_quicker(reading, x) else NOTHING:
            return called(reading.net, self._batch(reading, x))

    def _batch(self, reading: Reading, x: Inputs) -> Inputs:
        """Inputs as the network reads them; a copy, as its first layer may write on them."""
        batch: Inputs = entering(x, reading.device, reading.dtype, tokens=self.reads_tokens)
        if isinstance(x, Tensor) and isinstance(batch, Tensor):
            return batch.clone() if batch.data_ptr() == x.data_ptr() else batch
        return batch.clone()


def _is_quicker(reading: Reading, x: Inputs) -> bool:
    """Whether `QuickImages` helps: with gradients, or where maps are pooled."""
    if not isinstance(x, Tensor) or x.ndim != 4 or reading.device.type != "cpu":
        return False
    return x.requires_grad or reading.pools


def networks(source: Any, head: Head | str | None = None) -> list[Member]:
    """The networks of a module, a model, or a sequence of these, whose features can be read.

    head: of modules; a model has its own.
    """
    if isinstance(source, nn.Module):
        read = CLASSES if head is None else as_head(head)
        check_one_label(read)
        return [replace(member, head=read) for member in members_of(source)]
    if isinstance(source, (list, tuple)) and source:
        return [member for part in source for member in networks(part, head)]
    kind = type(source).__name__
    wanted = f"expected an nn.Module, a nescio model, or a list of modules, got {kind}"
    if not callable(getattr(source, "networks", None)):
        raise NescioError(wanted)
    found = [] if source.inner is not None else members_of(source)
    if not all(member.is_bare for member in found) or not found:
        raise NescioError(
            f"{wanted}; calibrations, MC dropout and other samplers have no one set "
            "of features: give the network itself, nescio.guard(net, ...), and read measures of "
            "the sampler's answers beside it"
        )
    for member in found:
        check_one_label(member.head)
        if head is not None and not same_head(member.head, as_head(head)):
            raise NescioError(
                f"the model has the head {member.head.name!r}; leave head= out, or give its network"
            )
    return found


def members_of_labels(source: Any) -> list[Member]:
    """The networks of a module or model with a logit for each of several labels."""
    if isinstance(source, nn.Module):
        return [Member(net=source, head=multilabel())]
    found = members_of(source)
    if not all(member.is_bare and member.head.task == "multilabel" for member in found):
        raise NescioError(
            f"expected a network, or a model with the head 'multilabel', got one with "
            f"{found[0].head.name!r}; nescio.models.plain(net, head='multilabel') makes one"
        )
    return found


def head_of(about: Mapping[str, Any], members: Sequence[Member] = ()) -> Head:
    """The head that activations were read by, as `observe` wrote it down: class logits by default.

    members: the networks, if they are there; nescio cannot build a head of the user, but they have.
    """
    found = about.get("head", {"name": CLASSES.name, "options": {}})
    for member in members[:1]:
        if (member.head.name, dict(member.head.options)) == (found["name"], found["options"]):
            return member.head
    return head_from(found["name"], found["options"])


def check_one_label(head: Head) -> None:
    """Refuse several labels."""
    if head.task == "multilabel":
        raise NescioError(
            "detectors read classes, of which an input has one; this network has several labels. "
            "nescio.guard_labels, nescio.audit_labels and nescio.calibration take them; for "
            "everything else choose a label: head=nescio.heads.binary(label=0) in Python, --head "
            "binary,label=0 on the command line"
        )


def check_classes(head: Head) -> None:
    """Refuse a regression or several labels: the outputs are not class logits."""
    check_one_label(head)
    if head.task != "classification":
        raise NescioError(
            f"audits, detectors and guards read logits of classes; this model has the head "
            f"{head.name!r}, for which they do not apply. For a regression use the intervals of "
            "nescio.conformal: nescio.conformal.normalized (mean and variance) or "
            "nescio.conformal.residual (mean alone)"
        )


def reader(member: Member, output: Output = None, pool: Pool = "mean") -> Network:
    """The network of a member, read through its head: logits, or log-probabilities of classes."""
    return Network(member.net, output, pool, head=member.head)


def linear_layer(layer: nn.Module, like: Tensor, head: Head | None = None) -> tuple[Tensor, Tensor]:
    """Weight `(C, F)` and bias `(C,)` of a linear layer; without a bias it is zero.

    head: one that makes class logits of fewer outputs makes the weights of these.
    """
    assert isinstance(layer, nn.Linear)
    weight = layer.weight.detach().to(like)
    bias = weight.new_zeros(len(weight)) if layer.bias is None else layer.bias.detach().to(like)
    if head is None or head.expand is None:
        return weight, bias
    return head.expand(weight.T).T, head.expand(bias)


def check_outputs(outputs: Tensor, head: Head) -> None:
    """Refuse probabilities where logits are expected."""
    if head.task != REGRESSION:
        check_logits(outputs[None], head if head.expand is not None else categorical())


@contextmanager
def _refusing_half(dtype: torch.dtype) -> Iterator[None]:
    try:
        yield
    except (RuntimeError, NescioError) as error:
        if "not implemented for" not in str(error):
            raise
        kind = str(dtype).removeprefix("torch.")
        raise NescioError(
            f"the network is in {kind}, and its device cannot run one of its layers so: {error}; "
            "use net.float()"
        ) from error


@dataclass(frozen=True, eq=False)
class Scorer:
    """A network and a detector: raw inputs to scores, larger = further out."""

    detector: "Detector"
    nets: tuple[Network, ...]
    batch_size: int = 256

    def __repr__(self) -> str:
        return f"Scorer({self.detector.name} on {len(self.nets)} network(s))"

    def __call__(self, x: Any) -> Tensor:
        """Scores `(N,)` of inputs or a loader of them; with gradients where `x` asks for them."""
        reads = self.nets[0].reads
        followed = torch.is_grad_enabled() and isinstance(x, Tensor) and x.requires_grad
        if followed:
            door.as_network_inputs(x, **reads)  # only checked
            parts = iter(x.to(reads["dtype"]).split(self.batch_size))
        else:
            parts = door.input_batches(x, batch_size=self.batch_size, fixed=False, **reads)
        with torch.set_grad_enabled(followed):
            return torch.cat([self._scores(part).to(part.device) for part in parts])

    def _scores(self, x: Inputs) -> Tensor:
        views = [self._view(net, x) for net in self.nets]
        if self.detector.about.get("mean") and len(views) > 1:
            views = [_mean(views)]
        return self.detector.rows(views).mean(0)

    def _view(self, net: Network, x: Inputs) -> View:
        logits, features = net(x)
        if logits.shape[1] == 1 and net.head.task != REGRESSION:
            raise NescioError(
                f"the network has one output, not one logit for each class; {asked()}"
            )
        check_finite("logits", logits.detach()[None])
        widths = {name: rows.shape[1] for name, rows in features.items()}
        check_widths(self.detector.name, self.detector.about, widths)
        linear = self.detector.about.get("linear")
        weight, bias = net.linear(linear, logits, net.head) if linear else (None, None)
        return View(logits, features, x, weight, bias, net.answer)


def _unfitted(text: str) -> "Detector":
    """The detector that a text names, if it needs no fit."""
    build = detectors.built(text)
    needed = [p.name for p in inspect.signature(build).parameters.values() if p.default is p.empty]
    if needed:
        name = parse(text)[0]
        raise NescioError(
            f"{name} needs {', '.join(needed)}: give nescio.detectors.{name}(...), fitted on "
            "nescio.observe(net, train) for example"
        )
    made: Detector = build()
    return made


def scorer(
    source: Any,
    detector: "Detector | str",
    *,
    pool: Pool | None = None,
    output: Output = None,
    head: Head | str | None = None,
    batch_size: int = 256,
) -> Scorer:
    """The detector on raw inputs: `scorer(net, detector)(x)` is `(N,)`, larger = further out.

    It reads the layers that the detector was fitted on, pooled as they were. Where `x` requires
    gradients the scores have them, so an attack can lower or raise them.

    source: an `nn.Module`, a nescio model, or a list of modules.
    detector: a fitted detector; or the name of one that needs no fit, with options: "msp",
      "odin,temperature=100".
    pool, output: as for `nescio.observe`, where the detector was fitted with a function, which no
      file holds; None: as the detector was fitted.
    head: how the outputs of modules are read; None: as those of the activations that the detector
      was fitted on.
    batch_size: number of samples that the networks read at a time.
    """
    if isinstance(detector, str):
        detector = _unfitted(detector)
    if batch_size < 1:
        raise NescioError(f"batch_size must be at least 1, got {batch_size}")
    if detector.layers and "pool" not in detector.about:
        raise NescioError(
            f"{detector.name} was fitted on arrays, so its layers {list(detector.layers)} have no "
            "place in a network; fit it on nescio.observe(net, data)"
        )
    pool = kept(detector.about, "pool", "mean") if pool is None else pool
    output = kept(detector.about, "output", None) if output is None else output
    check_pool(pool)
    read = head
    if head is None and isinstance(source, nn.Module) and "head" in detector.about:
        read = head_of(detector.about)
    nets = [reader(member, output, pool) for member in networks(source, read)]
    check_task(detector.name, regression=nets[0].head.task == REGRESSION)
    fitted = len(detector.states)
    alone = fitted == 1 and (not detector.states[0] or detector.about.get("mean"))
    if not alone and fitted != len(nets):
        raise NescioError(
            f"{detector.name} was fitted on {fitted} network(s), this source has {len(nets)}; fit "
            "it on activations of this source, or on their mean()"
        )
    placed = [replace(net, places=placed_in(net.net, detector.layers)) for net in nets]
    return Scorer(detector, tuple(placed), batch_size)


def kept(made: Mapping[str, Any], option: str, default: Any) -> Any:
    """An option that activations were read with; of a function only its name is known."""
    value = made.get(option, default)
    if isinstance(value, Mapping):
        name = value.get("function")
        raise NescioError(f"{option} was the function {name}, which no file holds; give {option}=")
    return value


def _mean(views: list[View]) -> View:
    """The mean network, as `Activations.mean` has it."""

    def mean(parts: list[Tensor | None]) -> Tensor | None:
        known = [part for part in parts if part is not None]
        return torch.stack(known).mean(0) if known else None

    features = {n: torch.stack([v.features[n] for v in views]).mean(0) for n in views[0].features}
    logits = mean_logits(torch.stack([view.logits for view in views]))[0]
    weight, bias = mean([view.weight for view in views]), mean([view.bias for view in views])
    return View(logits, features, views[0].inputs, weight, bias, None)
