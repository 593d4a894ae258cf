"""How far can a network be trusted: on its data, on noise, and along rays away from the data."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import torch
from torch import nn

from nescio import data as sets
from nescio.core import (
    Head,
    Results,
    make_folder,
    shape_of,
    to_json,
    write_atomically,
    write_json,
)
from nescio.detectors.observe.network import check_classes
from nescio.evaluation.audit.audit_inputs import (
    check_options,
    ray_sets,
    read_data,
    read_validation,
)
from nescio.evaluation.audit.cost import Draws, Job
from nescio.evaluation.audit.examination import Examination
from nescio.evaluation.audit.findings import Findings
from nescio.evaluation.audit.guard_section import Guarded, guarded
from nescio.evaluation.audit.held_out import Held, hold, out_of_range
from nescio.evaluation.audit.influence_section import check_influence, errors_explained
from nescio.evaluation.audit.ood_section import (
    NO_RANGE,
    RANGED,
    Attack,
    Sets,
    attack_on,
    check_shape,
    far_set,
    has_range,
    noise_sets,
    ood_sets,
    shifted,
)
from nescio.evaluation.audit.ood_section import check_attack as check_attack
from nescio.evaluation.audit.requirements import requirements
from nescio.evaluation.audit.stability_section import check_stability, how_stable
from nescio.evaluation.audit.verdict import Verdict, judged_json, verdict_of
from nescio.evaluation.regression.audit_regression import audit_regression
from nescio.evaluation.regression.regression_findings import RegressionFindings
from nescio.guards import Guard, RegressionGuard, described
from nescio.models import (
    Member,
    Predictor,
    encoding_of,
    innermost,
    is_regression,
    networks,
    plain,
    takes_tokens,
    with_head,
)
from nescio.nets import Output

ALPHAS = tuple(round(10 ** (k / 4), 6) for k in range(17))  # 1 to 10^4, four per decade
STEPS = 50  # of the attack on noise
GUARD = "guard.safetensors"  # beside the page


@dataclass(frozen=True)
class Audit:
    """The findings, section by section; `guard` decides about new inputs."""

    findings: Findings | RegressionFindings
    guard: Guard | RegressionGuard | None = field(default=None, repr=False, compare=False)

    @property
    def results(self) -> Results:
        """One row per predictor, data set and number."""
        return self.findings.results

    @cached_property
    def verdict(self) -> Verdict:
        """Pass, attention or fail, in a paragraph, and the findings that it rests on."""
        return verdict_of(self.findings)

    def to_json(self) -> dict[str, Any]:
        """What `audit.json` holds."""
        return {**to_json(self.findings), **judged_json(self.verdict)}

    def save(self, folder: str | Path) -> Path:
        """Write `audit.json`, `audit.html`, a page complete in itself, the guard, and its .json.

        Returns the path of the page.
        """
        from nescio.report import audit_page

        folder = make_folder(Path(folder))
        whole = self
        if self.guard is not None:
            whole = self._with_guard(file=str(self.guard.save(folder / GUARD, weights=True)))
            write_json(folder / f"{GUARD}.json", described(self.guard))
        else:  # one of an earlier audit would speak for another network
            for name in (GUARD, f"{GUARD}.json"):
                (folder / name).unlink(missing_ok=True)
        write_json(folder / "audit.json", whole.to_json())
        write_atomically(folder / "audit.html", audit_page(whole.findings))
        return folder / "audit.html"

    def bound_for(
        self, folder: str | Path, *, net: str | None = None, columns: Sequence[str] | None = None
    ) -> "Audit":
        """The same, with the words to use the guard once it is saved in `folder`.

        net: `package.module:factory` of the network, or the folder of a run. columns: the names of
        the inputs, where the data are a table; the guard takes them by name.
        """
        if self.guard is None:
            return self
        notes = dict(self.guard.notes) | ({} if columns is None else {"columns": list(columns)})
        bound = self._with_guard(file=str(Path(folder) / GUARD), net=net)
        return replace(bound, guard=replace(self.guard, notes=notes))

    def with_command(self, command: Sequence[str]) -> "Audit":
        """The same with the command that made it."""
        return replace(self, findings=replace(self.findings, command=tuple(command)))

    def _with_guard(self, **changes: Any) -> "Audit":
        assert self.findings.guard is not None
        guard: Any = replace(self.findings.guard, **changes)
        return replace(self, findings=replace(self.findings, guard=guard))

    def __str__(self) -> str:
        from nescio.report import audit_text

        return audit_text(self.findings)

    def _repr_html_(self) -> str:
        from nescio.report.notebook import audit_html

        return audit_html(self)


@torch.inference_mode(False)  # whatever the caller is in: attacks need gradients
def audit(
    net: nn.Module | Predictor | Mapping[str, nn.Module | Predictor],
    data: Any,
    *,
    train: Any = None,
    validation: Any = None,
    ood: Mapping[str, Any] | None = None,
    alphas: Sequence[float] = ALPHAS,
    rays: int | None = None,
    attack_steps: int = STEPS,
    attack_radius: float | None = None,
    thorough: bool = False,
    head: Head | str | None = None,
    output: Output = None,
    repeats: bool = False,
    influence: bool = False,
    stability: bool = False,
    require: Any = None,
    seed: int = 0,
    progress: bool | None = None,
) -> Audit:
    """Say how overconfident a network is on its test data, off it, under attack, and far away.

    `audit(net, test, train=train, ood={"letters": z}).save("out")`. Of a regression (a head such as
    "gaussian", or targets that are not whole) it is about predicted intervals and deviations.

    net: a network, a predictor, or several by name; the first gets a guard. data: test inputs and
    labels: a pair, a loader, or a mapping with labels. train: training data, for the range of the
    noise and the detector of the guard.
    validation: other held-out data, which fit temperatures and the guard; without them a half of
    the test data does. ood: other inputs by name, for example `{"letters": z}`; uniform noise
    and permuted pixels are always there.
    alphas: factors on the test inputs. rays: how many of each kind to follow to infinity, exactly;
    0 leaves the far field out; by default 200, fewer for a large network. attack_steps: of gradient
    ascent on the confidence, from noise; 0 leaves the attack out. attack_radius: how far it may go,
    as a share of the range of the data; 0.3 for images, 0.05 for vectors. thorough: read all
    samples in every part, where for a large network some are drawn. head, output: how the outputs
    of networks are read, and where they are in what these return, as for `nescio.observe`; a
    network without a head whose targets are not whole predicts means alone. repeats: equal inputs
    are separate samples, as for `nescio.guard`. influence: also say which training samples the
    most confident errors of the first network rest on; it needs `train` with labels. stability:
    also say how small a change flips answers of the first network, with examples. require: limits
    such as "ece<0.05" or "abstained[letters]>0.9", a .toml file of them, or several; they count in
    place of the default limits.
    """
    required = requirements(require)
    bare = dict(net) if isinstance(net, Mapping) else {"network": net}
    regression = any(is_regression(one, data, head) for one in bare.values())
    if influence:
        check_influence(train, regression=regression)
    if stability:
        check_stability(regression=regression)
    found = (audit_regression if regression else _audit_classes)(
        bare,
        data,
        others={"train": train, "validation": validation, "ood": ood},
        reading={"head": head, "output": output},
        alphas=alphas,
        rays=rays,
        attack=(attack_steps, attack_radius),
        thorough=thorough,
        repeats=repeats,
        seed=seed,
        show=progress,
    )
    first, how = next(iter(bare.values())), {"head": head, "output": output}
    more: dict[str, Any] = {"required": required}
    if stability:
        more["stability"] = how_stable(first, data, seed=seed, **how)
    if influence:
        more["influence"] = errors_explained(first, train, data, **how)
    return Audit(replace(found[0], **more), found[1])


def _audit_classes(
    bare: Mapping[str, nn.Module | Predictor],
    data: Any,
    *,
    others: Mapping[str, Any],
    reading: Mapping[str, Any],
    alphas: Sequence[float],
    rays: int | None,
    attack: tuple[int, float | None],
    thorough: bool,
    repeats: bool,
    seed: int,
    show: bool | None,
) -> tuple[Findings, Guard | None]:
    """All sections for classifiers, as `audit_regression` for networks that predict numbers."""
    predictors = {name: _predictor(one, data, **reading) for name, one in bare.items()}
    ood = others["ood"]
    check_options(predictors, ood, alphas, rays)
    columns = encoding_of(next(iter(predictors.values())))
    read = partial(read_data, tokens=any(map(takes_tokens, predictors.values())), columns=columns)
    x, y = read(data, "test data")
    trained = None
    if others["train"] is not None:
        trained = read(others["train"], "training data", labels="optional", keep_bytes=True)
    known = x if trained is None else trained[0]
    check_shape("training inputs", known, x)
    held = hold((x, y), read_validation(others["validation"], x, read), seed=seed)
    ranged = has_range(x)
    job = Job(
        predictors=predictors,
        x=x,
        sets=len(ood or {}),
        alphas=tuple(alphas) if ranged else (),
        steps=attack[0] if ranged else 0,
        rays=rays if ranged else 0,
    )
    draws = job.draws(thorough=thorough)
    check_attack(*attack)
    job.told(draws, show=show)
    moved = attack_on(known, *attack, count=draws.attack, seed=seed) if ranged else None
    noisy = [] if moved is None else [moved.data]
    far = [far_set(alpha, len(draws.of("scaled", x, seed))) for alpha in job.alphas[-1:]]
    drawn = partial(draws.of, "ood", seed=seed)
    given = ood_sets(ood or {}, x, [*noisy, *far], partial(read, labels="unread"), drawn)
    name, first = next(iter(predictors.items()))
    how = {**_whole(bare[name], first, reading["output"]), "seed": seed, "progress": show}
    guard = guarded(name, first, held, trained, **how, repeats=repeats)
    return _examined(job, draws, held, guard, known, given, moved, seed, show), guard.guard


def _examined(
    job: Job,
    draws: Draws,
    held: Held,
    guard: Guarded,
    known: Any,
    given: Sets,
    attack: Attack | None,
    seed: int,
    show: bool | None,
) -> Findings:
    """All sections; known: the training inputs, or the test inputs."""
    x: Any = job.x
    alphas, ranged = job.alphas, has_range(x)
    some = draws.of("scaled", x, seed)
    noisy = [] if attack is None else [attack.data]
    far = [far_set(alpha, len(some)) for alpha in alphas[-1:]]
    own = noise_sets(draws.of("noise", x, seed), known, seed) if ranged else {}
    far_rays = ray_sets(x, draws.rays * ranged, seed)
    plan = Examination(held, guard, own, given, attack, alphas, some, far_rays, draws.follow, seed)
    found, attacked = plan.run(job.predictors, show)
    tried = {**given, **own, **attacked}
    tried |= {one.name: (one, sets.scaling()(some, alphas[-1])) for one in far}
    shift, no_shift = None, NO_RANGE if not ranged else None
    if ranged:
        guards = {} if guard.guard is None else {"guard": guard.guard}
        shift, no_shift = shifted(job.predictors, guards, held, most=draws.shift, seed=seed)
    return Findings(
        samples=len(x),
        features=shape_of(x),
        seed=seed,
        sets=(*(d for d, _ in own.values()), *noisy, *(d for d, _ in given.values()), *far),
        held_out=held.words,
        range=None if known is x or not ranged else out_of_range(x, known),
        guard=guard.tried({where: inputs for where, (_, inputs) in tried.items()}, draws.guard),
        cost=job.found(draws),
        predictors=found,
        shift=shift,
        no_shift=no_shift,
        attack=None if attack is None else attack.options,
        not_applicable=job.left_out(draws) if ranged else dict.fromkeys(RANGED, NO_RANGE),
    )


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
