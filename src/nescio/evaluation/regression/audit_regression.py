"""The audit of a regression: on test data, off them, under attack, and far away."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from nescio.core import (
    DataSet,
    Head,
    NescioError,
    fixed_variance,
    generator,
    progress,
    quiet,
    shape_of,
)
from nescio.detectors.default import GRID, default_detector, watched_layers
from nescio.detectors.observe import observe, scorer
from nescio.evaluation.audit.audit_inputs import (
    AuditNames,
    check_options,
    named_parts,
    planned,
    ray_sets,
    read_data,
    read_validation,
)
from nescio.evaluation.audit.cost import TRIED, Draws, Job
from nescio.evaluation.audit.guard_section import decided_on
from nescio.evaluation.audit.held_out import Held, hold, out_of_range
from nescio.evaluation.audit.ood_section import (
    NO_RANGE,
    RANGED,
    Sets,
    check_attack,
    check_shape,
    far_set,
    has_range,
    noise_sets,
    ood_sets,
)
from nescio.evaluation.audit.sections import NUMBERS, AuditPlan, Material, audited
from nescio.evaluation.regression.means_only import MeansOnly, with_residual_spread
from nescio.evaluation.regression.off_data_section import (
    AttackOnMeans,
    Extra,
    against,
    along_ray,
    attack_on_means,
    look_with,
    told,
)
from nescio.evaluation.regression.regression_findings import (
    RegressionFindings,
    RegressorFindings,
)
from nescio.evaluation.regression.regression_guarded import GuardedRegression, guarded_regression
from nescio.evaluation.regression.regression_quality import (
    Scale,
    by_target,
    constant,
    examples,
    predicted,
    quality,
    scale_of,
)
from nescio.evaluation.regression.spread_section import interval_findings, spread_findings
from nescio.guards import RegressionGuard
from nescio.guards.fit_regression import with_last
from nescio.models import (
    Predictor,
    encoding_of,
    innermost,
    networks,
    plain,
    takes_tokens,
    with_head,
)

FITTED = 20_000  # samples that fit the detector, at most


def audit_regression(
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
) -> tuple[RegressionFindings, RegressionGuard | None]:
    """All sections for networks that predict numbers; the options are those of `nescio.audit`.

    others: training, validation and OOD data. reading: head and output. names: groups of the test
    samples, names of columns. attack: steps and radius.
    """
    predictors = {name: _predictor(one, **reading) for name, one in bare.items()}
    check_options(predictors, others["ood"], alphas, rays)
    check_attack(*attack)
    ones = list(predictors.values())
    tokens, columns = any(map(takes_tokens, ones)), encoding_of(ones[0])
    read = partial(read_data, tokens=tokens, columns=columns, task="regression")
    x, y = read(data, "test data")
    parts = named_parts(names, x, columns)
    scale, trained = scale_of(y), _training(read, others["train"])
    known = x if trained is None else trained[0]
    check_shape("training inputs", known, x)
    held = hold((x, y), read_validation(others["validation"], x, read), seed=seed)
    alone = [n for n, one in bare.items() if isinstance(one, nn.Module) and not reading["head"]]
    predictors |= {n: with_residual_spread(predictors[n], held.fitting) for n in alone}
    ranged, ood = has_range(x), others["ood"] or {}
    job = planned(plan, predictors, x, len(ood), alphas, attack[0], rays)
    draws = job.draws(plan.budget)
    job.told(draws, show=show)
    far = [far_set(alpha, len(draws.of("scaled", x, seed))) for alpha in job.alphas[-1:]]
    drawn = partial(draws.of, "ood", seed=seed)
    given = ood_sets(ood, x, far, partial(read, labels="unread"), drawn)
    name, first = next(iter(predictors.items()))
    options: Any = {"repeats": repeats, "skip": not plan.wants("guard"), "seed": seed, "show": show}
    guarded = guarded_regression(name, first, held, trained, **options)
    base = held.fitting[0] if trained is None else known
    extra, no_detector = _detector(guarded.guard, first, base, seed)
    noisy, how = ranged and plan.wants("noise"), (alphas, rays, attack, repeats, seed)
    asked = Questions(
        held=held,
        scale=scale,
        sets={**(noise_sets(draws.of("noise", x, seed), known, seed) if noisy else {}), **given},
        attack=attack_on_means((x, y), known, job.steps, attack[1], count=draws.attack, seed=seed),
        alphas=job.alphas,
        scaled=draws.of("scaled", x, seed),
        rays=ray_sets(x, draws.rays * ranged, seed),
        extra=extra,
        seed=seed,
        plan=plan.bound_to(partial(audited, predictors, held, trained, given), how, vars(parts)),
    )
    found = _findings(asked, job, draws, known, trained, no_detector, show)
    decided = decided_on(guarded.guard, asked.sets, draws)
    found = replace(found, guard=guarded.tried(decided), columns=parts.columns)
    material = asked.material(guarded, trained, parts, predictors, bare[name], reading)
    material = replace(material, decisions_ood=decided, draws=draws)
    return _with_sections(found, asked.plan, material, show), guarded.guard


def _with_sections(
    found: RegressionFindings, plan: AuditPlan, material: Material, show: bool | None
) -> RegressionFindings:
    sections = plan.sections(material, show=show)
    return replace(found, sections=sections, not_run={**found.not_run, **plan.not_run})


def _training(read: Callable[..., Any], given: Any) -> tuple[Any, Tensor | None] | None:
    """The training data, if they are given; targets that never vary are refused."""
    if given is None:
        return None
    x, y = read(given, "training data", labels="optional", keep_bytes=True)
    if y is not None:
        scale_of(y, "training data")
    return x, y


def _findings(
    plan: "Questions",
    job: Job,
    draws: Draws,
    known: Any,
    trained: tuple[Any, Tensor | None] | None,
    no_detector: str | None,
    show: bool | None,
) -> RegressionFindings:
    """All sections; known: the training inputs, or the test inputs."""
    x, y = plan.held.test
    ranged = has_range(x)
    targets = None if trained is None else trained[1]
    left_out = dict.fromkeys(RANGED, NO_RANGE) if not ranged else job.left_out(draws)
    if no_detector is not None:
        left_out["detector on features"] = no_detector
    base = plan.held.fitting[1] if targets is None else targets
    return RegressionFindings(
        samples=len(x),
        features=shape_of(x),
        seed=plan.seed,
        sets=(*(one for one, _ in plan.sets.values()), *plan.more_sets),
        held_out=plan.held.words,
        range=None if known is x or not ranged else out_of_range(x, known),
        predictors=plan.run(job.predictors, show),
        baseline=quality(constant(base, len(y)), y, seed=plan.seed),
        baseline_from="calibration" if targets is None else "training",
        attack=None if plan.attack is None else plan.attack.options,
        cost=job.found(draws),
        budget=plan.plan.budget,
        not_run=left_out,
    )


@dataclass(frozen=True, eq=False, kw_only=True)
class Questions:
    """What every predictor is asked."""

    held: Held
    scale: Scale
    sets: Sets  # noise, and OOD data as given
    attack: AttackOnMeans | None
    alphas: tuple[float, ...]
    scaled: Any  # the inputs that are scaled by them
    rays: Any
    extra: Extra  # the detector of the first predictor
    seed: int
    plan: AuditPlan

    @property
    def more_sets(self) -> list[DataSet]:
        """The sets that are made for each predictor: scaled inputs."""
        return [far_set(alpha, len(self.scaled)) for alpha in self.alphas[-1:]]

    def material(
        self,
        guarded: GuardedRegression,
        trained: Any,
        names: AuditNames,
        predictors: Mapping[str, Predictor],
        net: Any,
        reading: Mapping[str, Any],
    ) -> Material:
        """What the sections of the registry read."""
        x, y = self.held.test
        first = next(iter(predictors.values()))
        return Material(
            task=NUMBERS,
            predictor=first,
            predictors=predictors,
            net=net,
            reading=reading,
            x=x,
            y=y.cpu(),
            prediction=predicted(first, x),
            held=self.held,
            train=trained,
            guard=guarded.guard,
            decisions=guarded.decisions,
            ood=self.sets,
            groups=names.groups,
            columns=names.columns,
            budget=self.plan.budget,
            seed=self.seed,
        )

    def run(
        self, predictors: Mapping[str, Predictor], show: bool | None
    ) -> dict[str, RegressorFindings]:
        """What is found of each predictor."""
        each = 2 + len(self.sets) + len(self.alphas) + len(self.rays)
        found: dict[str, RegressorFindings] = {}
        with progress(len(predictors) * each, "auditing", show=show) as advance:
            for name, one in predictors.items():
                tick = partial(advance, 1, partial(str, name))
                attempt = partial(self.plan.attempt, of=name if found else "")
                found[name] = self._of(one, None if found else self.extra, tick, attempt)
        return found

    def _of(self, predictor: Predictor, extra: Extra, tick: Any, attempt: Any) -> RegressorFindings:
        """All sections of one predictor; one that fails is listed as not run."""
        fitted = isinstance(predictor, MeansOnly)
        x, y = self.held.measured if fitted else self.held.test
        prediction = predicted(predictor, x)
        _check_targets(prediction.mean.shape[-1], y)
        fresh = None if extra is None else extra(self.held.measured[0])  # fitted no detector
        own = told(prediction, self.scale, fresh)
        look = look_with(predictor, self.scale, extra)
        tick()
        ood = {}
        for where, (_, inputs) in self.sets.items():
            seen = attempt(where, partial(look, inputs), None)
            if seen is not None:
                ood[where] = against(own, seen)
            tick()
        more: dict[str, Any] = {}
        if self.alphas:
            ray = partial(along_ray, look, self.scaled, own, self.alphas, tick)
            more["scaling"], far = attempt("scaled inputs", ray, (None, None))
            ood |= {} if far is None else {self.more_sets[0].name: far}
        if self.attack is not None:
            more["attack"] = attempt("attack", partial(self.attack.on, predictor, self.scale), None)
        tick()
        if self.rays:
            from nescio.evaluation.regression.far_spread import far_spreads

            far_away = partial(far_spreads, predictor, self.rays, tick=tick)
            more["far_field"] = attempt("far field", far_away, None)
        return RegressorFindings(
            members=prediction.members,
            head=_head_name(predictor),
            fitted_spread=fitted,
            test=quality(prediction, y, seed=self.seed),
            targets=by_target(prediction, y),
            intervals=self._intervals(predictor),
            spread=spread_findings(prediction, y, self.scale, seed=self.seed),
            deviation=own.spread,
            ood=ood,
            examples=examples(prediction, y),
            **more,
        )

    def _intervals(self, predictor: Predictor) -> Any:
        (x, y), (z, t) = self.held.fitting, self.held.measured
        pairs = (predicted(predictor, x), y), (predicted(predictor, z), t)
        return interval_findings(*pairs, seed=self.seed)


def _predictor(net: Any, head: Head | str | None, output: Any) -> Predictor:
    """A network read by its head, as means alone where it has none; a predictor as it is."""
    if isinstance(net, nn.Module):
        return plain(net, head=fixed_variance() if head is None else head, output=output)
    found: Predictor = with_head(net, None, head=head, output=output)
    return found


def _head_name(predictor: Predictor) -> str:
    known = networks(predictor)[:1] if callable(getattr(predictor, "networks", None)) else []
    return known[0].head.name if known else "a function"


def _check_targets(outputs: int, y: Tensor) -> None:
    if outputs != y.shape[1]:
        raise NescioError(
            f"the network predicts {outputs} target(s), the data have {y.shape[1]}; give the "
            "targets in the order of the outputs, or another head"
        )


def _detector(
    guard: RegressionGuard | None, predictor: Predictor, x: Any, seed: int
) -> tuple[Extra, str | None]:
    """Scores of the guard's detector, or of the default one on the features; or why not."""
    rows = torch.randperm(len(x), generator=generator(seed, "training"))[:FITTED].sort().values
    source = innermost(predictor)
    try:
        if guard is not None:
            score = scorer(source, guard.detector)
        else:
            layers = watched_layers(networks(source)[0].net, x[:2])
            see = partial(observe, source, layers=layers, pool=GRID, inputs=True, progress=False)
            with quiet():
                seen = see(x[rows])
                see.keywords["layers"] = list(seen.features)
                score = scorer(source, default_detector(with_last(seen), see))
    except NescioError as error:
        return None, str(error)

    def scores(inputs: Any) -> Any:
        some = inputs[:: -(-len(inputs) // TRIED)]
        return score(some).double().cpu().numpy()

    return scores, None
