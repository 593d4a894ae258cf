"""The lecture's dice: a Dirichlet posterior that sharpens with every roll."""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor

from nescio.core import Dirichlet, generator, measures
from nescio.report.plots.simplex_plot import simplex
from nescio_papers.kit import Claim, Findings, Settings, percent, sample, table
from nescio_papers.robust_deep_learning.stored_facts import between, less

SOURCE = "lecture, Dice roll example"
FIGURE = "dirichlet-dice.png"
TRUTH = (0.5, 0.3, 0.2)  # of the die in the picture: three faces, so that it can be drawn
ROLLS = (0, 10, 100, 1000)
DICE = 200  # drawn from the prior, for the claim


@dataclass(frozen=True, eq=False)
class Posterior:
    """What is known of a die after some rolls, with prior concentrations of 1."""

    counts: Tensor  # (..., K)

    @property
    def alpha(self) -> Tensor:
        """Prior and counts, `(..., K)`."""
        return 1 + self.counts.double()

    @property
    def mean(self) -> Tensor:
        """Exact posterior mean of each probability."""
        return self.alpha / self.alpha.sum(-1, keepdim=True)

    @property
    def deviation(self) -> Tensor:
        """Exact posterior standard deviation of each probability."""
        total = self.alpha.sum(-1, keepdim=True)
        return (self.mean * (1 - self.mean) / (total + 1)).sqrt()

    @property
    def prediction(self) -> Dirichlet:
        """As a prediction of the next roll, `(1, ..., K)`."""
        return Dirichlet.from_alpha(self.alpha[None])


def rolled(truth: Tensor, rolls: int, seed: int) -> Tensor:
    """Counts after each of `rolls` rolls of dice `(D, K)`, from none on: `(D, rolls + 1, K)`."""
    draws = torch.multinomial(truth, max(rolls, 1), True, generator=generator(seed, "dice"))
    single = torch.nn.functional.one_hot(draws, truth.shape[-1])[:, :rolls]
    return torch.cat([torch.zeros_like(single[:, :1]), single.cumsum(1)], 1)


def findings(settings: Settings) -> Findings:
    """The posterior of one die, drawn, and how often a roll adds to what is not known."""
    counts = rolled(torch.tensor([TRUTH], dtype=torch.float64), max(ROLLS), settings.seed)[0]
    shown = {f"{count:,} rolls": Posterior(counts[count][None]) for count in ROLLS}
    title = (
        "A die rolled: the posterior of its three probabilities "
        f"(true {', '.join(map(str, TRUTH))}; seed {settings.seed})"
    )
    figure = simplex(
        {name: own.prediction for name, own in shown.items()},
        classes=("face 1", "face 2", "face 3"),
        notes={name: _note(own) for name, own in shown.items()},
        title=title,
        across=4,
    )
    many = _many(settings)
    rows = {name: _row(own) for name, own in shown.items()}
    return Findings(
        numbers={"truth": list(TRUTH), "rows": rows, "many": many},
        figures={FIGURE: figure},
        captions={FIGURE: "The dice posterior with prior concentrations of 1; below, counts, "
                  "exact mean and standard deviation. The cross is the mean."},
        text=_text(rows, settings),
    )  # fmt: skip


def _note(own: Posterior) -> str:
    lines = {
        "counts": [f"{int(v)}" for v in own.counts[0]],
        "mean": [f"{v:.3f}" for v in own.mean[0]],
        "deviation": [f"{v:.3f}" for v in own.deviation[0]],
    }
    return "\n".join(f"{name} {', '.join(values)}" for name, values in lines.items())


def _row(own: Posterior) -> dict[str, Any]:
    return {
        "counts": own.counts[0].tolist(),
        "mean": own.mean[0].tolist(),
        "deviation": own.deviation[0].tolist(),
        "mutual_information": measures.mutual_information(own.prediction).item(),
    }


def _many(settings: Settings) -> dict[str, Any]:
    """The mutual information of dice drawn from the prior, and how often a roll raises it."""
    weights = torch.rand(DICE, len(TRUTH), generator=generator(settings.seed, "truths")).double()
    truths = -weights.log()  # exponential: uniform on the simplex when they are divided by the sum
    counts = rolled(truths / truths.sum(-1, keepdim=True), max(ROLLS), settings.seed + 1)
    shared = measures.mutual_information(Posterior(counts).prediction)  # (D, rolls + 1)
    kept = shared[:, list(ROLLS)]
    gaps = [sample(kept[:, i] - kept[:, i + 1]) for i in range(len(ROLLS) - 1)]
    return {
        "dice": DICE,
        "mutual_information": {
            str(n): {"mean": own.mean, "half_width_95": own.half}
            for n, own in zip(ROLLS, map(sample, kept.T), strict=True)
        },
        "falls": [gap.above for gap in gaps],
        "single_rolls_that_raise_it": float((shared[:, 1:] > shared[:, :-1]).double().mean()),
    }


def claims(numbers: Mapping[str, Any]) -> list[Claim]:
    """Does what is not known of a die fall with the rolls?"""
    many = numbers["many"]
    found = {rolls: _ends(row) for rolls, row in many["mutual_information"].items()}
    return [
        Claim(
            source=SOURCE,
            sentence="Increasing N, increasing evidence, decreasing epistemic uncertainty.",
            facts=[
                between(
                    f"mutual information after {before} rolls less that after {after}, nats,",
                    less(found[before], found[after]),
                    above=0,
                )
                for before, after in pairwise(found)
            ],
            note=f"{many['dice']} dice drawn from the prior; the precision grows by 1 with every "
            f"roll, but {percent(many['single_rolls_that_raise_it'])} of single rolls, of a rare "
            "face, raise the mutual information",
        )
    ]


def _ends(row: Mapping[str, float]) -> dict[str, float]:
    mean, half = row["mean"], row["half_width_95"]
    return {"value": mean, "low": mean - half, "high": mean + half}


def _text(rows: Mapping[str, Mapping[str, Any]], settings: Settings) -> str:
    def joined(values: Any) -> str:
        return ", ".join(f"{value:.4f}" for value in values)

    cells = [
        [name, ", ".join(map(str, row["counts"])), joined(row["mean"]), joined(row["deviation"]),
         f"{row['mutual_information']:.5f}"]
        for name, row in rows.items()
    ]  # fmt: skip
    return "\n\n".join(
        [
            f"A die with three faces of probabilities {', '.join(map(str, TRUTH))}, rolled with "
            f"seed {settings.seed}; prior concentrations of 1. The posterior is the Dirichlet of 1 "
            "+ counts: its mean and standard deviation are exact.",
            table(["", "counts", "mean", "standard deviation", "mutual information, nats"], cells),
        ]
    )
