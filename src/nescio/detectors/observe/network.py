"""A network that is only read: its logits, and what chosen places hold, with gradients if asked."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from nescio.core import Head, NescioError, as_batch, categorical
from nescio.detectors.observe.layers import Place, place, reading
from nescio.detectors.observe.pooling import Pool, pooled
from nescio.models import Member
from nescio.models import networks as members_of
from nescio.models.model import check_logits, refusing_shapes
from nescio.nets.fast_images import QuickImages

Output = int | str | Callable[[Any], Tensor] | None
HALVES = (torch.float16, torch.bfloat16)
WRAPPERS = {"OptimizedModule": "_orig_mod", "DataParallel": "module"}


@dataclass(frozen=True, eq=False)
class Network:
    """A network, the places that are read in it, and how."""

    net: nn.Module
    output: Output = None
    pool: Pool = "mean"
    places: Sequence[Place] = field(default_factory=tuple)
    head: Head | None = None  # how its outputs are read; None: they are class logits

    @property
    def device(self) -> torch.device:
        """Where the weights live."""
        return next((t.device for t in _tensors(self.net)), torch.device("cpu"))

    @property
    def dtype(self) -> torch.dtype:
        """Number type of the weights."""
        kinds = (t.dtype for t in _tensors(self.net) if t.is_floating_point())
        return next(kinds, torch.float32)

    @property
    def reads_tokens(self) -> bool:
        """Whether whole numbers enter as they are."""
        return any(isinstance(m, (nn.Embedding, nn.EmbeddingBag)) for m in self.net.modules())

    def __call__(self, x: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
        """Logits `(N, C)` and rows `(N, F)` of each place, in single precision or double."""
        rows: dict[str, Tensor] = {}

        def keep(spot: Place, value: Tensor) -> None:
            rows[spot.name] = pooled(value, self.pool, spot.layer, spot.name, len(x))

        with reading(self.places, keep):
            logits = self.answer(x)
        return logits, {spot.name: rows[spot.name] for spot in self.places}

    def answer(self, x: Tensor) -> Tensor:
        """Logits `(N, C)` of inputs, with gradients with respect to them."""
        found = self.raw(x)
        logits = selected(found, self.output)
        if logits.ndim != 2 or len(logits) != len(x):
            raise NescioError(
                f"a network must return (samples, outputs), here ({len(x)}, ...), it returned "
                f"{tuple(logits.shape)}; output= takes a function of what it returns"
            )
        logits = logits.float() if logits.dtype in HALVES else logits
        return logits if self.head is None else self.head.center(logits)

    def raw(self, x: Tensor) -> Any:
        """What the network returns, in evaluation mode and with its weights frozen."""
        with (
            at_rest(self.net),
            _refusing_half(self.dtype),
            refusing_shapes(x),
            QuickImages() if self._is_quicker(x) else nullcontext(),
        ):
            return self.net(self._batch(x))

    def _is_quicker(self, x: Tensor) -> bool:
        """Whether `QuickImages` helps: with gradients, or where maps are pooled."""
        if x.ndim != 4 or self.device.type != "cpu":
            return False
        pools = (isinstance(layer, nn.MaxPool2d) for layer in self.net.modules())
        return x.requires_grad or any(pools)

    def _batch(self, x: Tensor) -> Tensor:
        """Inputs as the network reads them; a copy, as its first layer may write on them."""
        whole = not (x.is_floating_point() or x.dtype == torch.uint8)
        batch = x.to(self.device)
        batch = batch if whole and self.reads_tokens else as_batch(batch, self.dtype)
        return batch.clone() if batch.data_ptr() == x.data_ptr() else batch


def networks(source: Any) -> list[Member]:
    """The networks of a module, a model, or a sequence of these, whose features can be read."""
    if isinstance(source, nn.Module):
        inner = WRAPPERS.get(type(source).__name__)
        return [Member(net=source if inner is None else getattr(source, inner))]
    if isinstance(source, (list, tuple)) and source:
        return [member for part in source for member in networks(part)]
    if not callable(getattr(source, "networks", None)):
        kind = type(source).__name__
        raise NescioError(
            f"expected an nn.Module, a nescio model, or a list of modules, got {kind}"
        )
    found = [] if source.inner is not None else members_of(source)
    if not all(member.is_bare for member in found) or not found:
        raise NescioError(
            "expected an nn.Module, a nescio model, or a list of modules, got "
            f"{type(source).__name__}; calibrations, MC dropout and other samplers have no one set "
            "of features: give the network itself, nescio.guard(net, ...), and read measures of "
            "the sampler's answers beside it"
        )
    for member in found:
        check_classes(member.head)
    return found


def check_classes(head: Head) -> None:
    """Refuse a regression: its outputs are not class logits."""
    if head.task != "classification":
        raise NescioError(
            f"detectors and guards read logits of classes; this model has the head {head.name!r}. "
            "For a regression use the intervals of nescio.conformal"
        )


def reader(member: Member, output: Output = None, pool: Pool = "mean") -> Network:
    """The network of a member, read through its head: logits, or log-probabilities of classes."""
    head = None if member.head.gives_logits else member.head
    return Network(member.net, output, pool, head=head)


@contextmanager
def at_rest(net: nn.Module) -> Iterator[None]:
    """Evaluation mode and frozen weights for a block; then all as it was."""
    modes = [(module, module.training) for module in net.modules() if module.training]
    flags = [weight for weight in net.parameters() if weight.requires_grad]
    with ExitStack() as stack:
        for module, mode in modes:
            stack.callback(setattr, module, "training", mode)
        for weight in flags:
            stack.callback(weight.requires_grad_, True)
        if modes:
            net.eval()
        for weight in flags:
            weight.requires_grad_(False)
        yield


def linear_layer(name: str, net: nn.Module, like: Tensor) -> tuple[Tensor, Tensor]:
    """Weight `(C, F)` and bias `(C,)` of a linear layer; without a bias it is zero."""
    layer = place(name, net).layer
    assert isinstance(layer, nn.Linear)
    weight = layer.weight.detach().to(like)
    bias = weight.new_zeros(len(weight)) if layer.bias is None else layer.bias.detach().to(like)
    return weight, bias


def check_outputs(logits: Tensor) -> None:
    """Refuse probabilities where logits are expected."""
    if logits.shape[1] > 1:
        check_logits(logits[None], categorical())


@contextmanager
def _refusing_half(dtype: torch.dtype) -> Iterator[None]:
    """Say it where a device cannot run half precision."""
    try:
        yield
    except (RuntimeError, NescioError) as error:
        if dtype not in HALVES or "not implemented for" not in str(error):
            raise
        kind = str(dtype).removeprefix("torch.")
        raise NescioError(
            f"the network is in {kind}, and its device cannot run one of its layers so: {error}; "
            "use net.float()"
        ) from error


def selected(found: Any, output: Output) -> Tensor:
    """The logits in what a network returns."""
    try:
        chosen = found if output is None else _pick(found, output)
    except (KeyError, IndexError, AttributeError, TypeError) as error:
        raise NescioError(
            f"output={output!r} does not fit what the network returns, {_what(found)}"
        ) from error
    if not isinstance(chosen, Tensor):
        which = "" if output is None else f", and output={output!r} is {_what(chosen)}"
        raise NescioError(
            f"the network returns {_what(found)}{which}; say which tensor holds the logits: "
            "output= takes an index, a key or a function of what it returns"
        )
    return chosen


def _pick(found: Any, output: Any) -> Any:
    if callable(output):
        return output(found)
    if isinstance(output, str) and not isinstance(found, Mapping):
        return getattr(found, output)
    if isinstance(found, Tensor):
        raise TypeError("one tensor")
    return found[output]


def _what(found: Any) -> str:
    if isinstance(found, Tensor):
        return f"a tensor of shape {tuple(found.shape)}"
    if isinstance(found, Mapping):
        return f"a dictionary with {', '.join(map(repr, found))}"
    if isinstance(found, (tuple, list)):
        return f"a {type(found).__name__} of {len(found)}"
    return f"a {type(found).__name__}"


def _tensors(net: nn.Module) -> Iterator[Tensor]:
    yield from net.parameters()
    yield from net.buffers()
