"""A guard for the audited regression: fitted on one part of the test data, measured on another."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from nescio.conformal import binomial_interval
from nescio.core import NescioError, generator, quiet
from nescio.evaluation.audit.guard_section import TRAINING, is_own, shares_of
from nescio.evaluation.audit.held_out import Held
from nescio.evaluation.audit.sections import SKIPPED, reason
from nescio.evaluation.regression.means_only import MeansOnly
from nescio.evaluation.regression.regression_findings import AnswersOnTest, RegressionGuardFindings
from nescio.guards import RegressionDecisions, RegressionGuard, guard
from nescio.models import Predictor


@dataclass(frozen=True, eq=False)
class GuardedRegression:
    """The guard and what it does; None: `findings.skipped` says why."""

    guard: RegressionGuard | None
    findings: RegressionGuardFindings
    decisions: RegressionDecisions | None = None  # for the samples that fitted nothing

    def tried(self, decisions: Mapping[str, Any]) -> RegressionGuardFindings:
        """The findings with what the guard decides for OOD data, by set."""
        if self.guard is None:
            return self.findings
        return replace(self.findings, ood=shares_of(decisions))


def guarded_regression(
    name: str,
    predictor: Predictor,
    held: Held,
    train: tuple[Any, Tensor | None] | None,
    *,
    repeats: bool,
    skip: bool = False,
    seed: int,
    show: bool | None,
) -> GuardedRegression:
    """Fit a guard with the usual wishes on the samples that fit, and measure it on the others."""
    about = RegressionGuardFindings(
        predictor=name, samples=len(held.fitting[0]), halved=held.halved
    )
    source: Any = predictor.inner if isinstance(predictor, MeansOnly) else predictor
    data = None
    if train is not None:
        order = torch.randperm(len(train[0]), generator=generator(seed, "training"))[:TRAINING]
        data = train[0][order.sort().values]
    try:
        if skip:
            raise NescioError(SKIPPED)
        with quiet():
            wish: dict[str, Any] = {"repeats": repeats, "seed": seed, "progress": show}
            made = guard(source, held.fitting, train=data, **wish)
            decisions = made(held.measured[0])
    except Exception as error:  # whatever it is: the other sections are worth having
        return GuardedRegression(None, replace(about, skipped=reason(error)))
    return GuardedRegression(made, _measured(about, made, decisions, held.measured[1]), decisions)


def _measured(
    about: RegressionGuardFindings, made: RegressionGuard, decisions: RegressionDecisions, y: Tensor
) -> RegressionGuardFindings:
    """With what was guaranteed, and shares on the samples that fitted nothing."""
    summary, samples = decisions.summary(y), len(decisions)
    answered, misses = int(decisions.answered.sum()), int(summary["misses"])
    held_all = round(samples * summary["interval_coverage"])
    return replace(
        about,
        **{name: getattr(made, name) for name in ("false_alarm", "risk", "confidence")},
        miscoverage=made.miscoverage,
        intervals=made.intervals.name,
        detector=made.detector.name,
        holds=all(rule.coverage.holds for rule in made.rules),
        own_network=any(map(is_own, made.nets)),
        guarantees=tuple(made.guarantees),
        test=AnswersOnTest(
            samples=samples,
            answered=binomial_interval(answered, samples),
            ood=binomial_interval(round(samples * summary["ood"]), samples),
            unsure=summary["unsure"],
            misses=misses,
            risk=binomial_interval(misses, answered) if answered else None,
            held=binomial_interval(held_all, samples),
            width=decisions[decisions.answered].summary()["mean_width"],
        ),
    )
