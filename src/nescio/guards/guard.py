"""Make a guard: fit a detector, calibrate, and find the thresholds that carry a guarantee.

Each guarantee is shown on calibration samples that tuned nothing, and calibration data that the
network or a detector was fitted on are refused, where this can be known.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from torch import Tensor, nn

from nescio import calibration as calibrations
from nescio.calibration import Map
from nescio.conformal import check_groups, threshold
from nescio.core import (
    Head,
    NescioError,
    as_tensor,
    check_labels,
)
from nescio.detectors import Activations, Detector, recorded_nets
from nescio.detectors.observe.network import head_of, kept
from nescio.guards.decide import CLASS, Guard, describes, read_samples
from nescio.guards.fit_maps import guard_maps
from nescio.guards.fit_regression import guard_regression
from nescio.guards.guarantees import warn_about
from nescio.guards.largest_coverage import check_shares
from nescio.guards.observing import (
    Fitted,
    both_detectors,
    class_names,
    copies_of,
    counts_of,
    inputs_of,
    known,
    of_recorded,
    read_data,
    rows_of,
)
from nescio.guards.rules import Rule, fit_rule
from nescio.guards.splitting import TUNING, Split, split, unknown_to
from nescio.models import is_regression, task_of
from nescio.nets import Output

RISK, SETS, CONFIDENCE = 0.02, 0.1, 0.95  # where nothing else is asked for
FALSE_ALARM, MAP = 0.01, "temperature"
MANY = 10_000  # calibration samples, of which some may choose the failure score


def guard(
    source: Any,
    calibration: Any,
    *,
    train: Any = None,
    detector: Fitted | None = None,
    failure: Fitted | None = None,
    false_alarm: float = FALSE_ALARM,
    risk: float | None = None,
    confidence: float | None = None,
    ignore_index: int | None = None,
    calibration_map: str | None = MAP,
    sets: float | None = SETS,
    miscoverage: float | None = None,
    intervals: str | None = None,
    max_width: Any = None,
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
) -> Any:
    """A guard that decides for every input: answer, or abstain as unsure or OOD.

    A `Guard` of classes, or of a regression a `RegressionGuard`, which also gives every input a
    prediction interval. Without a head, where targets are not whole numbers, outputs are means.
    Of label maps `(N, H, W)` a `MapGuard`, which answers or abstains for every pixel.

    >>> guard = nescio.guard(net, (x, y), train=(x_train, y_train), risk=0.02)  # doctest: +SKIP
    >>> guard(x_new).decision  # doctest: +SKIP

    source: an `nn.Module`, a nescio model or a list of modules, of a regression or of label maps
      also MC dropout; None where `calibration` and `train` are activations, such as arrays of a
      network that runs elsewhere: `nescio.recorded(logits, features=..., labels=...)`. It is
      copied: later training does not change the guard.
    calibration: inputs with labels, `(x, y)`, a loader or activations; never training data, and
      drawn like the inputs to come.
    train: the training data, with labels or without; fits the detector. Without it a part of the
      calibration data does.
    detector: a fitted one, the name of one, with options as in "knn,k=1", or a function of training
      activations; None: the combination that finds outliers made from the training data best.
    failure: the failure score: a fitted detector, the name of one, or a function. None: the
      log-odds, or, beside the default detector and after a hidden linear layer, the recommended
      failure score; from 10,000 calibration samples on, the other one if it is clearly better. Of
      label maps a measure of uncertainty: `least_confidence` by default, `predictive_entropy`,
      `expected_entropy` or `mutual_information`.
    false_alarm: the largest share of inputs like the calibration data that may be called OOD.
    risk: the largest share of answers that may be wrong; None: 0.02, of a regression 0.1. An answer
      about a number is wrong if its interval misses. Of label maps it is the largest expected share
      of an image's labeled pixels that are answered and wrong; None: 0.05.
    confidence: the probability with which the calibration data must show the risk; None: 0.95. Of
      label maps, None: the risk holds on average over calibration data, too.
    ignore_index: of label maps, the label of pixels without a class; None: every pixel has one.
    calibration_map: calibration of probabilities, a name of `nescio.calibration`; None leaves them.
    sets: the largest share of prediction sets that may miss the true class; None gives no sets.
    miscoverage: of a regression, the largest share of intervals that may miss the target, of
      several targets any of them; None: 0.05.
    intervals: of a regression, `normalized`, `quantile`, `spread` or `residual`, see
      `nescio.conformal`; None: the narrowest on a part of the calibration data.
    max_width: of a regression, the width of an interval above which nothing is answered; one
      number, or one for each target; None: any.
    by: "class" gives the guarantees for each predicted class; group numbers `(N,)` for each group;
      None: for all inputs together.
    names: names of the classes, or of the targets; None: they are numbers.
    repeats: equal inputs are separate samples, as in tables of few values; none is then recognized
      as training data.
    layers, pool: the layers whose features are read, and how these become vectors, as for
      `nescio.observe`, where a detector is fitted; the default detector pools by "grid".
    output: where the outputs are in what the network returns, as for `nescio.observe`. A guard
      whose `output` is a function is loaded with it again.
    head: how the outputs of modules are read, as for `nescio.observe`.
    seed: seed of the split of the calibration data.
    batch_size: number of samples that the networks read at a time.
    progress: whether to draw a progress bar; None: where stderr is a terminal.
    """
    if _are_maps(calibration, ignore_index):
        for_samples = {"detector": detector, "by": by, "sets": None if sets == SETS else sets}
        for_samples |= {"miscoverage": miscoverage, "intervals": intervals, "max_width": max_width}
        for_samples["false_alarm"] = None if false_alarm == FALSE_ALARM else false_alarm
        for_samples["calibration_map"] = None if calibration_map == MAP else calibration_map
        _refuse(
            {**for_samples, "layers": layers, "pool": pool}, "one answer per input", "label maps"
        )
        own = {"train": train, "failure": failure, "risk": risk, "confidence": confidence}
        own |= {"names": names, "repeats": repeats, "output": output, "head": head}
        return guard_maps(source, calibration, ignore_index=ignore_index, **own)
    confidence = CONFIDENCE if confidence is None else confidence
    reading = {"layers": layers, "pool": pool, "output": output, "batch_size": batch_size}
    wish: dict[str, Any] = {"false_alarm": false_alarm, "confidence": confidence}
    both: dict[str, Any] = {"train": train, "detector": detector, "names": names, "head": head}
    both |= {"repeats": repeats, "seed": seed, "progress": progress, "reading": reading}
    of_numbers = {"miscoverage": miscoverage, "intervals": intervals, "max_width": max_width}
    if _predicts_numbers(source, calibration, head):
        of_classes = {"failure": failure, "by": by, "sets": None if sets == SETS else sets}
        of_classes["calibration_map"] = None if describes(calibration_map) else calibration_map
        _refuse(of_classes, "classes", "numbers")
        if head is None and isinstance(source, nn.Module | list | tuple):
            both["head"] = None if task_of(source) == "regression" else "fixed_variance"
        return guard_regression(source, calibration, risk=risk, **wish, **of_numbers, **both)
    _refuse(of_numbers, "numbers", "classes; if it is a regression, say how it is read: head=")
    wish["risk"] = RISK if risk is None else risk
    own = {"failure": failure, "calibration_map": calibration_map, "sets": sets, "by": by}
    return _guard_classes(source, calibration, wish=wish, **own, **both)


def _guard_classes(
    source: Any,
    calibration: Any,
    *,
    train: Any,
    detector: Fitted | None,
    failure: Fitted | None,
    wish: Mapping[str, Any],
    calibration_map: str | None,
    sets: float | None,
    by: Any,
    names: Sequence[str] | None,
    repeats: bool,
    reading: Mapping[str, Any],
    head: Head | str | None,
    seed: int,
    progress: bool | None,
) -> Guard:
    """The guard of networks that predict classes; the options are those of `guard`."""
    check_shares(**wish)
    source, data = of_recorded(source, {"calibration": calibration, "train": train})
    members = copies_of(source, reading["batch_size"], head, calibration)
    samples, trained = read_data(members, data, (detector, failure), reading, progress)
    groups, given = _groups(by, samples.samples), samples.samples
    if not repeats and samples.hashes is not None:
        new = unknown_to(samples.hashes, known(trained, source, (detector, failure)))
        samples, groups = rows_of(samples, new), None if groups is None else groups[new]
    labels = _labels(samples)
    fitting = trained is None and not isinstance(detector, Detector)
    count = samples.samples
    choosing = detector is None and failure is None and count >= MANY
    tunes = TUNING if choosing or not describes(calibration_map) else 0.0
    rates: Any = {"false_alarm": wish["false_alarm"], "seed": seed}
    parts = split(count, fitting=fitting, tuning=tunes, **rates)
    tuning = (samples[parts.tuning], labels[parts.tuning]) if choosing else None
    base = trained if trained is not None else samples[parts.fitting] if fitting else None
    fitted, failure_score = both_detectors(detector, failure, base, tuning, (members, reading))
    output = reading["output"]
    bare = Guard(
        detector=fitted,
        failure=failure_score,
        **wish,
        **_unfitted(samples, by, names),
        head=head_of(samples.about, members),
        output=kept(fitted.about, "output", None) if output is None else output,
        nets=tuple(member.net for member in members) or tuple(recorded_nets(samples)),
        batch_size=reading["batch_size"],
        notes={
            "classes": samples.classes,
            **counts_of(samples, trained, parts, fitted),
            **{"seed": seed, "repeats": repeats, "dropped": given - count},
        },
    )
    bare = replace(bare, map=_map(calibration_map, bare, samples, labels, parts))
    complete = _complete(bare, samples, labels, parts, groups, sets)
    warn_about(complete)
    return complete


def _are_maps(calibration: Any, ignore_index: int | None) -> bool:
    """Whether there is a label for each pixel: as an ignore index says, or the labels' shape."""
    if ignore_index is not None:
        return True
    pair = isinstance(calibration, tuple) and len(calibration) == 2
    labels = calibration[1] if pair else None
    return getattr(labels, "ndim", 0) > 2 and not as_tensor(labels, "labels").is_floating_point()


def _predicts_numbers(source: Any, calibration: Any, head: Head | str | None) -> bool:
    """Whether it is a regression: by the head, or by targets that are not whole numbers."""
    first = source[0] if isinstance(source, list | tuple) and source else source
    pair = isinstance(calibration, tuple) and len(calibration) == 2
    if head is None and pair and isinstance(first, nn.Module):
        return is_regression(first, calibration)
    return task_of(source, head) == "regression"


def _refuse(options: Mapping[str, Any], what: str, here: str) -> None:
    """Refuse options of the other task."""
    for name, value in options.items():
        if value is not None:
            raise NescioError(f"{name}= is for a guard of {what}; this network predicts {here}")


def _unfitted(samples: Activations, by: Any, names: Sequence[str] | None) -> dict[str, Any]:
    """What a guard holds before its map and its rules are fitted."""
    return {
        "map": None,
        "rules": (),
        "groups": (),
        "by": CLASS if isinstance(by, str) else None if by is None else "groups",
        "names": class_names(names, samples.classes),
        **inputs_of(samples),
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


def _labels(samples: Activations) -> Tensor:
    if samples.labels is None:
        raise NescioError("calibration data need labels: (x, y); the risk is about them")
    given = samples.labels
    if given.is_floating_point() and not (given == given.round()).all():
        raise NescioError(
            "the calibration labels are not whole numbers; if the network predicts numbers, say "
            "how: head='gaussian' (mean and variance) or head='fixed_variance' (mean)"
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
    options: Any = {
        "risk": bare.risk,
        "confidence": bare.confidence,
        "false_alarm": bare.false_alarm,
    }
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
