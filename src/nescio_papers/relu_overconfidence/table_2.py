"""Table 2 of Hein et al. (2019) for the networks of table 1: exact factors, with CEDA's column."""

from collections.abc import Mapping
from functools import partial
from math import inf, isfinite, nan
from typing import Any

import numpy as np
import torch
from torch import Tensor

from nescio.core import kept
from nescio.data import uniform_noise
from nescio.evaluation.compare import Absent
from nescio.models.model import Model
from nescio_papers.kit.experiment import Comparison, Findings, Settings
from nescio_papers.kit.images import InData
from nescio_papers.kit.shares import percent
from nescio_papers.kit.stores import folder_of, slug
from nescio_papers.kit.summary import table
from nescio_papers.relu_overconfidence.alphas import (
    CLIPPED,
    LEVEL,
    Alphas,
    along,
    confidence,
    measured,
    median,
    row,
)
from nescio_papers.relu_overconfidence.blocks import BLOCKS, Block, in_data
from nescio_papers.relu_overconfidence.budgets import budget
from nescio_papers.relu_overconfidence.cells import Trained, on_data, trained
from nescio_papers.relu_overconfidence.far_field_tables import factor
from nescio_papers.relu_overconfidence.published import METHODS, TABLE_2
from nescio_papers.relu_overconfidence.searches import ROUGH, SPACING, by_grid, differs
from nescio_papers.relu_overconfidence.table_2_claims import best

PIECE, MANY = 250, 1000  # rays that are kept together: a killed run loses at most these
FIELDS = ("exact", "radius", "start", "clipped")
COARSE = 5  # steps of the grid that are passed over at first
Numbers = Mapping[str, Any]


def run(settings: Settings) -> Findings:
    """Factors of the three networks of each block that is at hand."""
    results: dict[str, Any] = {}
    missing: dict[str, str] = {}
    for name, block in BLOCKS.items():
        in_dist = in_data(block, budget(settings))
        if isinstance(in_dist, Absent):
            missing[name] = in_dist.why
            continue
        results[name] = {column: _column(settings, block, column, in_dist) for column in METHODS}
    numbers = {"level": LEVEL, "blocks": results, "missing": missing}
    return Findings(
        numbers=numbers,
        comparisons=_comparisons(results),
        text=_text(results, missing),
        skipped=missing,
        empty=not results,
    )


def _column(settings: Settings, block: Block, column: str, in_dist: InData) -> dict[str, Any]:
    """The numbers of one network; those with exact factors where the budget has rays for them."""
    model = trained(settings, block, column, in_dist)
    wrong = on_data(settings, block, column, model, in_dist).wrong
    alphas = alphas_of(settings, block, column, model, in_dist.shape)
    numbers = {
        "rays": 0 if alphas is None else len(alphas.exact),
        "test": {"images": len(wrong), "wrong": int(wrong.sum())},
        "grid": _searched(settings, block, column, model, in_dist.shape, alphas),
    }
    if alphas is None:
        return numbers
    reached = alphas.exact.isfinite()
    above = (alphas.clipped > CLIPPED) & reached
    return {
        **row([alphas]),
        "median_interval": median_interval(alphas.exact),
        "overconfident": above.double().mean().item(),  # of all rays
        "beyond": ((alphas.exact > 1e6) & reached).double().mean().item(),
        **numbers,
    }


def _searched(
    settings: Settings,
    block: Block,
    column: str,
    model: Trained,
    shape: tuple[int, ...],
    alphas: Alphas | None,
) -> dict[str, Any]:
    """The same from a grid of factors in float32, as the paper may have done, on more rays."""
    folder, count = folder_of(settings, "table-2"), budget(settings).searched[block.name]
    pieces = []
    for first in range(0, count, MANY):
        size = min(MANY, count - first)
        key = {"weights": model.digest, "first": first, "rays": size, "seed": settings.seed}
        path = folder / f"{slug(block.name)}--{slug(column)}--grid-{first:05d}.json"
        make = partial(_on_grid, model.model, shape, first, size, settings.seed)
        pieces.append(kept(path, {**key, "coarse": COARSE}, make))
    grid, cut = (
        torch.tensor([inf if v is None else v for piece in pieces for v in piece[name]])
        for name in ("factor", "clipped")
    )
    exact = torch.zeros(0) if alphas is None else alphas.exact
    both = min(len(grid), len(exact))
    wrong = differs(exact[:both], grid[:both].double(), spacing=SPACING, near=ROUGH)
    return {
        "rays": count,
        "median": median(grid),
        "median_interval": median_interval(grid),
        "never": grid.isinf().double().mean().item(),
        "overconfident": ((cut > CLIPPED) & grid.isfinite()).double().mean().item(),
        "compared": both,
        "wrong": int(wrong.sum()),
    }


def median_interval(values: Tensor) -> list[float]:
    """The 95 % interval of the median, from one order statistic to another, by the binomial."""
    from scipy.stats import binom

    ordered, count = values.sort().values, len(values)
    below = max(0, int(binom.ppf(0.025, count, 0.5)) - 1)
    return [float(ordered[below]), float(ordered[count - 1 - below])]


def _on_grid(
    model: Model, shape: tuple[int, ...], first: int, count: int, seed: int
) -> dict[str, list[float]]:
    x = uniform_noise(count, shape, seed=seed, start=first)
    factor = torch.cat([by_grid(model, piece, coarse=COARSE) for piece in x.split(PIECE)])
    scale = torch.where(factor.isfinite(), factor, 1.0).float()
    return {
        "factor": factor.tolist(),
        "clipped": confidence(model, along(x, scale).clamp(0, 1)).tolist(),
    }


def alphas_of(
    settings: Settings, block: Block, column: str, model: Trained, shape: tuple[int, ...]
) -> Alphas | None:
    """Factors on uniform noise, some rays at a time, each piece kept; None of no rays."""
    count = budget(settings).rays[block.name]
    if not count:
        return None
    folder = folder_of(settings, "table-2")
    pieces = []
    for first in range(0, count, PIECE):
        size = min(PIECE, count - first)
        key = {"weights": model.digest, "first": first, "rays": size, "seed": settings.seed}
        path = folder / f"{slug(block.name)}--{slug(column)}--{first:05d}.json"

        def make(first: int = first, size: int = size) -> dict[str, Any]:
            x = uniform_noise(size, shape, seed=settings.seed, start=first)
            return _plain(measured(model.model, x))

        pieces.append(kept(path, key, make))
    return _joined(pieces)


def _plain(result: Alphas) -> dict[str, Any]:
    numbers = {name: getattr(result, name).tolist() for name in FIELDS}
    return {**numbers, "reason": result.reason.tolist()}


def _joined(pieces: list[dict[str, Any]]) -> Alphas:
    """The pieces as one; JSON has no infinity, which a missing factor stands for."""
    absent = {"exact": inf, "radius": inf, "start": nan, "clipped": nan}
    parts = {
        name: torch.tensor(
            [absent[name] if v is None else v for piece in pieces for v in piece[name]],
            dtype=torch.float64,
        )
        for name in FIELDS
    }
    return Alphas(reason=np.array([r for piece in pieces for r in piece["reason"]]), **parts)


WORDS = f"""\
Uniform inputs x in [0, 1]^d; the smallest alpha >= 1 with 99.9 % confidence on alpha x, exact up to
float64 rounding. An input that never gets there counts as infinite in the median, and as not
overconfident after the return into the box. An exact factor of a residual network takes minutes:
of these the columns "by grid" alone are measured, from a grid of 600 factors up to 10^6 (every
fifth first, then those before the first hit), on more inputs. The grid is wrong where it is not
within a step ({100 * (SPACING - 1):.1f} %) above the exact factor. In brackets the 95 % interval of
the median. The published table has no column for CEDA; its networks were trained for 100 epochs,
and "> 10^6" there stands for numerical problems.
"""


def _text(result: Numbers, missing: Mapping[str, str]) -> str:
    header = ["trained on", "", "test error", "exact: inputs", "median alpha", "5 % to 95 %"]
    header += ["never", "why never", "cut, above 95 %", "by grid: inputs", "median alpha", "never"]
    header += ["cut, above 95 %", "wrong", "published: alpha", "cut, above 95 %"]
    rows = [
        [name, column, *_cells(one), *_printed(name, column)]
        for name, columns in result.items()
        for column, one in columns.items()
    ]
    words = " ".join(WORDS.split())
    lines = [words, table(header, rows)] if rows else [words]
    for name, why in missing.items():
        printed = ", ".join(
            f"{column} {'> ' * one.beyond}{one.alpha:g} and {one.overconfident:g} %"
            for column, one in TABLE_2[name].items()
        )
        lines.append(f"{name} is not at hand: {why}. As published: {printed}.")
    return "\n\n".join(lines)


def _cells(one: Numbers) -> list[str]:
    """The numbers of a network in the table."""
    test, grid, exact = one["test"], one["grid"], ["–"] * 5
    if one["rays"]:
        low, high = one["quantiles"]["0.05"], one["quantiles"]["0.95"]
        exact = [
            _median(one),
            f"{factor(low)} to {factor(high)}",
            percent(one["never"]),
            ", ".join(f"{r} {percent(s)}" for r, s in one["reasons"].items() if s),
            percent(one["overconfident"]),
        ]
    return [
        percent(test["wrong"] / test["images"]),
        f"{one['rays']:,}",
        *exact,
        f"{grid['rays']:,}",
        _median(grid),
        percent(grid["never"]),
        percent(grid["overconfident"]),
        f"{grid['wrong']} of {grid['compared']:,}" if grid["compared"] else "–",
    ]


def _median(one: Numbers) -> str:
    low, high = one["median_interval"]
    return f"{factor(one['median'])} ({factor(low)} to {factor(high)})"


def _printed(name: str, column: str) -> list[str]:
    there = TABLE_2[name].get(column)
    if there is None:
        return ["–", "–"]
    return [f"{'> ' * there.beyond}{there.alpha:g}", f"{there.overconfident:g} %"]


def _comparisons(result: Numbers) -> list[Comparison]:
    rows = []
    for name, columns in result.items():
        for column, printed in TABLE_2[name].items():
            one = best(columns[column])
            note = "published as > 10^6" if printed.beyond else ""
            if isfinite(one["median"]):
                what = f"{name}, {column}: median alpha"
                rows.append(Comparison(what, printed.alpha, one["median"], note=note))
            else:
                what = f"{name}, {column}: inputs that never get there, %"
                note = f"{note}; infinite median".removeprefix("; ")
                rows.append(Comparison(what, None, 100 * one["never"], note=note))
            what = f"{name}, {column}: overconfident after the return into the box, %"
            rows.append(Comparison(what, printed.overconfident, 100 * one["overconfident"]))
    return rows
