"""Make a guard: fit a detector, calibrate, and find the thresholds that carry a guarantee.

Each guarantee is shown on calibration samples that tuned nothing, and calibration data that the
network or a detector was fitted on are refused, where this can be known.
"""

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from torch import Tensor, nn

from nescio import calibration as calibrations
from nescio import metrics
from nescio.calibration import Map
from nescio.conformal import threshold
from nescio.conformal.score_limits import check_groups
from nescio.core import (
    Categorical,
    Head,
    NescioError,
    categorical,
    check_labels,
    log_odds,
)
from nescio.core.registry import detectors
from nescio.data import door
from nescio.detectors import Detector
from nescio.detectors.activations import Activations
from nescio.detectors.default import (
    GRID,
    See,
    default_detector,
    is_labeled,
    some,
    watched_layers,
)
from nescio.detectors.failure.recommended import recommended
from nescio.detectors.observe import observe
from nescio.detectors.observe.network import Network, check_classes, head_of, kept, networks
from nescio.guards.decide import CLASS, Guard, describes, learn_range, read_samples
from nescio.guards.guarantees import warn_about
from nescio.guards.largest_coverage import check_shares
from nescio.guards.rules import Rule, fit_rule
from nescio.guards.splitting import Split, split, unknown_to
from nescio.models import Member, same_head
from nescio.nets import Output, copied, named_columns

BANK = 20_000  # features that the failure score searches neighbors among, at most
MANY = 10_000  # calibration samples, of which some may choose the failure score
Fitted = Detector | str | Callable[[Activations], Detector]


def guard(
    source: Any,
    calibration: Any,
    *,
    train: Any = None,
    detector: Fitted | None = None,
    failure: Fitted | None = None,
    false_alarm: float = 0.01,
    risk: float = 0.02,
    confidence: float = 0.95,
    calibration_map: str | None = "temperature",
    sets: float | None = 0.1,
    by: Any = None,
    names: Sequence[str] | None = None,
    repeats: bool = False,
    layers: Any = None,
    pool: str | None = None,
    output: Output = None,
    head: Head | str | None = None,
    seed: int = 0,
    batch_size: int = 256,
    progress: bool | None = None,
) -> Guard:
    """A guard that decides for every input: answer, or abstain as unsure or OOD.

    >>> guard = nescio.guard(net, (x, y), train=(x_train, y_train), risk=0.02)  # doctest: +SKIP
    >>> guard(x_new).decision  # doctest: +SKIP

    source: an `nn.Module`, a nescio model or a list of modules; None where `calibration` and
      `train` are activations. It is copied: later training does not change the guard.
    calibration: inputs with labels, `(x, y)`, a loader or activations; never training data, and
      drawn like the inputs to come.
    train: the training data, with labels or without; fits the detector. Without it a part of the
      calibration data does.
    detector: a fitted one, the name of one, with options as in "knn,k=1", or a function of training
      activations; none: the combination that finds outliers made from the training data best.
    failure: the failure score: a fitted detector, the name of one, or a function. None: the
      log-odds, or, beside the default detector and after a hidden linear layer, the recommended
      failure score; from 10,000 calibration samples on, the other one if it is clearly better.
    false_alarm: the largest share of inputs like the calibration data that may be called OOD.
    risk, confidence: the largest share of answers that may be wrong, and with which probability
      the calibration data must show it.
    calibration_map: of probabilities, a name of `nescio.calibration`; None leaves them.
    sets: the largest share of prediction sets that may miss the true class; None gives no sets.
    by: "class" gives the guarantees for each predicted class; group numbers `(N,)` for each group.
    repeats: equal inputs are separate samples, as in tables of few values; none is then recognized
      as training data.
    names: of the classes. layers, pool: as for `observe`, where a detector is fitted; the default
      detector pools by "grid".
    output, head: where the logits are in what the network returns, and how they are read, as for
      `observe`. A guard whose `output` is a function is loaded with it again.
    """
    wish: dict[str, Any] = {"false_alarm": false_alarm, "risk": risk, "confidence": confidence}
    check_shares(**wish)
    members = _copies(source, batch_size, head, calibration)
    reading = {"layers": layers, "pool": pool, "output": output, "batch_size": batch_size}
    data = {"calibration": calibration, "train": train}
    samples, trained = _read(members, data, (detector, failure), reading, progress)
    groups, given = _groups(by, samples.samples), samples.samples
    if not repeats and samples.hashes is not None:
        new = unknown_to(samples.hashes, known(trained, source, (detector, failure)))
        samples, groups = _rows(samples, new), None if groups is None else groups[new]
    labels = _labels(samples)
    fitting = trained is None and not isinstance(detector, Detector)
    count = samples.samples
    choosing = detector is None and failure is None and count >= MANY
    needs = {"fitting": fitting, "tuning": choosing or not describes(calibration_map)}
    parts = split(count, **needs, false_alarm=false_alarm, seed=seed)
    tuning = (samples[parts.tuning], labels[parts.tuning]) if choosing else None
    base = trained if trained is not None else samples[parts.fitting] if fitting else None
    fitted, failure_score = _detectors(detector, failure, base, tuning, (members, reading))
    bare = Guard(
        detector=fitted,
        failure=failure_score,
        **wish,
        **_unfitted(samples, by, names),
        output=kept(fitted.about, "output", None) if output is None else output,
        nets=tuple(member.net for member in members),
        batch_size=batch_size,
        notes={
            **_notes(samples, trained, parts, fitted),
            **{"seed": seed, "repeats": repeats, "dropped": given - count},
        },
    )
    bare = replace(bare, map=_map(calibration_map, bare, samples, labels, parts))
    complete = _complete(bare, samples, labels, parts, groups, sets)
    warn_about(complete)
    return complete


def _unfitted(samples: Activations, by: Any, names: Sequence[str] | None) -> dict[str, Any]:
    """What a guard holds before its map and its rules are fitted."""
    return {
        "map": None,
        "head": head_of(samples.about) or categorical(),
        "rules": (),
        "groups": (),
        "by": CLASS if isinstance(by, str) else None if by is None else "groups",
        "names": _names(names, samples.classes),
        "range": None if samples.inputs is None else learn_range(samples.inputs),
        "hashes": None if samples.hashes is None else samples.hashes.sort().values,
    }


def _notes(
    samples: Activations, trained: Activations | None, parts: Split, fitted: Detector
) -> dict[str, Any]:
    """How many samples served what."""
    hashes = samples.hashes
    return {
        "classes": samples.classes,
        "calibration": samples.samples,
        "fitting": len(parts.fitting),
        "train": None if trained is None else trained.samples,
        "tuning": len(parts.tuning),
        "guarantee_samples": len(parts.guarantees),
        "copies": 0 if hashes is None else samples.samples - len(hashes.unique()),
        "layers": list(fitted.layers),
    }


def _complete(
    bare: Guard,
    samples: Activations,
    labels: Tensor,
    parts: "Split",
    groups: Tensor | None,
    miscoverage: float | None,
) -> Guard:
    """The guard with its rules and prediction sets, from samples that tuned nothing."""
    shown, labels = samples[parts.guarantees], labels[parts.guarantees]
    groups = None if groups is None else groups[parts.guarantees]
    numbers, rules = _rules(bare, shown, labels, groups)
    found = replace(bare, rules=rules, groups=numbers)
    if miscoverage is None:
        return found
    by = groups if groups is not None else found.by
    options: dict[str, Any] = {"miscoverage": miscoverage, "by": by, "never_empty": True}
    deciding, _ = found.predictions(shown)
    return replace(found, sets=threshold(deciding, labels, **options))


def _read(
    members: Sequence[Member],
    data: Mapping[str, Any],
    given: tuple[Any, Any],
    options: Mapping[str, Any],
    progress: bool | None,
) -> tuple[Activations, Activations | None]:
    """Activations of the calibration data and, where there are some, of the training data."""
    nets = [member.net for member in members]
    layers, pool = _layers_to_read(
        nets, *given, options["layers"], options["pool"] or _pool(given[0]), options["output"]
    )
    own = {**options, "pool": pool, "progress": progress}
    own.pop("layers")
    samples, layers = _observed(members, data["calibration"], layers, "calibration", **own)
    if data["train"] is None:
        return samples, None
    read = head_of(samples.about) or categorical()
    members = [replace(member, head=read) for member in members]
    return samples, _observed(members, data["train"], layers, "train", **own)[0]


def _pool(detector: Fitted | None) -> str:
    return GRID if detector is None else "mean"


def _seeing(
    members: Sequence[Member], base: Activations | None, options: Mapping[str, Any]
) -> See | None:
    """What runs the networks on outliers, as they were run on the training data."""
    if not members or base is None or not base.features or "pool" not in base.about:
        return None  # activations of the user's
    own = {**options, "layers": list(base.features), "pool": base.about["pool"]}
    own |= {"inputs": True, "progress": False}
    read = head_of(base.about) or categorical()
    return partial(observe, [replace(member, head=read) for member in members], **own)


def _layers_to_read(
    nets: Sequence[nn.Module],
    detector: Fitted | None,
    failure: Fitted | None,
    layers: Any,
    pool: str,
    output: Output,
) -> tuple[Any, str]:
    """The layers and the pooling: of a fitted detector, as given, or found with some inputs."""
    if isinstance(detector, Detector):
        more = [] if failure is None or isinstance(failure, Detector) else [None]
        return [*detector.layers, *more], detector.about.get("pool", pool)
    if nets and layers is None:
        return lambda x: watched_layers(nets[0], x, pool=pool, output=output), pool
    return layers, pool


def known(
    train: Activations | None, source: Any, fitted: Sequence[Any]
) -> Iterator[tuple[str, Tensor | None]]:
    """Hashes of inputs that something was trained or fitted on, with words for where they are.

    source: the model, or models and modules in a list. fitted: detectors that were given.
    """
    yield "the training data given", None if train is None else train.hashes
    for seen in _seen(source):
        yield "the data the model was trained on", seen
    for one in fitted:
        if isinstance(one, Detector):
            yield f"the data the detector {one.name} was fitted on", one.fitted_on


def _seen(source: Any) -> Iterator[Tensor]:
    """Hashes of the inputs that each of the models was trained on, where they are known."""
    if isinstance(source, (list, tuple)):
        for part in source:
            yield from _seen(part)
    elif isinstance(found := getattr(source, "seen", None), Tensor):
        yield found


def _rows(samples: Activations, chosen: Tensor) -> Activations:
    """The chosen samples; no copy where these are all."""
    return samples if len(chosen) == samples.samples else samples[chosen]


def _copies(source: Any, batch_size: int, head: Head | str | None, data: Any) -> list[Member]:
    """The networks as they are now, in evaluation mode; none for activations alone.

    data: if they are a table of numbers, the copies know the names of its columns.
    """
    if batch_size < 1:
        raise NescioError(f"batch_size must be at least 1, got {batch_size}")
    members = [] if source is None else networks(source, head)
    for member in members[:1]:
        check_classes(member.head)
    if not all(same_head(member.head, members[0].head) for member in members):
        raise NescioError("the networks have different heads; guard those of one head")
    return own_copies(members, data)


def own_copies(members: Sequence[Member], data: Any) -> list[Member]:
    """The members with copies of their networks: later training does not change a guard."""
    nets = [named_columns(copied(member.net).eval(), data) for member in members]
    return [replace(member, net=net) for member, net in zip(members, nets, strict=True)]


def _observed(
    members: Sequence[Member], data: Any, layers: Any, name: str, **options: Any
) -> tuple[Activations, Any]:
    """Activations with their inputs, and the layers to read in other data."""
    if isinstance(data, Activations):
        return data, list(data.features)
    if not members:
        raise NescioError(
            f"without a network {name} must be activations, got {type(data).__name__}"
        )
    batches = door.batches(data, batch_size=options["batch_size"], **Network(members[0].net).reads)
    if callable(layers):  # they are chosen by means of a few inputs
        layers = layers(batches.first[0])
    return observe(list(members), batches, layers=layers, inputs=True, **options), layers


def _labels(samples: Activations) -> Tensor:
    if samples.labels is None:
        raise NescioError("calibration data need labels: (x, y); the risk is about them")
    given = samples.labels
    if given.is_floating_point() and not (given == given.round()).all():
        raise NescioError(
            "the calibration labels are not whole numbers; a guard decides about classes 0, 1, "
            "...; for a regression see nescio.conformal.residual"
        )
    labels = check_labels(given, samples.classes, (samples.samples,)).to(samples.logits.device)
    if (labels == labels[0]).all():
        raise NescioError(
            f"all calibration labels are {int(labels[0])}; give calibration data drawn like the "
            "inputs to come, of all classes"
        )
    return labels


def _groups(by: Any, samples: int) -> Tensor | None:
    if by is None or (isinstance(by, str) and by == CLASS):
        return None
    if isinstance(by, str):
        raise NescioError(f"by is 'class' or group numbers, one per calibration sample; got {by!r}")
    return check_groups(by, samples)


def _detectors(
    detector: Fitted | None,
    failure: Fitted | None,
    base: Activations | None,
    tuning: tuple[Activations, Tensor] | None,
    run: tuple[Sequence[Member], Mapping[str, Any]],
) -> tuple[Detector, Detector | None]:
    """The detector of OOD inputs and the failure score; `tuning`: labeled samples to choose it."""
    failure_score = None if failure is None else fitted_detector(failure, base)
    if detector is not None:
        return fitted_detector(detector, base), failure_score
    assert base is not None
    see, nets = _seeing(run[0], base, run[1]), [member.net for member in run[0]]
    return default_detector(base, see), failure_score or default_failure(base, tuning, nets)


def fitted_detector(wanted: Fitted, base: Activations | None) -> Detector:
    """The detector that is meant, fitted on `base` where it is not yet."""
    if isinstance(wanted, Detector):
        return wanted
    build: Callable[..., Detector]
    build = wanted if not isinstance(wanted, str) else detectors.built(wanted)
    if isinstance(wanted, str) and "train" not in inspect.signature(build).parameters:
        try:
            unfitted: Detector = build()  # type: ignore[call-arg]
        except TypeError:
            raise NescioError(
                f"{wanted} needs more than its name: make it, as in detectors.{wanted}(...), and "
                "give that"
            ) from None
        return unfitted
    if base is None:
        raise NescioError("a failure score is fitted on train=; give it, or a fitted one")
    made = build(base)
    if not isinstance(made, Detector):
        raise NescioError(f"the function for a detector returned a {type(made).__name__}")
    return made


def _names(names: Sequence[str] | None, classes: int) -> tuple[str, ...] | None:
    if names is not None and len(names) != classes:
        raise NescioError(f"{len(names)} names for {classes} classes; one each")
    return None if names is None else tuple(map(str, names))


def _map(
    name: str | None, bare: Guard, samples: Activations, labels: Tensor, parts: Split
) -> Map | None:
    """The calibration of probabilities; none where its samples hold no error."""
    if name is None:
        return None
    if not describes(name):  # what it changes is guaranteed on other samples
        samples, labels = samples[parts.tuning], labels[parts.tuning]
    prediction, _ = bare.predictions(samples)
    if (prediction.member_log_probs.argmax(-1) == labels).all():
        return None
    return calibrations.fit(name, prediction, labels)


def _rules(
    bare: Guard, activations: Activations, labels: Tensor, groups: Tensor | None
) -> tuple[tuple[int, ...], tuple[Rule, ...]]:
    """The numbers of the groups, and the rules of each."""
    samples = read_samples(bare, activations, labels)
    options = {"risk": bare.risk, "confidence": bare.confidence, "false_alarm": bare.false_alarm}
    if bare.by is None:
        return (0,), (fit_rule("", samples, **options),)
    groups = bare.predictions(activations)[0].labels if groups is None else groups
    numbers = groups.unique().tolist()
    named = bare.names if bare.by == CLASS and bare.names else None
    rules = (
        fit_rule(named[number] if named else str(number), samples[groups == number], **options)
        for number in numbers
    )
    return tuple(numbers), tuple(rules)


SEQUENTIAL = (nn.RNNBase, nn.MultiheadAttention)
CLEAR = 0.8  # level of the interval that must lie on the side of the log-odds


def default_failure(
    train: Activations,
    tuning: tuple[Activations, Tensor] | None = None,
    nets: Sequence[nn.Module] = (),
) -> Detector | None:
    """The failure score: the recommended one after a hidden linear layer; None: the log-odds.

    Where there are tuning samples with errors, the other one is taken if it is clearly better: its
    area under risk and coverage is smaller in all but few of their resamples. Without labels of the
    training data there is no choice.
    """
    if not is_labeled(train):
        return None
    hidden = all(map(has_hidden_linear, nets))
    if tuning is None and not hidden:
        return None
    made = recommended(some(train, BANK))
    usual = made if hidden else None
    if tuning is None:
        return usual
    samples, labels = tuning
    answers = Categorical(samples.logits.double())
    wrong = (answers.labels != labels.to(answers.device)).cpu()
    if not wrong.any() or wrong.all():
        return usual
    plain, better = log_odds(answers).cpu(), made(samples).cpu()
    found = metrics.selective_test(better, plain, wrong, of=["aurc"], level=CLEAR, resamples=200)
    if hidden:
        return None if found["aurc"].low > 0 else made
    return made if found["aurc"].high < 0 else None


def has_hidden_linear(net: nn.Module) -> bool:
    """Whether a linear layer gives the features of the last one, and no layer of sequences does."""
    layers = list(net.modules())
    linear = sum(isinstance(layer, nn.Linear) for layer in layers)
    return linear > 1 and not any(isinstance(layer, SEQUENTIAL) for layer in layers)
