"""How far can a network be trusted: on its data, on noise, and along rays away from the data."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal, TypeAlias

import torch
from torch import Tensor, nn

from nescio import data as sets
from nescio.core import (
    Head,
    Inputs,
    NescioError,
    Results,
    as_inputs,
    as_targets,
    make_folder,
    shape_of,
    to_json,
    write_atomically,
    write_json,
)
from nescio.core.running import Advance, progress
from nescio.data import Columns, door
from nescio.evaluation.answers import Seen, quality, see
from nescio.evaluation.audit.findings import FailureFindings, Findings, PredictorFindings, Quality
from nescio.evaluation.audit.guard_section import Guarded, guarded
from nescio.evaluation.audit.held_out import Held, hold, out_of_range
from nescio.evaluation.audit.held_out_section import (
    BASELINE,
    GUARDS,
    RECOMMENDED,
    calibration,
    failure,
)
from nescio.evaluation.audit.ood_section import (
    NO_RANGE,
    RANGED,
    Attack,
    Sets,
    against,
    along_ray,
    attack_on,
    check_shape,
    far_set,
    has_range,
    histogram,
    noise_sets,
    ood_sets,
    shifted,
)
from nescio.evaluation.audit.ood_section import check_attack as check_attack
from nescio.guards import Guard, described
from nescio.metrics import reliability
from nescio.models import Member, Predictor, encoding_of, innermost, plain, with_head
from nescio.nets import Output, reads_tokens
from nescio.training.loop import Pair

ALPHAS = tuple(round(10 ** (k / 4), 6) for k in range(17))  # 1 to 10^4, four per decade
RAYS = 200  # of each kind that are followed to infinity
STEPS = 50  # of the attack on noise
GUARD = "guard.safetensors"  # beside the page
Labels: TypeAlias = Literal["needed", "optional", "unread"]


@dataclass(frozen=True)
class Audit:
    """The findings, section by section; `guard` decides about new inputs."""

    findings: Findings
    guard: Guard | None = field(default=None, repr=False, compare=False)

    @property
    def results(self) -> Results:
        """One row per predictor, data set and number."""
        return self.findings.results

    @property
    def verdict(self) -> str:
        """What was found, in a few sentences."""
        from nescio.report.audit_words import headline, verdict

        return "\n".join([headline(self.findings), *verdict(self.findings)])

    def to_json(self) -> dict[str, Any]:
        """What `audit.json` holds."""
        found: dict[str, Any] = to_json(self.findings)
        return found

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
        guard = replace(self.findings.guard, **changes)
        return replace(self, findings=replace(self.findings, guard=guard))

    def __str__(self) -> str:
        from nescio.report import audit_text

        return audit_text(self.findings)

    def _repr_html_(self) -> str:
        return self.results._repr_html_()


@torch.inference_mode(False)  # whatever the caller is in: attacks need gradients
def audit(
    net: nn.Module | Predictor | Mapping[str, nn.Module | Predictor],
    data: Any,
    *,
    train: Any = None,
    validation: Any = None,
    ood: Mapping[str, Any] | None = None,
    alphas: Sequence[float] = ALPHAS,
    rays: int = RAYS,
    attack_steps: int = STEPS,
    attack_radius: float | None = None,
    head: Head | str | None = None,
    output: Output = None,
    seed: int = 0,
    progress: bool | None = None,
) -> Audit:
    """Say how overconfident a classifier is on its test data, off it, under attack, and far away.

    `audit(net, test, train=train, ood={"letters": z}).save("out")`.

    net: a network, a predictor, or several by name; the first gets a guard. data: test inputs and
    labels: a pair, a loader, or a mapping with labels. train: training data, for the range of the
    noise and the detector of the guard.
    validation: other held-out data, which fit temperatures and the guard; without them a half of
    the test data does. ood: other inputs by name, for example `{"letters": z}`; uniform noise
    and permuted pixels are always there.
    alphas: factors on the test inputs. rays: how many of each kind to follow to infinity, exactly;
    0 leaves the far field out. attack_steps: of gradient ascent on the confidence, from noise; 0
    leaves the attack out. attack_radius: how far it may go, as a share of the range of the data;
    0.3 for images, 0.05 for vectors. head, output: how the outputs of networks are read, and where
    they are in what these return, as for `nescio.observe`.
    """
    bare = dict(net) if isinstance(net, Mapping) else {"network": net}
    predictors = {name: _predictor(one, data, head, output) for name, one in bare.items()}
    _check(predictors, ood, alphas, rays)
    columns = encoding_of(next(iter(predictors.values())))
    read = partial(_read, tokens=_read_tokens(predictors), columns=columns)
    x, y = read(data, "test data")
    trained = (
        None if train is None else read(train, "training data", labels="optional", keep_bytes=True)
    )
    known = x if trained is None else trained[0]
    check_shape("training inputs", known, x)
    held = hold((x, y), _validation(validation, x, read), seed=seed)
    ranged = has_range(x)
    attack = attack_on(known, attack_steps, attack_radius, seed) if ranged else None
    alphas = tuple(alphas) if ranged else ()
    noisy, far = [] if attack is None else [attack.data], [far_set(a, len(x)) for a in alphas[-1:]]
    given = ood_sets(ood or {}, x, [*noisy, *far], partial(read, labels="unread"))
    own = noise_sets(x, known, seed) if ranged else {}
    name, first = next(iter(predictors.items()))
    how = {**_whole(bare[name], first, output), "seed": seed, "progress": progress}
    guard = guarded(name, first, held, trained, **how)
    plan = _Plan(held, guard, own, given, attack, alphas, _rays(x, rays * ranged, seed), seed)
    found, attacked = plan.run(predictors, progress)
    tried = {**given, **own, **attacked}
    tried |= {one.name: (one, sets.scaling()(x, alphas[-1])) for one in far}
    guards = {} if guard.guard is None else {"guard": guard.guard}
    shift, no_shift = shifted(predictors, guards, held, seed=seed) if ranged else (None, NO_RANGE)
    findings = Findings(
        samples=len(x),
        features=shape_of(x),
        seed=seed,
        sets=(*(d for d, _ in own.values()), *noisy, *(d for d, _ in given.values()), *far),
        held_out=held.words,
        range=None if train is None or not ranged else out_of_range(x, known),
        guard=guard.tried({where: inputs for where, (_, inputs) in tried.items()}),
        predictors=found,
        shift=shift,
        no_shift=no_shift,
        attack=None if attack is None else attack.options,
        not_applicable={} if ranged else dict.fromkeys(RANGED, NO_RANGE),
    )
    return Audit(findings, guard.guard)


def _predictor(net: Any, data: Any, head: Head | str | None, output: Output) -> Predictor:
    """A network read by its head; a predictor as it is."""
    if isinstance(net, nn.Module):
        net = with_head(net, data, head=head, output=output)
    found: Predictor = plain(net) if isinstance(net, nn.Module) else net
    return found


def _whole(net: Any, predictor: Any, output: Output) -> dict[str, Any]:
    """What is guarded of a network whose outputs were picked: all of it, and where they are."""
    if output is None or not isinstance(net, nn.Module):
        return {"source": innermost(predictor)}
    return {"source": Member(net=net, head=predictor.head), "output": output}


def _check(predictors: Mapping[str, Any], ood: Any, alphas: Sequence[float], rays: Any) -> None:
    if not predictors:
        raise NescioError("nothing to audit: the mapping of networks is empty")
    if ood is not None and not isinstance(ood, Mapping):
        raise NescioError('OOD data come by name: ood={"letters": z}')
    ordered = all(a < b for a, b in pairwise(alphas))
    if not alphas or not ordered or not alphas[0] > 0 or not alphas[-1] < float("inf"):
        raise NescioError(f"alphas must be positive, increasing and finite, got {list(alphas)}")
    if isinstance(rays, bool) or not isinstance(rays, int) or rays < 0:
        raise NescioError(f"rays must be a whole number from 0 up, got {rays}")


def _read_tokens(predictors: Mapping[str, Predictor]) -> bool:
    """Whether whole numbers enter the networks as they are."""
    members = [m for p in predictors.values() if hasattr(p, "networks") for m in p.networks()[:1]]
    return any(reads_tokens(member.net) for member in members)


def _read(
    data: Any,
    name: str,
    *,
    tokens: bool,
    columns: Columns | None = None,
    labels: Labels = "needed",
    keep_bytes: bool = False,
) -> tuple[Any, Any]:
    """Inputs and labels in memory; numbers that have a range as floats."""
    x, y = door.read(data, name=name, labels=labels == "needed", tokens=tokens, columns=columns)
    if isinstance(x, Tensor) and (has_range(x) or not tokens):
        x = as_inputs(x, name, keep_bytes=keep_bytes)
    if y is None or labels == "unread":
        return x, None
    return x, as_targets(y, len(x), task="classification")


def _validation(given: Any, x: Any, read: Any) -> Pair | None:
    if given is None:
        return None
    inputs, labels = read(given, "validation data")
    check_shape("validation inputs", inputs, x)
    return inputs, labels


def _rays(x: Any, count: int, seed: int) -> Any:
    if not count:
        return {}
    from nescio.evaluation.audit.far_field_section import rays_from  # loads the geometry

    return rays_from(x, count=count, seed=seed)


@dataclass(frozen=True, eq=False)
class _Plan:
    """What every predictor is asked."""

    held: Held
    guard: Guarded  # of the first predictor
    own: Sets
    given: Sets
    attack: Attack | None
    alphas: tuple[float, ...]
    rays: Any
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
            more["scaling"], far = along_ray(look, x, in_dist, self.alphas)
            where = far_set(self.alphas[-1], len(x)).name
            ood[where], histograms[where] = against(in_dist, far), histogram(far)
        if self.rays:
            from nescio.evaluation.audit.far_field_section import far_away

            tick = lambda: advance(1, lambda: f"{name}, far away")  # noqa: E731
            more["far_field"] = far_away(predictor, self.rays, tick=tick)
        return PredictorFindings(
            members=in_dist.members,
            classes=in_dist.log_probs.shape[1],
            test=test,
            reliability=reliability(in_dist.confidence, in_dist.labels == y.cpu()),
            ood=ood,
            confidence_histograms=histograms,
            calibration=calibration(predictor, self.held, seed=self.seed),
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
