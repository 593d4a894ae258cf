"""Figures 2, 3 and 4 of Hein et al. (2019), from the networks of table 1."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from nescio.attacks import adversarial_noise, adversarial_samples, crossing_step
from nescio.core import as_batch, kept
from nescio.evaluation.compare import Absent
from nescio_papers.kit import Claim, Findings, InData, Settings, folder_of, judged, slug, verdict_of
from nescio_papers.relu_overconfidence.alphas import confidence
from nescio_papers.relu_overconfidence.blocks import BLOCKS, Block, in_data, unseen_noise
from nescio_papers.relu_overconfidence.budgets import Budget, budget
from nescio_papers.relu_overconfidence.cells import Trained, trained
from nescio_papers.relu_overconfidence.methods import ACET, CEDA, PLAIN
from nescio_papers.relu_overconfidence.published import METHODS
from nescio_papers.relu_overconfidence.table_1_claims import LOW

FIGURES = {"MNIST": "figure-2.png", "CIFAR-10": "figure-3.png"}
HISTOGRAM = "figure-4.png"
RADIUS, STEP = 0.3, 0.0075  # of the attack on noise
SOURCE = "Hein et al., figure"
Numbers = Mapping[str, Any]


@dataclass(frozen=True, eq=False)
class Pictures:
    """Noise images and what the attack makes of them for each network, with confidences."""

    name: str  # of the block
    noise: Tensor  # (n, ...)
    sure: Mapping[str, Tensor]  # of the noise, (n,) by column
    near: Mapping[str, Tensor]  # adversarial noise, (n, ...)
    near_sure: Mapping[str, Tensor]

    @property
    def numbers(self) -> dict[str, Any]:
        """The confidences."""
        return {
            column: {"noise": self.sure[column].tolist(), "near": self.near_sure[column].tolist()}
            for column in self.near
        }


def run(settings: Settings) -> Findings:
    """The pictures of the blocks that are at hand."""
    from nescio_papers.relu_overconfidence.pictures import figure_of_histograms, figure_of_noise

    sizes = budget(settings)
    numbers: dict[str, Any] = {"missing": {}}
    figures, captions, claims = {}, {}, []
    for name, file in FIGURES.items():
        in_dist = in_data(BLOCKS[name], sizes)
        if isinstance(in_dist, Absent):
            numbers["missing"][name] = in_dist.why
            continue
        models = {c: trained(settings, BLOCKS[name], c, in_dist) for c in METHODS}
        shown = pictures(name, in_dist, models, settings)
        apart = distances(shown, in_dist)
        figures[file] = figure_of_noise(shown)
        captions[file] = _noise_caption(shown, sizes)
        numbers[name] = {"confidence": shown.numbers, "distance": apart}
        claims += [_no_structure(shown, apart), *_difficult(shown)]
        if name == "MNIST":
            sure = {c: samples(settings, BLOCKS[name], c, models[c], in_dist) for c in METHODS}
            figures[HISTOGRAM] = figure_of_histograms(sure)
            captions[HISTOGRAM] = _samples_caption(sure)
            numbers["samples"] = {c: _spread(values) for c, values in sure.items()}
            claims.append(_most_low(numbers["samples"]))
    missing = [f"{name} is not at hand: {why}." for name, why in numbers["missing"].items()]
    said = judged(settings, claims)
    return Findings(
        numbers=numbers,
        figures=figures,
        captions=captions,
        claims=said,
        text="\n\n".join(missing),
        skipped=numbers["missing"],
        empty=not figures,
    )


def pictures(
    name: str, in_dist: InData, models: Mapping[str, Trained], settings: Settings
) -> Pictures:
    """Noise by number, half of it uniform and half permuted, and the attack on it."""
    sizes = budget(settings)
    order, half = torch.arange(sizes.examples), sizes.examples // 2
    index = torch.cat([2 * order[:half], 2 * order[: sizes.examples - half] + 1])
    noise = unseen_noise(in_dist, settings)(index)
    step = crossing_step(RADIUS, sizes.example_steps, STEP)
    options: dict[str, Any] = {"radius": RADIUS, "steps": sizes.example_steps, "step": step}
    options["seed"] = settings.seed
    near = {c: adversarial_noise(one.model, noise, **options).x for c, one in models.items()}
    return Pictures(
        name=name,
        noise=noise,
        sure={c: confidence(one.model, noise) for c, one in models.items()},
        near=near,
        near_sure={c: confidence(one.model, near[c]) for c, one in models.items()},
    )


def distances(shown: Pictures, in_dist: InData) -> dict[str, float]:
    """Median distance to the nearest training image: of adversarial noise, and of test images."""
    known = in_dist.train[0]
    few = in_dist.test[0][torch.arange(100) * len(in_dist.test[0]) // 100]
    return {
        "noise": _nearest(shown.noise, known),
        **{column: _nearest(x, known) for column, x in shown.near.items()},
        "test": _nearest(as_batch(few), known),
    }


def _nearest(x: Tensor, known: Tensor) -> float:
    flat = x.flatten(1)
    best = torch.full((len(x),), torch.inf)
    for piece in known.split(2000):
        apart = torch.cdist(flat, as_batch(piece).flatten(1))
        best = torch.minimum(best, apart.amin(1))
    return best.median().item()


def samples(
    settings: Settings, block: Block, column: str, result: Trained, in_dist: InData
) -> Tensor:
    """Confidences on adversarial samples of test images, right and wrong alike; kept."""
    sizes = budget(settings)
    x, y = (part[: sizes.attacked[block.name]] for part in in_dist.test)
    options: dict[str, Any] = {
        "radius": block.radius,
        "step": crossing_step(block.radius, sizes.sample_steps, block.step),
        "steps": sizes.sample_steps,
        "seed": settings.seed,
    }

    def make() -> list[float]:
        moved = adversarial_samples(result.model, as_batch(x), y, **options).x
        values: list[float] = confidence(result.model, moved).tolist()
        return values

    key = {"weights": result.digest, "images": len(x), **options}
    path = folder_of(settings, "figures") / f"samples--{slug(column)}.json"
    return torch.tensor(kept(path, key, make), dtype=torch.float64)


def _spread(values: Tensor) -> dict[str, float]:
    return {
        "images": len(values),
        "mean": values.mean().item(),
        "median": values.median().item(),
        "low": (values < LOW).double().mean().item(),
        "below_half": (values < 0.5).double().mean().item(),
    }


def _noise_caption(shown: Pictures, sizes: Budget) -> str:
    sure = ", ".join(f"{c} {shown.near_sure[c].mean():.3f}" for c in shown.near)
    return (
        "Top: noise as in training, the left half from uniform pixels, the right half from "
        "permuted images. Below: the surest image within 0.3 of each pixel after "
        f"{sizes.example_steps} steps, for each network trained on {shown.name}. The numbers are "
        f"confidences; mean under attack: {sure}."
    )


def _samples_caption(sure: Mapping[str, Tensor]) -> str:
    low = ", ".join(f"{c} {100 * (v < LOW).double().mean():.1f} %" for c, v in sure.items())
    return (
        f"Confidence on adversarial samples of {len(sure[PLAIN])} MNIST test images, all of them, "
        f"on a logarithmic scale. Share below {LOW:g}: {low}."
    )


def _no_structure(shown: Pictures, apart: Mapping[str, float]) -> Claim:
    number = FIGURES[shown.name].removeprefix("figure-").removesuffix(".png")
    least = min(apart[column] for column in shown.near)
    return Claim(
        f"{SOURCE} {number}",
        f"Neither the noise nor the adversarial noise images show similarity to {shown.name} "
        "images.",
        f"median distance to the nearest training image: noise {apart['noise']:.2f}, adversarial "
        f"noise at least {least:.2f}, test images {apart['test']:.2f}; see the figure",
        verdict="holds" if least > apart["test"] else "partly",
    )


def _difficult(shown: Pictures) -> list[Claim]:
    if shown.name != "MNIST":
        return []
    sure = {column: values.mean().item() for column, values in shown.near_sure.items()}
    hard = [sure[column] < LOW for column in (CEDA, ACET)]
    said = ", ".join(f"{column} {value:.3f}" for column, value in sure.items())
    return [
        Claim(
            f"{SOURCE} 2",
            "For ACET and CEDA it is very difficult to generate adversarial noise images for the "
            "fully trained models thus we omit them.",
            f"mean confidence under the attack of the figure: {said}; they are shown here",
            verdict=verdict_of(*hard),
        )
    ]


def _most_low(result: Numbers) -> Claim:
    most = {column: one["low"] > 0.5 for column, one in result.items()}
    said = ", ".join(
        f"{c} {100 * one['low']:.1f} % (mean {one['mean']:.3f})" for c, one in result.items()
    )
    return Claim(
        f"{SOURCE} 4",
        "ACET is the only model where most adversarial samples have very low confidence.",
        f"share below {LOW:g}: {said}. A mean of 0.854, as in their table 1, allows at most 18 % "
        "below 0.2 among the misclassified samples that table counts",
        verdict="holds" if most[ACET] and not (most[PLAIN] or most[CEDA]) else
        "partly" if most[ACET] else "fails",
    )  # fmt: skip
