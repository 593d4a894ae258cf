"""The influence part of the lecture: its pieces beside scipy and brute force, and a quick run."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy import stats
from torch import nn

from nescio import losses
from nescio_papers import Settings, named, run_experiment
from nescio_papers.robust_deep_learning import (
    influence_digits,
    influence_hinge,
    influence_labels,
    influence_linear,
)
from nescio_papers.robust_deep_learning.influence_retraining import (
    Task,
    checked,
    chosen,
    correlation,
    first_wrong,
)

QUICKLY = Settings(quick=True)
FIGURES = {f"influence-{name}.png" for name in ("retraining", "images", "hinge", "labels")}


def test_a_correlation_is_that_of_scipy_inside_its_interval():
    draws = torch.Generator().manual_seed(0)
    first = torch.randn(50, generator=draws).double()
    second = first + 0.3 * torch.randn(50, generator=draws).double()
    found = correlation(first, second, seed=0)
    assert found["value"] == pytest.approx(stats.pearsonr(first, second).statistic)
    theirs = stats.pearsonr(first, second).confidence_interval()
    assert found["low"] == pytest.approx(theirs.low, abs=0.03)
    assert found["high"] == pytest.approx(theirs.high, abs=0.03)


def test_half_of_the_samples_left_out_have_the_largest_predictions():
    predicted = torch.tensor([0.1, -5.0, 0.2, 4.0, -0.3, 0.0])
    found = chosen(predicted, 4, seed=0)
    assert found[:2].tolist() == [1, 3]
    assert len(set(found.tolist())) == 4


def test_the_first_wrong_sample_or_the_least_probable():
    logits = torch.tensor([[2.0, 0.0], [0.0, 2.0], [0.0, 3.0]])
    assert first_wrong(logits, torch.tensor([0, 0, 0])) == 1
    assert first_wrong(logits, torch.tensor([0, 1, 1])) in (0, 1)


def test_influence_predicts_what_retraining_in_one_stack_does(tmp_path):
    draws = torch.Generator().manual_seed(0)
    x = torch.randn(540, 4, generator=draws).double()
    y = (x[:, 0] + torch.randn(540, generator=draws).double() > 0).long()
    task = Task(
        name="small",
        make=lambda: nn.Linear(4, 2).double(),
        train=(x[:500], y[:500]),
        test=(x[500:], y[500:]),
        loss=losses.weight_decay(losses.nll(), strength=0.005),
        iterations=500,
        solve={"refit": False},
    )
    found = checked(Settings(folder=tmp_path), task, 10)
    numbers = found.numbers(0)
    assert numbers["correlation"]["all"]["value"] > 0.99
    assert numbers["actual_over_predicted"] == pytest.approx(1, abs=0.05)
    assert max(found.gradient_norm, found.retrained_norm) < 1e-8
    again = checked(Settings(folder=tmp_path), task, 10)  # from the files
    torch.testing.assert_close(again.actual, found.actual)


def test_cooks_distances_are_those_of_leaving_rows_out():
    draws = torch.Generator().manual_seed(0)
    x = torch.randn(40, 3, generator=draws).double()
    y = x.sum(1, keepdim=True) + torch.randn(40, 1, generator=draws).double()
    found = influence_linear.compared(x, y.float().double())  # targets are read as float32
    assert found["weights_difference"] < 1e-9
    assert found["distance_difference"] < 1e-9
    assert found["first_order_difference"] > 1e-3
    (claim,) = influence_linear.judge(found)
    assert (claim.verdict, claim.source) == ("holds", "here")
    assert "influence without leverage is off by up to" in claim.note
    apart = influence_linear.judge({**found, "weights_difference": 0.01})
    assert apart[0].verdict == "holds in part"


def test_the_support_vector_machine_is_at_its_minimum():
    rng = np.random.default_rng(0)
    x = torch.from_numpy(rng.normal(size=(60, 1, 5, 5)))
    y = (x[:, 0, 0, 0] > 0).long()
    weights = influence_hinge.machine((x, y))
    wide, signs = influence_hinge._wide(x), influence_hinge.signed((x, y))

    def value(own):
        hinge = (1 - signs * (wide @ own)).clamp_min(0).mean()
        return float(hinge + influence_hinge.STRENGTH / 2 * own.square().sum())

    best = value(weights)
    for _ in range(50):
        nudge = torch.from_numpy(rng.normal(size=26))
        assert value(weights + 1e-3 * nudge) >= best - 1e-9


def test_a_twentieth_of_the_labels_is_flipped_to_another_class():
    labels = torch.arange(1000) % 10
    given, wrong = influence_labels.flipped(labels, seed=0)
    assert int(wrong.sum()) == 50
    assert (given[wrong] != labels[wrong]).all()
    assert (given[~wrong] == labels[~wrong]).all()
    assert len(given[wrong].unique()) > 5


def test_the_scores_of_cleanlab_by_their_formulas():
    logits = torch.tensor([[0.7, 0.2, 0.1], [0.1, 0.8, 0.1]]).log()
    found = influence_labels.cleanlab_scores(logits, torch.tensor([0, 2]))
    torch.testing.assert_close(
        found[influence_labels.CONFIDENCE], torch.tensor([0.3, 0.9]).double(), atol=1e-6, rtol=0
    )
    torch.testing.assert_close(  # cleanlab 2.9.0: 0.75 and 0.15
        found[influence_labels.MARGIN], torch.tensor([0.25, 0.85]).double(), atol=1e-6, rtol=0
    )


def test_a_quick_run_writes_the_pictures_and_leaves_claims_open(image_files, tmp_path, monkeypatch):
    data = tmp_path / "data"
    data.mkdir()
    image_files(data, train=400, test=100, letters=26)
    monkeypatch.setenv("NESCIO_DATA", str(data))
    small = {"train": 100, "small": 60, "test": 60, "removed": 4, "fewer": 4, "iterations": 60}
    monkeypatch.setattr(influence_digits, "QUICK", replace(influence_digits.QUICK, **small))
    page = run_experiment(
        named("robust-deep-learning"),
        tmp_path / "run",
        settings=QUICKLY,
        only=["influence"],
        show=False,
    ).read_text()
    assert {path.name for path in (tmp_path / "run").iterdir()} >= FIGURES
    table = page[page.index("## What the source says") :]
    assert table.count("| open |") >= 4
    assert "the table concrete is not at hand" in page


def retrained(low, high, norm=1e-8):
    """Stored numbers of a network with an interval of the correlation."""
    found = {"value": (low + high) / 2, "low": low, "high": high}
    return {
        "correlation": {"all": found, "largest": found, "random": found},
        "removed": [0, 1, 2, 3],
        "gradient_norm": norm,
        "gradient_norm_retrained": norm,
    }


def test_influence_predicts_where_the_whole_interval_does_and_the_network_is_at_its_minimum():
    def verdicts(one):
        numbers = {influence_digits.LOGISTIC: one, influence_digits.CONVOLUTIONAL: one}
        return [claim.verdict for claim in influence_digits.judge(numbers)]

    assert verdicts(retrained(0.995, 0.999)) == ["holds", "holds"]
    assert verdicts(retrained(0.85, 0.98)) == ["does not hold", "open"]
    assert verdicts(retrained(0.995, 0.999, norm=0.1)) == ["not reached here"] * 2
