"""A guard for the audited network: made on one part of the held-out data, measured on the other."""

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor, nn

from nescio.conformal import binomial_interval
from nescio.conformal.score_limits import allowed
from nescio.core import NescioError, as_batch, generator
from nescio.evaluation.audit.held_out import Held
from nescio.guards import Decisions, Guard, guard
from nescio.guards.guard import FITTING, TUNING
from nescio.guards.rules import fewest
from nescio.guards.score import quiet
from nescio.models import Predictor, innermost
from nescio.nets.factory import made_by
from nescio.nets.standardize import is_scaled
from nescio.training.loop import Pair

FALSE_ALARM, RISK, CONFIDENCE = 0.01, 0.02, 0.95  # the wishes
TRAINING = 20_000  # training samples that fit the detector, at most
OOD = 2_000  # samples of an outside set that the guard is tried on, at most
BROKEN = 1e-3  # a promise is called broken where chance does this more rarely


@dataclass(frozen=True, eq=False)
class Guarded:
    """The guard, what it decides for the measured samples, and both in numbers."""

    guard: Guard | None  # none: `result["skipped"]` says why
    decisions: Decisions | None
    result: dict[str, Any]

    def on(self, x: Tensor) -> dict[str, Any]:
        """Shares of the decisions for inputs from outside, of some of them where there are many."""
        assert self.guard is not None
        step = -(-len(x) // OOD)
        with quiet():
            found = self.guard(x[::step]).summary()
        return {name: found[name] for name in ("inputs", "answer", "unsure", "ood")}


def guarded(
    name: str,
    predictor: Predictor,
    held: Held,
    train: tuple[Tensor, Tensor | None] | None,
    *,
    seed: int = 0,
    progress: bool | None = None,
) -> Guarded:
    """Make a guard for a predictor's network and measure it.

    train: inputs and labels that fit the detector; without them a part of the fitting data does.
    """
    wish = {"false_alarm": FALSE_ALARM, "risk": RISK, "confidence": CONFIDENCE}
    least = least_samples(training=train is not None)
    about = {"predictor": name, **wish, "samples": len(held.fitting[0]), "needed": least}
    about |= {"halved": held.halved, "left_out": held.left_out}
    try:
        if len(held.fitting[0]) < least:
            raise NescioError(f"{len(held.fitting[0])} held-out samples, it takes {least}")
        found = _made(predictor, held.fitting, train, wish, seed, progress)
    except NescioError as error:
        return Guarded(None, None, {**about, "skipped": str(error)})
    x, y = held.measured
    with quiet():
        decisions = found(x)
    return Guarded(
        found, decisions, {**about, **_guaranteed(found), **_measured(found, decisions, y)}
    )


def least_samples(
    *,
    training: bool,
    false_alarm: float = FALSE_ALARM,
    risk: float = RISK,
    confidence: float = CONFIDENCE,
) -> int:
    """The fewest held-out samples that can show the wishes: all answers right, none to spare."""
    answers = fewest(risk, confidence)
    guarantees = answers
    while (
        not allowed(guarantees, false_alarm)
        or guarantees - allowed(guarantees, false_alarm) < answers
    ):
        guarantees += 1
    share = 1 - TUNING - (0.0 if training else FITTING)
    return math.ceil(guarantees / share)


def _made(
    predictor: Predictor,
    calibration: Pair,
    train: tuple[Tensor, Tensor | None] | None,
    wish: Mapping[str, Any],
    seed: int,
    progress: bool | None,
) -> Guard:
    data = None
    if train is not None:
        x, y = train
        order = torch.randperm(len(x), generator=generator(seed, "training"))[:TRAINING]
        rows = order.sort().values
        data = as_batch(x[rows]) if y is None else (as_batch(x[rows]), y[rows])
    with quiet():
        return guard(
            innermost(predictor), calibration, train=data, seed=seed, progress=progress, **wish
        )


def _guaranteed(found: Guard) -> dict[str, Any]:
    """What the fitting data showed."""
    (rule,) = found.rules
    own, part = rule.coverage, found.notes["guarantee_samples"]
    more = None
    if not own.holds and own.needed is not None:  # in the part that shows promises; now in all
        more = math.ceil(own.needed / max(own.samples, 1) * found.notes["calibration"])
    return {
        "holds": own.holds,
        "shown": {
            **{k: v for k, v in asdict(own).items() if k != "threshold"},
            "calibration": part,
        },
        "enough": more,
        "trained": found.notes["train"],
        "detector": found.detector.name,
        "failure": None if found.failure is None else found.failure.name,
        "own_network": any(_is_own(net) for net in found.nets),
        "guarantees": list(found.guarantees),
    }


def _is_own(net: nn.Module) -> bool:
    """Whether a network is one that no file rebuilds."""
    inner = net[1] if is_scaled(net) else net  # type: ignore[index]
    return made_by(inner) is None


def _measured(found: Guard, decisions: Decisions, y: Tensor) -> dict[str, Any]:
    """Shares on the measured samples, with exact intervals, and whether a promise looks broken."""
    from scipy.stats import betabinom, binom

    samples, answered = len(decisions), int(decisions.answered.sum())
    summary = decisions.summary(y)
    errors = int(summary["errors"])
    counts = {"answered": answered, "ood": round(samples * summary["ood"])}
    shares = {name: asdict(binomial_interval(count, samples)) for name, count in counts.items()}
    risk = asdict(binomial_interval(errors, answered)) if answered else None
    calibrated = len(found.rules[0].scores)
    over = allowed(calibrated, found.false_alarm)
    alarms = betabinom(samples, over, calibrated + 1 - over)  # false alarms over all draws
    return {
        "test": {"samples": samples, **shares, "unsure": summary["unsure"], "errors": errors}
        | {"risk": risk},
        "broken": {
            "false_alarm": bool(alarms.sf(counts["ood"] - 1) < BROKEN),
            "risk": bool(binom(answered, found.risk).sf(errors - 1) < BROKEN),
        },
    }
