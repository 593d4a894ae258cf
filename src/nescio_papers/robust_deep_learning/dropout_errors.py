"""Test errors of dropout as usual and of MC dropout, over the number of passes."""

from collections.abc import Mapping, Sequence
from functools import partial
from statistics import fmean, stdev
from typing import Any

import torch
from matplotlib.figure import Figure
from torch import Tensor, nn

from nescio import models, nets
from nescio.core import kept
from nescio.evaluation.compare import Absent
from nescio.models.model import Model
from nescio.nets.convolutional import Block
from nescio.report.plots.look import add_title, line, with_look
from nescio_papers.kit import (
    Claim,
    Comparison,
    Findings,
    InData,
    Settings,
    folder_of,
    photographs,
    sample,
    slug,
    table,
)
from nescio_papers.robust_deep_learning.networks import (
    DROPOUT,
    residual,
    trained,
    weights_digest,
)
from nescio_papers.robust_deep_learning.sets import BLOCKS, PHOTOGRAPHS, Budget, budget, in_data
from nescio_papers.robust_deep_learning.stored_facts import RECALLED, learned
from nescio_papers.robust_deep_learning.stored_facts import over_seeds as over_trainings

PART, FIGURE = "mc-dropout", "mc-dropout-errors.png"
SOURCE = "lecture, Practical Session: MC dropout on MNIST"
JUDGED = "judged by the test error"
DATA = ("MNIST", "CIFAR-10")
SAMPLES = 500  # test images at a time
EARLY = {"MNIST": 0.2, "CIFAR-10": 0.1}  # between convolutions, where all layers have dropout
# Gal and Ghahramani (2015), table 2, in per cent: dropout as usual, and 50 passes
PUBLISHED = {"NIN": (10.43, 10.27), "DSN": (9.37, 9.32), "augmented DSN": (7.95, 7.71)}
Numbers = Mapping[str, Any]


NONE, LAST, ALL = "no dropout", "dropout before the last layer", "dropout in all layers"
LATER = (nn.Dropout, nn.AdaptiveAvgPool2d)  # dropout stands there, or behind it
RATES = {NONE: 0.0, LAST: DROPOUT, ALL: DROPOUT}  # before the last layer


def network(name: str, kind: str, in_dist: InData) -> nn.Module:
    """A network for a data set: a small one for digits, ResNet-20 for photographs."""
    make = photographs.residual_network if name in PHOTOGRAPHS else nets.small_cnn
    net = make(in_dist.shape, in_dist.classes, dropout=RATES[kind])
    return _everywhere(net, EARLY[name]) if kind == ALL else net


def _everywhere(net: nn.Module, rate: float) -> nn.Module:
    """The network with dropout before every layer but the first; the last one has it already."""
    for part in net.modules():
        if isinstance(part, nn.Sequential):
            for place in reversed(range(len(part) - 1)):
                after = part[place + 1]
                if isinstance(part[place], (nn.ReLU, Block)) and not isinstance(after, LATER):
                    part.insert(place + 1, nn.Dropout(rate))
    return nn.Sequential(*net.children())  # without the record of how it was made


def findings(settings: Settings) -> Findings:
    """Errors of both ways for each data set at hand."""
    results: dict[str, Any] = {}
    missing: dict[str, str] = {}
    for name in DATA:
        in_dist = in_data(BLOCKS[name], budget(settings))
        if isinstance(in_dist, Absent):
            missing[name] = in_dist.why
            continue
        results[name] = {kind: _errors(settings, name, kind, in_dist) for kind in RATES}
    words = [f"{name} is not at hand: {why}." for name, why in missing.items()]
    if not results:
        return Findings(text="\n\n".join(words), skipped=missing, empty=True)
    return Findings(
        numbers=results,
        figures={FIGURE: _figure(results)},
        captions={FIGURE: _caption(results)},
        comparisons=_comparisons(results),
        text="\n\n".join([_text(results, budget(settings)), *words]),
        skipped=missing,
    )


def networks(settings: Settings, name: str, kind: str, in_dist: InData) -> Model:
    """The trained networks of a kind, one per seed."""
    sizes = budget(settings)
    one = f"{slug(name)}--{slug(kind)}"
    options: dict[str, Any] = {"members": sizes.seeds, "make": partial(network, name, kind)}
    if name in PHOTOGRAPHS:
        return residual(settings, PART, one, in_dist, **options)
    return trained(settings, PART, one, in_dist, epochs=sizes.epochs[name], **options)


def _errors(settings: Settings, name: str, kind: str, in_dist: InData) -> Numbers:
    model, passes = networks(settings, name, kind, in_dist), budget(settings).passes
    key = {"weights": weights_digest(model), "passes": passes, "test": len(in_dist.test[1])}
    path = folder_of(settings, PART) / f"{slug(name)}--{slug(kind)}.json"

    def measure() -> Numbers:
        x, y = in_dist.test
        members = [model.member(index) for index in range(model.members)]
        usual = [_wrong(models.plain(net), x, y)[0] for net in members]
        if kind == NONE:
            return {"usual": usual, "sampled": None}
        sampled = [
            _wrong(models.mc_dropout(net, passes=passes, seed=settings.seed), x, y)
            for net in members
        ]
        return {"usual": usual, "sampled": sampled}

    result: Numbers = kept(path, key, measure)
    return result


def _wrong(predictor: Any, x: Tensor, y: Tensor) -> list[float]:
    """The share of wrong labels of the mean of the first 1, 2, ... members."""
    wrong = torch.zeros(0)
    for part, labels in zip(x.split(SAMPLES), y.split(SAMPLES), strict=True):
        probs = predictor(part).member_probs.double().cumsum(0)  # (T, n, C); a sum has that argmax
        count = (probs.argmax(-1) != labels).sum(1).double()
        wrong = count if not len(wrong) else wrong + count
    return (wrong / len(y)).tolist()


def over_seeds(sampled: Sequence[Sequence[float]], passes: int) -> list[float]:
    """The error after `passes` passes, one per seed."""
    return [run[passes - 1] for run in sampled]


def _comparisons(result: Mapping[str, Numbers]) -> list[Comparison]:
    """Test errors of published networks for CIFAR-10 with dropout, as usual and by sampling."""
    kinds = result.get("CIFAR-10")
    if kinds is None:
        return []
    one = kinds[LAST]
    ours = fmean(one["usual"]), fmean(over_seeds(one["sampled"], len(one["sampled"][0])))
    note = f"{RECALLED}; Gal and Ghahramani (2015), all training images; here ResNet-20 on 20,000"
    return [
        Comparison(f"CIFAR-10, test error in %: {name}, {way}", said, 100 * own, note=note)
        for name, published in PUBLISHED.items()
        for way, said, own in zip(("dropout", "MC dropout"), published, ours, strict=True)
    ]


def _said(values: Sequence[float]) -> str:
    spread = f" ± {100 * stdev(values):.2f}" if len(values) > 1 else ""
    return f"{100 * fmean(values):.2f}{spread}"


def _steps(sampled: Sequence[Sequence[float]]) -> list[int]:
    most = len(sampled[0])
    return [step for step in (1, 2, 5, 10, 20, 50) if step < most] + [most]


def _text(result: Mapping[str, Numbers], sizes: Budget) -> str:
    parts = [
        "Small convolutional networks for MNIST; for CIFAR-10 ResNet-20, trained like the plain "
        f"network of the second paper's table 1. Dropout of "
        f"{DROPOUT} before the last layer, and where all layers have it, of {EARLY['MNIST']} and "
        f"{EARLY['CIFAR-10']} before the others but the first. Test error in %, mean of "
        f"{sizes.seeds} trainings ± their standard deviation. As usual: weights scaled, one pass. "
        "MC: the mean probabilities of T passes.",
    ]
    for name, kinds in result.items():
        sampled = next(one["sampled"] for one in kinds.values() if one["sampled"])
        steps = _steps(sampled)
        rows = [
            [kind, _said(one["usual"])]
            + [_said(over_seeds(one["sampled"], t)) if one["sampled"] else "–" for t in steps]
            for kind, one in kinds.items()
        ]
        parts += [name, table(["", "as usual", *(f"MC, T = {t}" for t in steps)], rows)]
    return "\n\n".join(parts)


def _caption(result: Mapping[str, Numbers]) -> str:
    words = []
    for name, kinds in result.items():
        for kind, one in kinds.items():
            if one["sampled"]:
                end = over_seeds(one["sampled"], len(one["sampled"][0]))
                words.append(f"{name}, {kind}: {_said(one['usual'])} as usual, {_said(end)} MC")
    return "Test error in % over the number of passes. " + "; ".join(words) + "."


def sampling_claim(name: str, kinds: Numbers) -> Claim:
    """Is the error of MC dropout below that of usual dropout, network by network?"""
    facts, needs = [], []
    for kind, one in kinds.items():
        if one["sampled"]:
            end = over_seeds(one["sampled"], len(one["sampled"][0]))
            gaps = sample(end) - sample(one["usual"])
            facts.append(over_trainings(f"{kind}: error less usual", gaps, below=0, form=".2%"))
            needs += learned(name, f"{kind}: test error", one["usual"])
    return Claim(
        source=SOURCE,
        sentence=f"Improved training performances with activating dropout at test time. ({name})",
        facts=facts,
        needs=needs,
        note=f"{JUDGED}; paired over trainings, 50 passes, one draw of the masks; the part `lenet` "
        "has the lecture's network, image by image, over draws of the masks",
    )


def training_claim(result: Mapping[str, Numbers]) -> Claim:
    """Is the error of networks with dropout below that without, one pass each, on MNIST?"""
    gaps = {
        (name, kind): sample(one["usual"]) - sample(kinds[NONE]["usual"])
        for name, kinds in result.items()
        for kind, one in kinds.items()
        if one["sampled"]
    }
    first = next(iter(result))  # MNIST where it is at hand, which the session is about
    return Claim(
        source=SOURCE,
        sentence="Training a convnet with dropout leads to improved training performances.",
        facts=[
            over_trainings(f"{name}, {kind}: error less that without", gap, below=0, form=".2%")
            for (name, kind), gap in gaps.items()
            if name == first
        ],
        needs=learned(first, "test error without", result[first][NONE]["usual"]),
        note=f"{JUDGED}; paired over trainings; "
        + "; ".join(
            f"{name}, {kind}: {100 * gap.mean:+.2f} ± {100 * gap.half:.2f} points"
            for (name, kind), gap in gaps.items()
            if name != first
        ),
    )


@with_look
def _figure(result: Mapping[str, Numbers]) -> Figure:
    figure = Figure(figsize=(10.8, 4.4), layout="constrained")
    axes = figure.subplots(1, len(result), squeeze=False)[0]
    for axis, (name, kinds) in zip(axes, result.items(), strict=True):
        for index, (kind, one) in enumerate(kinds.items()):
            look = line(index)
            axis.axhline(
                100 * fmean(one["usual"]), color=look["color"], linestyle="--", linewidth=1.2
            )
            if one["sampled"]:
                runs = 100 * torch.tensor(one["sampled"])
                passes = torch.arange(1, runs.shape[1] + 1)
                axis.fill_between(
                    passes, runs.amin(0), runs.amax(0), color=look["color"], alpha=0.15
                )
                axis.plot(passes, runs.mean(0), color=look["color"], linewidth=1.8)
            axis.plot([], [], color=look["color"], linewidth=1.8, label=kind)
        steps = _steps(next(one["sampled"] for one in kinds.values() if one["sampled"]))
        axis.set(title=name, xlabel="passes T", xscale="log")
        axis.set_xticks(steps, list(map(str, steps)))
        axis.minorticks_off()
    axes[0].set_ylabel("test error in %")
    axes[0].legend(fontsize=9)
    add_title(figure, "Dashed: as usual, one pass. Lines: MC dropout, mean and range of trainings")
    return figure
