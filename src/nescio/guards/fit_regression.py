"""Make the guard of a regression: fit a detector, calibrate intervals, find where to answer."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from nescio.conformal import Intervals, narrowest, needed
from nescio.core import Head, NescioError, Regression, as_targets
from nescio.core.registry import conformal_methods
from nescio.detectors import Activations, Detector
from nescio.detectors.observe.network import kept, networks
from nescio.guards.decide import scores_of
from nescio.guards.guarantees import warn_about
from nescio.guards.largest_coverage import (
    Coverage,
    all_or_none,
    check_shares,
    whole_or_largest,
)
from nescio.guards.observing import (
    Fitted,
    both_detectors,
    counts_of,
    inputs_of,
    known,
    own_copies,
    read_data,
    rows_of,
)
from nescio.guards.regression_guard import RAW, RegressionGuard, predicted
from nescio.guards.rules import Rule, Scored, Search, fit_rule
from nescio.guards.splitting import Split, split, unknown_to
from nescio.models import MCDropout, Member

INTERVALS, MOST = 0.4, 5000  # the share of the samples that calibrate intervals, and their most
MISCOVERAGE, RISK = 0.05, 0.1  # where nothing is asked for


def guard_regression(
    source: Any,
    calibration: Any,
    *,
    train: Any,
    detector: Fitted | None,
    false_alarm: float,
    risk: float | None,
    confidence: float,
    miscoverage: float | None,
    intervals: str | None,
    max_width: Any,
    names: Sequence[str] | None,
    repeats: bool,
    reading: Mapping[str, Any],
    head: Head | str | None,
    seed: int,
    progress: bool | None,
) -> RegressionGuard:
    """A guard of networks that predict numbers; the options are those of `nescio.guard`."""
    wish: dict[str, Any] = {"false_alarm": false_alarm, "risk": _default(risk, RISK)}
    wish |= {"confidence": confidence, "miscoverage": _default(miscoverage, MISCOVERAGE)}
    check_shares(**wish)
    source, head, passes = without_dropout(source, head)
    members = _members(source, head, calibration)
    raw = [replace(member, head=RAW) for member in members]
    data = {"calibration": calibration, "train": train}
    samples, trained = read_data(raw, data, (detector, None), reading, progress)
    given = samples.samples
    if not repeats and samples.hashes is not None:
        new = unknown_to(samples.hashes, known(trained, source, (detector,)))
        samples = rows_of(samples, new)
    targets = _targets(samples)
    asked = _of_targets(targets, max_width, names)
    output = kept(samples.about, "output", None) or reading["output"]
    how: dict[str, Any] = {**_networks(members), **passes, "output": output}
    said = predicted(samples, **how)
    _check_targets(said, targets)
    fitting = trained is None and not isinstance(detector, Detector)
    parts = _split(samples.samples, fitting, wish, targets.shape[1], seed)
    base = _base(samples, trained, parts.fitting)
    fitted, _ = both_detectors(detector, None, base, None, (raw, reading))
    made = RegressionGuard(
        detector=fitted,
        intervals=_calibrated(said, targets, parts.tuning, intervals, wish["miscoverage"], seed),
        rules=(),
        **how,
        **wish,
        **asked,
        unit=_unit(targets[parts.tuning], asked["max_width"]),
        **inputs_of(samples),
        batch_size=reading["batch_size"],
        notes={
            **counts_of(samples, trained, parts, fitted),
            **{"seed": seed, "repeats": repeats, "dropped": given - samples.samples},
        },
    )
    shown = parts.guarantees
    made = replace(made, rules=(_rule(made, samples[shown], said[shown], targets[shown]),))
    warn_about(made)
    return made


def _default(wished: float | None, usual: float) -> float:
    return usual if wished is None else wished


def without_dropout(
    source: Any, head: Head | str | None
) -> tuple[Any, Head | str | None, dict[str, Any]]:
    """The networks behind passes of MC dropout, and how these are drawn."""
    if not isinstance(source, MCDropout):
        return source, head, {"passes": None, "masks": 0}
    alone = isinstance(source.inner, nn.Module)
    drawn = {"passes": source.passes, "masks": source.seed}
    return source.inner, source.head if alone else head, drawn


def _members(source: Any, head: Head | str | None, data: Any) -> list[Member]:
    """Copies of the networks, all of which predict numbers."""
    if source is None or isinstance(data, Activations):
        raise NescioError(
            "the guard of a regression reads means and variances from the network; give the "
            "network and the data, not activations"
        )
    members = networks(source, head)
    if any(member.head.task != "regression" for member in members):
        raise NescioError("some networks predict numbers, others classes; guard those of one task")
    return own_copies(members, data)


def _networks(members: Sequence[Member]) -> dict[str, Any]:
    nets, heads = zip(*((member.net, member.head) for member in members), strict=True)
    return {"nets": nets, "heads": heads}


def _targets(samples: Activations) -> Tensor:
    """The calibration targets `(N, D)`."""
    if samples.labels is None:
        raise NescioError("calibration data need targets: (x, y); the intervals are about them")
    y = as_targets(samples.labels, samples.samples, task="regression", dtype=torch.float64)
    constant = (y == y[:1]).all(0).nonzero()[:, 0].tolist() if len(y) else []
    if constant:
        where = "" if y.shape[1] == 1 else f" {constant[0]}"
        raise NescioError(
            f"target{where} is {y[0, constant[0]]:g} in all {len(y)} calibration samples: such "
            "targets have no spread, and nothing can be learned about errors; give other data, or "
            "leave the target out"
        )
    return y.cpu()


def _check_targets(said: Regression, targets: Tensor) -> None:
    if said.mean.shape[1:] != targets.shape:
        raise NescioError(
            f"the network predicts {said.mean.shape[-1]} target(s), the calibration data have "
            f"{targets.shape[1]}; is the head right? 'gaussian' reads two outputs per target, "
            "'fixed_variance' one"
        )


def _split(
    samples: int, fitting: bool, wish: Mapping[str, float], targets: int, seed: int
) -> Split:
    """Parts that fit the detector, calibrate the intervals, and show the guarantees."""
    rates: Any = {"false_alarm": wish["false_alarm"], "seed": seed}
    parts = split(samples, fitting=fitting, tuning=INTERVALS, most=MOST, **rates)
    least = needed(wish["miscoverage"] / targets)
    if len(parts.tuning) < least:
        raise NescioError(
            f"{samples} calibration samples are too few for miscoverage={wish['miscoverage']:g}"
            f"{f' of {targets} targets' if targets > 1 else ''}: {len(parts.tuning)} of them "
            f"calibrate the intervals, and it takes {least}, so about "
            f"{math.ceil(least / INTERVALS)} in all; give more, or a larger miscoverage"
        )
    return parts


def _calibrated(
    said: Regression,
    targets: Tensor,
    rows: Tensor,
    kind: str | None,
    miscoverage: float,
    seed: int,
) -> Intervals:
    """Intervals of a kind, or of the narrowest, that hold all targets of an input at once."""
    each = miscoverage / targets.shape[1]
    if kind is None:
        return narrowest(said[rows], targets[rows], miscoverage=each, seed=seed)
    Intervals.known[kind.partition(",")[0]]  # not a method for classes
    made: Intervals = conformal_methods.built(kind)(said[rows], targets[rows], miscoverage=each)
    return made


def _rule(made: RegressionGuard, shown: Activations, said: Regression, targets: Tensor) -> Rule:
    low, high = made.intervals(said)
    y = targets.to(low.device)
    missed = ~((low <= y) & (y <= high)).all(1)
    samples = Scored(scores_of(made.detector, shown), made.widths(low, high), missed)
    options: Any = {name: getattr(made, name) for name in ("false_alarm", "risk", "confidence")}
    search: Search = whole_or_largest
    if made.intervals.name == "residual":  # one width for all inputs: there is nothing to choose
        search = _all_or_none
    return fit_rule("", samples, **options, most=made.widest, search=search)


def _all_or_none(_: Tensor, wrong: Tensor, *, room: Tensor, **wish: Any) -> Coverage:
    del room  # all are answered or none, so there is no threshold that rounding could reach
    return all_or_none(wrong, **wish)


def _base(samples: Activations, trained: Activations | None, rows: Tensor) -> Activations | None:
    """What fits a detector; None where that is fitted."""
    if trained is None and not len(rows):
        return None
    return with_last(samples[rows] if trained is None else trained)


def with_last(base: Activations) -> Activations:
    """Activations with a layer that detectors read by default.

    Of a network that joins its means and variances from two layers, none enters "the" last one: the
    layer that was called last is taken.
    """
    if base.last is not None or not base.features:
        return base
    return replace(base, last=list(base.features)[-1])


def _of_targets(targets: Tensor, max_width: Any, names: Sequence[str] | None) -> dict[str, Any]:
    """What was asked for each target, checked."""
    count = targets.shape[1]
    return {"max_width": _max_width(max_width, count), "names": _names(names, count)}


def _unit(targets: Tensor, max_width: tuple[float, ...] | None) -> Tensor:
    """In which unit widths are compared: their limit, or the targets' deviation.

    What counts as rounding is absolute for small numbers, so one target needs a unit, too.
    """
    if max_width is not None:
        return torch.tensor(max_width, dtype=torch.float64)
    return targets.std(0).clamp(min=torch.finfo(torch.float64).tiny)


def _max_width(given: Any, targets: int) -> tuple[float, ...] | None:
    if given is None:
        return None
    values = [given] * targets if isinstance(given, (int, float)) else list(given)
    if len(values) != targets or not all(0 < value < math.inf for value in values):
        raise NescioError(
            f"max_width must be a positive number, or one for each of {targets} target(s), got "
            f"{given}"
        )
    return tuple(map(float, values))


def _names(names: Sequence[str] | None, targets: int) -> tuple[str, ...] | None:
    if names is not None and (len(names) != targets or len(set(names)) != targets):
        raise NescioError(f"{len(names)} names for {targets} target(s); one each, all different")
    return None if names is None else tuple(map(str, names))
