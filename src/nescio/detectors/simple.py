"""Scores of the logits alone: probability, largest logit, energy, entropies, any measure."""

import inspect
import math
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor

from nescio.core import NescioError, keep_freed, spans, workers
from nescio.core import heads as _heads  # noqa: F401 (fills the registry)
from nescio.core import measures as _measures  # noqa: F401 (fills the registry)
from nescio.core.registry import detectors, heads, measures
from nescio.detectors.activations import View
from nescio.detectors.detector import Detector, State, joint, scores

NONE, FEW = 1e-5, 64  # an energy that is 0 but for rounding; rows that are looked at
SMALL = 1e-30  # odds below it come near the smallest float32
Options = Mapping[str, Any]
NUMBERS = 1 << 19  # of a block: two megabytes of float32


@detectors.register
def msp(*, temperature: float = 1.0) -> Detector:
    """Minus the log-odds of the most probable class: the order of 1 - p, where p rounds to 1 too.

    The maximum softmax probability (Hendrycks and Gimpel, 2017).

    temperature: divides the logits first.

        msp()(nescio.observe(net, x))  # (N,)
    """
    return Detector(name="msp", options={"temperature": check_temperature(temperature)})


@scores.named("msp")
def _msp(view: View, _: State, *, temperature: float) -> Tensor:
    return by_rows(check_classes(view.logits), temperature, log_odds)


def log_odds(logits: Tensor) -> Tensor:
    """Log of (1 - p) / p for the largest of each row; exact for any margin."""
    if logits.requires_grad:
        return _slow_log_odds(logits)
    odds = others((logits - logits.amax(-1, keepdim=True)).exp_())[0]
    far = odds < SMALL
    result = odds.log_()
    return result.masked_scatter(far, _slow_log_odds(logits[far])) if far.any() else result


def _slow_log_odds(logits: Tensor) -> Tensor:
    top, label = logits.max(-1, keepdim=True)
    return logits.scatter(-1, label, -math.inf).logsumexp(-1) - top[:, 0]


@detectors.register
def max_logit() -> Detector:
    """Minus the largest logit.

    Hendrycks et al. (2022).

        max_logit()(nescio.observe(net, x))  # (N,)
    """
    return Detector(name="max_logit")


@scores.named("max_logit")
def _max_logit(view: View, _: State) -> Tensor:
    return -view.logits.amax(-1)


@detectors.register
def energy(*, temperature: float = 1.0) -> Detector:
    """The free energy -T log sum exp(z / T) of the logits z.

    Liu et al. (2020), equation 4.

    temperature: T; towards 0 the energy becomes minus the largest logit.

        energy(temperature=2.0)(nescio.observe(net, x))  # (N,)
    """
    return Detector(name="energy", options={"temperature": check_temperature(temperature)})


@scores.named("energy")
def _energy(view: View, _: State, *, temperature: float) -> Tensor:
    energies = free_energy(view.logits, temperature)
    if temperature == 1.0 and len(energies) > 1 and bool((energies[:FEW].abs() < NONE).all()):
        raise NescioError(
            "the logits are logarithms of probabilities (a log-softmax at the end), so their "
            "energy is 0 for every input; use msp or entropy"
        )
    return energies


def free_energy(logits: Tensor, temperature: float = 1.0) -> Tensor:
    """-T log sum exp(z / T) of each row, `(N,)`."""

    def minus_log_sum(z: Tensor) -> Tensor:
        if z.requires_grad:
            return -z.logsumexp(-1) * temperature
        top = z.amax(-1, keepdim=True)
        return torch.log_((z - top).exp_().sum(-1)).add_(top[:, 0]).mul_(-temperature)

    return by_rows(logits, temperature, minus_log_sum)


@detectors.register
def entropy(*, temperature: float = 1.0) -> Detector:
    """The entropy of the class probabilities, in nats.

    For this use Steinhardt and Liang (2016). The entropy itself is too small for float32 where all
    other logits are 100 below the largest; `msp` goes on there.

        entropy()(nescio.observe(net, x))  # (N,)

    temperature: divides the logits first.
    """
    return Detector(name="entropy", options={"temperature": check_temperature(temperature)})


@scores.named("entropy")
def _entropy(view: View, _: State, *, temperature: float) -> Tensor:
    return by_rows(check_classes(view.logits), temperature, _entropy_of)


def _entropy_of(logits: Tensor) -> Tensor:
    """Log of the sum, plus the mean gap to the largest: two terms that are not negative."""
    if logits.requires_grad:
        return _slow_entropy(logits)
    gaps = logits - logits.amax(-1, keepdim=True)
    powers = gaps.exp()
    gap = gaps.mul_(powers).sum(-1)
    rest, total = others(powers)
    result = rest.log1p_().sub_(gap.div_(total))
    lost = result.isnan()  # 0 times infinity, or a NaN that stays one
    return result.masked_scatter(lost, _slow_entropy(logits[lost])) if lost.any() else result


def _slow_entropy(logits: Tensor) -> Tensor:
    logs = logits.log_softmax(-1)
    return -torch.where(logs == -torch.inf, 0.0, logs.exp() * logs).sum(-1)


@detectors.register
def generalized_entropy(*, gamma: float = 0.1, top: int = 100) -> Detector:
    """The sum of p^gamma (1 - p)^gamma over the most probable classes.

    GEN (Liu, Lochman and Zach, 2023).

    gamma: below 1, so that small probabilities weigh; 1 counts about as 1 - sum of p^2 does.
    top: how many of the largest probabilities count; all of them where there are fewer classes.

        generalized_entropy(gamma=0.1)(nescio.observe(net, x))  # (N,)
    """
    if not 0 < gamma <= 1:
        raise NescioError(f"gamma must be above 0 and at most 1, got {gamma}")
    if not 1 <= top < math.inf or top != int(top):
        raise NescioError(f"top must be a whole number of classes, at least 1, got {top}")
    options = {"gamma": float(gamma), "top": int(top)}
    return Detector(name="generalized_entropy", options=options)


@scores.named("generalized_entropy")
def _generalized_entropy(view: View, _: State, *, gamma: float, top: int) -> Tensor:
    def generalized(logits: Tensor) -> Tensor:  # of logarithms: no p or 1 - p near 0 is lost
        logs = logits.log_softmax(-1)
        first, label = logs.max(-1)
        logs = logs.scatter(-1, label[:, None], -torch.inf)  # p^gamma = 0
        if top < logits.shape[-1]:
            logs = logs.topk(max(top - 1, 0), sorted=False).values
        rest = (gamma * (logs + (-logs.exp()).log1p())).exp().sum(-1)  # at most 1/2 each
        return rest + (gamma * (2 * first + log_odds(logits))).exp()

    return by_rows(check_classes(view.logits), 1.0, generalized)


@detectors.register
def measured(
    measure: str,
    *,
    head: str = "categorical",
    head_options: Mapping[str, Any] | None = None,
    **options: Any,
) -> Detector:
    """An uncertainty measure of all networks' answers together, such as mutual information.

    measure: a name of `nescio.measures`; one score for all networks, not one each.
    head: how outputs are read: "categorical" logits, "dirichlet", "gaussian" and so on, a name of
      `nescio.heads`.
    head_options: options of the head by name, such as its floor.
    options: options of the measure, such as base.
    """
    given = dict(head_options or {})
    chosen: dict[str, Any] = {"measure": measure, "head": head}
    chosen |= {"head_options": given, "options": options}
    _check_options(measures[measure], measure, options)
    _check_options(heads[head], head, given)
    _measured(torch.zeros(2, 1, 2), **chosen)  # a measure must read what the head gives
    return Detector(name="measured", options=chosen)


@joint.named("measured")
def _measured(
    logits: Tensor, *, measure: str, head: str, head_options: Mapping[str, Any], options: Options
) -> Tensor:
    read, value = heads[head](**head_options), measures[measure]
    size = max(1, NUMBERS // (logits.shape[0] * logits.shape[2]))
    return torch.cat([value(read(part), **options) for part in logits.split(size, 1)])


def _check_options(part: Any, name: str, options: Options) -> None:
    known = [option for option in inspect.signature(part).parameters if option != "prediction"]
    if wrong := [option for option in options if option not in known]:
        listed = ", ".join(known) or "none"
        raise NescioError(f"{name} has no option {wrong[0]!r}; it has: {listed}")


def by_rows(logits: Tensor, temperature: float, score: Callable[[Tensor], Tensor]) -> Tensor:
    """`score` of logits `(N, C)` divided by the temperature, `(N,)`; all at once with gradients.

    Above a temperature of 1 scores crowd together, so they are computed in float64.
    """
    return in_blocks(logits, lambda block: score(tempered(block, temperature)))


def in_blocks(rows: Tensor, score: Callable[[Tensor], Tensor]) -> Tensor:
    """`score` of rows `(N, F)`, `(N,)`, a block at a time; all at once with gradients."""
    if rows.requires_grad or rows.numel() <= NUMBERS:
        return score(rows)
    keep_freed()
    size = max(1, NUMBERS // rows.shape[1])

    @torch.no_grad()  # each thread has its own switch
    def scored(part: Tensor) -> Tensor:
        return torch.cat([score(part[cut]) for cut in spans(len(part), size)])

    threads = torch.get_num_threads() if rows.device.type == "cpu" else 1
    if threads == 1:
        return scored(rows)
    with workers(threads) as pool:  # each has rows of its own
        return torch.cat(list(pool.map(scored, rows.chunk(threads))))


def tempered(logits: Tensor, temperature: float) -> Tensor:
    """Logits divided by a temperature, in float64 where that is above 1."""
    if temperature == 1:
        return logits
    return (logits.double() if temperature > 1 else logits) / temperature


def check_temperature(temperature: float) -> float:
    """The temperature as a float, or an error."""
    if not (math.isfinite(temperature) and temperature > 0):
        raise NescioError(f"temperature must be positive and finite, got {temperature}")
    return float(temperature)


def check_classes(logits: Tensor) -> Tensor:
    """The logits, or an error where there are no two classes to compare."""
    if logits.shape[-1] < 2:
        raise NescioError(
            "this detector compares classes and the activations have one output; where it is the "
            "logit z of class 1, observe with head='binary', or give torch.stack([0 * z, z], -1)"
        )
    return logits


def others(powers: Tensor) -> tuple[Tensor, Tensor]:
    """The sum over each row of exp(z - max) without the largest (not a difference), and with it.

    The powers are overwritten.
    """
    whole = powers.sum(-1)
    rest = powers.frac_().sum(-1)  # the largest is 1; where another one is too, the sum is above 2
    return torch.where(whole < 1.5, rest, whole - 1), whole
