"""Part `recurrent`: tied dropout masks in recurrent networks, on sequences."""

from nescio.evaluation.compare import Absent
from nescio_papers.kit import Findings, Settings, absent, loaded
from nescio_papers.robust_deep_learning.recurrent_masks import PassMasks, masks_figure, masks_of
from nescio_papers.robust_deep_learning.recurrent_runs import (
    DEPTH,
    FULL,
    KINDS,
    NAIVE,
    SETS,
    SHARES,
    TOGETHER,
    VALIDATION,
    VARIATIONAL,
    WIDTH,
    KindOutcome,
    SequenceTask,
    outcome_of,
    task_of,
)
from nescio_papers.robust_deep_learning.recurrent_verdicts import (
    outcomes_figure,
    outcomes_table,
    words,
)

MASKS, OUTCOMES = "recurrent-masks.png", "recurrent-outcomes.png"
SHOWN = "japanese_vowels"  # whose masks are drawn
INTRODUCTION = (
    f"GRU networks of {DEPTH} layers of {WIDTH} units on three sets of sequences, with variational "
    "dropout (one mask per sequence for inputs, states and outputs), naive dropout (a new mask at "
    f"every step, none for states) and none; {FULL.seeds} seeds each, in one stack, with the same "
    "initial weights, orders and samples for all kinds. Each seed trains on another "
    f"{100 - 100 * VALIDATION:.0f} % of the training data; the rest says when to stop (after "
    "20 epochs without a better NLL, of GunPoint 80) and which share of units to drop, of "
    f"{' and '.join(f'{share:g}' for share in SHARES)}. Where there is a single channel, inputs "
    "are not dropped: a tied mask would erase the sequence. GunPoint is read with the mean of "
    f"every {TOGETHER} steps. Predictions are means over {FULL.passes} passes of MC dropout, from "
    "the last state. Intervals are those of the mean over seeds (95 %, Student's t), and "
    "differences are paired. The lengths of the training were raised once: in a first run "
    "(patience 20, at most 100 epochs) five variational networks on GunPoint were stopped "
    "before they had learned anything."
)


def run(settings: Settings) -> Findings:
    """All kinds of dropout on all sets, and the masks of a pass."""
    sets = {name: loaded(name) for name in SETS}
    missing = [one.why for one in sets.values() if isinstance(one, Absent)]
    if missing:
        return absent("A set of sequences", missing[0])
    tasks = {
        name: task_of(settings, name, one)
        for name, one in sets.items()
        if not isinstance(one, Absent)
    }
    found = {
        name: {kind: outcome_of(settings, task, kind) for kind in KINDS}
        for name, task in tasks.items()
    }
    masks = {
        kind: _masks(settings, tasks[SHOWN], kind, found[SHOWN][kind])
        for kind in (NAIVE, VARIATIONAL)
    }
    return Findings(
        numbers={
            **{
                name: {kind: one.numbers() for kind, one in kinds.items()}
                for name, kinds in found.items()
            },
            "masks": {kind: one.numbers() for kind, one in masks.items()},
        },
        figures={MASKS: masks_figure(masks, words(SHOWN)), OUTCOMES: outcomes_figure(found)},
        captions={
            MASKS: "Naive and variational dropout as the lecture draws them, from the masks that "
            "one pass of MC dropout drew for a trained network. Dashed: no dropout.",
            OUTCOMES: "NLL and error of the mean over passes on the test sequences: every seed "
            "(pale), the mean and its 95 % interval.",
        },
        text="\n\n".join([INTRODUCTION, outcomes_table(found)]),
    )


def _masks(settings: Settings, task: SequenceTask, kind: str, one: KindOutcome) -> PassMasks:
    return masks_of(
        one.model.member(0),
        kind,
        task.test[0][:1],
        seed=settings.seed,
        inputs=task.drops_inputs,
    )
