"""Virtual-logit matching (Wang et al., 2022, eq. 4 to 6): what the principal space leaves over."""

import torch
from torch import Tensor

from nescio.core import NescioError
from nescio.core.registry import detectors
from nescio.detectors.activations import Activations, View
from nescio.detectors.detector import Detector, State, fitted, only_layer, scores
from nescio.detectors.kit.blocks import in_blocks
from nescio.detectors.kit.last_layer import last_layer
from nescio.detectors.kit.moments import moments, precision
from nescio.detectors.simple import free_energy


@detectors.register
def vim(train: Activations, *, dim: int | None = None) -> Detector:
    """The length of the features outside their principal space, as a logit against the others.

    alpha |R' (f - o)| - logsumexp(z): o is the point where the last layer gives zero (by the
    pseudo-inverse), R the directions of the training features about o with the least variance, and
    alpha makes the mean virtual logit of the training data that of their largest logits. It is the
    order of the published probability of the virtual class, and does not saturate.

    dim: of the principal space. None: 1000 from 2048 features on, 512 from 768 on, else half.
    """
    name, layers = last_layer(train, "vim")
    width = train.features[name].shape[-1]
    size = _size(width) if dim is None else dim
    if not 0 < size < width:
        raise NescioError(f"dim must be from 1 to {width - 1}, below the features, got {size}")
    rows = zip(train.features[name], train.logits, layers, strict=True)
    states = [_fitted(features, logits, layer, size) for features, logits, layer in rows]
    return fitted("vim", train, {"dim": size}, states, name)


@scores.named("vim")
def score(view: View, state: State, **_: int) -> Tensor:
    """The virtual logit minus the energy of the others."""
    length = _residual(only_layer(view), state["origin"], state["residual"])
    return state["alpha"] * length + free_energy(view.logits.to(length.dtype))


@torch.no_grad()
def _fitted(features: Tensor, logits: Tensor, layer: State, size: int) -> dict[str, Tensor]:
    origin = -torch.linalg.pinv(layer["weight"].double()) @ layer["bias"].double()
    about = moments(features)
    shift = about.mean - origin
    second = about.within + shift.outer(shift)
    residual = torch.linalg.eigh(second).eigenvectors[:, : len(origin) - size]
    precise = {"origin": origin, "residual": residual.contiguous()}
    state = {name: tensor.to(precision(features)) for name, tensor in precise.items()}
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
        result: Tensor = ((rows.to(origin.dtype) - origin) @ residual).norm(dim=1)
        return result

    return in_blocks(features, length)


def _size(width: int) -> int:
    return 1000 if width >= 2048 else 512 if width >= 768 else width // 2
