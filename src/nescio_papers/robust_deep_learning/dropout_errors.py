"""Test errors on MNIST of dropout as usual and of MC dropout, over the number of passes.

The part `lenet` has those on CIFAR-10, image by image.
"""

from collections.abc import Mapping, Sequence
from functools import partial
from statistics import fmean, stdev
from typing import Any

import torch
from matplotlib.figure import Figure
from torch import Tensor, nn

from nescio import models, nets
from nescio.core import kept
from nescio.models.model import Model
from nescio.report.plots.look import add_title, line, with_look
from nescio_papers.kit import Claim, Findings, InData, Settings, folder_of, sample, slug, table
from nescio_papers.robust_deep_learning.networks import DROPOUT, trained, weights_digest
from nescio_papers.robust_deep_learning.sets import Budget, budget
from nescio_papers.robust_deep_learning.stored_facts import over_seeds as over_trainings

PART, FIGURE = "mc-dropout", "mc-dropout-errors.png"
SOURCE = "lecture, Practical Session: MC dropout on MNIST"
JUDGED = "judged by the test error"
SAMPLES = 500  # test images at a time
EARLY = 0.2  # between convolutions, where all layers have dropout
Numbers = Mapping[str, Any]

NONE, LAST, ALL = "no dropout", "dropout before the last layer", "dropout in all layers"
LATER = (nn.Dropout, nn.AdaptiveAvgPool2d)  # dropout stands there, or behind it
RATES = {NONE: 0.0, LAST: DROPOUT, ALL: DROPOUT}  # before the last layer


def network(kind: str, in_dist: InData) -> nn.Module:
    """A small convolutional network with dropout in its places."""
    net = nets.small_cnn(in_dist.shape, in_dist.classes, dropout=RATES[kind])
    return _everywhere(net) if kind == ALL else net


def _everywhere(net: nn.Module) -> nn.Module:
    """The network with dropout before every layer but the first; the last one has it already."""
    layers = list(net.children())
    for place in reversed(range(len(layers) - 1)):
        if isinstance(layers[place], nn.ReLU) and not isinstance(layers[place + 1], LATER):
            layers.insert(place + 1, nn.Dropout(EARLY))
    return nn.Sequential(*layers)  # without the record of how it was made


def findings(settings: Settings, in_dist: InData) -> Findings:
    """Errors of both ways, of networks with and without dropout."""
    results = {kind: _errors(settings, kind, in_dist) for kind in RATES}
    return Findings(
        numbers=results,
        figures={FIGURE: _figure(results)},
        captions={FIGURE: _caption(results)},
        text=_text(results, budget(settings)),
    )


def networks(settings: Settings, kind: str, in_dist: InData) -> Model:
    """The trained networks of a kind, one per seed."""
    sizes = budget(settings)
    return trained(
        settings,
        PART,
        slug(kind),
        in_dist,
        members=sizes.example_seeds,
        make=partial(network, kind),
        epochs=sizes.epochs["MNIST"],
    )


def _errors(settings: Settings, kind: str, in_dist: InData) -> Numbers:
    model, passes = networks(settings, kind, in_dist), budget(settings).passes
    key = {"weights": weights_digest(model), "passes": passes, "test": len(in_dist.test[1])}
    path = folder_of(settings, PART) / f"{slug(kind)}.json"

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


def _said(values: Sequence[float]) -> str:
    spread = f" ± {100 * stdev(values):.2f}" if len(values) > 1 else ""
    return f"{100 * fmean(values):.2f}{spread}"


def _steps(sampled: Sequence[Sequence[float]]) -> list[int]:
    most = len(sampled[0])
    return [step for step in (1, 2, 5, 10, 20, 50) if step < most] + [most]


def _text(kinds: Mapping[str, Numbers], sizes: Budget) -> str:
    sampled = next(one["sampled"] for one in kinds.values() if one["sampled"])
    steps = _steps(sampled)
    rows = [
        [kind, _said(one["usual"])]
        + [_said(over_seeds(one["sampled"], t)) if one["sampled"] else "–" for t in steps]
        for kind, one in kinds.items()
    ]
    words = (
        f"Small convolutional networks for MNIST. Dropout of {DROPOUT} before the last layer, and "
        f"where all layers have it, of {EARLY} before the others but the first. Test error in %, "
        f"mean of {sizes.example_seeds} trainings ± their standard deviation. As usual: weights "
        "scaled, one pass. MC: the mean probabilities of T passes. Networks for CIFAR-10 are in "
        "the part `lenet`."
    )
    return f"{words}\n\n{table(['', 'as usual', *(f'MC, T = {t}' for t in steps)], rows)}"


def _caption(kinds: Mapping[str, Numbers]) -> str:
    words = []
    for kind, one in kinds.items():
        if one["sampled"]:
            end = over_seeds(one["sampled"], len(one["sampled"][0]))
            words.append(f"{kind}: {_said(one['usual'])} as usual, {_said(end)} MC")
    return "Test error on MNIST in % over the number of passes. " + "; ".join(words) + "."


def sampling_claim(kinds: Mapping[str, Numbers]) -> Claim:
    """Is the error of MC dropout below that of usual dropout, network by network?"""
    facts = []
    for kind, one in kinds.items():
        if one["sampled"]:
            end = over_seeds(one["sampled"], len(one["sampled"][0]))
            gaps = sample(end) - sample(one["usual"])
            facts.append(over_trainings(f"{kind}: error less usual", gaps, below=0, form=".2%"))
    return Claim(
        source=SOURCE,
        sentence="Improved training performances with activating dropout at test time. (MNIST)",
        facts=facts,
        note=f"{JUDGED}; paired over trainings, 50 passes, one draw of the masks; the part `lenet` "
        "has the lecture's network, and one for CIFAR-10, image by image, over draws of the masks",
    )


def training_claim(kinds: Mapping[str, Numbers]) -> Claim:
    """Is the error of networks with dropout below that without, one pass each?"""
    without = sample(kinds[NONE]["usual"])
    return Claim(
        source=SOURCE,
        sentence="Training a convnet with dropout leads to improved training performances.",
        facts=[
            over_trainings(
                f"{kind}: error less that without",
                sample(one["usual"]) - without,
                below=0,
                form=".2%",
            )
            for kind, one in kinds.items()
            if one["sampled"]
        ],
        note=f"{JUDGED}; paired over trainings",
    )


@with_look
def _figure(kinds: Mapping[str, Numbers]) -> Figure:
    figure = Figure(figsize=(7.2, 4.4), layout="constrained")
    axis = figure.subplots()
    for index, (kind, one) in enumerate(kinds.items()):
        look = line(index)
        axis.axhline(100 * fmean(one["usual"]), color=look["color"], linestyle="--", linewidth=1.2)
        if one["sampled"]:
            runs = 100 * torch.tensor(one["sampled"])
            passes = torch.arange(1, runs.shape[1] + 1)
            axis.fill_between(passes, runs.amin(0), runs.amax(0), color=look["color"], alpha=0.15)
            axis.plot(passes, runs.mean(0), color=look["color"], linewidth=1.8)
        axis.plot([], [], color=look["color"], linewidth=1.8, label=kind)
    axis.plot([], [], color="gray", linestyle="--", linewidth=1.2, label="one pass as usual")
    steps = _steps(next(one["sampled"] for one in kinds.values() if one["sampled"]))
    axis.set(xlabel="passes T", ylabel="test error on MNIST in %", xscale="log")
    axis.set_xticks(steps, list(map(str, steps)))
    axis.minorticks_off()
    axis.legend(fontsize=9)
    add_title(figure, "Test error of MC dropout, mean and range over trainings")
    return figure
