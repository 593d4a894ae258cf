"""What every predictor is asked in an audit, section by section."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, cast

from nescio.core import Advance, Inputs, progress
from nescio.evaluation.answers import Seen, quality, see
from nescio.evaluation.audit.findings import (
    AttackFindings,
    FailureFindings,
    FarFieldFindings,
    PredictorFindings,
    Quality,
    Scaling,
)
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
from nescio.evaluation.audit.sections import AuditPlan
from nescio.metrics import reliability
from nescio.models import Predictor


@dataclass(frozen=True, eq=False, kw_only=True)
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
    plan: AuditPlan
    seen: dict[str, Seen] = field(default_factory=dict)  # what the first predictor answered
    on_test: dict[str, Seen] = field(default_factory=dict)  # what each did, on the test data
    attacked: Sets = field(default_factory=dict)  # noise, for the first

    def run(
        self, predictors: Mapping[str, Predictor], show: bool | None
    ) -> dict[str, PredictorFindings]:
        """What is found of each predictor; the answers of the first are stored."""
        count = len(self.own) + len(self.given) + bool(self.attack)
        total = len(predictors) * (1 + count + len(self.alphas) + len(self.rays))
        found: dict[str, PredictorFindings] = {}
        with progress(total, "auditing", show=show) as advance:
            for name, predictor in predictors.items():
                found[name] = self.examined(name, predictor, advance, first=not found)
        return found

    def examined(
        self, name: str, predictor: Predictor, advance: Advance, *, first: bool
    ) -> PredictorFindings:
        """All sections of one predictor; one that fails is listed as not run."""

        def look(inputs: Inputs) -> Seen:
            seen = see(predictor, inputs)
            advance(1, lambda: name)
            return seen

        attempt = partial(self.plan.attempt, of="" if first else name)
        x, y = self.held.test
        more: dict[str, Any] = {}
        attacked: Sets = {}
        if self.attack is not None:
            moved = partial(self.attack.on, predictor, self._kept_inputs(name))
            nothing: tuple[Sets, AttackFindings] = {}, AttackFindings()
            attacked, more["attack"] = attempt("attack", moved, nothing)
        in_dist = look(x)
        answers = {"test": in_dist}
        self.on_test[name] = in_dist
        for where, (_, inputs) in {**self.own, **attacked, **self.given}.items():
            if (seen := attempt(where, partial(look, inputs), None)) is not None:
                answers[where] = seen
        if self.alphas:
            ray = partial(along_ray, look, self.scaled, in_dist, self.alphas)
            missing: tuple[Scaling | None, Seen | None] = None, None
            more["scaling"], far = attempt("scaled inputs", cast(Any, ray), missing)
            if far is not None:
                answers[far_set(self.alphas[-1], len(self.scaled)).name] = far
        if self.rays:
            more["far_field"] = attempt(
                "far field", partial(self._far, name, predictor, advance), None
            )
        if first:
            self.seen.update(answers)
            self.attacked.update(attacked)
        return PredictorFindings(
            members=in_dist.members,
            classes=in_dist.log_probs.shape[1],
            test=Quality(**quality(in_dist, y)),
            reliability=reliability(in_dist.confidence, in_dist.labels == y.cpu()),
            ood={n: against(in_dist, seen) for n, seen in answers.items() if n != "test"},
            confidence_histograms={n: histogram(seen) for n, seen in answers.items()},
            calibration=attempt(
                "calibration",
                partial(calibration, predictor, self.held, in_dist, seed=self.seed),
                None,
            ),
            failure=attempt("failure", partial(self._failure, in_dist, first), None),
            **more,
        )

    def _far(self, name: str, predictor: Predictor, advance: Advance) -> FarFieldFindings:
        """The far field, or the one that was kept of this audit."""
        from nescio.evaluation.audit.far_field_section import far_away

        tick = lambda: advance(1, lambda: f"{name}, far away")  # noqa: E731
        make = partial(far_away, predictor, self.rays, follow=self.follow, tick=tick)
        return self.plan.kept(f"far field of {name}", FarFieldFindings, make)

    def _kept_inputs(self, name: str) -> Any:
        """What keeps the inputs that an attack moved, where parts are kept."""
        store = self.plan.store
        return None if store is None else partial(store.inputs, f"attack on {name}")

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
