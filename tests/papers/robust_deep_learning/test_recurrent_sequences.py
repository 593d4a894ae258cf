"""Recurrent networks: the masks of a run, and a quick run on made-up sequences."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from nescio import nets
from nescio_papers import Settings, named, run_experiment
from nescio_papers.kit import numbers_of
from nescio_papers.robust_deep_learning import recurrent_runs, recurrent_verdicts
from nescio_papers.robust_deep_learning.recurrent_masks import masks_of
from nescio_papers.robust_deep_learning.recurrent_runs import (
    KINDS,
    NAIVE,
    NONE,
    VARIATIONAL,
    averaged,
)

QUICKLY = Settings(quick=True)
SHAPES = {"JapaneseVowels": (3, 8, 9), "GunPoint": (1, 12, 2), "ItalyPowerDemand": (1, 6, 2)}


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    data, folder = tmp_path_factory.mktemp("data"), tmp_path_factory.mktemp("recurrent")
    (data / "sequences").mkdir()
    draws = np.random.default_rng(0)
    for stem, shape in SHAPES.items():
        for part in ("TRAIN", "TEST"):
            rows = [line(draws, index, *shape) for index in range(20)]
            text = "\n".join(["@data", *rows])
            (data / "sequences" / f"{stem}_{part}.ts").write_text(text)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("NESCIO_DATA", str(data))
        part = {"settings": QUICKLY, "only": ["recurrent"], "show": False}
        page = run_experiment(named("robust-deep-learning"), folder, **part)
        yield folder, page.read_text()


def line(draws, index, channels, length, classes):
    """A sample; where there are several channels, every second one is shorter."""
    steps = draws.normal(size=(channels, length - (index % 2 if channels > 1 else 0)))
    return ":".join([*(",".join(f"{v:.3f}" for v in one) for one in steps), str(index % classes)])


def test_a_quick_run_writes_the_pictures_and_leaves_claims_open(run):
    folder, text = run
    names = {"recurrent-masks.png", "recurrent-outcomes.png"}
    assert {path.name for path in folder.iterdir()} >= names
    claims = text[text.index("## What the source says") :]
    assert claims.count("| open |") == 5
    numbers = numbers_of(replace(QUICKLY, folder=folder), "recurrent")
    assert set(numbers) == {*recurrent_runs.SETS, "masks"}
    assert numbers.pop("masks")[VARIATIONAL] == {"same_share": 1, "layers_with_dropped_states": 2}
    for kinds in numbers.values():
        assert list(kinds) == list(KINDS)
        assert kinds[NONE]["share"] == 0
        assert kinds[NONE]["nll"] == kinds[NONE]["nll_dropout_off"]
        assert len(kinds[VARIATIONAL]["nll"]["values"]) == recurrent_runs.QUICK.seeds
        assert len(kinds[NAIVE]["training_nll"]["values"]) == recurrent_runs.QUICK.seeds


@pytest.mark.parametrize("inputs", [True, False])
def test_masks_are_those_of_a_pass(inputs):
    x = torch.ones(1, 4, 10)
    found = {}
    for kind in (NAIVE, VARIATIONAL):
        share = None if inputs else 0.0
        net = nets.gru(
            (4, 10), 2, width=32, depth=2, dropout=0.5, dropout_kind=kind, input_dropout=share
        )
        found[kind] = masks_of(net, kind, x, seed=0, inputs=inputs)
        assert (found[kind].inputs[0] is not None) == inputs
    assert found[VARIATIONAL].same_share() == 1
    assert found[NAIVE].same_share() < 0.5
    assert found[NAIVE].states == (None, None)
    numbers = {kind: one.numbers() for kind, one in found.items()}
    assert recurrent_verdicts.tied(numbers).verdict == "holds"
    turned = {NAIVE: numbers[VARIATIONAL], VARIATIONAL: numbers[NAIVE]}
    assert recurrent_verdicts.tied(turned).verdict == "does not hold"
    assert recurrent_verdicts.tied({}).verdict == "open"


def outcome(*losses, off=0.0, fitted=0.0):
    """Numbers by seed; errors are those of the losses, over ten."""
    rows = {
        "error": [one / 10 for one in losses],
        "nll": losses,
        "nll_dropout_off": [one + off for one in losses],
        "training_nll": [one - fitted * (1 + 0.01 * k) for k, one in enumerate(losses)],
    }
    return {name: {"values": list(values)} for name, values in rows.items()}


GOOD = outcome(0.1, 0.2, 0.3)
BAD = outcome(0.31, 0.4, 0.52, fitted=0.5)


def sets(**kinds):
    return {name: {VARIATIONAL: GOOD, NAIVE: BAD, NONE: BAD} | kinds for name in "abc"}


def test_dropout_is_compared_seed_by_seed():
    assert recurrent_verdicts.better(sets()).verdict == "holds"
    turned = sets(**{VARIATIONAL: BAD, NAIVE: GOOD})
    assert recurrent_verdicts.better(turned).verdict == "does not hold"
    one = {**turned, "a": sets()["a"]}
    assert recurrent_verdicts.better(one).verdict == "does not hold"  # two sets are asked for
    two = {**one, "b": sets()["a"]}
    assert recurrent_verdicts.better(two).verdict == "holds"


def test_no_worse_needs_an_interval_within_the_margin():
    assert recurrent_verdicts.no_worse(sets()).verdict == "holds"
    worse = sets(**{VARIATIONAL: outcome(0.9, 1.0, 1.1), NAIVE: outcome(0.1, 0.21, 0.3)})
    assert recurrent_verdicts.no_worse(worse).verdict == "does not hold"
    wide = sets(**{VARIATIONAL: outcome(0.1, 1.0, 0.1), NAIVE: outcome(0.5, 0.1, 0.5)})
    assert recurrent_verdicts.no_worse(wide).verdict == "open"


def test_overfitting_is_a_gap_that_dropout_makes_smaller():
    assert recurrent_verdicts.overfits(sets()).verdict == "holds"
    turned = sets(**{VARIATIONAL: BAD, NONE: GOOD})
    assert recurrent_verdicts.overfits(turned).verdict == "does not hold"
    assert recurrent_verdicts.overfits(turned).source == "here"
    older = {name: value for name, value in GOOD.items() if name != "training_nll"}
    assert recurrent_verdicts.overfits(sets(**{VARIATIONAL: older})).verdict == "open"


def test_the_mean_over_passes_is_compared_with_dropout_off():
    gain = outcome(0.1, 0.2, 0.3)
    gain["nll_dropout_off"] = {"values": [0.2, 0.31, 0.4]}
    assert recurrent_verdicts.averages(sets(**{VARIATIONAL: gain})).verdict == "holds"
    gain["nll_dropout_off"] = {"values": [0.05, 0.11, 0.2]}
    assert recurrent_verdicts.averages(sets(**{VARIATIONAL: gain})).verdict == "does not hold"


def test_networks_that_learned_nothing_test_nothing():
    chance = sets(**{VARIATIONAL: outcome(4.9, 5.0, 5.1)})
    assert recurrent_verdicts.averages(chance).verdict == "not reached here"
    assert recurrent_verdicts.judge({"absent": "no data"}) == []


def test_steps_are_averaged_with_their_marks():
    x = torch.arange(24.0).view(1, 2, 12)
    assert averaged(x).tolist() == [[[2.5, 8.5], [14.5, 20.5]]]
