"""Recurrent networks: the masks of a run, and a quick run on made-up sequences."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from nescio import nets
from nescio_papers import Settings, named, run_experiment
from nescio_papers.kit import numbers_of, sample
from nescio_papers.robust_deep_learning import recurrent_runs, recurrent_verdicts
from nescio_papers.robust_deep_learning.recurrent_masks import masks_of
from nescio_papers.robust_deep_learning.recurrent_runs import (
    KINDS,
    NAIVE,
    NONE,
    VARIATIONAL,
    KindOutcome,
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
    assert set(numbers) == set(recurrent_runs.SETS)
    for kinds in numbers.values():
        assert list(kinds) == list(KINDS)
        assert kinds[NONE]["share"] == 0
        assert kinds[NONE]["nll"] == kinds[NONE]["nll_dropout_off"]
        assert len(kinds[VARIATIONAL]["nll"]["values"]) == recurrent_runs.QUICK.seeds


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
    assert recurrent_verdicts.tied(found).verdict == "holds"


def outcome(*losses):
    one = sample(losses)
    fields = {"errors": one, "nll": one, "off": one, "failure_auroc": one, "epochs": one}
    return KindOutcome(model=None, share=0.25, validation=0.0, **fields)


def test_verdicts_follow_paired_intervals():
    good, bad = outcome(0.1, 0.2, 0.3), outcome(0.31, 0.4, 0.52)
    kinds = {VARIATIONAL: good, NAIVE: bad, NONE: bad}
    found = {"a": kinds, "b": kinds, "c": {**kinds, NAIVE: good}}
    assert recurrent_verdicts.better(found).verdict == "holds"
    assert recurrent_verdicts.no_worse(found).verdict == "holds"
    turned = {name: {**one, VARIATIONAL: bad, NAIVE: good} for name, one in found.items()}
    assert recurrent_verdicts.no_worse(turned).verdict == "fails"
    assert recurrent_verdicts.better(turned).verdict == "fails"
    assert recurrent_verdicts.overfits(found).verdict == "holds"
    assert recurrent_verdicts.averages(found).verdict == "fails"


def test_steps_are_averaged_with_their_marks():
    x = torch.arange(24.0).view(1, 2, 12)
    assert averaged(x).tolist() == [[[2.5, 8.5], [14.5, 20.5]]]
