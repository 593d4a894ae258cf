"""The spiral by an ensemble of four: the practical's run, quirks and all, and a corrected one."""

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any

import torch
from matplotlib.figure import Figure
from torch import Tensor, nn

from nescio import losses
from nescio.core import (
    Categorical,
    Classification,
    expected_entropy,
    mutual_information,
    predictive_entropy,
)
from nescio.data import Dataset, spiral
from nescio.data.sets.toy import ARMS
from nescio.losses import Loss
from nescio.models.model import Model
from nescio.report.plots.look import GRAY, WIDTH, add_title, line, panels, per_cent, with_look
from nescio_papers.deep_ensembles import quirks
from nescio_papers.deep_ensembles.figures import ARM_COLORS, show_arms, show_map
from nescio_papers.deep_ensembles.printed_runs import ACCURACY, NLL, spiral_printed
from nescio_papers.deep_ensembles.spiral_world import (
    DECAY,
    WIDTHS,
    classifier,
    says,
    spiral_net,
    spiral_runs,
    square,
    true_log_probs,
)
from nescio_papers.deep_ensembles.worlds import BY_SEED, OWN, seeds, train
from nescio_papers.kit import Claim, Comparison, Findings, Sample, Settings, sample

PRINTED = {"accuracy": ACCURACY, "nll": NLL}
TITLES = {
    "faithful": "Faithful, other random numbers",
    "corrected": "Corrected",
    "printed": "The practical's own run",
}
STORED = {"printed_by_order": OWN, "corrected_over_seeds": BY_SEED}
FRESH = 123  # seed of fresh points for the practical's own run
TEXT = """\
Three arms of 1000 points, four networks 2-150-150-3, {epochs} steps on all points. *Faithful*: the
loss is divided by the number of classes, the norm of the weights (not its square) is added 0.001
times, Adam's step index stays 0, rate 0.1, initial weights 0.1 N(0, 1). *The practical's own run*
is that with its data, initial weights and orders of the points; its steps amplify how sums are
rounded, so it is repeated with other orders, which change nothing else. *Corrected*: the plain
negative log-likelihood, the squared norm, ordinary Adam with rate 0.02, a warm-up and a cosine,
inputs in units of their deviation. The arms overlap, and the true class probabilities are known, so
the best possible accuracy and NLL are known too: better numbers on the training data are
overfitting."""


class Curves:
    """Accuracy and NLL of the ensemble on the training data, step by step."""

    def __init__(self) -> None:
        self.accuracy: list[float] = []
        self.nll: list[float] = []

    def watch(self, base: Loss) -> Loss:
        """`base` on the full batch, noting what all members together say on the way."""

        def score(outputs: Tensor, y: Tensor) -> Tensor:
            result = Categorical(outputs.detach())
            self.accuracy.append((result.labels == y[0]).float().mean().item())
            self.nll.append(-result.log_prob(y[0]).mean().item())
            return base.score(outputs, y)

        return losses.pointwise("watched", base.head, score)


def run(settings: Settings) -> Findings:
    """Both runs, their training curves, and maps of what they know and do not know."""
    seed = seeds(settings, 1)[0]
    data = spiral(seed=seed)
    old, watched = faithful_run(settings, seed)
    curves = {"faithful": watched, "corrected": Curves()}
    new = corrected(data, seed, _epochs(settings), curves["corrected"])
    models = {"faithful": old, "corrected": new}
    numbers: dict[str, Any] = {name: _scores(m, data) for name, m in models.items()}
    numbers["best_possible"] = best_possible(data)
    numbers["curves"] = {name: vars(curve) for name, curve in curves.items()}
    own = spiral_printed(settings)
    models["printed"] = own[0][1]
    fresh = spiral(seed=FRESH).test
    found = {
        OWN: _against_best([(data, model, fresh) for data, model in own]),
        BY_SEED: _against_best([(data, m, data.test) for data, m in spiral_runs(settings)]),
    }
    for name, way in STORED.items():
        numbers[name] = {key: one.numbers() for key, one in found[way].items()}
    grid = square(80 if settings.quick else 200)
    figures = {"spiral-curves.png": _curves(curves, numbers)}
    captions = {"spiral-curves.png": _said(numbers)}
    for name, model in models.items():
        file = f"spiral-{name}-maps.png"
        shown = own[0][0] if name == "printed" else data
        figures[file] = maps(TITLES[name], shown, says(model, grid), grid, settings)
        captions[file] = (
            f"{TITLES[name]}. Data uncertainty marks where arms overlap and, outside the "
            "disc, the boundaries drawn out; knowledge uncertainty is high where the boundaries "
            "of the members part, and zero over most of the rest, however far from the data."
        )
    text = TEXT.format(epochs=_epochs(settings))
    return Findings(
        numbers=numbers,
        figures=figures,
        captions=captions,
        comparisons=_comparisons(numbers),
        text=text,
    )


def _epochs(settings: Settings) -> int:
    return 30 if settings.quick else 300


@cache
def faithful_run(settings: Settings, seed: int) -> tuple[Model, Curves]:
    """The practical's ensemble and its training curves, for a draw of the data."""
    curves = Curves()
    return faithful(spiral(seed=seed), seed, _epochs(settings), curves), curves


def faithful(data: Dataset, seed: int, epochs: int, curves: Curves) -> Model:
    """Four networks trained as in the practical."""
    return train(
        quirks.scaled_normal(2, ARMS, WIDTHS, 0.1),
        data.train,
        loss=quirks.norm_decay(curves.watch(quirks.divided_nll())),
        members=4,
        epochs=epochs,
        batch_size=None,
        learning_rate=0.1,
        schedule=quirks.frozen_adam,
        seed=seed,
    )


def corrected(
    data: Dataset,
    seed: int,
    epochs: int,
    curves: Curves | None = None,
    *,
    make: Callable[[], nn.Module] = spiral_net,
    bootstrap: bool = False,
) -> Model:
    """Four networks on the full batch by the corrected recipe."""
    base = losses.nll() if curves is None else curves.watch(losses.nll())
    loss = losses.weight_decay(base, strength=DECAY)
    full: Any = {"epochs": epochs, "batch_size": None}
    return classifier(data, loss=loss, seed=seed, make=make, bootstrap=bootstrap, **full)


def scores(result: Classification, y: Tensor) -> tuple[float, float]:
    """Accuracy and NLL."""
    right = (result.labels == y).float().mean().item()
    return right, -result.log_prob(y).mean().item()


def best_possible(data: Dataset) -> dict[str, float]:
    """Accuracy and NLL of the true class probabilities on these points."""
    assert data.test is not None
    results = {}
    for part, (x, y) in {"train": data.train, "test": data.test}.items():
        truth = Categorical(true_log_probs(x)[None])
        results[f"{part}_accuracy"], results[f"{part}_nll"] = scores(truth, y)
    return results


def _scores(model: Model, data: Dataset) -> dict[str, Any]:
    assert data.test is not None
    results: dict[str, Any] = {}
    for part, (x, y) in {"train": data.train, "test": data.test}.items():
        prediction = says(model, x)
        results[f"{part}_accuracy"], results[f"{part}_nll"] = scores(prediction, y)
        alone = [scores(prediction.choose([m]), y) for m in range(model.members)]
        results[f"{part}_accuracy_of_members"] = [accuracy for accuracy, _ in alone]
        results[f"{part}_nll_of_members"] = [nll for _, nll in alone]
    return results


def _said(numbers: Mapping[str, Any]) -> str:
    good, best = numbers["corrected"], numbers["best_possible"]
    beyond = "better than" if good["train_nll"] < best["train_nll"] else "against those of"
    return (
        f"Training curves of the ensemble. Corrected: accuracy {good['train_accuracy']:.3f}, NLL "
        f"{good['train_nll']:.3f} on the training data, {beyond} the true probabilities "
        f"({best['train_accuracy']:.3f}, {best['train_nll']:.3f}); on fresh data NLL "
        f"{good['test_nll']:.3f} against {best['test_nll']:.3f}."
    )


def _against_best(runs: Sequence[tuple[Dataset, Model, Any]]) -> dict[str, Sample]:
    """Scores on the training data and on fresh ones, beside one network's and the best possible."""
    rows = [_row(*run) for run in runs]
    return {key: sample(row[key] for row in rows) for key in rows[0]}


def _row(data: Dataset, model: Model, fresh: tuple[Tensor, Tensor]) -> dict[str, float]:
    train_accuracy, train_nll = scores(says(model, data.train[0]), data.train[1])
    x, y = fresh
    prediction = says(model, x)
    accuracy, nll = scores(prediction, y)
    alone = [scores(prediction.choose([m]), y)[1] for m in range(model.members)]
    best, least = scores(Categorical(true_log_probs(x)[None]), y)
    return {
        "train_accuracy": train_accuracy,
        "train_nll": train_nll,
        "accuracy": accuracy,
        "nll": nll,
        "nll_of_one": sum(alone) / len(alone),
        "accuracy_short_of_best": best - accuracy,
        "nll_above_best": nll - least,
    }


def _comparisons(numbers: Mapping[str, Any]) -> list[Comparison]:
    rows = []
    steps = len(numbers["curves"]["faithful"]["nll"])
    own = numbers["printed_by_order"]
    for what, label in (("accuracy", "accuracy"), ("nll", "NLL")):
        values = own[f"train_{what}"]["values"]
        note = f"other orders of the points: {min(values):.4f} to {max(values):.4f}"
        name = f"training {label}, the practical's own run"
        rows.append(Comparison(name, PRINTED[what], values[0], note=note))
    for name in ("faithful", "corrected"):
        note = f"after {steps} steps; other random numbers"
        for what, label in (("accuracy", "accuracy"), ("nll", "NLL")):
            here = numbers[name][f"train_{what}"]
            rows.append(Comparison(f"training {label}, {name}", PRINTED[what], here, note=note))
        for what, label in (("accuracy", "accuracy"), ("nll", "NLL")):
            here = numbers[name][f"test_{what}"]
            rows.append(Comparison(f"{label} on fresh data, {name}", None, here))
    best = numbers["best_possible"]
    for part, where in (("train", "the training data"), ("test", "fresh data")):
        rows += [
            Comparison(f"best possible accuracy on {where}", None, best[f"{part}_accuracy"]),
            Comparison(f"best possible NLL on {where}", None, best[f"{part}_nll"]),
        ]
    return rows


def judge(numbers: Mapping[str, Any]) -> list[Claim]:
    """Whether both runs are good, by their stored scores on fresh data."""
    found = {
        way: {key: sample(one["values"]) for key, one in numbers[name].items()}
        for name, way in STORED.items()
    }
    gains = [(one["nll_of_one"] - one["nll"]) / one["nll_of_one"] for one in found.values()]
    above = [one["nll_above_best"] for one in found.values()]
    return [
        Claim(
            source="practical, section Ensembles",
            sentence="In practice, random initialization of the NN parameters θ and with random "
            "shuffling of the data points during training were found to be sufficient to obtain "
            "good performance.",
            facts=[
                one["accuracy_short_of_best"].fact(
                    "by how much the accuracy on fresh data falls short of the best possible, "
                    f"{way}",
                    below=0.01,
                    form=".2%",
                )
                for way, one in found.items()
            ],
            note="good: within a point of the true probabilities; the NLL is "
            f"{' and '.join(map(str, above))} above the best possible; gain by four networks, as a "
            f"share of the NLL of one, {' and '.join(map(str, gains))}",
        )
    ]


@with_look
def _curves(curves: Mapping[str, Curves], numbers: Mapping[str, Any]) -> Figure:
    best = numbers["best_possible"]
    title = "Both runs end beyond the best possible on the training data: they overfit"
    ended = [numbers[name]["train_nll"] for name in curves]
    if max(ended) > best["train_nll"]:
        title = "Training curves of the ensemble, faithful and corrected"
    figure, axes = panels(2, height=3.8, title=title)
    for axis, what in zip(axes, ("accuracy", "nll"), strict=True):
        for i, (name, curve) in enumerate(curves.items()):
            values = getattr(curve, what)
            look = line(i) | {"marker": ""}
            axis.plot(range(len(values)), values, label=f"{name} run", **look)
        axis.axhline(PRINTED[what], color="k", linestyle=":", label="printed in the practical")
        axis.axhline(best[f"train_{what}"], color=GRAY, linestyle="-.", label="true probabilities")
        axis.set_xlabel("epoch (one step on all points)")
    per_cent(axes[0].yaxis)
    axes[0].set_ylim(0.3, 1.0)
    axes[0].set_ylabel("training accuracy of the ensemble")
    axes[1].set_ylabel("training NLL of the ensemble in nats")
    axes[1].set_yscale("log")
    axes[1].set_yticks([0.1, 0.2, 0.5, 1.0], ["0.1", "0.2", "0.5", "1"])
    axes[1].minorticks_off()
    axes[1].legend(loc="upper right")
    return figure


@with_look
def maps(
    name: str, data: Dataset, result: Classification, grid: Tensor, settings: Settings
) -> Figure:
    """Data, decisions, and the three uncertainties on the square, with the true one."""
    from matplotlib.colors import ListedColormap

    base, unit = settings.base, settings.unit
    figure = Figure(figsize=(WIDTH + 1.2, 6.6), layout="constrained")
    axes = figure.subplots(2, 3).flat
    show_arms(axes[0], *data.train, "training data")
    arms: Any = {"cmap": ListedColormap(list(ARM_COLORS)), "vmax": ARMS - 1}
    show_map(figure, axes[1], result.labels.float(), "most probable arm", **arms)
    truth = Categorical(true_log_probs(grid)[None])
    exact = predictive_entropy(truth, base=base)
    exact[grid.norm(dim=1) > 1] = torch.nan
    total = predictive_entropy(result, base=base)
    top = float(total.max())
    show_map(figure, axes[2], exact, "true data uncertainty", bar=unit, top=top)
    show_map(figure, axes[3], total, "total uncertainty", bar=unit, top=top)
    parted = expected_entropy(result, base=base)
    show_map(figure, axes[4], parted, "data uncertainty", bar=unit, top=top)
    known = mutual_information(result, base=base)
    show_map(figure, axes[5], known, "knowledge uncertainty", bar=unit, top=top)
    sure = (total < 0.05 * top)[grid.norm(dim=1) > 1.2].float().mean().item()
    share = f"{100 * sure:.0f} % of the square beyond radius 1.2"
    add_title(figure, f"{name}: the ensemble is certain in {share}")
    return figure
