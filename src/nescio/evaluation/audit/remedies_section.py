"""What would help: remedies tried on the audited network, on samples that fitted nothing."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from nescio import metrics
from nescio.calibration import map_of
from nescio.conformal import binomial_interval
from nescio.core import NescioError, generator
from nescio.evaluation.answers import see
from nescio.evaluation.audit.cost import PASSES
from nescio.evaluation.audit.held_out_section import tempered
from nescio.evaluation.audit.sections import Material, section
from nescio.metrics import Interval
from nescio.models import MCDropout, mc_dropout, networks

MOST = 5_000  # samples that measure
DROPPED = {"standard": 1_000, "thorough": MOST}  # samples that these passes measure
FEWEST = 100  # samples of a large network
RESAMPLES = 300
MEASURES = ("error rate", "NLL", "ECE")  # of all of them, less is better
DROPOUT = (nn.Dropout, nn.Dropout1d, nn.Dropout2d, nn.Dropout3d, nn.AlphaDropout)


@dataclass(frozen=True, kw_only=True)
class Gain:
    """A number now and with the remedy, and the paired difference with its 95 % interval.

    now, then: the number without and with the remedy.
    change: `then` less `now`: below 0 it helps.
    low, high: ends of the interval of the change.
    """

    now: float
    then: float
    change: float
    low: float
    high: float

    @property
    def word(self) -> str:
        """Whether it helps, beyond chance."""
        return "better" if self.high < 0 else "worse" if self.low > 0 else "no clear change"


@dataclass(frozen=True, kw_only=True)
class TriedRemedy:
    """Something that was tried, and by how much it helps.

    name: name of the remedy.
    how: what was done, and where it comes from.
    samples: number of samples that measured it.
    gains: what changed, by measure.
    coverage: of a guard, the share of samples that is answered.
    """

    name: str
    how: str
    samples: int
    gains: Mapping[str, Gain]
    coverage: Interval | None = None


@dataclass(frozen=True, kw_only=True)
class Remedies:
    """What was tried, and why the rest was not.

    remedies: the remedies that were tried.
    not_tried: reasons by the name of the remedy.
    """

    remedies: tuple[TriedRemedy, ...]
    not_tried: Mapping[str, str]


@section("remedies", title="What would help", place=28)
def remedies_section(material: Material) -> Remedies:
    """Temperature, guard, MC dropout, other predictors and their ensemble, on other samples."""
    trial = _Trial(material)
    tried: dict[str, Callable[[], TriedRemedy]] = {
        "temperature": trial.temperature,
        "guard": trial.guard,
        "MC dropout": trial.dropout,
        "ensemble": trial.ensemble,
    }
    others = list(material.on_test)[1:]
    tried |= {name: partial(trial.instead, name) for name in others}
    found, missing = [], {}
    for name, make in tried.items():
        try:
            found.append(make())
        except NescioError as error:
            missing[name] = str(error)
    if not others:
        missing["retraining"] = (
            "no other network was given; --recipe acet trains one and measures it here"
        )
    return Remedies(remedies=tuple(found), not_tried=missing)


@dataclass(frozen=True, eq=False)
class _Trial:
    """Remedies for the first predictor, on the samples that measure."""

    material: Material

    @property
    def rows(self) -> Tensor:
        """Which of the samples that measure are read, as indices into them."""
        return _some(len(self.material.held.rows), MOST, self.material.seed)

    def now(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        """Log-probabilities and labels."""
        held = self.material.held
        chosen = held.rows.cpu()[rows]
        return self.material.answers().log_probs[chosen], held.test[1].cpu()[chosen]

    def with_logs(self, name: str, how: str, logs: Tensor, rows: Tensor) -> TriedRemedy:
        """A remedy that changes probabilities."""
        before, y = self.now(rows)
        now, then = (_numbers(part, y) for part in (before, logs))
        gains = {one: _gain(one, now, then, self.material.seed) for one in MEASURES}
        return TriedRemedy(name=name, how=how, samples=len(rows), gains=gains)

    def temperature(self) -> TriedRemedy:
        """Fitted on the samples that fit."""
        material = self.material
        assert material.predictor is not None
        if map_of(material.predictor) is not None:
            raise NescioError("it is calibrated already")
        _, after, fitted = tempered(material.predictor, material.held, material.seen)
        if after is None or isinstance(fitted, str):
            raise NescioError(str(fitted))
        how = f"T = {fitted.temperature:.3g}, fitted on {len(material.held.fitting[0]):,} samples"
        rows = self.rows
        return self.with_logs("temperature", how, after[rows], rows)

    def guard(self) -> TriedRemedy:
        """Errors among its answers against those among all."""
        decisions, guard = self.material.decisions, self.material.guard
        if guard is None or decisions is None:
            raise NescioError("there is no guard here; its section says why")
        rows = self.rows
        answered = decisions.answered.cpu()[rows].numpy()
        if not answered.any():
            raise NescioError("it answers none of the samples")
        logs, y = self.now(rows)
        wrong = (logs.argmax(-1) != y).double().numpy()
        gain = metrics.metric_test(
            _among,
            (wrong, answered),
            (wrong, np.ones_like(answered)),
            resamples=RESAMPLES,
            seed=self.material.seed,
        )
        now, then = float(wrong.mean()), float(wrong[answered].mean())
        own = Gain(now=now, then=then, change=gain.value, low=gain.low, high=gain.high)
        return TriedRemedy(
            name="guard",
            how=f"abstains, so that at most {100 * guard.risk:g} % of the answers are wrong",
            samples=len(rows),
            gains={"error rate": own},
            coverage=binomial_interval(int(answered.sum()), len(rows)),
        )

    def dropout(self) -> TriedRemedy:
        """Passes with dropout on, of some of the samples."""
        predictor: Any = self.material.predictor
        if isinstance(predictor, MCDropout):
            raise NescioError("it has dropout on already")
        if not callable(getattr(predictor, "networks", None)):
            raise NescioError("it is a function that shows no network")
        if not any(_drops(member.net) for member in networks(predictor)):
            raise NescioError("the network has no dropout layer")
        most = min(DROPPED.get(self.material.budget, MOST), self.material.draws.dropout)
        if most < FEWEST and most < len(self.material.held.rows):
            raise NescioError(
                f"{PASSES} passes of a large network take too long; the thorough budget tries them"
            )
        rows = _some(len(self.material.held.rows), most, self.material.seed)
        model = mc_dropout(predictor, passes=PASSES, seed=self.material.seed)
        inputs: Any = self.material.held.measured[0]
        how = f"{PASSES} passes with dropout on, averaged"
        return self.with_logs("MC dropout", how, see(model, inputs[rows]).log_probs, rows)

    def ensemble(self) -> TriedRemedy:
        """The mean of the probabilities of all predictors that were given."""
        given = self.material.on_test
        if len(given) < 2:
            members = self.material.answers().members
            already = f"it has {members} members already; " if members > 1 else ""
            raise NescioError(f"{already}one predictor was given; give several to try their mean")
        rows = self.rows
        chosen = self.material.held.rows.cpu()[rows]
        logs = torch.stack([seen.log_probs[chosen] for seen in given.values()])
        mixed = logs.logsumexp(0) - math.log(len(given))
        how = f"the mean probabilities of {', '.join(given)}"
        return self.with_logs("ensemble", how, mixed, rows)

    def instead(self, name: str) -> TriedRemedy:
        """Another predictor in its place."""
        rows = self.rows
        chosen = self.material.held.rows.cpu()[rows]
        logs = self.material.on_test[name].log_probs[chosen]
        return self.with_logs(name, "in place of the first", logs, rows)


def _some(count: int, most: int, seed: int) -> Tensor:
    if count <= most:
        return torch.arange(count)
    order = torch.randperm(count, generator=generator(seed, "remedies"))
    return order[:most].sort().values


def _numbers(logs: Tensor, y: Tensor) -> dict[str, tuple[Callable[..., Any], tuple[Any, ...]]]:
    """What each measure reads: the function, and its arrays with one row per sample."""
    right = logs.argmax(-1) == y
    nll = -logs.gather(1, y[:, None])[:, 0]
    return {
        "error rate": (np.mean, ((~right).double().numpy(),)),
        "NLL": (np.mean, (nll.numpy(),)),
        "ECE": (metrics.ece, (logs.amax(-1).exp().numpy(), right.numpy())),
    }


def _gain(name: str, now: Mapping[str, Any], then: Mapping[str, Any], seed: int) -> Gain:
    metric, before = now[name]
    after = then[name][1]
    found = metrics.metric_test(metric, after, before, resamples=RESAMPLES, seed=seed)
    return Gain(
        now=float(metric(*before)),
        then=float(metric(*after)),
        change=found.value,
        low=found.low,
        high=found.high,
    )


def _among(wrong: Any, chosen: Any) -> float:
    """The error rate among the chosen samples; 0 where a resample has none."""
    return float(wrong[chosen].mean()) if chosen.any() else 0.0


def _drops(net: nn.Module) -> bool:
    return any(isinstance(part, DROPOUT) and part.p > 0 for part in net.modules())
