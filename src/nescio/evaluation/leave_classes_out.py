"""Unknown classes without a second data set: train on some, the others are near OOD data."""

import inspect
import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from nescio.core import (
    NescioError,
    as_inputs,
    as_targets,
    digest,
    finite,
    kept,
    make_folder,
    unknown,
    write_atomically,
)
from nescio.core.running import progress as bar
from nescio.data import Dataset
from nescio.evaluation.compare.areas import Floats, first_places
from nescio.evaluation.compare.compare_detectors import compare_detectors
from nescio.training.loop import Pair
from nescio.training.train import train
from nescio.version import VERSION

UNKNOWN, KNOWN = "classes left out", "known classes"
METRICS = ("auroc", "aupr", "fpr_at_95_tpr")
FILE = "left_out"


@dataclass(frozen=True, eq=False)
class LeftOut:
    """The findings over all splits; `result` is what the JSON file holds."""

    result: dict[str, Any]

    def auroc(self, detector: str) -> float:
        """The mean AUROC of a detector over the splits."""
        known = self.result["detectors"]
        if detector not in known:
            raise NescioError(unknown("detector", detector, known))
        return float(known[detector]["auroc"]["value"])

    def __str__(self) -> str:
        from nescio.report.left_out_table import left_out_text

        return left_out_text(self.result)

    def markdown(self) -> str:
        """The table in Markdown."""
        from nescio.report.left_out_table import left_out_markdown

        return left_out_markdown(self.result)

    def json(self) -> str:
        """Everything, for other programs."""
        return json.dumps(self.result, indent=2, allow_nan=False) + "\n"

    def save(self, folder: str | Path) -> Path:
        """Write left_out.txt, .md and .json; returns the path of .md."""
        folder = make_folder(Path(folder))
        texts = {"txt": str(self), "md": self.markdown(), "json": self.json()}
        for ending, text in texts.items():
            write_atomically(folder / f"{FILE}.{ending}", text)
        return folder / f"{FILE}.md"


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
) -> LeftOut:
    """Train without some classes, then tell these from the known ones; for all splits.

    make_net: a function of the number of known classes, as in
    `lambda classes: nets.small_cnn(shape, classes)`.
    data: a data set, or training data (x, y) with `test`.
    splits: groups of classes to leave out, one after the other; by default each class by itself.
    detectors, layers: as for `compare_detectors`. options: of `train`, such as epochs.
    run: a folder in which each split is kept; the same call goes on where it stopped.

    The mean over the splits has an interval of Student's t, which counts splits, not inputs: it
    says how a detector does on another choice of classes. Splits share most of their data, so it is
    rather too narrow.
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
        raise NescioError("no detector could be made in every split; name detectors=")
    result = {
        "kind": "left out",
        "nescio": VERSION,
        "level": level,
        "seed": seed,
        "splits": found,
        "detectors": _means(found, names, level),
        "left_out": {n: why for one in found for n, why in one["left_out"].items()},
    }
    return LeftOut(finite(result))


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
        """The numbers of all detectors, kept in the folder where there is one."""
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
        table = compare_detectors(
            model,
            in_dist,
            {UNKNOWN: ood[0]},
            train=(x, y),
            name=KNOWN,
            resamples=0,
            progress=False,
            **how,
        ).result
        right = model(in_dist[0]).labels.cpu() == in_dist[1].cpu()  # type: ignore[attr-defined]
        return {
            "classes": self.group,
            "accuracy": right.double().mean().item(),
            "samples": [len(in_dist[0]), len(ood[0])],
            "detectors": {
                name: {key: part["rows"][UNKNOWN][key]["value"] for key in METRICS}
                for name, part in table["detectors"].items()
            },
            "left_out": table["left_out"],
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


def _means(
    found: Sequence[Mapping[str, Any]], names: Sequence[str], level: float
) -> dict[str, dict[str, Any]]:
    """Means over the splits with their intervals; the AUROCs are tested in pairs."""
    table = {
        key: np.array([[one["detectors"][name][key] for one in found] for name in names])
        for key in METRICS
    }
    areas = table["auroc"]  # (K, S)
    p, first = first_places(areas.mean(1), lambda i, j: _paired(areas[i] - areas[j]), level)
    return {
        name: {
            **{key: _interval(values[k], level) for key, values in table.items()},
            "worst": found[int(areas[k].argmin())]["classes"],
            "lowest": float(areas[k].min()),
            "p": float(p[k]),
            "best": first[k],
        }
        for k, name in enumerate(names)
    }


def _interval(values: Floats, level: float) -> dict[str, float | None]:
    """The mean over splits with Student's interval, cut to [0, 1]."""
    from scipy.stats import t

    mean, count = float(values.mean()), len(values)
    if count < 2:
        return {"value": mean, "low": None, "high": None}
    half = float(t.ppf((1 + level) / 2, count - 1) * values.std(ddof=1) / math.sqrt(count))
    return {"value": mean, "low": max(0.0, mean - half), "high": min(1.0, mean + half)}


def _paired(gaps: Floats) -> float:
    """Two-sided p-value of Student's paired test; of equal gaps 1 or 0."""
    from scipy.stats import t

    if len(gaps) < 2 or not gaps.any():
        return 1.0
    spread = float(gaps.std(ddof=1)) / math.sqrt(len(gaps))
    return float(2 * t.sf(abs(gaps.mean()) / spread, len(gaps) - 1)) if spread > 0 else 0.0
