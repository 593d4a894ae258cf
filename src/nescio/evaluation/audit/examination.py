"""What every predictor is asked in an audit, section by section."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from nescio.core import Advance, Inputs, progress
from nescio.evaluation.answers import Seen, quality, see
from nescio.evaluation.audit.findings import FailureFindings, PredictorFindings, Quality
from nescio.evaluation.audit.guard_section import Guarded
from nescio.evaluation.audit.held_out import Held
from nescio.evaluation.audit.held_out_section import (
    BASELINE,
    GUARDS,
    RECOMMENDED,
    calibration,
    failure,
)
from nescio.evaluation.audit.ood_section import (
    Attack,
    Sets,
    against,
    along_ray,
    far_set,
    histogram,
)
from nescio.metrics import reliability
from nescio.models import Predictor


@dataclass(frozen=True, eq=False)
class Examination:
    """What every predictor is asked."""

    held: Held
    guard: Guarded  # of the first predictor
    own: Sets
    given: Sets
    attack: Attack | None
    alphas: tuple[float, ...]
    scaled: Any  # the inputs that are scaled by them
    rays: Any
    follow: bool  # them to where they reach a confidence
    seed: int

    def run(
        self, predictors: Mapping[str, Predictor], show: bool | None
    ) -> tuple[dict[str, PredictorFindings], Sets]:
        """What is found of each predictor, and the attacked noise of the first."""
        count = len(self.own) + len(self.given) + bool(self.attack)
        total = len(predictors) * (1 + count + len(self.alphas) + len(self.rays))
        found, first = {}, None
        with progress(total, "auditing", show=show) as advance:
            for name, predictor in predictors.items():
                found[name], attacked = self.examined(name, predictor, advance, first is None)
                first = attacked if first is None else first
        return found, first or {}

    def examined(
        self, name: str, predictor: Predictor, advance: Advance, first: bool
    ) -> tuple[PredictorFindings, Sets]:
        """All sections of one predictor, and the noise attacked for it."""

        def look(inputs: Inputs) -> Seen:
            seen = see(predictor, inputs)
            advance(1, lambda: name)
            return seen

        x, y = self.held.test
        attacked: Sets = {}
        more: dict[str, Any] = {}
        if self.attack is not None:
            attacked, more["attack"] = self.attack.on(predictor)
        in_dist = look(x)
        test = Quality(**quality(in_dist, y))
        histograms, ood = {"test": histogram(in_dist)}, {}
        for where, (_, inputs) in {**self.own, **attacked, **self.given}.items():
            seen = look(inputs)
            ood[where], histograms[where] = against(in_dist, seen), histogram(seen)
        if self.alphas:
            more["scaling"], far = along_ray(look, self.scaled, in_dist, self.alphas)
            where = far_set(self.alphas[-1], len(self.scaled)).name
            ood[where], histograms[where] = against(in_dist, far), histogram(far)
        if self.rays:
            from nescio.evaluation.audit.far_field_section import far_away

            tick = lambda: advance(1, lambda: f"{name}, far away")  # noqa: E731
            more["far_field"] = far_away(predictor, self.rays, follow=self.follow, tick=tick)
        return PredictorFindings(
            members=in_dist.members,
            classes=in_dist.log_probs.shape[1],
            test=test,
            reliability=reliability(in_dist.confidence, in_dist.labels == y.cpu()),
            ood=ood,
            confidence_histograms=histograms,
            calibration=calibration(predictor, self.held, in_dist, seed=self.seed),
            failure=self._failure(in_dist, first),
            **more,
        ), attacked

    def _failure(self, in_dist: Seen, first: bool) -> FailureFindings:
        """How well the errors on the test samples are found; by the guard's score too, if any."""
        rows, own = self.held.rows.cpu(), self.guard
        wrong = (in_dist.labels != self.held.test[1].cpu())[rows].numpy()
        scores = {BASELINE: in_dist.scores["log_odds"][rows.numpy()]}
        if first and own.guard is not None and own.guard.failure is not None:
            assert own.decisions is not None
            used = own.guard.failure.name
            named = RECOMMENDED if used == "recommended" else f"{GUARDS} ({used})"
            scores[named] = own.decisions.failure_score.cpu().numpy()
        return failure(scores, wrong, seed=self.seed)
