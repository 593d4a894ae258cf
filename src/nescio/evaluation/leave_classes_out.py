"""Unknown classes without a second data set: train on some, the others are near OOD data."""

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from nescio.core import (
    DataSet,
    NescioError,
    Results,
    Row,
    as_inputs,
    as_targets,
    digest,
    kept,
    make_folder,
)
from nescio.core import progress as bar
from nescio.data import Dataset
from nescio.evaluation.compare.areas import Floats, first_places
from nescio.evaluation.compare.compare import compare
from nescio.metrics import t_interval, t_test
from nescio.training import Pair, train
from nescio.version import VERSION

UNKNOWN, KNOWN = "classes left out", "known classes"
METRICS = ("auroc", "aupr", "fpr_at_95_tpr")
MEAN, NETWORK = "mean over splits", "network"


def leave_classes_out(
    make_net: Callable[[int], nn.Module],
    data: Dataset | tuple[Any, Any],
    *,
    test: tuple[Any, Any] | None = None,
    splits: Sequence[Sequence[int]] | None = None,
    detectors: Any = None,
    layers: Any = None,
    level: float = 0.95,
    seed: int = 0,
    run: str | Path | None = None,
    progress: bool | None = None,
    **options: Any,
) -> Results:
    """Train without some classes, then tell these from the known ones; for all splits.

    Rows of the data set "mean over splits" have the means, others the splits themselves:
    `results.value("knn", "mean over splits", "auroc")`. The mean has an interval of Student's t,
    which counts splits, not inputs: it says how a detector does on another choice of classes.
    Splits share most of their data, so it is rather too narrow.

    make_net: a function of the number of known classes that makes a network, as in `lambda classes:
      nets.small_cnn(shape, classes)`.
    data: a data set, or training data `(x, y)`.
    test: test data `(x, y)`; None: those of the data set.
    splits: groups of classes to leave out, one after the other; None: each class by itself.
    detectors, layers: options of `nescio.compare`.
    level: confidence level of the interval.
    seed: seed of the random draws.
    run: folder that stores each split, where the same call resumes; None: nothing is stored.
    progress: whether to draw a progress bar; None: where stderr is a terminal.
    options: options of `nescio.train`, such as `epochs`.
    """
    fitted, tested = _parts(data, test)
    classes = sorted(fitted[1].unique().tolist())
    groups = _groups(splits, classes)
    if strange := sorted(set(tested[1].unique().tolist()) - set(classes)):
        raise NescioError(
            f"the test data have classes {strange}, the training data {classes}; leave out the "
            "samples of those that are never trained"
        )
    _check_factory(make_net)
    found = []
    with bar(len(groups), "classes left out", show=progress) as advance:
        for group in groups:
            where = None if run is None else Path(run) / f"without-{'-'.join(map(str, group))}"
            one = _Split(fitted, tested, group, classes, make_net, where)
            how = {"detectors": detectors, "layers": layers, "level": level, "seed": seed}
            found.append(one.measured(how, {"progress": False, **options, "seed": seed}))
            advance(1, lambda group=group: f"without {group}")  # type: ignore[misc]
    names = [n for n in found[0]["detectors"] if all(n in one["detectors"] for one in found)]
    if not names:
        raise NescioError("no detector could be fitted in every split; name detectors=")
    about = {"kind": "leave classes out", "nescio": VERSION, "level": level, "seed": seed}
    left_out = {name: why for one in found for name, why in one["left_out"].items()}
    rows = [*_means(found, names, level), *_split_rows(found)]
    about |= {"left_out": left_out, "notes": _notes(found, level, left_out)}
    mean = DataSet(name=MEAN, kind="mean", of=tuple(map(_title, found)))
    return Results(tuple(rows), (mean, *map(_set, found)), about)


@dataclass(frozen=True, eq=False)
class _Split:
    """One choice of classes."""

    fitted: Pair
    tested: Pair
    group: list[int]
    classes: list[int]
    make_net: Callable[[int], nn.Module]
    folder: Path | None

    def measured(self, how: Mapping[str, Any], options: Mapping[str, Any]) -> dict[str, Any]:
        """The numbers of all detectors, stored in the folder where there is one."""
        if self.folder is None:
            return self._made(how, options)
        key = {
            "train": digest(*self.fitted),
            "test": digest(*self.tested),
            "group": self.group,
            "network": _built(self.make_net(len(self.classes) - len(self.group))),
            "how": {name: _said(value) for name, value in how.items()},
            "options": {name: _said(value) for name, value in options.items()},
        }
        path = make_folder(self.folder) / "split.json"
        found: dict[str, Any] = kept(path, key, lambda: self._made(how, options))
        return found

    def _made(self, how: Mapping[str, Any], options: Mapping[str, Any]) -> dict[str, Any]:
        known = [label for label in self.classes if label not in self.group]
        x, y = _of(self.fitted, known)
        net = self.make_net
        run = None if self.folder is None else self.folder / "model"
        model = train(lambda: net(len(known)), (x, y), run=run, **options)
        in_dist, ood = _of(self.tested, known), _of(self.tested, self.group)
        table = compare(
            model,
            in_dist,
            {UNKNOWN: ood[0]},
            train=(x, y),
            name=KNOWN,
            resamples=0,
            progress=False,
            **how,
        )
        right = model(in_dist[0]).labels.cpu() == in_dist[1].cpu()  # type: ignore[attr-defined]
        return {
            "classes": self.group,
            "accuracy": right.double().mean().item(),
            "samples": [len(in_dist[0]), len(ood[0])],
            "detectors": {
                name: {key: table.value(name, UNKNOWN, key) for key in METRICS}
                for name in table.subjects
            },
            "left_out": dict(table.about.left_out),
        }


def _built(net: Any) -> str:
    """What a factory makes: its layers, and the shapes of its weights."""
    weights = net.named_parameters() if isinstance(net, nn.Module) else ()
    return f"{net} {[(name, *weight.shape) for name, weight in weights]}"


def _said(value: Any) -> Any:
    """What an option is, for the key of a kept split; a function is known by its name only."""
    if isinstance(value, Mapping):
        return {name: _said(one) for name, one in value.items()}
    if callable(value):
        return getattr(value, "description", None) or getattr(value, "__qualname__", repr(value))
    return value if isinstance(value, (str, int, float, bool, type(None))) else str(value)


def _of(part: Pair, classes: Sequence[int]) -> Pair:
    """The samples of some classes, these numbered from 0 in their order."""
    x, y = part
    rows = torch.isin(y, torch.tensor(classes, device=y.device))
    places = torch.searchsorted(torch.tensor(sorted(classes), device=y.device), y[rows])
    return x[rows.to(x.device)], places


def _parts(data: Any, test: Any) -> tuple[Pair, Pair]:
    if isinstance(data, Dataset):
        if data.test is None and test is None:
            raise NescioError(f"{data.name!r} has no test part; give test=(x, y)")
        if data.classes is None:
            raise NescioError(f"{data.name!r} has no classes to leave out")
        data, test = data.train, data.test if test is None else test
    if test is None:
        raise NescioError("give data to test on: test=(x, y)")
    return _pair(data, "training data"), _pair(test, "test data")


def _pair(given: Any, name: str) -> Pair:
    if not isinstance(given, (tuple, list)) or len(given) != 2:
        raise NescioError(f"{name} must be a pair (x, y)")
    x = as_inputs(given[0], name, keep_bytes=True)
    y: Tensor = as_targets(given[1], len(x), task="classification")
    return x, y


def _groups(splits: Any, classes: Sequence[int]) -> list[list[int]]:
    """The classes to leave out, split by split, or an error."""
    if len(classes) < 3:
        raise NescioError(
            f"there are {len(classes)} classes; at least two must be left to train on"
        )
    groups = [[label] for label in classes] if splits is None else [_group(one) for one in splits]
    if not groups:
        raise NescioError("splits is empty; give groups of classes: [[0, 1], [2, 3]]")
    for group in groups:
        if set(group) - set(classes) or not group:
            raise NescioError(
                f"a split names classes to leave out, of {list(classes)}; got {group}"
            )
        if len(classes) - len(set(group)) < 2:
            raise NescioError(f"without {group} fewer than two classes are left to train on")
    if len({tuple(group) for group in groups}) < len(groups):
        raise NescioError("two splits leave out the same classes; name each once")
    return groups


def _group(given: Any) -> list[int]:
    if isinstance(given, (int, np.integer)):
        return [int(given)]
    try:
        return sorted({int(label) for label in given})
    except (TypeError, ValueError):
        raise NescioError(f"a split is a group of classes, such as [3, 5]; got {given!r}") from None


def _check_factory(make_net: Any) -> None:
    """Refuse a factory without an argument before anything is trained."""
    if callable(make_net) and not isinstance(make_net, nn.Module):
        try:
            inspect.signature(make_net).bind(2)
        except TypeError:
            pass
        except ValueError:  # no signature to read: it is tried
            return
        else:
            return
    raise NescioError(
        "make_net must be a function of the number of known classes, as in "
        "lambda classes: nets.small_cnn((1, 28, 28), classes)"
    )


def _set(split: Mapping[str, Any]) -> DataSet:
    return DataSet(name=_title(split), kind="near", samples=split["samples"][1])


def _title(split: Mapping[str, Any]) -> str:
    return f"without {_classes(split)}"


def _classes(split: Mapping[str, Any]) -> str:
    return "+".join(map(str, split["classes"]))


def _split_rows(found: Sequence[Mapping[str, Any]]) -> Iterator[Row]:
    """The numbers of each split: of its detectors, and of the network on the known classes."""
    for one in found:
        own = {"accuracy": one["accuracy"], "samples": one["samples"][0]}
        for subject, numbers in ({NETWORK: own} | one["detectors"]).items():
            for key, value in numbers.items():
                yield Row(subject=subject, data=_title(one), metric=key, value=value)


def _means(found: Sequence[Mapping[str, Any]], names: Sequence[str], level: float) -> Iterator[Row]:
    """Means over the splits with their intervals, best first; the AUROCs are tested in pairs."""
    table = {
        key: np.array([[one["detectors"][name][key] for one in found] for name in names])
        for key in METRICS
    }
    areas = table["auroc"]  # (K, S)
    p, first = first_places(areas.mean(1), lambda i, j: t_test(areas[i], areas[j]).p, level)
    for k in np.argsort(-areas.mean(1), kind="stable"):
        for key, values in table.items():
            note = "best" if key == "auroc" and first[k] else ""
            yield Row(subject=names[k], data=MEAN, metric=key, note=note,
                      **_interval(values[k], level))  # fmt: skip
        worst = found[int(areas[k].argmin())]
        yield Row(subject=names[k], data=MEAN, metric="lowest_auroc", value=float(areas[k].min()),
                  note=_title(worst))  # fmt: skip
        yield Row(subject=names[k], data=MEAN, metric="auroc_p_value", value=float(p[k]))


def _notes(
    found: Sequence[Mapping[str, Any]], level: float, left_out: Mapping[str, str]
) -> list[str]:
    accuracy = sum(one["accuracy"] for one in found) / len(found)
    notes = [
        f"{len(found)} split{'s' * (len(found) > 1)}, without the classes "
        f"{', '.join(map(_classes, found))}; mean accuracy on the known classes "
        f"{100 * accuracy:.1f} %."
    ]
    if len(found) > 1:
        notes.append(
            f"In brackets: {100 * level:g} % intervals of Student's t over the splits. "
            "{mark}shares the first place: a paired t-test over the splits (all pairs corrected "
            "after Holm) does not set it apart from the best, but does set another one apart."
        )
    return [*notes, *(f"{name} left out: {why}" for name, why in left_out.items())]


def _interval(values: Floats, level: float) -> dict[str, float | None]:
    """The mean over splits with Student's interval, cut to [0, 1]."""
    ends = t_interval(values, level=level)
    if len(values) < 2:
        return {"value": ends.value, "low": None, "high": None}
    return {"value": ends.value, "low": max(0.0, ends.low), "high": min(1.0, ends.high)}
