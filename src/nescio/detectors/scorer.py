"""A detector on raw inputs: it watches the network where the detector was fitted."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from nescio.core import Inputs, NescioError
from nescio.data import door
from nescio.detectors.activations import View, check_finite, check_widths, mean_logits
from nescio.detectors.observe.layers import place
from nescio.detectors.observe.network import Network, linear_layer, networks, reader
from nescio.detectors.observe.pooling import Pool, check_pool
from nescio.nets import Output

if TYPE_CHECKING:
    from nescio.detectors.detector import Detector


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
        check_finite("logits", logits.detach()[None])
        widths = {name: rows.shape[1] for name, rows in features.items()}
        check_widths(self.detector.name, self.detector.about, widths)
        linear = self.detector.about.get("linear")
        weight, bias = linear_layer(linear, net.net, logits) if linear else (None, None)
        return View(logits, features, x, weight, bias, net.answer)


def scorer(
    source: Any,
    detector: "Detector",
    *,
    pool: Pool | None = None,
    output: Output = None,
    batch_size: int = 256,
) -> Scorer:
    """The detector on raw inputs: `scorer(net, detector)(x)` is `(N,)`, larger = further out.

    It reads the layers that the detector was fitted on, pooled as they were. Where `x` requires
    gradients the scores have them, so an attack can lower or raise them. pool, output: as for
    `observe`, where the detector was fitted with a function, which no file holds.
    """
    made = detector.about
    if batch_size < 1:
        raise NescioError(f"batch_size must be at least 1, got {batch_size}")
    if detector.layers and "pool" not in made:
        raise NescioError(
            f"{detector.name} was fitted on arrays, so its layers {list(detector.layers)} have no "
            "place in a network; fit it on nescio.observe(net, data)"
        )
    pool = _kept(made, "pool", "mean") if pool is None else pool
    output = _kept(made, "output", None) if output is None else output
    check_pool(pool)
    nets = [reader(member, output, pool) for member in networks(source)]
    _check_members(detector, len(nets))
    placed = [replace(net, places=[place(n, net.net) for n in detector.layers]) for net in nets]
    return Scorer(detector, tuple(placed), batch_size)


def _kept(made: Mapping[str, Any], option: str, default: Any) -> Any:
    """An option of `observe` as the detector keeps it."""
    value = made.get(option, default)
    if isinstance(value, Mapping):
        name = value.get("function")
        raise NescioError(f"{option} was the function {name}, which no file holds; give {option}=")
    return value


def _check_members(detector: "Detector", members: int) -> None:
    fitted = len(detector.states)
    alone = fitted == 1 and (not detector.states[0] or detector.about.get("mean"))
    if not alone and fitted != members:
        raise NescioError(
            f"{detector.name} was fitted on {fitted} network(s), this source has {members}; fit it "
            "on activations of this source, or on their mean()"
        )


def _mean(views: list[View]) -> View:
    """The mean network, as `Activations.mean` has it."""
    first = views[0]
    stacked = {n: torch.stack([v.features[n] for v in views]).mean(0) for n in first.features}
    weights = [v.weight for v in views if v.weight is not None]
    biases = [v.bias for v in views if v.bias is not None]
    return View(
        mean_logits(torch.stack([view.logits for view in views]))[0],
        stacked,
        first.inputs,
        torch.stack(weights).mean(0) if weights else None,
        torch.stack(biases).mean(0) if biases else None,
        None,
    )
