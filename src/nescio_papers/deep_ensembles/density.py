"""The Laplace density against the Gaussian, on noise of either kind."""

from collections.abc import Mapping, Sequence
from math import sqrt
from typing import Any

import numpy as np
import torch
from matplotlib.figure import Figure
from torch import Tensor

from nescio import losses
from nescio.core import DoubleExponential, Regression, heads
from nescio.data import Dataset
from nescio.report.plots.look import GRAY, WIDTH, add_title, with_look
from nescio_papers.deep_ensembles.cubic_world import EDGE, NOISE, regressor, training_steps
from nescio_papers.deep_ensembles.figures import dots
from nescio_papers.deep_ensembles.worlds import seeds
from nescio_papers.kit import Claim, Findings, Sample, Settings, judged, sample, table

KINDS = ("gaussian", "double_exponential")
NAMES = {"gaussian": "Gaussian", "double_exponential": "Laplace"}
TEXT = """\
Six networks by the corrected recipe, trained with one density or the other, on the cubic with
Gaussian or Laplace noise, both of deviation 3. Scores are on 1000 fresh points. Coverage is of the
central intervals of the mixture itself, by its distribution function.

The Laplace density's parameter is a scale b: its variance is 2 b², not b as the practical's text
says. Read as a variance, b gives a band ± √b that holds {wrong} of fresh targets; ± √2 b, one
standard deviation, holds {right}.

"""


def run(settings: Settings) -> Findings:
    """Both densities on both kinds of noise, over several seeds."""
    result = {
        (noise, density): _measured(settings, noise, density)
        for noise in KINDS
        for density in KINDS
    }
    numbers = {
        f"{NAMES[noise]} noise, {NAMES[density]} density".lower()
        .replace(" ", "_")
        .replace(",", ""): {key: one.numbers() for key, one in table.items()}
        for (noise, density), table in result.items()
    }
    laplace = result["gaussian", "double_exponential"]
    text = TEXT.format(wrong=laplace["within_root_scale"], right=laplace["within_deviation"])
    figure, caption = _figure(result), _said(result)
    return Findings(
        numbers=numbers,
        figures={"density.png": figure},
        captions={"density.png": caption},
        claims=judged(settings, _claims(result)),
        text=text + _table(result),
    )


def noisy_cubic(seed: int, noise: str, points: int = 40) -> tuple[Tensor, Tensor]:
    """Points of the cubic with noise of deviation 3 of either kind."""
    rng = np.random.default_rng([seed, points])
    x = rng.uniform(-EDGE, EDGE, (points, 1))
    draw = rng.standard_normal if noise == "gaussian" else lambda n: rng.laplace(0, sqrt(0.5), n)
    y = x**3 + NOISE * draw(x.shape)
    return torch.from_numpy(x).float(), torch.from_numpy(y).float()


def levels(result: Regression, y: Tensor) -> Tensor:
    """The mixture's distribution function at the targets: uniform if the density is right."""
    gap = y - result.mean
    if isinstance(result, DoubleExponential):
        tail = 0.5 * (-gap.abs() / result.scale).exp()
        each = torch.where(gap > 0, 1 - tail, tail)
    else:
        each = torch.special.ndtr(gap / result.member_variance.sqrt())
    return each.mean(0)


def coverage(result: Regression, y: Tensor, share: float) -> float:
    """Share of targets within the central interval that should hold `share` of them."""
    return ((levels(result, y) - 0.5).abs() < share / 2).float().mean().item()


def _measured(settings: Settings, noise: str, density: str) -> dict[str, Sample]:
    rows = []
    for seed in seeds(settings, 2 if settings.quick else 10):
        data = Dataset(
            name="cubic", train=noisy_cubic(seed, noise), validation=None, test=None, classes=None
        )
        loss = losses.nll(getattr(heads, density)())
        result = regressor(data, loss=loss, steps=training_steps(settings), seed=seed)
        x, y = noisy_cubic(seed, noise, 1000)
        rows.append(_row(result(x), x, y))
    return {key: sample(row[key] for row in rows) for key in rows[0]}


def _row(said: Regression, x: Tensor, y: Tensor) -> dict[str, float]:
    gap = (y - said.mixture_mean).abs()
    row = {
        "nll": -said.log_prob(y).mean().item(),
        "mean_absolute_error": gap.mean().item(),
        "error_against_truth": (said.mixture_mean - x**3).square().mean().sqrt().item(),
        "coverage_50": coverage(said, y, 0.5),
        "coverage_90": coverage(said, y, 0.9),
        "deviation": said.mixture_variance.sqrt().mean().item(),
    }
    if isinstance(said, DoubleExponential):
        each = (y - said.mean).abs()
        row["scale"] = said.scale.mean().item()
        row["within_root_scale"] = (each < said.scale.sqrt()).float().mean().item()
        row["within_deviation"] = (each < sqrt(2) * said.scale).float().mean().item()
    return row


def _said(result: Mapping[tuple[str, str], Mapping[str, Sample]]) -> str:
    one, two = (result["gaussian", density]["nll"] for density in KINDS)
    wide = [result["gaussian", density]["coverage_90"] for density in KINDS]
    return (
        f"On Gaussian noise the Gaussian density scores {one} and the Laplace {two} (NLL on fresh "
        f"data); their 90 % intervals hold {wide[0]} and {wide[1]}. Both are too narrow: forty "
        "points are fitted too closely."
    )


def _table(result: Mapping[tuple[str, str], Mapping[str, Sample]]) -> str:
    keys = ["nll", "mean_absolute_error", "error_against_truth", "coverage_50", "coverage_90"]
    header = ["noise", "density", "NLL", "absolute error", "error against x³", "50 %", "90 %"]
    rows = [
        [NAMES[noise], NAMES[density], *(str(table[key]) for key in keys)]
        for (noise, density), table in result.items()
    ]
    return table(header, rows)


def _claims(result: Mapping[tuple[str, str], Mapping[str, Sample]]) -> list[Claim]:
    scale = result["gaussian", "double_exponential"]["scale"]
    wrong_by = sample(abs(2 * one - 1) for one in scale.values)
    return [
        Claim(
            source="practical, section Proper scoring rules",
            sentence="Laplacian with mean μ and variance σ.",
            facts=[
                wrong_by.fact(
                    "by what share of σ the variance of the density, 2 σ², differs from the "
                    "trained σ",
                    below=0.01,
                )
            ],
            note=f"the trained σ is {scale}; the practical's equation 8 has 2 σ²",
        )
    ]


@with_look
def _figure(result: Mapping[tuple[str, str], Mapping[str, Sample]]) -> Figure:
    figure = Figure(figsize=(WIDTH, 4.1), layout="constrained")
    panels: Sequence[tuple[str, str, float | None]] = (
        ("nll", "NLL on fresh data (nats)", None),
        ("mean_absolute_error", "mean absolute error", None),
        ("coverage_50", "held by 50 % intervals", 0.5),
        ("coverage_90", "held by 90 % intervals", 0.9),
    )
    axes: Any = figure.subplots(1, len(panels))
    for axis, (key, title, right) in zip(axes, panels, strict=True):
        groups = {
            f"{NAMES[density]} density": [result[noise, density][key] for noise in KINDS]
            for density in KINDS
        }
        dots(axis, [f"{NAMES[noise]}\nnoise" for noise in KINDS], groups)
        axis.set_title(title, loc="left")
        if right is not None:
            axis.axhline(right, color=GRAY, linestyle="--", label="as stated")
    handles, labels = axes[-1].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower left", ncols=3)
    one, two = (result["gaussian", density]["coverage_90"] for density in KINDS)
    add_title(figure, f"Both densities are too narrow: 90 % intervals hold {one} and {two}")
    return figure
