"""Results as values: typed rows and what they are about; shown, selected, saved, joined.

results.value(subject="knn", data="letters", metric="auroc")
results.select(metric="auroc").to_frame()
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass, replace
from functools import cached_property
from pathlib import Path
from types import NoneType, UnionType
from typing import TYPE_CHECKING, Any, TypeVar, Union, get_args, get_origin, get_type_hints

import numpy as np

from nescio.core.errors import NescioError
from nescio.core.files import load_manifest, save_manifest
from nescio.core.registry import unknown
from nescio.core.writing import finite, write_atomically

if TYPE_CHECKING:
    from nescio.report.render import Grid, Page

T = TypeVar("T")
SCALARS: Mapping[Any, tuple[type, ...]] = {  # what JSON holds of a field; 3.0 may stand for 3
    bool: (bool,),
    int: (int, float),
    float: (float, int),
    str: (str,),
}
SHOWN = 60  # characters of a value in a message
FIELDS = ("subject", "data", "metric")  # together they name a row


@dataclass(frozen=True, kw_only=True)
class Row:
    """One number of one subject on one data set, with its interval where there is one."""

    subject: str
    data: str
    metric: str
    value: float | None
    low: float | None = None
    high: float | None = None
    note: str = ""
    published: float | None = None  # what a paper says


@dataclass(frozen=True, kw_only=True)
class DataSet:
    """A data set of the rows: its kind is test, ood, near, noise, adversarial, far or mean."""

    name: str
    kind: str = "ood"
    samples: int | None = None
    description: str | None = None  # where the inputs come from
    absent: str | None = None  # why it was not measured
    in_train: int | None = None  # inputs that are among the training inputs
    strength: float | None = None  # of a shift
    of: tuple[str, ...] = ()  # the data sets that are averaged in a mean


@dataclass(frozen=True)
class Results:
    """A table of results: rows, the data sets they are about, and how they were made.

    rows: one row per number, with its subject, data set and metric.
    sets: the data sets.
    about: what was done, how, and by which version.
    """

    rows: tuple[Row, ...]
    sets: tuple[DataSet, ...] = ()
    about: Mapping[str, Any] = field(default_factory=dict)

    def names(self, what: str) -> list[str]:
        """All names of `what`, "subject", "data" or "metric", in the order of the rows."""
        return list(dict.fromkeys(getattr(row, what) for row in self.rows))

    def select(
        self, subject: str | None = None, data: str | None = None, metric: str | None = None
    ) -> "Results":
        """The rows of a subject, a data set, a metric, or of two or three of these.

        subject, data, metric: a name; None: any.
        """
        wanted = {"subject": subject, "data": data, "metric": metric}
        rows = self.rows
        for what, name in wanted.items():
            if name is not None and name not in self.names(what):
                raise NescioError(unknown(what, name, self.names(what)))
            rows = tuple(row for row in rows if name in (None, getattr(row, what)))
        return Results(rows, self.sets, self.about)

    def value(
        self, subject: str | None = None, data: str | None = None, metric: str | None = None
    ) -> float | None:
        """One number; names that only one row can have may be left out.

        subject, data, metric: a name; None: any.
        """
        found = self.select(subject, data, metric)
        if len(found.rows) != 1:
            several = [what for what in FIELDS if len(found.names(what)) > 1]
            raise NescioError(
                f"{len(found.rows)} rows match; name one {' and one '.join(several) or 'of each'}"
            )
        return found.rows[0].value

    def row(self, subject: str, data: str, metric: str) -> Row | None:
        """A row by its `subject`, `data` and `metric`; None where there is none."""
        return self._by_name.get((subject, data, metric))

    @cached_property
    def _by_name(self) -> dict[tuple[str, str, str], Row]:
        return {(row.subject, row.data, row.metric): row for row in self.rows}

    def table(self, rows: str | Sequence[str] = (), columns: str = "", **wanted: str) -> "Grid":
        """A table of the selected rows: `table("subject", "data", metric="auroc")`.

        rows, columns: what stands there, of subject, data and metric; by default what varies.
        """
        from nescio.report.render import pivot

        return pivot(self.select(**wanted), rows, columns)

    def _page(self) -> "Page":
        from nescio.report.render import Page

        means = [one.name for one in self.sets if one.kind == "mean"]
        shown = self.table(data=means[0]) if means else self.table()
        return Page(tables=(shown,), notes=tuple(self.about.get("notes", ())))

    def __str__(self) -> str:
        return self._page().text()

    def markdown(self) -> str:
        """The table in Markdown, the notes below."""
        return self._page().markdown()

    def latex(self, *, intervals: bool = True) -> str:
        """The table as a LaTeX `tabular`; it needs the package booktabs.

        intervals: whether to write the intervals.
        """
        return self._page().latex(intervals=intervals)

    def _repr_html_(self) -> str:
        from nescio.report import cut_grid

        page = self._page()
        return replace(page, tables=tuple(map(cut_grid, page.tables))).html()

    def to_frame(self) -> Any:
        """A pandas frame with one line per row; it needs pandas."""
        try:
            import pandas  # type: ignore[import-untyped,unused-ignore]
        except ImportError:
            raise NescioError("to_frame needs pandas; install it: pip install pandas") from None
        names = [one.name for one in fields(Row)]
        return pandas.DataFrame([vars(row) for row in self.rows], columns=names)

    def json(self) -> str:
        """Everything, for other programs and for `load`."""
        return json.dumps({"kind": "results", **to_json(self)}, indent=2, allow_nan=False) + "\n"

    def save(self, path: str | Path) -> Path:
        """Write `path` as JSON, and the table beside it as .txt, .md and .tex; returns the path."""
        path = Path(path).with_suffix(".json")
        save_manifest(path, json.loads(self.json()))
        texts = {"txt": str(self), "md": self.markdown(), "tex": self.latex()}
        for ending, text in texts.items():
            write_atomically(path.with_suffix(f".{ending}"), text)
        return path

    @classmethod
    def load(cls, path: str | Path) -> "Results":
        """Read the JSON at `path` that `save` wrote."""
        return from_json(cls, load_manifest(Path(path), "results"), str(path))

    @classmethod
    def join(cls, parts: Sequence["Results"]) -> "Results":
        """One value of several `parts`: a row that two of them have must be the same in both."""
        if not parts:
            raise NescioError("nothing to join: the list of results is empty")
        rows = merged([(row.subject, row.data, row.metric) for p in parts for row in p.rows],
                      [row for part in parts for row in part.rows])  # fmt: skip
        sets = merged([s.name for p in parts for s in p.sets], [s for p in parts for s in p.sets])
        return cls(tuple(rows), tuple(sets), parts[0].about)


def merged(keys: Sequence[Any], values: Sequence[T]) -> list[T]:
    """The values without repetitions; two values of one key must be equal."""
    whole: dict[Any, T] = {}
    for key, value in zip(keys, values, strict=True):
        if whole.setdefault(key, value) != value:
            subject, *where = (key,) if isinstance(key, str) else key
            what = f"{subject!r} on {where[0]!r}" if where else f"the row {subject!r}"
            raise NescioError(
                f"{what} is not the same in two parts; expected equal numbers, or another name"
            )
    return list(whole.values())


def to_json(value: Any) -> Any:
    """Frozen dataclasses as JSON; a field left at its default of None is not written."""
    if is_dataclass(value):
        pairs = [(one, getattr(value, one.name)) for one in fields(value) if one.repr]
        return {
            one.name: to_json(part)
            for one, part in pairs
            if part is not None or one.default is not None
        }
    if isinstance(value, Mapping):
        return {str(key): to_json(part) for key, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [to_json(part) for part in value]
    return finite(value.tolist() if hasattr(value, "tolist") else value)


def from_json(kind: type[T], value: Any, where: str = "the value") -> T:
    """What `to_json` wrote, as dataclasses again; keys that no field has are left out."""
    try:
        found: T = _typed(kind, value)
    except (TypeError, KeyError, AttributeError, ValueError) as error:
        raise NescioError(
            f"{where} is not what `save` wrote ({error}); write it anew, or give another file"
        ) from None
    return found


def _typed(kind: Any, value: Any) -> Any:
    origin, inner = get_origin(kind), get_args(kind)
    if value is None:
        return None
    if is_dataclass(kind):
        hints = get_type_hints(kind)
        return kind(**{one.name: _typed(hints[one.name], value[one.name])
                       for one in fields(kind) if one.name in value})  # type: ignore[operator]  # fmt: skip
    if origin in (Union, UnionType):
        return _one_of([one for one in inner if one is not NoneType], value)
    if origin is np.ndarray:
        return np.array(value, dtype=get_args(inner[1])[0])
    if origin is tuple:
        _expect((list, tuple), value)
        each = inner if Ellipsis not in inner else [inner[0]] * len(value)
        return tuple(_typed(part, one) for part, one in zip(each, value, strict=True))
    if kind in SCALARS:
        _expect(SCALARS[kind], value)
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return {key: _typed(inner[1], one) for key, one in value.items()}
    return value


def _one_of(kinds: Sequence[Any], value: Any) -> Any:
    """The value as the first of some kinds that it fits."""
    for kind in kinds[:-1]:
        try:
            return _typed(kind, value)
        except (TypeError, KeyError, AttributeError, ValueError):
            continue
    return _typed(kinds[-1], value)


def _expect(kinds: tuple[type, ...], value: Any) -> None:
    if not isinstance(value, kinds):
        raise TypeError(f"expected {kinds[0].__name__}, got {str(value)[:SHOWN]!r}")
