"""Energy of pruned and rescaled features (ASH: Djurisic et al., 2023)."""

from torch import Tensor

from nescio.core import NescioError, unknown
from nescio.core.registry import detectors
from nescio.detectors.activations import Activations, View
from nescio.detectors.detector import Detector, State, fitted, only_layer, scores
from nescio.detectors.kit.last_layer import check_width, last_layer, parts
from nescio.detectors.simple import free_energy

KINDS = ("s", "b", "p")
STEEPEST = 600  # of s1 / s2, whose exponential float64 holds


@detectors.register
def ash(train: Activations, *, kind: str = "s", percentile: float = 90.0) -> Detector:
    """The free energy after the smallest features of each input are removed.

    kind: "s", the rest is multiplied by exp(s1 / s2), with s1 and s2 the sums before and after;
    "b", what is above zero of the rest is set to an equal share of s1; "p", the rest stays.
    percentile: of an input's features that are removed, 0 to 100; equal ones stay or go together.
    Nothing is fitted; `train` gives the last linear layer.
    """
    if kind not in KINDS:
        raise NescioError(unknown("kind of ash", kind, KINDS))
    if not 0 <= percentile < 100:
        raise NescioError(f"percentile must be at least 0 and below 100, got {percentile}")
    layer, states = last_layer(train, "ash")
    width = train.features[layer].shape[-1]
    remaining = _remaining(width, percentile)
    if kind == "s" and width / remaining > STEEPEST:
        raise NescioError(
            f"percentile {percentile} keeps {remaining} of {width} features, and "
            "exp(s1 / s2) may overflow; lower it"
        )
    if kind != "p":
        _check_signs(train.features[layer], kind)
    options = {"kind": kind, "percentile": float(percentile)}
    return fitted("ash", train, options, states, layer)


@scores.named("ash")
def score(view: View, state: State, *, kind: str, percentile: float) -> Tensor:
    """The free energy of the logits of what is left of the features; "s" in float64."""
    features, weight, bias = only_layer(view), state["weight"], state["bias"]
    check_width(features, weight)
    limit = features.topk(_remaining(features.shape[-1], percentile), sorted=False).values
    mask = (features >= limit.amin(-1, keepdim=True)).to(features.dtype)
    before = features.sum(-1, keepdim=True)
    left = features * mask
    if kind == "b":
        mask = mask * (features > 0)
        left = mask * (before / mask.sum(-1, keepdim=True).clamp_min(1))
    logits = left @ weight.to(left.dtype).T
    if kind == "s":
        after = left.sum(-1, keepdim=True)
        share = before / after.where(after != 0, 1.0)  # nothing but zeros: nothing to scale
        logits = logits.double() * share.double().exp()
    return free_energy(logits + bias.to(logits.dtype))


def _remaining(width: int, percentile: float) -> int:
    """The number of features that stay: all but the rounded share, at least one."""
    return max(1, width - round(width * percentile / 100))


def _check_signs(features: Tensor, kind: str) -> None:
    lost = sum(int((block < 0).sum()) for member in features for _, block in parts(member))
    if lost:
        raise NescioError(
            f'ash of kind "{kind}" shares out the sum of features that are not negative, as after '
            f'a ReLU; {lost} are negative; use kind="p", or name another layer: last='
        )
