"""The part under shift, on made-up digits and with networks that train in seconds."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch

from nescio import nets
from nescio.evaluation.answers import Seen
from nescio_papers import Settings, named
from nescio_papers.kit import exactly
from nescio_papers.robust_deep_learning import shift, shift_pairs, shift_verdicts

TINY = replace(shift.QUICK, train=150, held=70, test=70, passes=3)
LEARNED = [exactly("accuracy", 0.99, why="made up", above=0.98)]


@pytest.fixture(scope="module")
def settings(image_files, tmp_path_factory):
    data = image_files(tmp_path_factory.mktemp("data"), train=220, test=70, letters=104)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("NESCIO_DATA", str(data))
        patch.setattr(shift, "QUICK", TINY)
        patch.setattr(shift_pairs, "RESAMPLES", 10)
        patch.setattr(shift, "SHIFTS", {k: shift.SHIFTS[k] for k in ("rotation", "contrast")})
        build = nets.small_cnn
        patch.setattr(
            shift.nets, "small_cnn", lambda *args, dropout: build(*args, width=2, dropout=dropout)
        )
        yield Settings(quick=True, folder=tmp_path_factory.mktemp("run"))


@pytest.fixture(scope="module")
def found(settings):
    return shift.run(settings)


def test_parts_of_mnist_share_no_image(settings):
    digits = shift._digits(TINY)
    sizes = [len(part[0]) for part in (digits.in_dist.train, digits.held, digits.in_dist.test)]
    assert sizes == [150, 70, 70]


def test_all_predictors_sets_and_the_guard_have_curves(found):
    curves = found.numbers["curves"]
    assert list(curves) == ["rotation", "contrast"]
    for result in curves.values():
        assert set(result["subjects"]) == {
            "M = 1: adaptive sets",
            "M = 10: adaptive sets",
            "guard",
            "M = 1",
            "M = 1, temperature",
            "M = 5",
            "M = 10",
            "MC dropout",
        }
        shares = result["subjects"]["guard"]
        for three in zip(shares["answered"], shares["unsure"], shares["ood"], strict=True):
            assert sum(three) == pytest.approx(1)
        assert result["subjects"]["M = 1"]["accuracy"][0] == pytest.approx(
            result["subjects"]["M = 1, temperature"]["accuracy"][0]
        )
    first = [result["subjects"]["M = 10"]["nll"][0] for result in curves.values()]
    assert first[0] == first[1]  # strength 0 is the same of all shifts


def test_outsiders_and_streams_are_told_of(found):
    assert set(found.numbers["ood"]) == set(shift.OOD)
    streams = found.numbers["streams"]
    assert streams["unchanged"]["p_value"] > 0.01
    assert "rotation, strength 3" in streams
    assert "MNIST-C" not in found.text  # not at hand
    assert not found.claims  # they are judged from the numbers
    assert {row.published for row in found.comparisons} == {shift_verdicts.FIGURE_6}
    assert set(found.captions) == set(found.figures)
    assert {"shift-rotation.png", "confident-0.png", "entropies-1.png", "monitor.png"} <= set(
        found.figures
    )


def test_what_was_measured_is_not_measured_again(found, settings, monkeypatch):
    monkeypatch.setattr(shift, "under_shift", None)
    monkeypatch.setattr(shift_pairs, "along_shifts", None)
    again = shift.run(settings)
    assert json.dumps(again.numbers) == json.dumps(found.numbers)


def test_without_data_the_command_is_said(tmp_path, monkeypatch):
    monkeypatch.setenv("NESCIO_DATA", str(tmp_path))
    assert "nescio data download mnist" in shift.run(Settings(quick=True)).text


def test_it_is_a_part_of_the_lecture():
    (part,) = [part for part in named("robust-deep-learning").parts if part.name == "shift"]
    assert part.run.function is shift.run
    assert part.judge.function is shift_verdicts.judge


def test_differences_are_those_of_the_curves(found):
    paired, curves = found.numbers["paired"], found.numbers["curves"]
    assert paired["conditions"] == 11  # strength 0 is the same of both shifts
    for metric in ("accuracy", "nll", "ece"):
        gaps = []
        for number, curve in enumerate(curves.values()):
            first, second = (curve["subjects"][name][metric] for name in ("M = 10", "MC dropout"))
            gaps += list(np.subtract(first, second))[number > 0 :]
        assert paired[metric]["value"] == pytest.approx(np.mean(gaps), abs=1e-9)
        assert paired[metric]["low"] <= paired[metric]["high"]
        sign = 1 if metric == "accuracy" else -1
        assert paired["better"][metric] == sum(sign * gap > 0 for gap in gaps)


def test_its_claims_are_judged_from_its_numbers(found):
    claims = shift_verdicts.judge(json.loads(json.dumps(found.numbers)))
    assert len(claims) == 5
    assert {claim.verdict for claim in claims} == {"not reached here"}  # tiny networks
    assert shift_verdicts.judge({"absent": "no data"}) == []
    older = shift_verdicts.judge({"curves": {"rotation": {}}})
    assert [claim.verdict for claim in older] == ["open"]


def gap(value):
    return {"value": value, "low": value - 0.01, "high": value + 0.01}


@pytest.mark.parametrize(
    ("accuracy", "loss", "verdict"),
    [
        (0.1, -0.1, "holds"),
        (0.1, 0.1, "holds in part"),
        (-0.1, 0.1, "does not hold"),
        (0.0, 0.0, "open"),
    ],
)
def test_ensembles_are_compared_with_mc_dropout_digit_by_digit(accuracy, loss, verdict):
    paired = {"accuracy": gap(accuracy), "nll": gap(loss), "ece": gap(loss)}
    assert shift_verdicts.ensemble_claim(paired, LEARNED).verdict == verdict


def test_unknown_classes_are_judged_by_differences():
    def judged(growth, gain):
        found = {
            "median_entropy": dict.fromkeys(shift_verdicts.ensembles(), 0.1),
            "accuracy_above_0.9": {"M = 10": 0.8, "MC dropout": None},
            "entropy_growth": {"M = 5 less M = 1": gap(growth), "M = 10 less M = 5": gap(0.1)},
            "confident_gain": gap(gain),
        }
        return [claim.verdict for claim in shift_verdicts.ood_claims("letters", found, LEARNED)]

    assert judged(0.1, 0.1) == ["holds", "holds"]
    assert judged(-0.1, -0.1) == ["holds in part", "does not hold"]
    assert judged(0.0, 0.0) == ["open", "open"]


def seen(confidence, labels):
    """Answers with a confidence and a label among three."""
    rest = (1 - torch.tensor(confidence))[:, None].expand(-1, 3) / 2
    probs = rest.scatter(1, torch.tensor(labels)[:, None], torch.tensor(confidence)[:, None])
    return Seen(1, probs.double().log(), {})


def test_confident_answers_to_unknown_classes_are_wrong():
    y = torch.tensor([0, 1, 2, 0])
    careful = seen([0.95, 0.95, 0.95, 0.5], [0, 1, 2, 1]), seen([0.5, 0.5], [0, 0])
    bold = seen([0.95, 0.95, 0.95, 0.95], [0, 1, 2, 1]), seen([0.95, 0.95], [0, 0])
    found = shift_pairs.confident_gain((careful[0], bold[0]), y, (careful[1], bold[1]), seed=0)
    assert found["value"] == pytest.approx(1 - 3 / 6)
    assert 0 <= found["low"] <= found["value"] <= found["high"]
