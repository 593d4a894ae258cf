"""The table as a value: shown, saved, read again, joined, and set beside published numbers."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nescio.core import NescioError, make_folder, unknown, write_atomically

NUMBERS = ("mean_max_confidence", "auroc", "fpr_at_95_tpr")  # of a row, in the paper's order
SHARED = ("data", "samples", "features", "measure", "level", "resamples", "seed")  # by joined parts
Published = Mapping[str, Mapping[str, Mapping[str, float] | Sequence[float | None]]]


@dataclass(frozen=True)
class Comparison:
    """The findings; `result` is what the JSON file holds, and `print` shows the table."""

    result: dict[str, Any]

    @property
    def rows(self) -> list[dict[str, Any]]:
        """One entry for each data set and each predictor or detector measured on it."""
        return [
            {"data": row, "predictor": name, **part["rows"][row]}
            for row in self.result["sets"]
            for name, part in self.result["predictors"].items()
            if row in part["rows"]
        ]

    def __str__(self) -> str:
        from nescio.report.predictor_table import comparison_text

        return comparison_text(self.result)

    def markdown(self) -> str:
        """The table in Markdown."""
        from nescio.report.predictor_table import comparison_markdown

        return comparison_markdown(self.result)

    def latex(self, *, intervals: bool = True) -> str:
        """The table as a LaTeX `tabular`; it needs the package booktabs."""
        from nescio.report.predictor_table import comparison_latex

        return comparison_latex(self.result, intervals=intervals)

    def json(self) -> str:
        """Everything, for other programs and for `load`."""
        return json.dumps(self.result, indent=2, allow_nan=False) + "\n"

    def save(self, folder: str | Path, name: str = "comparison") -> Path:
        """Write NAME.txt, .md, .tex and .json, each in one go; returns the path of the last."""
        folder = make_folder(Path(folder))
        texts = {"txt": str(self), "md": self.markdown(), "tex": self.latex(), "json": self.json()}
        for ending, text in texts.items():
            write_atomically(folder / f"{name}.{ending}", text)
        return folder / f"{name}.json"

    @classmethod
    def load(cls, path: str | Path) -> "Comparison":
        """Read the JSON file of a comparison."""
        try:
            result = json.loads(Path(path).read_text())
        except (OSError, ValueError) as error:
            raise NescioError(f"cannot read a comparison from {path}: {error}") from None
        if not isinstance(result, dict) or result.get("kind") != "comparison":
            raise NescioError(f"{path} is not a comparison; expected the .json that `save` wrote")
        return cls(result)

    def beside(self, published: Published) -> "Comparison":
        """The same with published numbers: `{row: {predictor: (MMC, AUROC, FPR95)}}`.

        In place of the three numbers, a mapping with any of "error", "mean_max_confidence",
        "auroc" and "fpr_at_95_tpr". Rows and predictors must be those of the table.
        """
        checked = {
            _known("row", row, self.result["sets"]): {
                _known("predictor", name, self.result["predictors"]): _reported(row, name, given)
                for name, given in by_name.items()
            }
            for row, by_name in published.items()
        }
        return Comparison({**self.result, "published": checked})

    @classmethod
    def join(cls, parts: Sequence["Comparison"]) -> "Comparison":
        """One table of several on the same test data: other predictors, other rows, or both."""
        if not parts:
            raise NescioError("nothing to join: the list of comparisons is empty")
        whole = json.loads(parts[0].json())
        for part in parts[1:]:
            _add(whole, part.result)
        return cls(whole)


def _known(kind: str, name: str, known: Mapping[str, Any]) -> str:
    if name not in known:
        raise NescioError(unknown(kind, name, known))
    return name


def _reported(
    row: str, name: str, given: Mapping[str, float] | Sequence[float | None]
) -> dict[str, float]:
    """Published numbers of one cell by name; all are shares."""
    if not isinstance(given, Mapping):
        if len(given) > len(NUMBERS):
            raise NescioError(
                f"published numbers of {name!r} on {row!r} must be at most three (MMC, AUROC, "
                f"FPR95), got {len(given)}; give a mapping for others"
            )
        pairs = zip(NUMBERS, given, strict=False)
        given = {key: value for key, value in pairs if value is not None}
    for key, value in given.items():
        _known("published number", key, dict.fromkeys(("error", *NUMBERS)))
        if not 0 <= value <= 1:
            raise NescioError(
                f"published {key} of {name!r} on {row!r} must be a share in [0, 1], got {value}; "
                "divide per cent by 100"
            )
    return {key: float(value) for key, value in given.items()}


def _add(whole: dict[str, Any], part: Mapping[str, Any]) -> None:
    """Put the rows, predictors and published numbers of `part` into `whole`."""
    for key in SHARED:
        if whole[key] != part[key]:
            raise NescioError(
                f"the parts differ in {key}: {whole[key]!r} and {part[key]!r}; expected the same "
                "in-distribution data and settings"
            )
    _merge("the row", whole["sets"], part["sets"])
    for name, found in part["predictors"].items():
        known = whole["predictors"].setdefault(name, {"detector": found["detector"], "rows": {}})
        _merge(f"{name!r} on", known["rows"], found["rows"])
    for row, by_name in part["published"].items():
        _merge(f"published {row!r} of", whole["published"].setdefault(row, {}), by_name)


def _merge(what: str, whole: dict[str, Any], part: Mapping[str, Any]) -> None:
    for key, value in part.items():
        if whole.setdefault(key, value) != value:
            raise NescioError(
                f"{what} {key!r} is not the same in two parts; expected equal numbers, or another "
                "name"
            )
