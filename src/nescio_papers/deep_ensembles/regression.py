"""The cubic by an ensemble of six: the practical's run, quirks and all, beside a corrected one."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor

from nescio import losses
from nescio.core import Gaussian, Regression
from nescio.data import Dataset, cubic
from nescio.metrics import auroc
from nescio.report.plots.look import COLORS, GRAY, WIDTH, add_title, with_look
from nescio_papers.deep_ensembles import quirks
from nescio_papers.deep_ensembles.cubic_world import (
    EDGE,
    NOISE,
    WIDTHS,
    Regressor,
    cubic_held_out,
    cubic_runs,
    regressor,
    strip,
    training_steps,
)
from nescio_papers.deep_ensembles.printed_runs import FINAL, INITIAL, STEADY, cubic_printed
from nescio_papers.deep_ensembles.worlds import BY_SEED, OWN, seeds, train
from nescio_papers.kit import Claim, Comparison, Fact, Findings, Sample, Settings, judged, sample

TEXT = """\
Six networks 1-10-6-30-2, 600 steps on all 40 points. *Faithful*: Adam's step index stays 0
(its steps are up to twice too long at first and half the nominal rate at the end), rate 0.08,
softplus is the standard deviation, initial weights N(0, 1) times a scale |N(0, 0.1)| of each
network; the data and the initial weights are the practical's own, from NumPy's and JAX's
generators. Four of the six networks end at the printed losses to four digits; the other two amplify
how sums are rounded, so the run is repeated with the points in other orders. *Corrected*: ordinary
Adam, rate 0.02 with a warm-up and a cosine, softplus is the variance, PyTorch's initial weights,
and targets in units of their training deviation, without which 600 smaller steps do not reach the
cubic."""
ANSWER = "practical, regression answer"


@dataclass(frozen=True)
class Seen:
    """How an ensemble does on fresh data and beyond the data."""

    nll: float
    error: float
    noise: float
    noise_off: float
    spread: float
    spread_off: float


def run(settings: Settings) -> Findings:
    """Both runs, their panels, and what a single network and an ensemble know beyond the data."""
    repeats = seeds(settings, 2 if settings.quick else 10)
    data = cubic(seed=repeats[0])
    own = cubic_printed(settings)
    strange = [faithful(cubic(seed=seed), seed) for seed in repeats]
    steps = training_steps(settings)
    pair = {"faithful": own[0][1], "corrected": regressor(data, steps=steps, seed=repeats[0])}
    numbers: dict[str, Any] = {
        name: {**ends([result]), **vars(seen(result, repeats[0]))} for name, result in pair.items()
    }
    numbers["faithful_by_order"] = ends([result for _, result in own])
    numbers["faithful_over_seeds"] = ends(strange)
    beyond = {
        OWN: beyond_the_data([result for _, result in own]),
        BY_SEED: beyond_the_data([result for _, result in cubic_runs(settings)]),
    }
    for name, way in (("faithful_by_order", OWN), ("corrected_over_seeds", BY_SEED)):
        found = {key: one.numbers() for key, one in beyond[way].items()}
        numbers[name] = {**numbers.get(name, {}), **found}
    return Findings(
        numbers=numbers,
        figures={
            "regression-faithful.png": _panels(own[0][0], pair["faithful"], quirk=True),
            "regression-corrected.png": _panels(data, pair["corrected"], quirk=False),
        },
        captions=_captions(numbers),
        comparisons=_comparisons(numbers),
        claims=judged(settings, _claims(beyond)),
        text=TEXT,
    )


def ends(results: Sequence[Regressor]) -> dict[str, list[float]]:
    """The losses of all networks at the first and at the last step."""
    first, last = (
        [loss for result in results for loss in result.losses()[step].tolist()] for step in (0, -1)
    )
    return {"initial_losses": first, "final_losses": last}


def _captions(numbers: Any) -> dict[str, str]:
    good, bad = numbers["corrected"], numbers["faithful"]
    return {
        "regression-faithful.png": "The practical's own run. The members' bands are the square "
        "root of the standard deviation, as the practical draws them: far too narrow. The "
        f"ensemble's band is right, and shows {bad['noise']:.3g} for a noise of 3 on the data.",
        "regression-corrected.png": "Corrected, all bands one standard deviation. The mean is "
        f"within {good['error']:.2g} of the truth on the data; beyond it the members' spread grows "
        f"from {good['spread']:.2g} to {good['spread_off']:.2g}, far less than the error.",
    }


def faithful(data: Dataset, seed: int, steps: int = 600) -> Regressor:
    """Six networks trained as in the practical."""
    model = train(
        quirks.scaled_normal(1, 2, WIDTHS),
        data.train,
        loss=losses.nll(quirks.deviation_head()),
        members=6,
        epochs=steps,
        batch_size=None,
        learning_rate=0.08,
        schedule=quirks.frozen_adam,
        seed=seed,
    )
    return Regressor(model)


def seen(result: Regressor, seed: int) -> Seen:
    """Scores on fresh data, and mean deviations on the data and from there to |x| = 6."""
    x, y = cubic_held_out(seed)
    fresh, on, off = result(x), result(strip(0, EDGE)), result(strip(EDGE, 6))
    return Seen(
        nll=-fresh.log_prob(y).mean().item(),
        error=(fresh.mixture_mean - x**3).square().mean().sqrt().item(),
        noise=on.aleatoric.sqrt().mean().item(),
        noise_off=off.aleatoric.sqrt().mean().item(),
        spread=on.epistemic.sqrt().mean().item(),
        spread_off=off.epistemic.sqrt().mean().item(),
    )


def covered(result: Regression, truth: Tensor) -> float:
    """Share of fresh targets within two deviations of each member, exactly, over the noise."""
    deviation = result.member_variance.sqrt()
    noise = torch.distributions.Normal(truth, NOISE)
    in_dist: Tensor = noise.cdf(result.mean + 2 * deviation) - noise.cdf(
        result.mean - 2 * deviation
    )
    return in_dist.mean().item()


def single(result: Regression) -> Regression:
    """The mixture as one normal density with its mean and variance, as the practical reads it."""
    return Gaussian(result.mixture_mean[None], result.mixture_variance[None])


def beyond_the_data(results: Sequence[Regressor]) -> dict[str, Sample]:
    """What single networks and ensembles say on and off the data, over several runs."""
    rows = [_row(result) for result in results]
    return {name: sample(row[name] for row in rows) for name in rows[0]}


def _row(result: Regressor) -> dict[str, float]:
    x, just, off = strip(0, EDGE), strip(EDGE, 4.5), strip(EDGE, 6)
    on_data, beyond = result(x), result(off)
    in_dist, ood = (p.mixture_variance.flatten().numpy() for p in (on_data, beyond))
    noise = on_data.member_variance.sqrt().mean((1, 2))
    return {
        "single_covered_on": covered(on_data, x**3),
        "single_covered_just_off": covered(result(just), just**3),
        "single_covered_off": covered(beyond, off**3),
        "ensemble_covered_on": covered(single(on_data), x**3),
        "ensemble_covered_just_off": covered(single(result(just)), just**3),
        "ensemble_covered_off": covered(single(beyond), off**3),
        "single_noise_on": noise.mean().item(),
        "single_noise_wrong_by": (noise / NOISE - 1).abs().mean().item(),
        "single_noise_off": beyond.member_variance.sqrt().mean().item(),
        "spread_on": on_data.epistemic.sqrt().mean().item(),
        "spread_off": beyond.epistemic.sqrt().mean().item(),
        "disagreement_share_off": (beyond.epistemic / beyond.mixture_variance).mean().item(),
        "error_off": (beyond.mixture_mean - off**3).abs().mean().item(),
        "auroc_off": auroc(in_dist, ood),
    }


def _comparisons(numbers: Any) -> list[Comparison]:
    ours, good = numbers["faithful"], numbers["corrected"]
    rows = []
    for step, printed in (("initial", INITIAL), ("final", FINAL)):
        for member, (theirs, mine) in enumerate(zip(printed, ours[f"{step}_losses"], strict=True)):
            steady = step == "initial" or member in STEADY
            note = "" if steady else "this network amplifies rounding"
            rows.append(Comparison(f"{step} loss, network {member}", theirs, mine, note=note))
    last = numbers["faithful_over_seeds"]["final_losses"]
    count = f"faithful with other random numbers, {len(last)} networks"
    worst = "the noise alone costs 2.518; below it is overfitting"
    return [
        *rows,
        Comparison("final loss, median of the networks", median(FINAL), median(last), note=count),
        Comparison(
            "final loss, corrected, median of six", None, median(good["final_losses"]), note=worst
        ),
        Comparison("NLL on fresh data, faithful ensemble", None, ours["nll"]),
        Comparison("NLL on fresh data, corrected ensemble", None, good["nll"]),
        Comparison(
            "error against x^3 on the data, faithful", None, ours["error"], note="root mean square"
        ),
        Comparison(
            "error against x^3 on the data, corrected", None, good["error"], note="the noise is 3"
        ),
    ]


def _claims(found: Mapping[str, Mapping[str, Sample]]) -> list[Claim]:
    seeded = found[BY_SEED]
    return [
        Claim(
            source=f"{ANSWER} 1",
            sentence="A single network trained with standard NLL often produces overconfident "
            "uncertainty estimates (very low variance) in regions slightly off the data manifold.",
            facts=[
                one["single_covered_just_off"].fact(
                    "share of fresh targets within two deviations of a single network for |x| from "
                    f"4 to 4.5 (0.954 is right), {way}",
                    below=0.8,
                )
                for way, one in found.items()
            ],
            note=f"on the data {seeded['single_covered_on']} over the seeds; the practical's own "
            f"networks hardly fit: their noise on the data is {found[OWN]['single_noise_on']} for "
            "a true 3",
        ),
        Claim(
            source=f"{ANSWER} 2",
            sentence="A single network can only reliably capture aleatoric uncertainty (noise in "
            "the data).",
            facts=[
                *(
                    one["single_noise_wrong_by"].fact(
                        f"by what share of the true noise a network's is wrong on the data, {way}",
                        below=0.1,
                    )
                    for way, one in found.items()
                ),
                seeded["single_covered_off"].fact(
                    "only that: share of fresh targets within two deviations of a single network "
                    f"for |x| from 4 to 6, {BY_SEED}",
                    below=0.8,
                ),
            ],
            note=f"noise on the data {seeded['single_noise_on']} over the seeds, for a true 3",
        ),
        Claim(
            source=f"{ANSWER} 2",
            sentence="While they may agree on the training data, they will disagree wildly in OOD "
            "regions.",
            facts=[*_agreeing(OWN, found[OWN]), *_agreeing(BY_SEED, seeded)],
            note=f"beyond the data their mean is wrong by {seeded['error_off']} over the seeds: "
            "they disagree more, and are wrong together",
        ),
        Claim(
            source=f"{ANSWER} 2",
            sentence="This disagreement leads to a high variance in the mixture distribution, "
            "effectively flagging unknown regions.",
            facts=[*_flagging(OWN, found[OWN]), *_flagging(BY_SEED, seeded)],
            note=f"two deviations of the ensemble cover {seeded['ensemble_covered_off']} of fresh "
            "targets there, over the seeds",
        ),
    ]


def _agreeing(way: str, one: Mapping[str, Sample]) -> list[Fact]:
    """Less than the noise apart on the data, and five times further beyond it."""
    return [
        one["spread_on"].fact(f"spread of the members' means on the data, {way}", below=NOISE),
        (one["spread_off"] / one["spread_on"]).fact(
            f"spread for |x| from 4 to 6 over that on the data (wildly: five times), {way}", above=5
        ),
    ]


def _flagging(way: str, one: Mapping[str, Sample]) -> list[Fact]:
    """Disagreement is most of the variance, and the variance tells the regions apart."""
    return [
        one["disagreement_share_off"].fact(
            f"share of the mixture's variance for |x| from 4 to 6 that is disagreement, {way}",
            above=0.5,
        ),
        one["auroc_off"].fact(
            f"AUROC of the mixture's variance, beyond the data against on it, {way}", above=0.9
        ),
    ]


@with_look
def _panels(data: Dataset, result: Regressor, *, quirk: bool) -> Figure:
    figure = Figure(figsize=(WIDTH + 2.4, 7.2), layout="constrained")
    halves: Any = figure.subfigures(1, 2, width_ratios=(1, 1.15), wspace=0.03)
    left, right = halves
    x = torch.linspace(-6, 6, 241)[:, None]
    answer = result(x)
    for member, axis in enumerate(left.subplots(3, 2, sharex=True, sharey=True).flat):
        one = answer.choose([member])
        deviation = one.member_variance[0].sqrt()
        _panel(axis, data, x, one.mean[0], deviation.sqrt() if quirk else deviation)
        axis.set_title(f"network {member + 1}", loc="left")
        axis.label_outer()
    axis = right.subplots(1, 1)
    _panel(axis, data, x, answer.mixture_mean, answer.mixture_variance.sqrt())
    axis.set_title("all six as one mixture: mean ± 1 standard deviation", loc="left")
    axis.legend(loc="upper left")
    band = "± √deviation, as drawn in the practical: wrong" if quirk else "± 1 standard deviation"
    left.suptitle(f"single networks, band {band}", fontsize=11, fontweight="normal")
    name = "The practical's own run" if quirk else "Corrected"
    fits = (
        "poor fits of the cubic, bands of any width" if quirk else "a good fit, but not beyond ±4"
    )
    add_title(figure, f"{name}: {fits}")
    return figure


def _panel(axis: Axes, data: Dataset, x: Tensor, mean: Tensor, deviation: Tensor) -> None:
    line, low, high = (t.flatten().numpy() for t in (mean, mean - deviation, mean + deviation))
    grid = x.flatten().numpy()
    axis.axvspan(-EDGE, EDGE, color="#f2f2f2", zorder=0)
    axis.fill_between(grid, low, high, color=COLORS[6], alpha=0.5, label="band")
    axis.plot(grid, grid**3, color=GRAY, linestyle="--", label="truth $x^3$")
    axis.plot(grid, line, color=COLORS[0], linewidth=2, label="mean")
    points, targets = (t.flatten().numpy() for t in data.train)
    axis.plot(points, targets, "o", color=COLORS[1], markersize=3, label="40 data points")
    axis.set_ylim(-300, 300)
    axis.set_xlim(-6, 6)
    axis.set_xticks(range(-6, 7, 2))
    axis.set_xlabel("x")
    axis.set_ylabel("y")
