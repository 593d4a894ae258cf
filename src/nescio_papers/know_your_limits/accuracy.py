"""Part `models`: how well each half-moons model is trained, with both budgets."""

from collections.abc import Mapping
from functools import cache
from typing import Any

import numpy as np
import torch
from matplotlib.figure import Figure

from nescio.core import Categorical
from nescio.metrics import accuracy, auroc
from nescio.models.model import Model
from nescio.report.plots.look import COLORS, GRAY, MARKERS, add_title, per_cent, with_look
from nescio_papers.kit import (
    Claim,
    Comparison,
    Findings,
    Settings,
    between,
    percent,
)
from nescio_papers.know_your_limits.judging import ABSENT, of_number, over_trainings
from nescio_papers.know_your_limits.models import (
    BAYES,
    BUDGETS,
    DROPOUT,
    END,
    ENSEMBLE,
    PAPER,
    PLAIN,
    PLATT,
    Network,
    Pair,
    seeds,
    trained,
    world,
)

FIGURE = "accuracy.png"
BARRIER = 0.1  # nats: a loss that rises by more between two networks parts two modes
SEARCHED = {PLAIN: 0.950, DROPOUT: 0.970, BAYES: 0.936}  # best scores of the paper's own search


def models(settings: Settings) -> Findings:
    """Accuracy, NLL and AUROC on validation data for all models, seeds and both budgets."""
    numbers = quality(settings)
    plain = {budget: numbers[budget][PLAIN]["validation accuracy"]["mean"] for budget in BUDGETS}
    worst = _lowest(numbers)
    count = seeds(settings)
    caption = (
        f"Accuracy on the 250 validation points: mean and range of {count} trainings on the same "
        f"data. With the paper's budget of 20 epochs the plain network reaches "
        f"{percent(plain[PAPER])}, to the end {percent(plain[END])}; the other models reach at "
        f"least {percent(worst)}. The mixture prior is the one of the authors' code."
    )
    return Findings(
        numbers=numbers,
        figures={FIGURE: _figure(numbers)},
        captions={FIGURE: caption},
        comparisons=_comparisons(numbers),
        text=_text(numbers, count),
    )


@cache
def quality(settings: Settings) -> dict[str, Any]:
    """Numbers of each model by budget, each with mean, lowest and highest over trainings."""
    data = world(settings.seed)
    result: dict[str, Any] = {
        budget: {
            name: _scores(nets, data.train, data.validation, data.fresh)
            for name, nets in trained(settings, budget).items()
        }
        for budget in BUDGETS
    }
    for budget in BUDGETS:
        nets = trained(settings, budget)
        result[budget][PLATT]["slope"] = over_trainings([net.slope for net in nets[PLATT]])
    result["between two networks"] = {
        name: _over_halfway(trained(settings, END)[name], data.train)
        for name in (DROPOUT, BAYES, ENSEMBLE)
    }
    return result


def _scores(
    networks: tuple[Network, ...], train: Pair, validation: Pair, fresh: Pair
) -> dict[str, dict[str, float]]:
    rows = [_score(network, train, validation, fresh) for network in networks]
    return {key: over_trainings([row[key] for row in rows]) for key in rows[0]}


@torch.no_grad()
def _score(network: Network, train: Pair, validation: Pair, fresh: Pair) -> dict[str, float]:
    own, held, new = (network(x) for x, _ in (train, validation, fresh))
    gap = (held.log_probs[:, 1] - held.log_probs[:, 0]).numpy()  # orders as the probability does
    positive = validation[1].numpy() == 1
    return {
        "validation accuracy": accuracy(held.probs, validation[1]),
        "validation nll": float(-held.log_prob(validation[1]).mean()),
        "validation auroc": auroc(gap[~positive], gap[positive]),
        "fresh accuracy": accuracy(new.probs, fresh[1]),
        "fresh nll": float(-new.log_prob(fresh[1]).mean()),
        "balanced training accuracy": _balanced(own, train[1].numpy()),
    }


def _balanced(prediction: Categorical, labels: Any) -> float:
    """Mean accuracy of the classes: the AUROC of hard labels, which the paper reports."""
    right = prediction.labels.numpy() == labels
    return float(np.mean([right[labels == label].mean() for label in np.unique(labels)]))


def _over_halfway(networks: tuple[Network, ...], data: Pair) -> dict[str, dict[str, Any]]:
    rows = [_halfway(network, data) for network in networks]
    return {key: over_trainings([row[key] for row in rows]) for key in rows[0]}


@torch.no_grad()
def _halfway(network: Network, data: Pair) -> dict[str, float]:
    """Loss of single networks, and of those halfway between two: high means different modes."""
    tensors = network.model.tensors
    middle = {name: (t[:-1] + t[1:]) / 2 for name, t in tensors.items()}
    halfway = Network(Model(network.model.net, middle, network.model.head))
    ends, between_ = (
        float(
            -Categorical(net.logits(data[0].double()))
            .member_log_probs.gather(-1, data[1].expand(net.model.members, -1)[..., None])
            .mean()
        )
        for net in (network, halfway)
    )
    return {"nll of one": ends, "nll halfway between two": between_, "rise": between_ - ends}


def _text(numbers: dict[str, Any], count: int) -> str:
    rows = ["| model | budget | validation accuracy | validation NLL | AUROC | fresh accuracy |"]
    rows.append("|---|---|---|---|---|---|")
    for name in numbers[END]:
        for budget in BUDGETS:
            row = numbers[budget][name]
            cells = [
                between(row["validation accuracy"]),
                between(row["validation nll"]),
                between(row["validation auroc"], ".4f"),
                between(row["fresh accuracy"], ".4f"),
            ]
            rows.append(f"| {name} | {budget} | {' | '.join(cells)} |")
    about = (
        f"Mean, and in brackets lowest and highest, of {count} trainings on the same 500 points. "
        "The plain network is the first member of the ensemble. AUROC is that of the class "
        "probability on validation data; the paper's is that of hard labels on training data. "
        "Patience and Platt scaling look at the validation points; the 2000 fresh points are "
        "untouched. The paper's budget is 20 epochs, 160 steps, at its own rates; it names none "
        "for Bayes by backprop, which has 0.01 in both. NLL in nats. Where all validation points "
        "are right, no slope of Platt scaling is best; then Platt's smoothed targets are used."
    )
    return about + "\n\n" + "\n".join(rows)


def _lowest(numbers: dict[str, Any]) -> float:
    """The lowest mean accuracy of a model that is trained to the end."""
    return min(float(row["validation accuracy"]["mean"]) for row in numbers[END].values())


def _comparisons(numbers: dict[str, Any]) -> list[Comparison]:
    note = "their score is the balanced accuracy on training data; here with the paper's budget"
    own = {DROPOUT: "; theirs is the best of their search, with a rate of 0.0065, not 0.205"}
    return [
        Comparison(
            f"{name}: balanced training accuracy",
            value,
            numbers[PAPER][name]["balanced training accuracy"]["mean"],
            note=note + own.get(name, ""),
        )
        for name, value in SEARCHED.items()
    ]


def model_claims(numbers: Mapping[str, Any]) -> list[Claim]:
    """What the paper says about modes of the posterior."""
    modes = numbers["between two networks"]
    what = "rise of the training NLL halfway between the weights of two networks"
    return [
        Claim(
            source="Ulmer and Cinà, section 6",
            sentence="Variational methods tend to only explore a single mode of the weight "
            "posterior, while ensemble members often spread across multiple modes.",
            facts=[
                *(
                    of_number(f"{what} ({name})", modes[name].get("rise", ABSENT), below=BARRIER)
                    for name in (DROPOUT, BAYES)
                ),
                of_number(
                    f"{what} ({ENSEMBLE})", modes[ENSEMBLE].get("rise", ABSENT), above=BARRIER
                ),
            ],
        ),
    ]


@with_look
def _figure(numbers: dict[str, Any]) -> Figure:
    names = list(numbers[END])
    figure = Figure(figsize=(10.8, 5), layout="constrained")
    axis = figure.subplots()
    for i, budget in enumerate(BUDGETS):
        for row, name in enumerate(reversed(names)):
            result = numbers[budget][name]["validation accuracy"]
            height = row + 0.15 - 0.3 * i
            axis.plot([result["low"], result["high"]], [height] * 2, color=COLORS[i], linewidth=3)
            axis.plot(
                result["mean"],
                height,
                color=COLORS[i],
                marker=MARKERS[i],
                markersize=9,
                linestyle="",
                label=budget if row == 0 else None,
            )
    best = max(numbers[END][name]["validation accuracy"]["mean"] for name in names)
    axis.axvline(best - 0.01, color=GRAY, linestyle=":", label="one point below the best")
    axis.set_yticks(range(len(names)), list(reversed(names)))
    axis.set(
        xlabel="accuracy on 250 validation points: mean and range over trainings",
        xlim=(None, 1.005),
    )
    per_cent(axis.xaxis)
    figure.legend(loc="outside lower center", ncols=3)
    add_title(
        figure,
        "Twenty epochs at the paper's rates are too few; trained to the end, every model is right "
        f"on at least {percent(_lowest(numbers))} of the points",
    )
    return figure
