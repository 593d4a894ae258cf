"""The columns of table 1: networks of each seed, their cells, and pairs of them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean
from typing import Any

from nescio.core import as_inputs, kept
from nescio.evaluation import Comparison
from nescio.metrics import Interval
from nescio_papers.kit.experiment import Settings
from nescio_papers.kit.images import InData, evenly
from nescio_papers.kit.nested import rows_of
from nescio_papers.kit.stores import folder_of, slug
from nescio_papers.relu_overconfidence.blocks import Block, probes, unseen_noise
from nescio_papers.relu_overconfidence.budgets import budget
from nescio_papers.relu_overconfidence.cells import (
    OnData,
    TableCell,
    Trained,
    cell,
    on_data,
    seeds_of,
    trained,
)
from nescio_papers.relu_overconfidence.methods import ACET, PLAIN
from nescio_papers.relu_overconfidence.published import (
    ADVERSARIAL_NOISE,
    ADVERSARIAL_SAMPLES,
    NOISE,
)
from nescio_papers.relu_overconfidence.seeds_and_pairs import (
    AUROC,
    FPR,
    MMC,
    as_numbers,
    differences,
    errors,
    over_seeds,
)
from nescio_papers.relu_overconfidence.stronger import (
    ANY_CLASS,
    STRONG,
    WRONG_CLASS,
    balls_with_data,
    read_in_balls,
    strong_noise,
    strong_samples,
    without_gradient,
)

STARTS = 500  # test images that the judge looks at


@dataclass(frozen=True, eq=False)
class TableColumn:
    """The networks of one column, one for each seed: their cells by row, and how they trained."""

    each: Sequence[Mapping[str, TableCell]]
    data: Sequence[OnData]
    seconds: float | None  # of the first seed
    dead: Mapping[str, float]  # share of inputs without a gradient, by row

    @property
    def tables(self) -> list[Comparison]:
        """One for each seed."""
        return [Comparison.join([cell.table for cell in seed.values()]) for seed in self.each]

    @property
    def table(self) -> Comparison:
        """The mean over the seeds."""
        return mean_over(self.tables)

    @property
    def by_seed(self) -> dict[str, Any]:
        """The value of each seed, by row and metric."""
        values: dict[str, Any] = {}
        for row in (row for table in self.tables for row in table.rows):
            if row.metric in (MMC, AUROC, FPR, "error"):
                values.setdefault(row.data, {}).setdefault(row.metric, []).append(row.value)
        return values


def column_of(settings: Settings, block: Block, column: str, in_dist: InData) -> TableColumn:
    """Train the networks of a column, and measure each of its cells; all of it is kept."""
    each, data, models = [], [], []
    for seed in seeds_of(settings, block, column):
        network = trained(settings, block, column, in_dist, seed)
        given = (settings, block, column, network, in_dist)
        rows = _rows(settings, block, in_dist)
        each.append({row: cell(*given, row, probe, seed) for row, probe in rows.items()})
        data.append(on_data(*given, seed))
        models.append(network)
    dead = _dead(settings, block, column, models[0], in_dist)
    return TableColumn(each, data, models[0].seconds, dead)


def mean_over(tables: Sequence[Comparison]) -> Comparison:
    """The same table with means over seeds, whose intervals have the part of the seeds too."""
    known = [{(row.subject, row.data, row.metric): row for row in one.rows} for one in tables]
    rows = []
    for name, row in known[0].items():
        every = [one[name] for one in known if name in one]
        values = [one.value for one in every if one.value is not None]
        given = [
            Interval(one.value, one.low, one.high)
            for one in every
            if one.value is not None and one.low is not None and one.high is not None
        ]
        if len(given) > 1:
            rows.append(replace(row, **as_numbers(over_seeds(given))))
        else:
            rows.append(replace(row, value=fmean(values) if values else None))
    return replace(tables[0], rows=tuple(rows))


def pair_of(block: Block, first: TableColumn, second: TableColumn) -> dict[str, Any]:
    """What the first less the second is, by row and metric, on the same inputs."""
    data = list(zip(first.data, second.data, strict=False))  # the seeds that both have
    found = [errors(one.wrong, other.wrong) for one, other in data]
    pairs: dict[str, Any] = {
        block.name: {
            "error": as_numbers(over_seeds([gap for gap, _ in found], -1)),
            "wrong": [counts for _, counts in found],
        }
    }
    for row in first.each[0]:
        each = [
            differences(
                (near.scores, one[row].scores),
                (beside.scores, other[row].scores),
                same=_complete(row, one) and _complete(row, other),
            )
            for (near, beside), one, other in zip(data, first.each, second.each, strict=False)
            if min(len(one[row].scores), len(other[row].scores)) > 1
        ]
        for metric in (MMC, AUROC, FPR):
            given = [one[metric] for one in each if metric in one]
            if given and len(given) == len(data):
                pairs.setdefault(row, {})[metric] = as_numbers(over_seeds(given, -1))
    return pairs


def _complete(row: str, cells: Mapping[str, Any]) -> bool:
    """Whether a row has all of its inputs: of adversarial samples, networks keep their own."""
    if not row.startswith(ADVERSARIAL_SAMPLES):
        return True
    return len(cells[row].scores) == len(cells[ADVERSARIAL_SAMPLES].scores)


def _rows(settings: Settings, block: Block, in_dist: InData) -> dict[str, Any]:
    """The rows of the paper, and those of the strong judge."""
    sizes = budget(settings)
    rows = probes(block, in_dist, sizes, settings)
    noise, samples = rows[ADVERSARIAL_NOISE], rows[ADVERSARIAL_SAMPLES]
    return {
        **rows,
        f"{ADVERSARIAL_NOISE}{STRONG}": strong_noise(noise, sizes),
        f"{ADVERSARIAL_SAMPLES}{WRONG_CLASS}": strong_samples(samples, sizes.halving_steps),
    }


def held_by_balls(settings: Settings, block: Block, in_dist: InData) -> float:
    """The share of the attacked noise whose ball holds a test image, of those that are judged."""
    attack = probes(block, in_dist, budget(settings), settings)[ADVERSARIAL_NOISE]
    images = as_inputs(evenly(in_dist.test[0], STARTS))
    return balls_with_data(attack.ood.take(attack.count), images, attack.radius)


def whatever_class(settings: Settings, block: Block, in_dist: InData) -> dict[str, Any]:
    """ACET on the noise of the strong judge where right answers count too, over its seeds."""
    sizes, row = budget(settings), f"{ADVERSARIAL_NOISE}{ANY_CLASS}"
    judge = strong_noise(
        probes(block, in_dist, sizes, settings)[ADVERSARIAL_NOISE], sizes, any_class=True
    )
    tables = []
    for seed in seeds_of(settings, block, ACET):
        network = trained(settings, block, ACET, in_dist, seed)
        tables.append(cell(settings, block, ACET, network, in_dist, row, judge, seed).table)
    found: dict[str, Any] = rows_of(mean_over(tables), ACET)[row]
    return found


def readable_in_balls(settings: Settings, block: Block, in_dist: InData) -> float:
    """How many test images the plain network reads right when they are clipped to the balls."""
    attack = probes(block, in_dist, budget(settings), settings)[ADVERSARIAL_NOISE]
    x, y = (evenly(part, STARTS) for part in in_dist.test)
    plain = trained(settings, block, PLAIN, in_dist).model
    return read_in_balls(plain, attack.ood.take(attack.count), (x, y), attack.radius)


def _dead(
    settings: Settings, block: Block, column: str, result: Trained, in_dist: InData
) -> dict[str, float]:
    """The share of noise, and of test images, at which a network has no gradient; kept."""
    count = budget(settings).attacked[block.name]
    noise = unseen_noise(in_dist, settings)
    key = {"weights": result.digest, "noise": noise.description, "images": count}
    path = folder_of(settings, block.part) / f"gradients--{slug(column)}.json"
    inputs = {NOISE: noise.take(count), block.name: in_dist.test[0][:count]}
    shares: dict[str, float] = kept(
        path, key, lambda: {row: without_gradient(result.model, x) for row, x in inputs.items()}
    )
    return shares
