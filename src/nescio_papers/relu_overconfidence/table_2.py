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
from nescio_papers.kit import Claim
from nescio_papers.kit.claims import judged, verdict_of
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
from nescio_papers.relu_overconfidence.cells import Trained, trained
from nescio_papers.relu_overconfidence.far_field_tables import factor
from nescio_papers.relu_overconfidence.methods import ACET, CEDA, PLAIN, RECIPES
from nescio_papers.relu_overconfidence.published import METHODS, TABLE_2
from nescio_papers.relu_overconfidence.searches import ROUGH, SPACING, by_grid, differs

PIECE, MANY = 250, 1000  # rays that are kept together: a killed run loses at most these
FIELDS = ("exact", "radius", "start", "clipped")
SOURCE = "Hein et al., table 2"
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
        claims=judged(settings, _claims(results)),
        text=_text(results, missing),
        skipped=missing,
        empty=not results,
    )


def _column(settings: Settings, block: Block, column: str, in_dist: InData) -> dict[str, Any]:
    model = trained(settings, block, column, in_dist)
    alphas = alphas_of(settings, block, column, model, in_dist.shape)
    reached = alphas.exact.isfinite()
    above = (alphas.clipped > CLIPPED) & reached
    return {
        **row([alphas]),
        "overconfident": above.double().mean().item(),  # of all rays
        "beyond": ((alphas.exact > 1e6) & reached).double().mean().item(),
        "grid": _searched(settings, block, column, model, in_dist.shape, alphas.exact),
    }


def _searched(
    settings: Settings,
    block: Block,
    column: str,
    model: Trained,
    shape: tuple[int, ...],
    exact: Tensor,
) -> dict[str, Any]:
    """The same from a grid of factors in float32, as the paper may have done, on more rays."""
    folder, count = folder_of(settings, "table-2"), budget(settings).searched[block.name]
    pieces = []
    for first in range(0, count, MANY):
        size = min(MANY, count - first)
        key = {"weights": model.digest, "first": first, "rays": size, "seed": settings.seed}
        path = folder / f"{slug(block.name)}--{slug(column)}--grid-{first:05d}.json"
        make = partial(_on_grid, model.model, shape, first, size, settings.seed)
        pieces.append(kept(path, key, make))
    grid, cut = (
        torch.tensor([inf if v is None else v for piece in pieces for v in piece[name]])
        for name in ("factor", "clipped")
    )
    both = min(len(grid), len(exact))
    near = {"spacing": SPACING, "near": ROUGH}
    wrong = differs(exact[:both], grid[:both].double(), **near)
    return {
        "rays": count,
        "median": median(grid),
        "never": grid.isinf().double().mean().item(),
        "overconfident": ((cut > CLIPPED) & grid.isfinite()).double().mean().item(),
        "compared": both,
        "wrong": int(wrong.sum()),
    }


def _on_grid(
    model: Model, shape: tuple[int, ...], first: int, count: int, seed: int
) -> dict[str, list[float]]:
    x = uniform_noise(count, shape, seed=seed, start=first)
    factor = torch.cat([by_grid(model, piece) for piece in x.split(PIECE)])
    scale = torch.where(factor.isfinite(), factor, 1.0).float()
    return {
        "factor": factor.tolist(),
        "clipped": confidence(model, along(x, scale).clamp(0, 1)).tolist(),
    }


def alphas_of(
    settings: Settings, block: Block, column: str, model: Trained, shape: tuple[int, ...]
) -> Alphas:
    """Factors on uniform noise, some rays at a time, each piece kept."""
    count = budget(settings).rays[block.name]
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


def _text(result: Numbers, missing: Mapping[str, str]) -> str:
    header = ["trained on", "", "inputs", "median alpha", "5 % to 95 %", "at alpha = 1", "never"]
    header += ["why never", "published alpha", "cut, above 95 %", "published"]
    header += ["by grid: inputs", "median", "cut, above 95 %", "wrong"]
    rows = []
    for name, columns in result.items():
        for column, one in columns.items():
            there, grid = TABLE_2[name].get(column), one["grid"]
            low, high = one["quantiles"]["0.05"], one["quantiles"]["0.95"]
            why = ", ".join(f"{r} {percent(s)}" for r, s in one["reasons"].items() if s)
            printed = "–" if there is None else f"{'> ' * there.beyond}{there.alpha:g}"
            rows.append(
                [
                    name,
                    column,
                    f"{one['rays']:,}",
                    factor(one["median"]),
                    f"{factor(low)} to {factor(high)}",
                    percent(one["already"]),
                    percent(one["never"]),
                    why,
                    printed,
                    percent(one["overconfident"]),
                    "–" if there is None else f"{there.overconfident:g} %",
                    f"{grid['rays']:,}",
                    factor(grid["median"]),
                    percent(grid["overconfident"]),
                    f"{grid['wrong']} of {grid['compared']:,}",
                ]
            )
    words = (
        "Uniform inputs x in [0, 1]^d; the smallest alpha >= 1 with 99.9 % confidence on alpha x, "
        "exact up to float64 rounding. An input that never gets there counts as infinite in the "
        "median, and as not overconfident after the return into the box. Exact factors of a large "
        "network take seconds each; the last columns are from a grid of 600 factors up to 10^6, on "
        f"more inputs. It is wrong where it is not within a step ({100 * (SPACING - 1):.1f} %) "
        "above the exact factor. The published table has no column for CEDA."
    )
    lines = [words, table(header, rows)] if rows else [words]
    for name, why in missing.items():
        printed = ", ".join(
            f"{column} {'> ' * one.beyond}{one.alpha:g} and {one.overconfident:g} %"
            for column, one in TABLE_2[name].items()
        )
        lines.append(f"{name} is not at hand: {why}. As published: {printed}.")
    return "\n\n".join(lines)


def _comparisons(result: Numbers) -> list[Comparison]:
    rows = []
    for name, columns in result.items():
        for column, printed in TABLE_2[name].items():
            one = columns[column]
            note = RECIPES[name].words
            note += "; published as > 10^6: numerical problems" if printed.beyond else ""
            alpha = one["median"]
            if isfinite(alpha):
                what = f"{name}, {column}: median alpha"
                rows.append(Comparison(what, printed.alpha, alpha, note=note))
            else:
                note += f"; here {percent(one['never'])} never get there: the median is infinite"
                what = f"{name}, {column}: inputs that never get there, %"
                rows.append(Comparison(what, None, 100 * one["never"], note=note))
            what = f"{name}, {column}: overconfident after the return into the box, %"
            rows.append(
                Comparison(what, printed.overconfident, 100 * one["overconfident"], note=note)
            )
    return rows


def _medians(columns: Numbers) -> str:
    return ", ".join(
        f"{column} {factor(one['median'])} (never: {percent(one['never'])})"
        for column, one in columns.items()
    )


def _shares(result: Numbers, key: str) -> str:
    each = {
        name: ", ".join(f"{column} {percent(one[key])}" for column, one in columns.items())
        for name, columns in result.items()
    }
    return "; ".join(f"{name}: {said}" for name, said in each.items())


def _claims(result: Numbers) -> list[Claim]:
    if not result:
        return []
    said = "; ".join(f"{name}: {_medians(columns)}" for name, columns in result.items())
    return [_always(result), _higher(result, said), _problems(result), _fewer(result)]


def _always(result: Numbers) -> Claim:
    never = [one["never"] for columns in result.values() for one in columns.values()]
    shares = _shares(result, "never")
    return Claim(
        SOURCE,
        "It is always possible to obtain overconfident predictions just by scaling inputs by some "
        "constant alpha.",
        f"inputs that never get there, however far: {shares}. The published '> 10^6' cannot tell "
        "a large factor from none",
        verdict="holds" if not any(never) else "partly",
    )


def _higher(result: Numbers, said: str) -> Claim:
    true = [
        columns[name]["median"] > columns[PLAIN]["median"]
        for columns in result.values()
        for name in (CEDA, ACET)
    ]
    return Claim(
        f"{SOURCE} and section 5",
        "The required upscaling factor alpha is significantly higher for CEDA and ACET than for "
        "the plain model.",
        f"median alpha: {said}. The published table has no column for CEDA, and on CIFAR-100 both "
        "columns say 9.9",
        verdict=verdict_of(*true),
    )


def _problems(result: Numbers) -> Claim:
    if "MNIST" not in result:
        return Claim(SOURCE, "For MNIST the value of alpha was so high that we ran into numerical "
                     "problems.", "no MNIST at hand: 0 inputs", verdict="open")  # fmt: skip
    one = result["MNIST"][ACET]
    beyond = one["beyond"]
    return Claim(
        SOURCE,
        "For MNIST the value of alpha was so high that we ran into numerical problems.",
        f"ACET on MNIST, exactly: median {factor(one['median'])}, above 10^6 but finite on "
        f"{percent(beyond)}, never on {percent(one['never'])} of {one['rays']} inputs",
        verdict="holds" if one["median"] > 1e6 else "fails",
    )


def _fewer(result: Numbers) -> Claim:
    said = _shares(result, "overconfident")
    true = [c[ACET]["overconfident"] < c[PLAIN]["overconfident"] for c in result.values()]
    return Claim(
        SOURCE,
        "There are much less overconfident predictions for the ACET models after projecting back "
        "to [0, 1]^d.",
        f"above 95 % after the return: {said}",
        verdict=verdict_of(*true),
    )
