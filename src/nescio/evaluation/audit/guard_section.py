"""A guard for the audited network: fitted on one part of held-out data, measured on another."""

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from typing import Any

import torch
from torch import Tensor, nn

from nescio.conformal import binomial_interval
from nescio.conformal.score_limits import allowed
from nescio.core import NescioError, generator, quiet
from nescio.detectors import has_features, recorded_nets
from nescio.evaluation.audit.cost import Draws
from nescio.evaluation.audit.findings import Broken, GuardFindings, OnTest, Shares, Shown
from nescio.evaluation.audit.held_out import Held
from nescio.evaluation.audit.sections import SKIPPED, reason
from nescio.guards import Decisions, Guard, guard
from nescio.guards.largest_coverage import fewest
from nescio.guards.splitting import FITTING
from nescio.models import Predictor, innermost
from nescio.nets import Output
from nescio.nets.factory import is_scaled, made_by
from nescio.training import Pair

FALSE_ALARM, RISK, CONFIDENCE = 0.01, 0.02, 0.95  # the wishes
TRAINING = 20_000  # training samples that fit the detector, at most
BROKEN = 1e-3  # a guarantee is called broken where chance does this more rarely


@dataclass(frozen=True, eq=False)
class Guarded:
    """The guard, what it decides for the test samples, and both in numbers."""

    guard: Guard | None  # None: `findings.skipped` says why
    decisions: Decisions | None
    findings: GuardFindings

    def tried(self, decisions: Mapping[str, Any]) -> GuardFindings:
        """The findings with what the guard decides for OOD data, by set."""
        if self.guard is None:
            return self.findings
        return replace(self.findings, ood=shares_of(decisions))


def decided_on(made: Any, sets: Mapping[str, tuple[Any, Any]], draws: Draws) -> dict[str, Any]:
    """What a guard decides for OOD data, of some inputs of each set where it has many."""
    if made is None:
        return {}
    with quiet(), torch.no_grad():
        return {name: made(x[draws.spread(len(x))]) for name, (_, x) in sets.items()}


def shares_of(decisions: Mapping[str, Any]) -> dict[str, Shares]:
    """Decisions by set as shares."""
    found = {name: one.summary() for name, one in decisions.items()}
    return {
        name: Shares(**{one.name: summary[one.name] for one in fields(Shares)})
        for name, summary in found.items()
    }


def guarded(
    name: str,
    predictor: Predictor,
    held: Held,
    train: tuple[Tensor, Tensor | None] | None,
    *,
    source: Any = None,
    output: Output = None,
    repeats: bool = False,
    skip: bool = False,
    seed: int = 0,
    progress: bool | None = None,
) -> Guarded:
    """Fit a guard for a predictor's network and measure it; whatever fails is said.

    source, output: the networks, and where the logits are in what they return.
    train: inputs and labels that fit the detector; without them a part of the fitting data does.
    """
    wish: dict[str, Any] = {"false_alarm": FALSE_ALARM, "risk": RISK, "confidence": CONFIDENCE}
    least, samples = least_samples(training=train is not None), len(held.fitting[0])
    about = GuardFindings(predictor=name, **wish, samples=samples, needed=least,
                          halved=held.halved, left_out=held.left_out)  # fmt: skip
    try:
        if skip:
            raise NescioError(SKIPPED)
        if samples < least:
            raise NescioError(f"{samples} calibration samples, it takes {least}")
        wish |= {"output": output, "repeats": repeats, "seed": seed, "progress": progress}
        found = _made(source or innermost(predictor), held.fitting, train, wish)
        x, y = held.measured
        with quiet():
            decisions = found(x)
    except Exception as error:  # whatever it is: the other sections are worth having
        return Guarded(None, None, replace(about, skipped=reason(error)))
    about = _measured(_guaranteed(about, found), found, decisions, y)
    return Guarded(found, decisions, about)


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
    return math.ceil(guarantees / (1.0 if training else 1 - FITTING))


def _made(
    source: Any,
    calibration: Pair,
    train: tuple[Tensor, Tensor | None] | None,
    options: Mapping[str, Any],
) -> Guard:
    data = None
    if train is not None:
        x, y = train
        order = torch.randperm(len(x), generator=generator(options["seed"], "training"))[:TRAINING]
        rows = order.sort().values
        data = x[rows], None if y is None else y[rows]
    with quiet():
        made: Guard = guard(source, calibration, train=data, **options)
    return made


def _guaranteed(about: GuardFindings, found: Guard) -> GuardFindings:
    """With what the calibration data showed."""
    (rule,) = found.rules
    own, part = rule.coverage, found.notes["guarantee_samples"]
    more = None
    if not own.holds and own.needed is not None:  # in the part that shows guarantees; now in all
        more = math.ceil(own.needed / max(own.samples, 1) * found.notes["calibration"])
    shown = {key: value for key, value in asdict(own).items() if key != "threshold"}
    return replace(
        about,
        holds=own.holds,
        shown=Shown(**shown, calibration=part),
        enough=more,
        trained=found.notes["train"],
        detector=found.detector.name,
        failure=None if found.failure is None else found.failure.name,
        own_network=any(is_own(net) for net in found.nets),
        arrays=_arrays(found.nets[0]),
        guarantees=tuple(found.guarantees),
    )


def _arrays(net: nn.Module) -> tuple[str, ...]:
    """The arrays that stand for a network which runs elsewhere; none for one that is here."""
    if not recorded_nets(net):
        return ()
    return ("logits", "features") if has_features(net) else ("logits",)


def is_own(net: nn.Module) -> bool:
    """Whether a network is one that no file rebuilds."""
    inner = net[1] if is_scaled(net) else net  # type: ignore[index]
    return made_by(inner) is None


def _measured(about: GuardFindings, found: Guard, decisions: Decisions, y: Tensor) -> GuardFindings:
    """With shares on the test samples, exact intervals, and whether a guarantee looks broken."""
    samples, answered = len(decisions), int(decisions.answered.sum())
    summary = decisions.summary(y)
    errors, ood = int(summary["errors"]), round(samples * summary["ood"])
    test = OnTest(
        samples=samples,
        answered=binomial_interval(answered, samples),
        ood=binomial_interval(ood, samples),
        unsure=summary["unsure"],
        errors=errors,
        risk=binomial_interval(errors, answered) if answered else None,
    )
    broken = broken_by(found, samples=samples, ood=ood, answered=answered, errors=errors)
    return replace(about, test=test, broken=broken)


def broken_by(found: Any, *, samples: int, ood: int, answered: int, errors: int) -> Broken:
    """Which guarantees of a guard new samples break by more than chance (1 in 1,000) allows.

    found: the guard.
    samples: number of all new samples.
    ood: number of these that are called OOD.
    answered: number of these that are answered.
    errors: number of answers that are wrong.
    """
    from scipy.stats import betabinom

    calibrated = len(found.rules[0].scores)
    over = allowed(calibrated, found.false_alarm)
    alarms = betabinom(samples, over, calibrated + 1 - over)  # false alarms over all draws
    return Broken(
        false_alarm=bool(alarms.sf(ood - 1) < BROKEN),
        risk=risk_broken(answered, errors, found.risk),
    )


def risk_broken(answered: int, errors: int, risk: float) -> bool:
    """Whether answers have more errors than chance allows at a guaranteed error rate."""
    from scipy.stats import binom

    return bool(binom(answered, risk).sf(errors - 1) < BROKEN)
