"""What ACET costs: the affordable attack beside the paper's 40 steps, at equal epochs, on MNIST."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import fmean, median, stdev
from typing import Any

from nescio.core import kept
from nescio.evaluation import compare
from nescio.evaluation.compare import Absent
from nescio.evaluation.compare.ood_inputs import describe
from nescio.training.train import train
from nescio_papers.kit import Claim
from nescio_papers.kit.claims import judged, verdict
from nescio_papers.kit.experiment import Comparison, Findings, Settings, absent
from nescio_papers.kit.images import InData
from nescio_papers.kit.nested import rows_of
from nescio_papers.kit.stores import folder_of, slug
from nescio_papers.kit.summary import table
from nescio_papers.relu_overconfidence.blocks import BLOCKS, in_data, probes
from nescio_papers.relu_overconfidence.budgets import Budget, budget
from nescio_papers.relu_overconfidence.cells import Trained, timed_training
from nescio_papers.relu_overconfidence.methods import ACET, ACET_40, PLAIN, RECIPES, pool_of
from nescio_papers.relu_overconfidence.published import ADVERSARIAL_NOISE
from nescio_papers.relu_overconfidence.stronger import LEAK, stronger_noise
from nescio_papers.relu_overconfidence.table_1_claims import AUROC, FPR, MMC

BLOCK = BLOCKS["MNIST"]
PART = "acet-cost"
WAYS = (ACET, ACET_40)
LEVEL = 0.95  # of the interval
MOST = 5.0  # plain epochs that an affordable one may cost
MARGIN = 0.01  # of confidence: what is no worse
LEAKING = "mean_max_confidence, leaking gradients"
Numbers = Mapping[str, Any]


def run(settings: Settings) -> Findings:
    """Train both ways from several seeds, attack them with the judge, and time an epoch."""
    sizes = budget(settings)
    in_dist = in_data(BLOCK, sizes)
    if isinstance(in_dist, Absent):
        return absent("MNIST", in_dist.why)
    each = {
        way: [_judged(settings, way, seed, in_dist) for seed in range(sizes.cost_seeds)]
        for way in WAYS
    }
    gaps = {
        key: interval(
            [a[key] - b[key] for a, b in zip(each[ACET], each[ACET_40], strict=True)]
        )
        for key in (MMC, LEAKING, AUROC, "error")
    }
    path = folder_of(settings, PART) / "seconds.json"
    key = {"images": sizes.timed, "repeats": sizes.repeats}
    seconds = kept(path, key, lambda: epoch_seconds(settings, in_dist))
    numbers = {
        "epochs": sizes.cost_epochs,
        "images": min(sizes.cost_train, len(in_dist.train[0])),
        "pool": pool_of(in_dist.train[0][: sizes.cost_train]),
        "judge": {
            "steps": sizes.noise_steps,
            "restarts": sizes.restarts,
            "images": sizes.cost_attacked,
        },
        "each": each,
        "differences": gaps,
        "seconds": seconds,
        "ratios": ratios(seconds),
    }
    return Findings(
        numbers=numbers,
        comparisons=_comparisons(numbers),
        claims=judged(settings, _claims(numbers)),
        text=_text(numbers),
    )


def _judged(settings: Settings, way: str, seed: int, in_dist: InData) -> dict[str, float]:
    """Test error and adversarial noise of one network."""
    sizes = budget(settings)
    folder = folder_of(settings, PART) / f"{slug(way)}-{seed}"
    outcome = _trained(way, in_dist, sizes, folder, settings.seed + seed)
    fewer = replace(sizes, attacked={BLOCK.name: sizes.cost_attacked})
    judge = probes(BLOCK, in_dist, fewer, settings)[ADVERSARIAL_NOISE]
    second = stronger_noise(judge)

    def make() -> dict[str, float]:
        rows = {ADVERSARIAL_NOISE: judge, LEAK: second.make(outcome.model, in_dist)}
        table_ = compare(
            {way: outcome.model},
            in_dist.test,
            rows,
            task="confidence",
            resamples=0,
            progress=False,
        )
        cells = rows_of(table_, way)
        near = {key: cells[ADVERSARIAL_NOISE][key]["value"] for key in (MMC, AUROC, FPR)}
        return {
            "error": cells["test"]["error"]["value"],
            **near,
            LEAKING: cells[LEAK][MMC]["value"],
        }

    key = {"weights": outcome.digest, "rows": [describe(judge), second.description]}
    numbers: dict[str, float] = kept(folder.with_suffix(".json"), key, make)
    return numbers


def _trained(way: str, in_dist: InData, sizes: Budget, folder: Path, seed: int) -> Trained:
    recipe = RECIPES[BLOCK.name]
    x, y = (part[: sizes.cost_train] for part in in_dist.train)
    return timed_training(
        lambda: train(
            lambda: recipe.net(in_dist.shape, in_dist.classes),
            (x, y),
            loss=recipe.losses[way](x, seed),
            epochs=sizes.cost_epochs,
            batch_size=sizes.batch,
            seed=seed,
            run=folder,
            checkpoint_seconds=60,
            progress=False,
            **recipe.options,
        ),
        folder,
    )


def epoch_seconds(settings: Settings, in_dist: InData) -> dict[str, list[float]]:
    """Seconds of an epoch of each loss, in turn, so that all meet the same load."""
    sizes, recipe = budget(settings), RECIPES[BLOCK.name]
    x, y = (part[: sizes.timed] for part in in_dist.train)
    losses = {way: recipe.losses[way](x, settings.seed) for way in (PLAIN, *WAYS)}
    result: dict[str, list[float]] = {way: [] for way in losses}
    for _ in range(sizes.repeats):
        for way, loss in losses.items():
            start = time.perf_counter()
            train(
                lambda: recipe.net(in_dist.shape, in_dist.classes),
                (x, y),
                loss=loss,
                epochs=1,
                batch_size=sizes.batch,
                seed=settings.seed,
                progress=False,
                **recipe.options,
            )
            result[way].append(time.perf_counter() - start)
    return result


def ratios(seconds: Mapping[str, Sequence[float]]) -> dict[str, dict[str, float]]:
    """Cost in plain epochs: the median, lowest and highest over the repeats."""
    results = {}
    for way in WAYS:
        each = [a / b for a, b in zip(seconds[way], seconds[PLAIN], strict=True)]
        results[way] = {"median": median(each), "low": min(each), "high": max(each)}
    return results


def interval(differences: Sequence[float], level: float = LEVEL) -> dict[str, float]:
    """The mean difference over seeds with Student's interval."""
    from scipy.stats import t

    mean, count = fmean(differences), len(differences)
    if count < 2:
        return {"mean": mean, "low": mean, "high": mean}
    half = float(t.ppf((1 + level) / 2, count - 1)) * stdev(differences) / count**0.5
    return {"mean": mean, "low": mean - half, "high": mean + half}


def _text(numbers: Numbers) -> str:
    judge, cost = numbers["judge"], numbers["ratios"]
    rows = [
        [
            way,
            str(seed),
            f"{100 * one['error']:.2f} %",
            *(f"{one[key]:.4f}" for key in (MMC, AUROC, FPR, LEAKING)),
            f"{cost[way]['median']:.2f} ({cost[way]['low']:.2f} to {cost[way]['high']:.2f})",
        ]
        for way in WAYS
        for seed, one in enumerate(numbers["each"][way])
    ]
    header = ["training", "seed", "test error", "adv. noise MMC", "AUROC", "FPR95"]
    header += ["MMC, leaking gradients", "cost of an epoch, in plain ones"]
    gaps = "; ".join(
        f"{name} {gap['mean']:+.5f} ({gap['low']:+.5f} to {gap['high']:+.5f})"
        for name, gap in (
            ("MMC", numbers["differences"][MMC]),
            ("MMC with leaking gradients", numbers["differences"][LEAKING]),
            ("AUROC", numbers["differences"][AUROC]),
            ("test error", numbers["differences"]["error"]),
        )
    )
    return "\n\n".join(
        [
            f"Both ways: {numbers['epochs']} epoch(s) on {numbers['images']} images, the same "
            "network and options. Of the same noise the affordable one shows "
            f"{numbers['pool']:,} images again and again, the other as many as there are training "
            f"images. Judge: {judge['steps']} steps of 0.0075 with "
            f"{judge['restarts']} restart(s) on {judge['images']} noise images. An epoch of each "
            "is timed in turn; in brackets the lowest and highest ratio.",
            table(header, rows),
            f"Affordable minus 40 steps, mean over seeds with the {100 * LEVEL:g} % interval of "
            f"Student: {gaps}.",
        ]
    )


def _comparisons(numbers: Numbers) -> list[Comparison]:
    rows = []
    for way in WAYS:
        mean = fmean(one[MMC] for one in numbers["each"][way])
        note = f"{numbers['epochs']} epoch(s) of a small network instead of 100 of a LeNet"
        rows.append(Comparison(f"{way}: adversarial noise, MMC", 0.162, mean, note=note))
    return rows


def _claims(numbers: Numbers) -> list[Claim]:
    ours, forty = (numbers["ratios"][way]["median"] for way in WAYS)
    gaps = [numbers["differences"][key] for key in (MMC, LEAKING)]
    seeds, cheap = len(numbers["each"][ACET_40]), ours <= MOST
    worse = max(gap["high"] for gap in gaps) > MARGIN
    said = " and ".join(f"{g['mean']:+.5f} ({g['low']:+.5f} to {g['high']:+.5f})" for g in gaps)
    return [
        Claim(
            "here",
            "ACET needs no 40 attack steps in each training step.",
            f"the affordable one costs {ours:.2f} plain epochs, the 40-step one {forty:.2f}; its "
            f"confidence on adversarial noise differs by {said} with leaking gradients, over "
            f"{seeds} seeds at equal epochs. At most {MARGIN:g} more, at the upper end of the "
            "interval, counts as no worse",
            verdict=verdict(cheap and not worse, cheap or not worse),
        )
    ]
