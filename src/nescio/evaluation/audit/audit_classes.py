"""The audit of a classifier: all sections, in their order."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from torch import Tensor, nn

from nescio import data as sets
from nescio.core import Head, shape_of
from nescio.detectors.observe.network import check_classes
from nescio.evaluation.audit.answers_only import arrays_of, unmoved
from nescio.evaluation.audit.audit_inputs import (
    AuditNames,
    check_options,
    named_parts,
    planned,
    ray_sets,
    read_data,
    read_validation,
)
from nescio.evaluation.audit.cost import Draws, Job
from nescio.evaluation.audit.examination import Examination
from nescio.evaluation.audit.findings import Findings
from nescio.evaluation.audit.guard_section import Guarded, decided_on, guarded
from nescio.evaluation.audit.held_out import Held, hold, out_of_range
from nescio.evaluation.audit.ood_section import (
    RANGED,
    Attack,
    Sets,
    attack_on,
    check_attack,
    check_shape,
    far_set,
    noise_sets,
    ood_sets,
    shifted,
)
from nescio.evaluation.audit.sections import AuditPlan, Material, audited
from nescio.evaluation.under_shift import ShiftCurves
from nescio.guards import Guard
from nescio.models import (
    Member,
    Predictor,
    encoding_of,
    innermost,
    networks,
    plain,
    takes_tokens,
    with_head,
)
from nescio.nets import Output


def audit_classes(
    bare: Mapping[str, nn.Module | Predictor],
    data: Any,
    *,
    others: Mapping[str, Any],
    reading: Mapping[str, Any],
    names: Mapping[str, Any],
    plan: AuditPlan,
    alphas: Sequence[float],
    rays: int | None,
    attack: tuple[int, float | None],
    repeats: bool,
    seed: int,
    show: bool | None,
) -> tuple[Findings, Guard | None]:
    """All sections for classifiers, as `audit_regression` for networks that predict numbers.

    others: training, validation and OOD data. reading: head and output. names: groups of the test
    samples, names of classes and columns. attack: steps and radius.
    """
    predictors = {name: _predictor(one, data, **reading) for name, one in bare.items()}
    ood = others["ood"]
    check_options(predictors, ood, alphas, rays)
    check_attack(*attack)
    columns = encoding_of(next(iter(predictors.values())))
    read = partial(read_data, tokens=any(map(takes_tokens, predictors.values())), columns=columns)
    x, y = read(data, "test data")
    parts = named_parts(names, x, columns)
    trained = None
    if others["train"] is not None:
        trained = read(others["train"], "training data", labels="optional", keep_bytes=True)
    known = x if trained is None else trained[0]
    check_shape("training inputs", known, x)
    held = hold((x, y), read_validation(others["validation"], x, read), seed=seed)
    still = unmoved(x, predictors)
    ranged = still is None
    job = planned(plan, predictors, x, len(ood or {}), alphas, attack[0], rays)
    draws = job.draws(plan.budget)
    job.told(draws, show=show)
    moved = (
        attack_on(known, job.steps, attack[1], count=draws.attack, seed=seed) if ranged else None
    )
    noisy = [] if moved is None else [moved.data]
    far = [far_set(alpha, len(draws.of("scaled", x, seed))) for alpha in job.alphas[-1:]]
    drawn = partial(draws.of, "ood", seed=seed)
    given = ood_sets(ood or {}, x, [*noisy, *far], partial(read, labels="unread"), drawn)
    name, first = next(iter(predictors.items()))
    bound = plan.bound_to(
        partial(audited, predictors, held, trained, given),
        (alphas, rays, attack, repeats, seed),
        vars(parts),
    )
    how = {**_whole(bare[name], first, reading["output"]), "seed": seed, "progress": show}
    how |= {"repeats": repeats, "skip": not plan.wants("guard")}
    guard = guarded(name, first, held, trained, **how)
    noise = ranged and plan.wants("noise")
    own = noise_sets(draws.of("noise", x, seed), known, seed) if noise else {}
    inquiry = Inquiry(
        job=job, draws=draws, held=held, guard=guard, known=known, own=own, given=given,
        attack=moved, plan=bound, names=parts, trained=trained,
        net=bare[name], reading=reading, still=still, seed=seed, show=show,
    )  # fmt: skip
    return inquiry.findings(), guard.guard


@dataclass(frozen=True, eq=False, kw_only=True)
class Inquiry:
    """An audit whose data are read and whose guard is made; known: the training inputs."""

    job: Job
    draws: Draws
    held: Held
    guard: Guarded
    known: Any
    own: Sets
    given: Sets
    attack: Attack | None
    plan: AuditPlan
    names: AuditNames
    trained: tuple[Any, Tensor | None] | None
    net: Any
    reading: Mapping[str, Any]
    still: str | None  # why inputs cannot be moved
    seed: int
    show: bool | None

    def findings(self) -> Findings:
        """All sections."""
        job, draws, seed, held = self.job, self.draws, self.seed, self.held
        x: Any = job.x
        ranged, some = self.still is None, draws.of("scaled", x, seed)
        noisy = [] if self.attack is None else [self.attack.data]
        far = [far_set(alpha, len(some)) for alpha in job.alphas[-1:]]
        exam = Examination(
            held=held, guard=self.guard, own=self.own, given=self.given, attack=self.attack,
            alphas=job.alphas, scaled=some, rays=ray_sets(x, draws.rays * ranged, seed),
            follow=draws.follow, seed=seed, plan=self.plan,
        )  # fmt: skip
        found = exam.run(job.predictors, self.show)
        tried = {**self.given, **self.own, **exam.attacked}
        tried |= {one.name: (one, sets.scaling()(some, job.alphas[-1])) for one in far}
        shift, no_shift = self._shift()
        decided = decided_on(self.guard.guard, tried, draws)
        guard = self.guard.tried(decided)
        sections = self._sections(exam, tried, decided)
        own, given = (tuple(d for d, _ in part.values()) for part in (self.own, self.given))
        return Findings(
            samples=len(x),
            features=shape_of(x),
            seed=seed,
            sets=(*own, *noisy, *given, *far),
            held_out=held.words,
            range=None if self.known is x or not ranged else out_of_range(x, self.known),
            guard=guard,
            cost=job.found(draws),
            predictors=found,
            shift=shift,
            no_shift=no_shift,
            attack=None if self.attack is None else self.attack.options,
            class_names=self.names.classes,
            columns=self.names.columns,
            budget=self.plan.budget,
            sections=sections,
            not_run={**self._not_run(), **self.plan.not_run},
        )

    def _not_run(self) -> dict[str, str]:
        if self.still is None:
            return self.job.left_out(self.draws)
        return dict.fromkeys(RANGED, self.still)

    def _shift(self) -> tuple[ShiftCurves | None, str | None]:
        """Curves under shift, or why there are none."""
        if self.still is not None:
            return None, self.still
        guards = {} if self.guard.guard is None else {"guard": self.guard.guard}
        options: Any = {"most": self.draws.shift, "seed": self.seed}
        make = partial(shifted, self.job.predictors, guards, self.held, **options)
        found = self.plan.attempt(
            "shift", partial(self.plan.kept, "shift", ShiftCurves, make), None
        )
        return found, self.plan.not_run.get("shift")

    def _sections(
        self, exam: Examination, tried: Sets, decided: Mapping[str, Any]
    ) -> dict[str, Any]:
        """The sections of the registry."""
        first = next(iter(self.job.predictors.values()))
        features = arrays_of(first, self.job.x)
        material = Material(
            predictor=first,
            predictors=self.job.predictors,
            net=self.net,
            reading=self.reading,
            x=self.job.x if features is None else None,
            y=self.held.test[1].cpu(),
            seen=exam.seen["test"],
            on_test=exam.on_test,
            held=self.held,
            train=self.trained,
            guard=self.guard.guard,
            decisions=self.guard.decisions,
            decisions_ood=decided,
            ood=tried,
            seen_ood={name: seen for name, seen in exam.seen.items() if name != "test"},
            features=features,
            train_features=None if self.trained is None else arrays_of(first, self.trained[0]),
            groups=self.names.groups,
            class_names=self.names.classes,
            columns=self.names.columns,
            budget=self.plan.budget,
            draws=self.draws,
            seed=self.seed,
        )
        return self.plan.sections(material, show=self.show)


def _predictor(net: Any, data: Any, head: Head | str | None, output: Output) -> Predictor:
    """A network read by its head; a predictor as it is. Both must answer with classes."""
    if isinstance(net, nn.Module):
        net = with_head(net, data, head=head, output=output)
    found: Predictor = plain(net) if isinstance(net, nn.Module) else net
    for member in networks(found)[:1] if callable(getattr(found, "networks", None)) else ():
        check_classes(member.head)
    return found


def _whole(net: Any, predictor: Any, output: Output) -> dict[str, Any]:
    """What is guarded of a network whose outputs were picked: all of it, and where they are."""
    if output is None or not isinstance(net, nn.Module):
        return {"source": innermost(predictor)}
    return {"source": Member(net=net, head=predictor.head), "output": output}
