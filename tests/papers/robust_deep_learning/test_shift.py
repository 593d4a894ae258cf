"""The part under shift, on made-up digits and with networks that train in seconds."""

import json
from dataclasses import replace

import pytest

from nescio import nets
from nescio_papers import Settings
from nescio_papers.kit import VERDICTS
from nescio_papers.robust_deep_learning import shift
from nescio_papers.robust_deep_learning.paper import PARTS

TINY = replace(shift.QUICK, train=150, held=70, test=70, passes=3)


@pytest.fixture(scope="module")
def settings(image_files, tmp_path_factory):
    data = image_files(tmp_path_factory.mktemp("data"), train=220, test=70, letters=104)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("NESCIO_DATA", str(data))
        patch.setattr(shift, "QUICK", TINY)
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
    assert {claim.verdict for claim in found.claims} <= set(VERDICTS)
    assert set(found.captions) == set(found.figures)
    assert {"shift-rotation.png", "confident-0.png", "entropies-1.png", "monitor.png"} <= set(
        found.figures
    )


def test_what_was_measured_is_not_measured_again(found, settings, monkeypatch):
    monkeypatch.setattr(shift, "under_shift", None)
    again = shift.run(settings)
    assert json.dumps(again.numbers) == json.dumps(found.numbers)


def test_without_data_the_command_is_said(tmp_path, monkeypatch):
    monkeypatch.setenv("NESCIO_DATA", str(tmp_path))
    assert "nescio data download mnist" in shift.run(Settings(quick=True)).text


def test_it_is_a_part_of_the_lecture():
    assert PARTS["shift"][1] is shift.run


def test_ensembles_are_compared_with_mc_dropout_at_every_strength():
    def numbers(accuracy, nll):
        return {"accuracy": accuracy, "nll": nll, "ece": nll}

    subjects = {
        "M = 10": numbers([0.9, 0.8], [0.1, 0.2]),
        "MC dropout": numbers([0.8, 0.7], [0.2] * 2),
    }
    curves = {name: {"subjects": subjects} for name in ("rotation", "blur")}
    claim = shift.ensemble_claim(curves)
    assert "accuracy 3 of 3, nll 1 of 3, ece 1 of 3" in claim.measured  # strength 0 counts once
    assert claim.verdict == "partly"
