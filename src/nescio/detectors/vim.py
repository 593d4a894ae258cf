"""Virtual-logit matching (Wang et al., 2022, eq. 4 to 6): what the principal space leaves over."""

import torch
from torch import Tensor

from nescio.core import NescioError
from nescio.core.registry import detectors
from nescio.detectors.activations import Activations, View
from nescio.detectors.detector import Detector, State, scores
from nescio.detectors.energy import free_energy
from nescio.detectors.kit.blocks import in_blocks
from nescio.detectors.kit.moments import moments, precision


@detectors.register
def vim(train: Activations, *, dim: int | None = None) -> Detector:
    """The length of the features outside their principal space, as a logit against the others.

    alpha |R' (f - o)| - logsumexp(z): o is the point where the last layer gives zero (by the
    pseudo-inverse), R the directions of the training features about o with the least variance, and
    alpha makes the mean virtual logit of the training data that of their largest logits. It is the
    order of the published probability of the virtual class, and does not saturate.

    dim: of the principal space. None: 1000 from 2048 features on, 512 from 768 on, else half.
    """
    name = train.layer(None)
    if train.weight is None or train.bias is None:
        raise NescioError(
            "vim needs the last linear layer; use nescio.observe(net, data), or give weight= and "
            "bias= to Activations"
        )
    width = train.features[name].shape[-1]
    if train.weight.shape[-1] != width:
        raise NescioError(
            f"the last linear layer reads {train.weight.shape[-1]} features, layer {name!r} has "
            f"{width}; say which layer enters it: last="
        )
    size = _size(width) if dim is None else dim
    if not 0 < size < width:
        raise NescioError(f"dim must be from 1 to {width - 1}, below the features, got {size}")
    states = tuple(
        _fitted(train.features[name][m], train.logits[m], train.weight[m], train.bias[m], size)
        for m in range(train.members)
    )
    return Detector("vim", {"dim": size}, (name,), states, train.made, train.hashes)


@scores.named("vim")
def score(view: View, state: State, layers: tuple[str, ...], *, dim: int) -> Tensor:
    """The virtual logit minus the energy of the others."""
    del dim
    length = _residual(view.features[layers[0]], state["origin"], state["residual"])
    return state["alpha"] * length + free_energy(view.logits.to(length.dtype))


@torch.no_grad()
def _fitted(
    features: Tensor, logits: Tensor, weight: Tensor, bias: Tensor, size: int
) -> dict[str, Tensor]:
    origin = -torch.linalg.pinv(weight.double()) @ bias.double()
    found = moments(features)
    shift = found.mean - origin
    second = found.within + shift.outer(shift)
    residual = torch.linalg.eigh(second).eigenvectors[:, : len(origin) - size]
    kept = {"origin": origin, "residual": residual.contiguous()}
    state = {name: tensor.to(precision(features)) for name, tensor in kept.items()}
    length = _residual(features, state["origin"], state["residual"]).double().mean()
    if length <= 0:
        raise NescioError(f"the features lie in a space of {size} dimensions; give a smaller dim")
    largest = logits.amax(-1).double().mean()
    if largest <= 0:
        raise NescioError(
            f"the largest logits of the training data are {float(largest):.3g} on average; vim "
            "scales by them and needs a positive number, use mahalanobis or knn"
        )
    return {**state, "alpha": (largest / length).to(state["origin"])}


def _residual(features: Tensor, origin: Tensor, residual: Tensor) -> Tensor:
    def length(rows: Tensor) -> Tensor:
        apart = (rows.to(origin.dtype) - origin) @ residual
        found: Tensor = torch.linalg.vector_norm(apart, dim=1)
        return found

    return in_blocks(features, length)


def _size(width: int) -> int:
    return 1000 if width >= 2048 else 512 if width >= 768 else width // 2
