"""The hyper-parameter search of Ulmer and Cinà (2021), appendix B, tables 1 and 2.

The released code scored training data with the labels it trained on; this one scores the
negative log-likelihood of held-out points, under the mixture of all members.
"""

import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any

from nescio.core.registry import experiments
from nescio_papers.kit import Claim, Comparison, Experiment, Findings, Part, Settings, table
from nescio_papers.know_your_limits_search.searching import random_search
from nescio_papers.know_your_limits_search.trial import MODELS, Record, scores

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SOURCE = "Ulmer and Cinà (2021), Know your limits, appendix B"
TITLES = {
    "plain": "plain network",
    "mc_dropout": "MC dropout",
    "bayes_by_backprop": "Bayes-by-backprop",
}
PUBLISHED: Mapping[str, Mapping[str, Any]] = {  # table 1
    "plain": {"widths": [25] * 3, "dropout": 0.014552, "learning_rate": 0.000538},
    "mc_dropout": {"widths": [25] * 4, "dropout": 0.205046, "learning_rate": 0.000526},
}
STARTS = tuple(range(1000, 1005))  # fresh ones: no trial has used them
EPOCHS, POINT = 20, 0.01
Results = Mapping[str, Sequence[Record]]  # trials by model, the best first


@experiments.register
def know_your_limits_search() -> Experiment:
    """The hyper-parameter search on half-moons, with Bayes-by-backprop."""
    return Experiment(
        name="know-your-limits-search",
        title="Hyper-parameters for half-moons: 200 evaluations per model",
        source=SOURCE,
        needs="Optuna: pip install nescio[search]",
        parts=(Part("search", "Random search over table 2, beside table 1", search),),
    )


def search(settings: Settings) -> Findings:
    """Search for each of the three models, then compare with table 1."""
    folder = (settings.folder or Path(tempfile.mkdtemp())) / "search"
    trials, workers = (6, 1) if settings.quick else (200, 2)
    seed = settings.seed
    results = {
        model: random_search(
            model,
            folder / model,
            trials=trials,
            workers=workers,
            seed=seed,
            epochs=EPOCHS,
            engine=settings.engine,
        )
        for model in MODELS
    }
    return table_1(results, seed=seed)


def table_1(results: Results, *, seed: int) -> Findings:
    """Our best hyper-parameters beside the published ones, each judged again from fresh starts."""
    best = {model: records[0] for model, records in results.items()}
    again = {f"best {m}": _again(m, best[m]["parameters"], seed) for m in results}
    again |= {f"published {m}": _again(m, PUBLISHED[m], seed) for m in PUBLISHED}
    numbers = {
        "best": best,
        "five fresh starts": again,
        "trials": {model: len(records) for model, records in results.items()},
        "within a point of plain": _within(results),
        "trial seconds": {m: sum(r["seconds"] for r in records) for m, records in results.items()},
    }
    return Findings(
        numbers=numbers,
        figures={"search.png": _figure(results)},
        captions={"search.png": "Validation NLL of every trial; a ring marks the best"},
        comparisons=_comparisons(best, again),
        claims=[*(_claim_best(m, again) for m in PUBLISHED), _claim_bayes(results, again)],
        text=_text(best, again),
    )


def _again(model: str, parameters: Mapping[str, Any], seed: int) -> dict[str, float]:
    """Mean scores of one configuration over fresh starts."""
    result = scores(model, parameters, starts=STARTS, seed=seed, epochs=EPOCHS)
    return {name: fmean(one[name] for one in result) for name in ("nll", "accuracy", "information")}


def _within(results: Results) -> dict[str, int]:
    """How many trials have at most a point less accuracy than the best plain network."""
    least = results["plain"][0]["accuracy"] - POINT - 1e-9
    good = {m: [r for r in rows if (r["accuracy"] or 0) >= least] for m, rows in results.items()}
    return {model: len(rows) for model, rows in good.items()}


def _comparisons(best: Mapping[str, Record], again: Mapping[str, Any]) -> list[Comparison]:
    rows = []
    for model, theirs in PUBLISHED.items():
        own, name = best[model]["parameters"], TITLES[model]
        sizes = len(theirs["widths"]), len(own["widths"])
        widths = f"widths {theirs['widths']} and {own['widths']}"
        rows.append(Comparison(f"{name}: hidden layers", *sizes, note=widths))
        for key in ("dropout", "learning_rate"):
            words = f"{name}: {key.replace('_', ' ')}"
            rows.append(Comparison(words, theirs[key], own[key]))
        for key, word in {"nll": "NLL", "accuracy": "accuracy"}.items():
            there = f"mean of 5 starts; {again[f'published {model}'][key]:.4g} with table 1"
            ours = again[f"best {model}"][key]
            rows.append(Comparison(f"{name}: validation {word}", None, ours, note=there))
    return rows


def _text(best: Mapping[str, Record], again: Mapping[str, Any]) -> str:
    rows = []
    for model, record in best.items():
        rows.append([TITLES[model], "here", *_cells(record["parameters"], again[f"best {model}"])])
        if model in PUBLISHED:
            cells = _cells(PUBLISHED[model], again[f"published {model}"])
            rows.append([TITLES[model], "published", *cells])
    header = ["model", "table 1", "widths", "learning rate", "other", "NLL", "accuracy", "MI"]
    return "\n\n".join(
        [
            f"At most {EPOCHS} epochs of batches of 64, patience 5. Scores: mean over 5 fresh "
            "starts on the 250 validation points; MI is the largest mutual information in the "
            "plane, in nats.",
            table(header, rows),
        ]
    )


def _cells(parameters: Mapping[str, Any], result: Mapping[str, float]) -> list[str]:
    other = [
        f"{key.replace('_', ' ')} {value:.3g}"
        for key, value in parameters.items()
        if key not in ("widths", "learning_rate")
    ]
    return [
        str(parameters["widths"]),
        f"{parameters['learning_rate']:.3g}",
        ", ".join(other),
        f"{result['nll']:.4f}",
        f"{result['accuracy']:.1%}",
        f"{result['information']:.3f}",
    ]


def _claim_best(model: str, again: Mapping[str, Any]) -> Claim:
    ours, theirs = again[f"best {model}"], again[f"published {model}"]
    return Claim(
        f"{SOURCE}, table 1",
        f"Best hyperparameters found on the half-moon dataset ({TITLES[model]}).",
        f"validation NLL {theirs['nll']:.3f} and accuracy {theirs['accuracy']:.1%} with them, "
        f"{ours['nll']:.3f} and {ours['accuracy']:.1%} with the best found here",
        verdict="fails" if theirs["nll"] > ours["nll"] + 0.01 else "holds",
    )


def _claim_bayes(results: Results, again: Mapping[str, Any]) -> Claim:
    plain, bayes = results["plain"][0]["accuracy"], results["bayes_by_backprop"][0]["accuracy"]
    count, trials = _within(results)["bayes_by_backprop"], len(results["bayes_by_backprop"])
    result = again["best bayes_by_backprop"]
    return Claim(
        SOURCE,
        "A similar hyperparameter search for Bayes-by-backprop seemed to not have yielded a "
        "suitable configuration even after extensive search.",
        f"the best of {trials} has validation accuracy {bayes:.1%} ({result['accuracy']:.1%} from "
        f"fresh starts, largest mutual information {result['information']:.2f} nats), the plain "
        f"network {plain:.1%}; {count} of {trials} are within a point of it",
        verdict="fails" if count else "holds",
    )


def _figure(results: Results) -> "Figure":
    from nescio.report.plots.look import panels, with_look

    @with_look
    def draw() -> "Figure":
        title = "The published learning rates are far below the best ones"
        figure, axes = panels(len(results), height=4, title=title)
        whole = {m: [r for r in rows if r["nll"] is not None] for m, rows in results.items()}
        scores = [record["nll"] for records in whole.values() for record in records]
        for axis, (model, records) in zip(axes, whole.items(), strict=True):
            _scatter(axis, model, records)
            axis.set_ylim(0.7 * min(scores), 1.4 * max(scores))
        axes[0].set_ylabel("validation NLL in nats (log scale)")
        axes[-1].legend(title="hidden layers", loc="lower left", fontsize=9)
        return figure

    figure: Figure = draw()
    return figure


def _scatter(axis: Any, model: str, records: Sequence[Record]) -> None:
    from nescio.report.plots.look import COLORS, GRAY, MARKERS

    for layers in range(1, 6):
        own = [r for r in records if len(r["parameters"]["widths"]) == layers]
        look = {"color": COLORS[layers - 1], "marker": MARKERS[layers - 1], "label": str(layers)}
        rates = [r["parameters"]["learning_rate"] for r in own]
        axis.scatter(rates, [r["nll"] for r in own], s=18, alpha=0.7, linewidths=0, **look)
    best = records[0]
    index = best["parameters"]["learning_rate"], best["nll"]
    axis.scatter(*index, s=130, facecolors="none", edgecolors="black", linewidths=1.5)
    if model in PUBLISHED:
        axis.axvline(PUBLISHED[model]["learning_rate"], color=GRAY, linestyle="--", linewidth=1)
        axis.text(PUBLISHED[model]["learning_rate"], 0.02, " table 1", color=GRAY,
                  transform=axis.get_xaxis_transform())  # fmt: skip
    axis.set(xscale="log", yscale="log", xlabel="learning rate (log scale)", title=TITLES[model])
    axis.set_xlim(0.7e-4, 0.14)
