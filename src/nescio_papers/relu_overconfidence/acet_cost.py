"""What ACET costs: stored perturbations beside the paper's 40 steps, at equal epochs, on MNIST."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from statistics import fmean
from typing import Any

from nescio.core import kept
from nescio.evaluation import compare
from nescio.evaluation.compare import Absent
from nescio.evaluation.compare.ood_inputs import describe
from nescio.metrics import Interval, t_interval
from nescio.report.render import FPR95
from nescio.training.train import train
from nescio_papers.kit import Claim
from nescio_papers.kit.experiment import Comparison, Findings, Settings, absent
from nescio_papers.kit.images import InData
from nescio_papers.kit.nested import rows_of
from nescio_papers.kit.stores import folder_of, slug
from nescio_papers.kit.summary import table
from nescio_papers.relu_overconfidence.blocks import BLOCKS, in_data, probes
from nescio_papers.relu_overconfidence.budgets import budget
from nescio_papers.relu_overconfidence.cells import Trained, plan_of, timed_training, trained
from nescio_papers.relu_overconfidence.methods import ACET, ACET_40, PLAIN, RECIPES, pool_of
from nescio_papers.relu_overconfidence.published import ADVERSARIAL_NOISE, TABLE_1
from nescio_papers.relu_overconfidence.seeds_and_pairs import AUROC, FPR, MMC
from nescio_papers.relu_overconfidence.stronger import LEAK, STRONG, strong_noise
from nescio_papers.relu_overconfidence.table_1_claims import limit

BLOCK = BLOCKS["MNIST"]
PART = "acet-cost"
WAYS = (ACET, ACET_40)
MOST = 5.0  # plain epochs that one with stored perturbations may cost
MARGIN = 0.01  # of confidence: what is no worse
STRONGLY = f"{MMC}{STRONG}"
LEAKING = f"{MMC}{LEAK}"  # in older results, in place of the strong judge
WORDS = {
    "error": "test error",
    MMC: "adversarial noise, MMC",
    AUROC: "adversarial noise, AUROC",
    FPR: "adversarial noise, FPR95",
    STRONGLY: "adversarial noise, MMC by the strong judge",
    LEAKING: "adversarial noise, MMC with leaking gradients",
}
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
    path = folder_of(settings, PART) / "seconds.json"
    key = {"images": sizes.timed, "repeats": sizes.repeats}
    seconds = kept(path, key, lambda: epoch_seconds(settings, in_dist))
    plan = plan_of(settings, BLOCK, ACET_40)
    numbers = {
        "epochs": plan.epochs,
        "images": min(plan.images, len(in_dist.train[0])),
        "pool": pool_of(in_dist.train[0][: plan.images]),
        "judge": {"steps": sizes.noise_steps, "images": sizes.cost_attacked},
        "each": each,
        "seconds": seconds,
    }
    return Findings(numbers=numbers, comparisons=_comparisons(numbers), text=_text(numbers))


def _judged(settings: Settings, way: str, seed: int, in_dist: InData) -> dict[str, float]:
    """Test error and adversarial noise of one network."""
    sizes = budget(settings)
    outcome = _trained(settings, way, in_dist, seed)
    fewer = replace(sizes, attacked={BLOCK.name: sizes.cost_attacked})
    judge = probes(BLOCK, in_dist, fewer, settings)[ADVERSARIAL_NOISE]
    second = strong_noise(judge, sizes)

    def make() -> dict[str, float]:
        rows = {ADVERSARIAL_NOISE: judge, STRONG: second.make(outcome.model, in_dist)}
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
            STRONGLY: cells[STRONG][MMC]["value"],
        }

    key = {"weights": outcome.digest, "rows": [describe(judge), second.description]}
    path = folder_of(settings, PART) / f"{slug(way)}-{seed}.json"
    numbers: dict[str, float] = kept(path, key, make)
    return numbers


def _trained(settings: Settings, way: str, in_dist: InData, seed: int) -> Trained:
    """A network with the budget of the 40 steps, those of table 1 among them."""
    if way == ACET_40:
        return trained(settings, BLOCK, way, in_dist, seed)
    recipe, plan = RECIPES[BLOCK.name], plan_of(settings, BLOCK, ACET_40)
    x, y = (part[: plan.images] for part in in_dist.train)
    folder, drawn = folder_of(settings, PART) / f"{slug(way)}-{seed}", settings.seed + seed
    return timed_training(
        lambda: train(
            lambda: recipe.net(in_dist.shape, in_dist.classes),
            (x, y),
            loss=recipe.losses[way](x, drawn),
            epochs=plan.epochs,
            batch_size=budget(settings).batch,
            seed=drawn,
            run=folder,
            checkpoint_seconds=60,
            progress=False,
            **plan.options,
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


def ratios(seconds: Mapping[str, Sequence[float]]) -> dict[str, Interval]:
    """Cost in plain epochs, turn by turn, with Student's interval."""
    return {
        way: t_interval([a / b for a, b in zip(each, seconds[PLAIN], strict=True)])
        for way, each in seconds.items()
        if way != PLAIN
    }


def gaps(numbers: Numbers) -> dict[str, Interval]:
    """Affordable less 40 steps, by metric: the mean over seeds with Student's interval."""
    ours, forty = numbers["each"].values()
    return {
        key: t_interval([a[key] - b[key] for a, b in zip(ours, forty, strict=True)])
        for key in (MMC, STRONGLY, LEAKING, AUROC, "error")
        if key in ours[0]
    }


def _text(numbers: Numbers) -> str:
    judge, cost = numbers["judge"], ratios(numbers["seconds"])
    rows = [
        [
            way,
            str(seed),
            f"{100 * one['error']:.2f} %",
            *(f"{one[key]:.4f}" for key in (MMC, AUROC, FPR, STRONGLY)),
            f"{cost[way].value:.2f} ({cost[way].low:.2f} to {cost[way].high:.2f})",
        ]
        for way in WAYS
        for seed, one in enumerate(numbers["each"][way])
    ]
    header = ["training", "seed", "test error", "adv. noise MMC", "AUROC", "FPR95"]
    header += ["MMC, strong judge", "cost of an epoch, in plain ones"]
    said = "; ".join(
        f"{key} {gap.value:+.5f} ({gap.low:+.5f} to {gap.high:+.5f})"
        for key, gap in gaps(numbers).items()
    )
    return "\n\n".join(
        [
            f"Both ways: {numbers['epochs']} epoch(s) on {numbers['images']} images, the same "
            "network and options. Of the same noise ACET with stored perturbations shows "
            f"{numbers['pool']:,} images again and again, ACET with 40 steps as many as there are "
            f"training images. The paper's attack: {judge['steps']} steps of 0.0075 on "
            f"{judge['images']} noise images; the strong judge on the same. The published numbers "
            "are of 100 epochs of a LeNet. An epoch of each is timed in turn; in brackets "
            "Student's interval.",
            table(header, rows),
            FPR95["in_dist"].format(data=BLOCK.name),
            "Stored perturbations less 40 steps, mean over seeds with Student's 95 % interval: "
            f"{said}.",
        ]
    )


def _comparisons(numbers: Numbers) -> list[Comparison]:
    """The adversarial noise of each way beside the published ACET."""
    printed = TABLE_1[BLOCK.name]
    cells = zip((MMC, AUROC, FPR), printed.rows[ADVERSARIAL_NOISE][ACET], strict=True)
    there = {"error": printed.errors[ACET] / 100, **dict(cells)}
    return [
        Comparison(f"{way}: {WORDS[key]}", value, fmean(one[key] for one in numbers["each"][way]))
        for way in WAYS
        for key, value in there.items()
    ]


def claims_of(numbers: Numbers) -> list[Claim]:
    """What stored perturbations must show; nothing where there are no data."""
    if "each" not in numbers:
        return []
    cost, gap = ratios(numbers["seconds"]), gaps(numbers)
    ours, forty = numbers["each"]
    judged = [key for key in (MMC, STRONGLY, LEAKING) if key in gap]
    return [
        Claim(
            source="here",
            sentence="ACET does not need 40 attack steps in each training step.",
            facts=[
                limit("cost of an epoch, in plain ones", cost[ours], below=MOST, form=".2f"),
                *(
                    limit(
                        f"{WORDS[key]}: stored perturbations less 40 steps", gap[key], below=MARGIN
                    )
                    for key in judged
                ),
            ],
            needs=[
                limit("cost of an epoch with 40 steps", cost[forty], above=MOST, form=".1f"),
            ],
            note=f"{len(numbers['each'][ours])} seeds, {numbers['epochs']} epochs on "
            f"{numbers['images']:,} images",
        )
    ]
