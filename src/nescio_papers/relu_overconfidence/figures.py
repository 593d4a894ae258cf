"""Figures 1 to 4 of Hein et al. (2019): polytopes, and pictures from the networks of table 1.

Figures 2 and 4 are drawn under two attacks: the paper's, which can be blind, and a strong judge.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor

from nescio.attacks import (
    adversarial_noise,
    adversarial_samples,
    crossing_step,
    strong_noise,
    strong_samples,
)
from nescio.core import as_batch, kept
from nescio.evaluation.compare import Absent
from nescio.evaluation.compare.confidence_task import REJECTED
from nescio.models.model import Model
from nescio_papers.kit import Comparison, Findings, InData, Settings, evenly, folder_of, slug
from nescio_papers.relu_overconfidence.alphas import confidence
from nescio_papers.relu_overconfidence.blocks import BLOCKS, Block, in_data, unseen_noise
from nescio_papers.relu_overconfidence.budgets import Budget, budget
from nescio_papers.relu_overconfidence.cells import Trained, of_seed, seeds_of, trained
from nescio_papers.relu_overconfidence.figure_claims import JUDGED, LOW, NEAR, NOISE, PAPERS, TEST
from nescio_papers.relu_overconfidence.polytopes import FIGURE_1, polytope_caption, polytopes
from nescio_papers.relu_overconfidence.published import (
    ADVERSARIAL_NOISE,
    ADVERSARIAL_SAMPLES,
    METHODS,
    TABLE_1,
)

FIGURES = {"MNIST": "figure-2.png", "CIFAR-10": "figure-3.png"}
HISTOGRAM = "figure-4.png"
RADIUS, STEP = 0.3, 0.0075  # of the attack on noise, as in the paper
TESTED = 1000  # test images for the error, and 100 of them for the similarity
Moved = Mapping[str, Mapping[str, Tensor]]  # by attack and column


@dataclass(frozen=True, eq=False)
class Pictures:
    """Noise images and what the attacks make of them for each network, with confidences."""

    name: str  # of the block
    shown: int  # how many are drawn
    noise: Tensor  # (n, ...)
    sure: Mapping[str, Tensor]  # of the noise, (n,) by column
    near: Moved  # adversarial noise, (n, ...)
    near_sure: Moved  # (n,)

    @property
    def numbers(self) -> dict[str, Any]:
        """The confidences."""
        return {
            column: {
                "noise": self.sure[column].tolist(),
                **{attack: one[column].tolist() for attack, one in self.near_sure.items()},
            }
            for column in self.sure
        }


def run(settings: Settings) -> Findings:
    """Figure 1, and the pictures of the blocks that are at hand."""
    from nescio_papers.relu_overconfidence.pictures import figure_of_histograms, figure_of_noise
    from nescio_papers.relu_overconfidence.polytopes import figure_of_polytopes

    plane = polytopes(settings)
    numbers: dict[str, Any] = {"missing": {}, "polytopes": dict(plane.numbers)}
    figures = {FIGURE_1: figure_of_polytopes(plane)}
    captions = {FIGURE_1: polytope_caption(plane.numbers)}
    for name, file in FIGURES.items():
        in_dist = in_data(BLOCKS[name], budget(settings))
        if isinstance(in_dist, Absent):
            numbers["missing"][name] = in_dist.why
            continue
        models = {c: trained(settings, BLOCKS[name], c, in_dist) for c in METHODS}
        shown = pictures(name, in_dist, models, settings)
        figures[file] = figure_of_noise(shown)
        captions[file] = _noise_caption(shown, budget(settings))
        numbers[name] = {
            "confidence": shown.numbers,
            "similarity": similarities(shown, in_dist),
            "wrong": {column: wrong(one, in_dist) for column, one in models.items()},
        }
        if name == "MNIST":
            sure = {c: samples(settings, BLOCKS[name], c, in_dist) for c in METHODS}
            numbers["samples"] = {c: _counts(by_attack) for c, by_attack in sure.items()}
            figures[HISTOGRAM] = figure_of_histograms(_adversarial(sure))
            captions[HISTOGRAM] = _samples_caption(numbers["samples"])
    missing = [f"{name} is not at hand: {why}." for name, why in numbers["missing"].items()]
    return Findings(
        numbers=numbers,
        figures=figures,
        captions=captions,
        comparisons=_comparisons(numbers),
        text="\n\n".join(missing),
        skipped=numbers["missing"],
    )


def pictures(
    name: str, in_dist: InData, models: Mapping[str, Trained], settings: Settings
) -> Pictures:
    """Noise by number, half of it uniform and half permuted, and the attacks on it.

    The images that are drawn come first; the others serve the numbers.
    """
    sizes = budget(settings)
    shown = sizes.examples
    index = _order(shown, max(shown, sizes.attacked[name]))
    noise = unseen_noise(in_dist, settings)(index)
    near: dict[str, dict[str, Tensor]] = {attack: {} for attack in (PAPERS, JUDGED)}
    for column, one in models.items():
        for attack in near:
            near[attack][column] = _attacked(attack, one, noise, in_dist, settings)
    return Pictures(
        name=name,
        shown=shown,
        noise=noise,
        sure={c: confidence(one.model, noise) for c, one in models.items()},
        near=near,
        near_sure={
            attack: {c: confidence(models[c].model, x) for c, x in by_column.items()}
            for attack, by_column in near.items()
        },
    )


def _order(shown: int, count: int) -> Tensor:
    """Numbers of noise images, even ones uniform, odd ones permuted: in halves, then in turns."""
    order, half = torch.arange(shown), shown // 2
    first = torch.cat([2 * order[:half], 2 * order[: shown - half] + 1])
    used = set(first.tolist())
    rest = [i for i in range(count + shown) if i not in used][: count - shown]
    return torch.cat([first, torch.tensor(rest, dtype=torch.long)])


def _attacked(
    attack: str, network: Trained, noise: Tensor, in_dist: InData, settings: Settings
) -> Tensor:
    sizes = budget(settings)
    steps = sizes.example_steps
    step = crossing_step(RADIUS, steps, STEP)
    options: dict[str, Any] = {"radius": RADIUS, "steps": steps, "step": step}
    options["seed"] = settings.seed
    if attack == PAPERS:
        return adversarial_noise(network.model, noise, **options).x
    starts = tuple(evenly(part, len(noise)) for part in in_dist.test)
    halved = sizes.halving_steps
    return strong_noise(network.model, noise, starts=starts, halving_steps=halved, **options).x


def similarities(shown: Pictures, in_dist: InData) -> dict[str, list[float]]:
    """How much images look like the training image that is most like them.

    Of the noise, of what each attack made of it (the most similar of all networks) and of test
    images.
    """
    known = in_dist.train[0]
    few = as_batch(evenly(in_dist.test[0], min(TESTED // 10, len(in_dist.test[0]))))
    near = {
        NEAR.format(attack): torch.stack([similarity(x, known) for x in moved.values()]).amax(0)
        for attack, moved in shown.near.items()
    }
    found = {NOISE: similarity(shown.noise, known), **near, TEST: similarity(few, known)}
    return {what: values.tolist() for what, values in found.items()}


def similarity(x: Tensor, known: Tensor) -> Tensor:
    """The largest correlation of the pixels with an image of `known`, colors aside, `(N,)`."""
    own, best = _centered(x), torch.full((len(x),), -1.0)
    for piece in known.split(2000):
        best = torch.maximum(best, (own @ _centered(as_batch(piece)).T).amax(1))
    return best


def _centered(x: Tensor) -> Tensor:
    """Images as vectors of length 1 whose channels have mean 0."""
    flat = x.flatten(2)
    flat = (flat - flat.mean(2, keepdim=True)).flatten(1)
    length: Tensor = flat.norm(dim=1, keepdim=True)
    return flat / length.clamp_min(1e-9)


def wrong(network: Trained, in_dist: InData) -> list[int]:
    """How many test images a network gets wrong, and of how many."""
    x, y = (evenly(part, min(TESTED, len(part))) for part in in_dist.test)
    return [int((network.model.outputs(x)[0].argmax(1) != y).sum()), len(y)]


def samples(
    settings: Settings, block: Block, column: str, in_dist: InData
) -> dict[str, list[Tensor]]:
    """By attack: the confidences on adversarial samples, one tensor for each seed; kept.

    As in table 1, an image is adversarial where it is misclassified or its answer is rejected.
    """
    sizes = budget(settings)
    x, y = (part[: sizes.attacked[block.name]] for part in in_dist.test)
    options: dict[str, Any] = {
        "radius": block.radius,
        "steps": sizes.sample_steps,
        "step": crossing_step(block.radius, sizes.sample_steps, block.step),
        "seed": settings.seed,
    }

    def make(attack: str, model: Model) -> list[float]:
        images = as_batch(x)
        if attack == PAPERS:
            moved = adversarial_samples(model, images, y, **options).x
        else:
            halved = sizes.halving_steps
            moved = strong_samples(model, images, y, halving_steps=halved, **options).x
        sure = confidence(model, moved)
        fooled = model.outputs(moved)[0].argmax(1) != y
        fooled |= sure < REJECTED / in_dist.classes
        return [float(value) for value in sure[fooled]]

    found: dict[str, list[Tensor]] = {PAPERS: [], JUDGED: []}
    for seed in seeds_of(settings, block, column):
        result = trained(settings, block, column, in_dist, seed)
        for attack, each in found.items():
            key = {"weights": result.digest, "images": len(x), "attack": attack, **options}
            key |= {"halved": sizes.halving_steps, "holds": "adversarial"}
            name = f"samples--{of_seed(column, seed)}--{slug(attack)}.json"
            path = folder_of(settings, "figures") / name
            each.append(torch.tensor(kept(path, key, partial(make, attack, result.model))))
    return found


def _adversarial(sure: Mapping[str, Mapping[str, list[Tensor]]]) -> dict[str, dict[str, Tensor]]:
    """Confidences on adversarial samples of all seeds, by attack and column."""
    return {
        attack: {column: torch.cat(by[attack]) for column, by in sure.items()}
        for attack in (PAPERS, JUDGED)
    }


def _counts(by_attack: Mapping[str, list[Tensor]]) -> dict[str, dict[str, Any]]:
    """Of the samples of all seeds; by seed, how many are adversarial, and of low confidence."""
    result = {}
    for attack, each in by_attack.items():
        values = torch.cat(each)
        result[attack] = {
            "adversarial": len(values),
            "low": int((values < LOW).sum()),
            "by_seed": [[int((one < LOW).sum()), len(one)] for one in each],
            "mean": values.mean().item() if len(values) else 0.0,
            "median": values.median().item() if len(values) else 0.0,
        }
    return result


def _noise_caption(shown: Pictures, sizes: Budget) -> str:
    said = "; ".join(
        f"{attack}: " + ", ".join(f"{c} {values.mean():.3f}" for c, values in by_column.items())
        for attack, by_column in shown.near_sure.items()
    )
    return (
        "Top: noise as in training, the left half from uniform pixels, the right half from "
        f"permuted images. Below: the most confident image that was found within {RADIUS:g} of "
        f"each pixel, for each network trained on {shown.name}, with the paper's attack of "
        f"{sizes.example_steps} steps and with the strong judge. The numbers are confidences. "
        f"Mean over {len(shown.noise)} noise images, other ones than those of table 1, and one "
        f"training: {said}."
    )


def _samples_caption(result: Mapping[str, Mapping[str, Mapping[str, float]]]) -> str:
    said = "; ".join(
        f"{attack}: "
        + ", ".join(
            f"{column} {one[attack]['low']} of {one[attack]['adversarial']}"
            for column, one in result.items()
        )
        for attack in (PAPERS, JUDGED)
    )
    return (
        "Confidence on adversarial samples of MNIST test images, those that are misclassified or "
        "rejected, on a logarithmic scale, under two attacks; of all trainings, and of other "
        f"images than those of table 1. Below {LOW:g}: {said}."
    )


def _comparisons(numbers: Mapping[str, Any]) -> list[Comparison]:
    """Mean confidences of table 1 beside ours."""
    rows = []
    for name, file in FIGURES.items():
        number = file.removeprefix("figure-").removesuffix(".png")
        for column, values in numbers.get(name, {}).get("confidence", {}).items():
            means = {a: sum(v) / len(v) for a, v in values.items()}
            strong = f"{means[JUDGED]:.3f} under {JUDGED}; " if JUDGED in means else ""
            rows.append(
                Comparison(
                    f"figure {number}: mean confidence on adversarial noise, {column}",
                    TABLE_1[name].rows[ADVERSARIAL_NOISE][column][0],
                    means[PAPERS],
                    note=f"{strong}published: table 1, 200 steps",
                )
            )
    for column, by_attack in numbers.get("samples", {}).items():
        rows.append(
            Comparison(
                f"figure 4: mean confidence on adversarial samples, {column}",
                TABLE_1["MNIST"].rows[ADVERSARIAL_SAMPLES][column][0],
                by_attack[PAPERS]["mean"],
                note=f"{by_attack[JUDGED]['mean']:.3f} under {JUDGED}; published: table 1",
            )
        )
    return rows
