"""What a comparison found, as a value: rows, what they are about, scores; shown, drawn, saved."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray

from nescio.core import (
    DataSet,
    NescioError,
    Results,
    Row,
    from_json,
    load_manifest,
    load_tensors,
    make_folder,
    merged,
    save_manifest,
    save_tensors,
    to_json,
    unknown,
    write_atomically,
)
from nescio.version import VERSION

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from nescio.report.render import Page

Array: TypeAlias = NDArray[Any]
Scores: TypeAlias = Mapping[str, Mapping[str, Array]]  # (N,) by subject and data set
Task = Literal["ood", "errors", "confidence"]
KIND, FILE, SCORES = "comparison", "comparison", "scores.safetensors"
MEAN = "mean, all"  # over all OOD sets
NUMBERS = ("mean_max_confidence", "auroc", "fpr_at_95_tpr")  # of a paper's row, in its order
SHOWN = 6  # subjects in a picture
Published = Mapping[str, Mapping[str, Mapping[str, float] | Sequence[float | None]]]


@dataclass(frozen=True, kw_only=True)
class SubjectAbout:
    """What was compared under a name."""

    name: str
    kind: str  # detector, predictor, function or score
    detector: str | None = None  # its name in `nescio list detectors`
    options: Mapping[str, Any] | None = None
    layers: tuple[str, ...] | None = None
    tuned: Mapping[str, Any] | None = None
    said: str | None = None  # how it was tuned
    own_pass: bool | None = None  # whether it runs the network again
    predictor: str | None = None
    members: int | None = None
    measure: str | None = None


@dataclass(frozen=True, kw_only=True)
class About:
    """How a comparison was made."""

    task: Task
    data: str  # the name of the in-distribution data
    samples: int
    level: float
    resamples: int
    seed: int
    subjects: tuple[SubjectAbout, ...]
    nescio: str = VERSION
    command: tuple[str, ...] | None = None
    left_out: Mapping[str, str] = field(default_factory=dict)  # subjects, and why
    networks: int = 1
    layers: tuple[str, ...] | None = None
    train: int | None = None  # training samples
    positive: str | None = None
    forward_seconds_per_1000: float | None = None
    features: tuple[int, ...] | None = None
    measure: str | None = None  # what predictors are ranked by
    errors: int | None = None
    temperature: float | None = None
    no_temperature: str | None = None  # why there is none
    key: Any = None  # what a stored comparison was made from


@dataclass(frozen=True, eq=False, repr=False)
class Comparison:
    """Rows of numbers by subject, data set and metric; `print` shows the tables.

    rows: the numbers.
    sets: the data sets they are about.
    about: how the comparison was made.
    scores: scores by subject and data set; a larger score is further out, less certain.
    wrong: in the task "errors", whether each answer is wrong.
    confidence: in the task "errors", the confidence before and after temperature scaling.
    """

    rows: tuple[Row, ...]
    sets: tuple[DataSet, ...]
    about: About
    scores: Scores = field(default_factory=dict, repr=False)
    wrong: Array | None = field(default=None, repr=False)
    confidence: Mapping[str, Array] = field(default_factory=dict, repr=False)

    def __repr__(self) -> str:
        sets = ", ".join(one.name for one in self.sets)
        return f"Comparison({self.about.task}: {len(self.subjects)} subjects on {sets})"

    @cached_property
    def results(self) -> Results:
        """The rows for selection, frames and other tables."""
        return Results(self.rows, self.sets, to_json(self.about))

    @property
    def subjects(self) -> list[str]:
        """What was compared."""
        return [one.name for one in self.about.subjects]

    def row(self, subject: str, data: str, metric: str) -> Row | None:
        """One number with its interval, or None.

        subject, data, metric: names of the subject, the data set and the metric.
        """
        return self.results.row(subject, data, metric)

    def value(self, subject: str, data: str | None = None, metric: str | None = None) -> float:
        """One number by its names.

        `comparison.value("knn", "letters")`, `comparison.value("entropy", metric="aurc")`.

        subject: name of the subject.
        data: name of the data set; None: the mean over all sets, or in the task "errors" the test
          data.
        metric: name of the metric; None: the AUROC, or in the task "errors" the AP of errors.
        """
        errors = self.about.task == "errors"
        metric = metric or ("ap_error" if errors else "auroc")
        data = data or (self.about.data if errors else MEAN)
        if subject not in self.subjects:
            raise NescioError(unknown("subject", subject, self.subjects))
        found = self.results.select(subject=subject, data=data).value(metric=metric)
        return float("nan") if found is None else found

    @property
    def ranked(self) -> list[str]:
        """The subjects, best first."""
        return sorted(self.subjects, key=self.value, reverse=True)

    def to_frame(self) -> Any:
        """A pandas frame, one line per number; it needs pandas."""
        return self.results.to_frame()

    def _page(self, metric: str | None = None) -> "Page":
        from nescio.report.comparison_tables import comparison_page

        return comparison_page(self, metric)

    def __str__(self) -> str:
        return self._page().text()

    def markdown(self) -> str:
        """All tables in Markdown."""
        from nescio.report.comparison_tables import full_page

        return full_page(self).markdown()

    def latex(self, metric: str | None = None, *, intervals: bool | None = None) -> str:
        """A LaTeX `tabular`; it needs the package booktabs.

        metric: the metric of the table in the task "ood"; None: the AUROC. Other tasks show all.
        intervals: whether to print intervals; None: in all tasks but "ood".
        """
        shown = self.about.task != "ood" if intervals is None else intervals
        bare = self.with_about(resamples=0)  # says nothing of intervals
        found = self if shown or self.about.task == "ood" else bare
        return found._page(metric or "auroc").latex(intervals=shown)

    def _repr_html_(self) -> str:
        return self._page().html()

    def to_json(self) -> dict[str, Any]:
        """Everything but the scores."""
        rows = {"sets": to_json(self.sets), "rows": to_json(self.rows)}
        return {"kind": KIND, **to_json(self.about), **rows}

    @classmethod
    def from_json(cls, value: Mapping[str, Any], where: str = "the value") -> "Comparison":
        """A comparison from what `to_json` gave.

        value: the JSON value.
        where: what to call it in messages.
        """
        content = from_json(Results, value, where)
        return cls(content.rows, content.sets, from_json(About, value, where))

    def json(self) -> str:
        """Everything but the scores, as text."""
        return json.dumps(self.to_json(), indent=2, allow_nan=False) + "\n"

    def with_about(self, **changes: Any) -> "Comparison":
        """The same with other facts about it, such as the command that made it."""
        return replace(self, about=replace(self.about, **changes))

    def only(self, subjects: Sequence[str]) -> "Comparison":
        """The same comparison with some of the `subjects`."""
        about = tuple(one for one in self.about.subjects if one.name in subjects)
        rows = tuple(row for row in self.rows if row.subject in subjects)
        return replace(self, rows=rows, about=replace(self.about, subjects=about))

    def _drawn(self, task: Task, draw: str, names: Sequence[str] | None) -> "Figure":
        from nescio.report.plots import score_plots

        if self.about.task != task:
            raise NescioError(f"a comparison of the task {self.about.task!r} has no such picture")
        if not self.scores:
            raise NescioError("the scores are not there; load the folder that `save` wrote")
        names = [names] if isinstance(names, str) else names
        for name in names or ():
            if name not in self.scores:
                raise NescioError(unknown("subject", name, self.scores))
        chosen = names or self.ranked[: SHOWN if task == "ood" else None]
        figure: Figure = getattr(score_plots, draw)(self, {n: self.scores[n] for n in chosen})
        return figure

    def roc(self, subjects: Sequence[str] | None = None) -> "Figure":
        """ROC curves, one panel per OOD set.

        subjects: names of the subjects to show; None: the best ones.
        """
        return self._drawn("ood", "roc_curves", subjects)

    def histograms(self, subjects: Sequence[str] | None = None) -> "Figure":
        """Distributions of the scores; in the task "errors" of the maximum probabilities.

        subjects: names of the subjects to show; None: the best ones. It is not read in the task
          "errors".
        """
        if self.about.task == "errors":
            return self._drawn("errors", "confidence_histograms", None)
        return self._drawn("ood", "score_histograms", subjects)

    def risk_coverage(self, subjects: Sequence[str] | None = None) -> "Figure":
        """The error rate among the most confident answers, against their share.

        subjects: names of the subjects to show; None: all.
        """
        return self._drawn("errors", "risk_coverage_curves", subjects)

    def precision_recall(self, subjects: Sequence[str] | None = None) -> "Figure":
        """Precision against recall, errors being what is looked for.

        subjects: names of the subjects to show; None: all.
        """
        return self._drawn("errors", "precision_recall_curves", subjects)

    def save(self, folder: str | Path, name: str = FILE, *, pictures: bool = True) -> Path:
        """Write NAME.txt, .md, .tex, .json, scores and pictures; returns the path of .md.

        folder: where to write; it is made if it does not exist.
        name: the NAME of the files.
        pictures: whether to draw pictures.
        """
        folder = make_folder(Path(folder))
        latex = "\n".join(map(self.latex, self._latex_metrics()))
        texts: dict[str, str | bytes] = {
            f"{name}.txt": str(self),
            f"{name}.md": self.markdown(),
            f"{name}.tex": latex,
        }
        if self.scores and pictures:
            from nescio.report.plots.score_plots import png

            texts |= {f"{one}.png": png(draw()) for one, draw in self._pictures().items()}
        if self.scores:
            save_tensors(folder / SCORES, self._tensors(), {"kind": "scores"})
        for file, content in texts.items():
            write_atomically(folder / file, content)
        save_manifest(folder / f"{name}.json", json.loads(self.json()))
        return folder / f"{name}.md"

    def _latex_metrics(self) -> tuple[str, ...]:
        return ("auroc", "aupr", "fpr_at_95_tpr") if self.about.task == "ood" else ("",)

    def _pictures(self) -> dict[str, Callable[[], "Figure"]]:
        if self.about.task == "ood":
            return {"roc": self.roc, "histograms": self.histograms}
        return {
            "risk-coverage": self.risk_coverage,
            "precision-recall": self.precision_recall,
            "histograms": self.histograms,
        }

    def _tensors(self) -> dict[str, torch.Tensor]:
        arrays = {
            f"{i}/{j}": values
            for i, by_set in enumerate(self.scores.values())
            for j, values in enumerate(by_set.values())
        }
        arrays |= {f"confidence/{when}": values for when, values in self.confidence.items()}
        arrays |= {} if self.wrong is None else {"wrong": self.wrong}
        return {key: torch.from_numpy(np.ascontiguousarray(a)) for key, a in arrays.items()}

    @classmethod
    def load(cls, path: str | Path, name: str = FILE) -> "Comparison":
        """Read what `save` wrote.

        path: the folder, or the .json file.
        name: the NAME of the files in the folder.
        """
        path = Path(path) if str(path).endswith(".json") else Path(path) / f"{name}.json"
        found = cls.from_json(load_manifest(path, KIND), str(path))
        there = path.with_name(SCORES)
        return found._with_scores(there) if there.exists() else found

    def _with_scores(self, path: Path) -> "Comparison":
        arrays = {key: tensor.numpy() for key, tensor in load_tensors(path, "scores")[0].items()}
        sets = [one.name for one in self.sets if one.kind != "mean" and one.absent is None]
        try:
            scores = {
                subject: {name: arrays[f"{i}/{j}"] for j, name in enumerate(sets)}
                for i, subject in enumerate(self.subjects)
            }
        except KeyError as error:
            raise NescioError(f"{path} lacks scores {error}; compare again") from None
        said = {when: arrays.get(f"confidence/{when}") for when in ("before", "after")}
        confidence = {when: values for when, values in said.items() if values is not None}
        return replace(self, scores=scores, wrong=arrays.get("wrong"), confidence=confidence)

    def beside(self, published: Published) -> "Comparison":
        """The same comparison with published numbers: `{data set: {subject: (MMC, AUROC, FPR95)}}`.

        published: numbers by data set and subject, which must be those of the table. In place of
          the three numbers, a mapping with any of "error", "mean_max_confidence", "auroc" and
          "fpr_at_95_tpr".
        """
        rows = dict(self.results._by_name)
        for data, by_name in published.items():
            if data not in (known := [one.name for one in self.sets]):
                raise NescioError(unknown("row", data, known))
            for name, given in by_name.items():
                if name not in self.subjects:
                    raise NescioError(unknown("predictor", name, self.subjects))
                for metric, value in _reported(data, name, given).items():
                    own = Row(subject=name, data=data, metric=metric, value=None)
                    rows[name, data, metric] = replace(
                        rows.get((name, data, metric), own), published=value
                    )
        return replace(self, rows=tuple(rows.values()))

    @classmethod
    def join(cls, parts: Sequence["Comparison"]) -> "Comparison":
        """One table of several on the same test data: other subjects, other rows, or both.

        parts: the comparisons.
        """
        if not parts:
            raise NescioError("nothing to join: the list of comparisons is empty")
        first, *others = (_shared(part) for part in parts)
        for other in others:
            for key, value in first.items():
                if other[key] != value:
                    raise NescioError(
                        f"the parts differ in {key}: {value!r} and {other[key]!r}; expected the "
                        "same in-distribution data and settings"
                    )
        whole = Results.join([part.results for part in parts])
        every = [one for part in parts for one in part.about.subjects]
        subjects = tuple(merged([one.name for one in every], every))
        return cls(whole.rows, whole.sets, replace(parts[0].about, subjects=subjects))


def _shared(part: Comparison) -> dict[str, Any]:
    """What joined parts have in common."""
    apart = ("subjects", "command", "key", "nescio")
    return {key: value for key, value in asdict(part.about).items() if key not in apart}


def _reported(
    data: str, name: str, given: Mapping[str, float] | Sequence[float | None]
) -> dict[str, float]:
    """Published numbers of one subject on one data set; all are shares."""
    if not isinstance(given, Mapping):
        if len(given) > len(NUMBERS):
            raise NescioError(
                f"published numbers of {name!r} on {data!r} must be at most three (MMC, AUROC, "
                f"FPR95), got {len(given)}; give a mapping for others"
            )
        pairs = zip(NUMBERS, given, strict=False)
        given = {key: value for key, value in pairs if value is not None}
    for key, value in given.items():
        if key not in ("error", *NUMBERS):
            raise NescioError(unknown("published number", key, ("error", *NUMBERS)))
        if not 0 <= value <= 1:
            raise NescioError(
                f"published {key} of {name!r} on {data!r} must be a share in [0, 1], got {value}; "
                "divide per cent by 100"
            )
    return {key: float(value) for key, value in given.items()}
