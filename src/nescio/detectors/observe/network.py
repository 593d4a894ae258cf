"""A network that is only read: its logits, and what chosen places hold, with gradients if asked."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from nescio.core import Inputs, NescioError, categorical
from nescio.detectors.observe.layers import Place, place, reading
from nescio.detectors.observe.pooling import Pool, pooled
from nescio.models.model import Model, check_logits
from nescio.nets import (
    Output,
    at_rest,
    called,
    entering,
    reads_tokens,
    refusing_shapes,
    selected,
)
from nescio.nets.fast_images import QuickImages

HALVES = (torch.float16, torch.bfloat16)
WRAPPERS = {"OptimizedModule": "_orig_mod", "DataParallel": "module"}


@dataclass(frozen=True, eq=False)
class Network:
    """A network, the places that are read in it, and how."""

    net: nn.Module
    output: Output = None
    pool: Pool = "mean"
    places: Sequence[Place] = field(default_factory=tuple)

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
        return reads_tokens(self.net)

    @property
    def reads(self) -> dict[str, Any]:
        """What `nescio.data.door` needs to know of the numbers that the network reads."""
        kind = torch.float64 if self.dtype == torch.float64 else torch.float32
        return {"dtype": kind, "tokens": self.reads_tokens}

    def __call__(self, x: Inputs) -> tuple[Tensor, dict[str, Tensor]]:
        """Logits `(N, C)` and rows `(N, F)` of each place, in single precision or double."""
        rows: dict[str, Tensor] = {}

        def keep(spot: Place, value: Tensor) -> None:
            rows[spot.name] = pooled(value, self.pool, spot.layer, spot.name, len(x))

        with reading(self.places, keep):
            logits = self.answer(x)
        return logits, {spot.name: rows[spot.name] for spot in self.places}

    def answer(self, x: Inputs) -> Tensor:
        """Logits `(N, C)` of inputs, with gradients with respect to them."""
        found = self.raw(x)
        logits = selected(found, self.output)
        if logits.ndim != 2 or len(logits) != len(x):
            raise NescioError(
                f"a network must return (samples, outputs), here ({len(x)}, ...), it returned "
                f"{tuple(logits.shape)}; output= takes a function of what it returns"
            )
        return logits.float() if logits.dtype in HALVES else logits

    def raw(self, x: Inputs) -> Any:
        """What the network returns, in evaluation mode and with its weights frozen."""
        with (
            at_rest(self.net),
            _refusing_half(self.dtype),
            refusing_shapes(x),
            QuickImages() if self._is_quicker(x) else nullcontext(),
        ):
            return called(self.net, self._batch(x))

    def _is_quicker(self, x: Inputs) -> bool:
        """Whether `QuickImages` helps: with gradients, or where maps are pooled."""
        if not isinstance(x, Tensor) or x.ndim != 4 or self.device.type != "cpu":
            return False
        pools = (isinstance(layer, nn.MaxPool2d) for layer in self.net.modules())
        return x.requires_grad or any(pools)

    def _batch(self, x: Inputs) -> Inputs:
        """Inputs as the network reads them; a copy, as its first layer may write on them."""
        batch: Inputs = entering(x, self.device, self.dtype, tokens=self.reads_tokens)
        if isinstance(x, Tensor) and isinstance(batch, Tensor):
            return batch.clone() if batch.data_ptr() == x.data_ptr() else batch
        return batch.clone()


def networks(source: Any) -> list[nn.Module]:
    """The networks of a module, a model, or a sequence of modules."""
    if isinstance(source, nn.Module):
        inner = WRAPPERS.get(type(source).__name__)
        return [source] if inner is None else [getattr(source, inner)]
    if isinstance(source, Model):
        return [source.member(index) for index in range(source.members)]
    if isinstance(source, (list, tuple)) and source:
        return [net for part in source for net in networks(part)]
    kind = type(source).__name__
    message = f"expected an nn.Module, a nescio model, or a list of modules, got {kind}"
    if callable(getattr(source, "answer", None)):  # a sampler, or another predictor
        message += (
            "; MC dropout and other samplers have no one set of features: give the network itself, "
            "nescio.guard(net, ...), and read measures of the sampler's own answers beside it"
        )
    raise NescioError(message)


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


def _tensors(net: nn.Module) -> Iterator[Tensor]:
    yield from net.parameters()
    yield from net.buffers()
