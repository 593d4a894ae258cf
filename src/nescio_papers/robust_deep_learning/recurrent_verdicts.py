"""What is said of dropout in recurrent networks, judged on the shared sequences."""

from collections.abc import Mapping

from matplotlib.figure import Figure

from nescio.report.plots.look import COLORS, MARKERS, add_title, panels, with_look
from nescio_papers.kit import Claim, Sample, table, verdict, verdict_of
from nescio_papers.robust_deep_learning.recurrent_masks import PassMasks
from nescio_papers.robust_deep_learning.recurrent_runs import (
    KINDS,
    NAIVE,
    NONE,
    VARIATIONAL,
    KindOutcome,
)

PAPER = "Gal and Ghahramani (2016b), as in the lecture"
FIGURE_1 = "lecture, and RNNs (figure 1 of Gal and Ghahramani, 2016b)"
FIGURES = "our own goal"
MOST = 2  # sets of three with a smaller NLL
Found = Mapping[str, Mapping[str, KindOutcome]]  # by data set and kind


def claims_of(found: Found, masks: Mapping[str, PassMasks]) -> list[Claim]:
    """All claims, in the order of the table."""
    return [
        tied(masks),
        no_worse(found),
        better(found),
        overfits(found),
        averages(found),
    ]


def tied(masks: Mapping[str, PassMasks]) -> Claim:
    """Are the masks of a real pass as the figure draws them?"""
    same = {kind: one.same_share() for kind, one in masks.items()}
    dropped = {kind: any(m is not None for m in one.states) for kind, one in masks.items()}
    said = "; ".join(
        f"{kind}: {100 * same[kind]:.0f} % of the steps have the masks of the first, states are "
        f"{'dropped' if dropped[kind] else 'not dropped'}"
        for kind in masks
    )
    return Claim(
        FIGURE_1,
        "Naive dropout uses different masks at different time steps, with no dropout on the "
        "recurrent layers; the variational RNN uses the same dropout mask at each time step, "
        "including the recurrent layers.",
        f"the masks of a pass, read from the run: {said}",
        verdict=verdict_of(
            same[VARIATIONAL] == 1.0,
            same[NAIVE] < 1.0,
            dropped[VARIATIONAL] and not dropped[NAIVE],
        ),
    )


def no_worse(found: Found) -> Claim:
    """Is variational dropout no worse than naive dropout on every set, within the interval?"""
    errors = {name: one[VARIATIONAL].errors - one[NAIVE].errors for name, one in found.items()}
    losses = {name: one[VARIATIONAL].nll - one[NAIVE].nll for name, one in found.items()}
    said = "; ".join(
        f"{words(name)}: error {signed(errors[name], 100)} %, NLL {signed(losses[name])}"
        for name in found
    )
    fine = [not (errors[name].above or losses[name].above) for name in found]
    return Claim(
        FIGURES,
        "Variational dropout is no worse than naive dropout on every shared set, within the "
        "interval.",
        f"variational minus naive, paired over seeds: {said}",
        verdict=verdict(all(fine), any(fine)),
    )


def better(found: Found) -> Claim:
    """Is the NLL of variational dropout smaller on two of three sets?"""
    gains = {name: one[NAIVE].nll - one[VARIATIONAL].nll for name, one in found.items()}
    clear = [name for name, gain in gains.items() if gain.above]
    said = "; ".join(f"{words(name)} {signed(gain)}" for name, gain in gains.items())
    off = "; ".join(
        f"{words(name)} {signed(one[NAIVE].off - one[VARIATIONAL].off)}"
        for name, one in found.items()
    )
    return Claim(
        FIGURES,
        f"Variational dropout is better in NLL than naive dropout on at least {MOST} of 3 sets.",
        f"naive minus variational, paired over seeds: {said}; clearly better on {len(clear)} (with "
        f"dropout off: {off})",
        verdict=verdict(len(clear) >= MOST, clear),
    )


def overfits(found: Found) -> Claim:
    """Is the NLL without dropout larger?"""
    gains = {name: one[NONE].nll - one[VARIATIONAL].nll for name, one in found.items()}
    said = "; ".join(f"{words(name)} {signed(gain)}" for name, gain in gains.items())
    return Claim(
        PAPER,
        "Recurrent networks overfit without dropout; variational dropout helps.",
        f"NLL without dropout minus with variational dropout, paired over seeds, each stopped "
        f"when it was best: {said}",
        verdict=verdict_of(*(gain.above for gain in gains.values())),
    )


def averages(found: Found) -> Claim:
    """Is the mean over passes better than dropout off?"""
    gains = {name: one[VARIATIONAL].off - one[VARIATIONAL].nll for name, one in found.items()}
    said = "; ".join(f"{words(name)} {signed(gain)}" for name, gain in gains.items())
    return Claim(
        PAPER,
        "The mean over passes (MC dropout) predicts better than one pass with dropout off.",
        f"NLL with dropout off minus NLL of the mean, variational, paired over seeds: {said}",
        verdict=verdict_of(*(gain.above for gain in gains.values())),
    )


def words(name: str) -> str:
    """The name of a data set as it is read."""
    return name.replace("_", " ")


def signed(one: Sample, factor: float = 1.0) -> str:
    """A difference with its 95 % interval."""
    return f"{factor * one.mean:+.3g} ± {factor * one.half:.2g}"


def outcomes_table(found: Found) -> str:
    """All kinds on all sets."""
    rows = [
        [
            words(name),
            kind,
            f"{one.share:g}",
            f"{one.epochs.mean:.0f}",
            f"{100 * one.errors.mean:.2f} ± {100 * one.errors.half:.2f}",
            str(one.nll),
            str(one.off),
            str(one.failure_auroc),
        ]
        for name, kinds in found.items()
        for kind, one in kinds.items()
    ]
    head = ["data", "dropout", "dropped", "best epoch", "error, %", "NLL", "NLL, dropout off"]
    return table([*head, "AUROC of errors by entropy"], rows)


@with_look
def outcomes_figure(found: Found) -> Figure:
    """NLL and error of every seed, with the mean and its interval."""
    title = "Recurrent networks: what three kinds of dropout give on test sequences, by seed"
    figure, axes = panels(2 * len(found), height=2.6, title=title, columns=len(found))
    for index, (name, kinds) in enumerate(found.items()):
        for axis, part, unit in (
            (axes[index], "nll", "NLL, nats"),
            (axes[len(found) + index], "errors", "error, %"),
        ):
            for row, kind in enumerate(KINDS):
                factor = 100 if part == "errors" else 1
                one: Sample = getattr(kinds[kind], part)
                values = [factor * value for value in one.values]
                axis.plot(values, [row - 0.15] * len(values), MARKERS[row], color=COLORS[row],
                          markersize=4, alpha=0.5)  # fmt: skip
                axis.errorbar([factor * one.mean], [row + 0.15], xerr=[factor * one.half],
                              fmt=MARKERS[row], color=COLORS[row], capsize=3)  # fmt: skip
            axis.set_yticks(range(len(KINDS)), list(KINDS))
            axis.set_ylim(len(KINDS) - 0.5, -0.5)
            axis.set_xlabel(unit)
            axis.set_title(words(name), loc="left")
    add_title(figure, title)
    return figure
