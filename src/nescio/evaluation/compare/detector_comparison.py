"""The comparison of detectors as a value: shown, drawn, saved, read again."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray

from nescio.core import (
    NescioError,
    load_tensors,
    make_folder,
    save_tensors,
    unknown,
    write_atomically,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Array: TypeAlias = NDArray[Any]
MEANS = ("aupr", "fpr_at_95_tpr")  # averaged over OOD sets beside the AUROC
SCORES = "scores.safetensors"
SHOWN = 6  # detectors in a picture


@dataclass(frozen=True, eq=False)
class DetectorComparison:
    """The findings; `result` is what the JSON file holds, `scores` are by detector and data set."""

    result: dict[str, Any]
    scores: Mapping[str, Mapping[str, Array]] = field(default_factory=dict, repr=False)

    @property
    def rows(self) -> list[dict[str, Any]]:
        """One entry for each detector and OOD set."""
        return [
            {"detector": name, "data": row, **cell}
            for name, part in self.result["detectors"].items()
            for row, cell in part["rows"].items()
        ]

    def auroc(self, detector: str, data: str | None = None) -> float:
        """The AUROC of a detector on an OOD set; without one, the mean over all."""
        known = self.result["detectors"]
        if detector not in known:
            raise NescioError(unknown("detector", detector, known))
        part = known[detector]
        if data is not None and data not in part["rows"]:
            raise NescioError(unknown("OOD data", data, part["rows"]))
        cell = part["means"]["all"] if data is None else part["rows"][data]
        return float(cell["auroc"]["value"])

    @property
    def ranked(self) -> list[str]:
        """The detectors, best mean AUROC first."""
        return sorted(self.result["detectors"], key=self.auroc, reverse=True)

    def with_command(self, command: Sequence[str]) -> "DetectorComparison":
        """The same, with the command that made it."""
        return replace(self, result={**self.result, "command": list(command)})

    def __str__(self) -> str:
        from nescio.report.detector_table import detection_text

        return detection_text(self.result)

    def markdown(self) -> str:
        """All tables in Markdown."""
        from nescio.report.detector_table import detection_markdown

        return detection_markdown(self.result)

    def latex(self, metric: str = "auroc") -> str:
        """One metric as a LaTeX `tabular`; it needs the package booktabs."""
        from nescio.report.detector_table import detection_latex

        return detection_latex(self.result, metric)

    def json(self) -> str:
        """Everything but the scores, for other programs and for `load`."""
        return json.dumps(self.result, indent=2, allow_nan=False) + "\n"

    def roc(self, detectors: Sequence[str] | None = None) -> "Figure":
        """ROC curves, one panel an OOD set; of the best detectors unless some are named."""
        from nescio.report.plots.score_plots import roc_curves

        figure: Figure = roc_curves(self.result, self._chosen(detectors))
        return figure

    def histograms(self, detectors: Sequence[str] | None = None) -> "Figure":
        """Distributions of the scores, one panel a detector."""
        from nescio.report.plots.score_plots import score_histograms

        figure: Figure = score_histograms(self.result, self._chosen(detectors))
        return figure

    def save(self, folder: str | Path, name: str = "detectors", *, pictures: bool = True) -> Path:
        """Write NAME.txt, .md, .tex, .json, the scores and two pictures; returns the path of .md.

        The pictures are roc.png and histograms.png; the scores are in scores.safetensors.
        """
        from nescio.report.detector_table import METRICS
        from nescio.report.plots.score_plots import png

        folder = make_folder(Path(folder))
        texts: dict[str, str | bytes] = {
            f"{name}.txt": str(self),
            f"{name}.md": self.markdown(),
            f"{name}.tex": "\n".join(self.latex(metric) for metric in METRICS),
            f"{name}.json": self.json(),
        }
        if self.scores and pictures:
            texts |= {"roc.png": png(self.roc()), "histograms.png": png(self.histograms())}
        if self.scores:
            save_tensors(folder / SCORES, _flat(self.scores), {"kind": "scores"})
        for file, content in texts.items():
            write_atomically(folder / file, content)
        return folder / f"{name}.md"

    @classmethod
    def load(cls, folder: str | Path, name: str = "detectors") -> "DetectorComparison":
        """Read what `save` wrote."""
        path = Path(folder) / f"{name}.json"
        try:
            result = json.loads(path.read_text())
        except (OSError, ValueError) as error:
            raise NescioError(f"cannot read a comparison from {path}: {error}") from None
        whole = isinstance(result, dict) and {"detectors", "sets", "groups"} <= result.keys()
        if not whole or result.get("kind") != "detectors":
            raise NescioError(f"{path} is no comparison of detectors; expected what `save` wrote")
        kept = Path(folder) / SCORES
        return cls(result, _nested(kept, result) if kept.exists() else {})

    def _chosen(self, names: Sequence[str] | None) -> dict[str, Mapping[str, Array]]:
        """The scores of some detectors, best first."""
        if not self.scores:
            raise NescioError("the scores are not there; load the folder that `save` wrote")
        names = [names] if isinstance(names, str) else names
        for name in names or ():
            if name not in self.scores:
                raise NescioError(unknown("detector", name, self.scores))
        return {name: self.scores[name] for name in names or self.ranked[:SHOWN]}


def _flat(scores: Mapping[str, Mapping[str, Array]]) -> dict[str, torch.Tensor]:
    return {
        f"{i}/{j}": torch.from_numpy(np.ascontiguousarray(values))
        for i, by_set in enumerate(scores.values())
        for j, values in enumerate(by_set.values())
    }


def _nested(path: Path, result: Mapping[str, Any]) -> dict[str, dict[str, Array]]:
    tensors, _ = load_tensors(path, "scores")
    sets = [name for name, entry in result["sets"].items() if "absent" not in entry]
    try:
        return {
            detector: {name: tensors[f"{i}/{j}"].numpy() for j, name in enumerate(sets)}
            for i, detector in enumerate(result["detectors"])
        }
    except KeyError as error:
        raise NescioError(f"{path} lacks scores {error}; compare again") from None
