"""What is said of dropout in recurrent networks, judged on the shared sequences."""

import math
from collections.abc import Mapping
from typing import Any

from matplotlib.figure import Figure

from nescio.report.plots.look import COLORS, MARKERS, add_title, panels, with_look
from nescio_papers.kit import Claim, Fact, Sample, exactly, fact, sample, table
from nescio_papers.robust_deep_learning.recurrent_runs import (
    DEPTH,
    KINDS,
    NAIVE,
    NONE,
    VARIATIONAL,
    KindOutcome,
)
from nescio_papers.robust_deep_learning.stored_facts import number, over_seeds

FIGURE_1 = "lecture, and RNNs (figure 1 of Gal and Ghahramani, 2016b)"
FIGURES = "here, our own goal"
PAIRED = "paired by seed"
MOST = 2  # sets of three with a smaller NLL
MARGIN = 0.02  # of error: what is called no worse
LEARNED = 0.2  # error
READ = "read from the masks of a pass"
Found = Mapping[str, Mapping[str, KindOutcome]]  # by data set and kind
Numbers = Mapping[str, Any]


def judge(numbers: Numbers) -> list[Claim]:
    """All claims, in the order of the table."""
    if "absent" in numbers:
        return []
    sets = {name: one for name, one in numbers.items() if name != "masks"}
    return [
        tied(numbers.get("masks", {})),
        no_worse(sets),
        better(sets),
        overfits(sets),
        averages(sets),
    ]


def tied(masks: Mapping[str, Any]) -> Claim:
    """Are the masks of a real pass as the figure draws them?"""
    none = {"same_share": math.nan, "layers_with_dropped_states": math.nan}
    naive, variational = (masks.get(kind, none) for kind in (NAIVE, VARIATIONAL))
    states = "layers_with_dropped_states"
    return Claim(
        source=FIGURE_1,
        sentence="Naive dropout uses different masks at different time steps, with no dropout on "
        "the recurrent layers; the variational RNN uses the same dropout mask at each time step, "
        "including the recurrent layers.",
        facts=[
            exactly("naive: share of the steps with the masks of the first",
                    naive["same_share"], why=READ, below=0.5, form=".0%"),
            exactly("naive: layers with dropped states", naive[states], why=READ, below=0.5),
            exactly("variational: share of the steps with the masks of the first",
                    variational["same_share"], why=READ, above=0.999, form=".0%"),
            exactly("variational: layers with dropped states", variational[states], why=READ,
                    above=DEPTH - 0.5),
        ],
    )  # fmt: skip


def no_worse(sets: Numbers) -> Claim:
    """Is variational dropout no worse than naive dropout on every set?"""
    return Claim(
        source=FIGURES,
        sentence="Variational dropout is no worse than naive dropout on every shared set: by less "
        f"than {100 * MARGIN:g} points of error.",
        facts=[
            over_seeds(f"{words(name)}: error of variational less naive dropout",
                       _gap(one, "error", VARIATIONAL, NAIVE), below=MARGIN, form="+.2%")
            for name, one in sets.items()
        ],
        needs=[_learned(sets)],
        note=PAIRED,
    )  # fmt: skip


def better(sets: Numbers) -> Claim:
    """Is the NLL of variational dropout smaller on two of three sets?"""
    gains = {name: _gap(one, "nll", NAIVE, VARIATIONAL) for name, one in sets.items()}
    off = {name: _gap(one, "nll_dropout_off", NAIVE, VARIATIONAL) for name, one in sets.items()}
    ordered = sorted(gains, key=lambda name: gains[name].mean, reverse=True)
    place = min(MOST, len(ordered)) - 1
    kth = ordered[place]
    ends = [
        sorted((one.mean + sign * one.half for one in gains.values()), reverse=True)[place]
        for sign in (-1, 1)
    ]
    return Claim(
        source=FIGURES,
        sentence=f"Variational dropout is better in NLL than naive dropout on at least {MOST} of 3 "
        "sets.",
        facts=[
            fact(f"NLL of naive less variational dropout on the second best set, {words(kth)},",
                 gains[kth].mean, (ends[0], ends[1]), above=0, form="+.4f")
        ],
        needs=[_learned(sets)],
        note=f"{PAIRED}; all sets: {_all(gains)}; with dropout off: {_all(off)}",
    )  # fmt: skip


def overfits(sets: Numbers) -> Claim:
    """Is the gap between test and training data larger without dropout, and the NLL, too?"""
    return Claim(
        source="here",
        sentence="Recurrent networks overfit without dropout; variational dropout helps.",
        facts=[
            *(
                over_seeds(f"{words(name)}: gap without less with variational dropout",
                           _overfit(one), above=0, form="+.4f")
                for name, one in sets.items()
            ),
            *(
                over_seeds(f"{words(name)}: test NLL without less with variational dropout",
                           _gap(one, "nll", NONE, VARIATIONAL), above=0, form="+.4f")
                for name, one in sets.items()
            ),
        ],
        needs=[_learned(sets)],
        note=f"the gap is the test less the training NLL, dropout off; {PAIRED}; each network was "
        "stopped when it was best on validation samples",
    )  # fmt: skip


def averages(sets: Numbers) -> Claim:
    """Is the mean over passes better than dropout off?"""
    return Claim(
        source="here",
        sentence="The mean over passes (MC dropout) predicts better than one pass with dropout "
        "off.",
        facts=[
            over_seeds(f"{words(name)}: NLL with dropout off less that of the mean over passes",
                       _values(one, "nll_dropout_off") - _values(one, "nll"), above=0, form="+.4f")
            for name, one in ((name, kinds[VARIATIONAL]) for name, kinds in sets.items())
        ],
        needs=[_learned(sets)],
        note=f"variational dropout; {PAIRED}",
    )  # fmt: skip


def _learned(sets: Numbers) -> Fact:
    """Networks that know next to nothing test no claim."""
    worst = max(sets, key=lambda name: _values(sets[name][VARIATIONAL], "error").mean)
    return over_seeds(
        f"error with variational dropout on the hardest set, {words(worst)},",
        _values(sets[worst][VARIATIONAL], "error"),
        below=LEARNED,
        form=".1%",
    )


def _values(one: Mapping[str, Any], key: str) -> Sample:
    return sample(map(number, one[key]["values"]))


def _gap(one: Mapping[str, Any], key: str, first: str, second: str) -> Sample:
    """A number of one kind of dropout less that of another, seed by seed."""
    return _values(one[first], key) - _values(one[second], key)


def _overfit(one: Mapping[str, Any]) -> Sample:
    """How much larger the gap between test and training NLL is without dropout, by seed."""
    if any("training_nll" not in one[kind] for kind in (NONE, VARIATIONAL)):
        return sample([math.nan])  # of an older version
    without, with_it = (
        _values(one[kind], "nll_dropout_off") - _values(one[kind], "training_nll")
        for kind in (NONE, VARIATIONAL)
    )
    return without - with_it


def _all(gains: Mapping[str, Sample]) -> str:
    return "; ".join(f"{words(name)} {signed(gain)}" for name, gain in gains.items())


def words(name: str) -> str:
    """The name of a data set as it is read."""
    return name.replace("_", " ")


def signed(one: Sample) -> str:
    """A difference with its 95 % interval."""
    return f"{one.mean:+.3g} ± {one.half:.2g}"


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
