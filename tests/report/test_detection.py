"""The renderings of a comparison of detectors, from numbers that are known."""

import numpy as np
import pytest
from rich.cells import cell_len
from sklearn.metrics import roc_curve

from nescio.report.detector_table import detection_latex, detection_markdown, detection_text
from nescio.report.plots.score_plots import bins, curve, roc_curves, score_histograms


def number(value, spread=0.004):
    return {"value": value, "low": value - spread, "high": value + spread}


def measured(auroc, *, best=False):
    return {
        "auroc": number(auroc),
        "aupr": number(auroc / 2),
        "fpr_at_95_tpr": number(1 - auroc),
        "best": best,
        "p": 1.0,
    }


def detector(first, second, **more):
    mean = (first["auroc"]["value"] + second["auroc"]["value"]) / 2
    return {
        "detector": "knn",
        "tuned": None,
        "own_pass": False,
        "fit_seconds": 0.0125,
        "score_seconds": 0.25,
        "bytes": 2_500_000,
        "rows": {"letters_1": first, "noise": second},
        "means": {"all": measured(mean), "near": first, "far": second},
        **more,
    }


@pytest.fixture
def result():
    tuned = {"by": "fpr95", "on": "smooth noise", "in_dist": 100, "ood": 80}
    return {
        "data": "test",
        "samples": 10000,
        "networks": 1,
        "positive": "ood",
        "level": 0.9,
        "resamples": 300,
        "forward_seconds": 0.0321,
        "groups": {"all": ["letters_1", "noise"], "near": ["letters_1"], "far": ["noise"]},
        "sets": {
            "test": {"samples": 10000, "in_train": 0},
            "letters_1": {"samples": 50, "in_train": 3},
            "noise": {"samples": 40, "in_train": 0},
            "kana": {"absent": "nescio data download kuzushiji_mnist"},
        },
        "detectors": {
            "worse": detector(measured(0.8), measured(0.9)),
            "odin_1": detector(
                measured(0.95, best=True),
                measured(0.99),
                detector="odin",
                options={"temperature": 10.0, "radius": 0.002},
                tuned=tuned,
                own_pass=True,
            ),
        },
        "left_out": {"vim": "no last linear layer"},
    }


def test_the_text_has_every_number_and_fits_the_width(result):
    text = detection_text(result, width=70)
    assert max(map(cell_len, text.splitlines())) <= 70
    assert text.index("odin_1") < text.index("worse")  # the better one first
    assert "*0.950 (0.946-0.954)" in text
    assert " 0.800 (0.796-0.804)" in text
    assert "letters_1 (near)" in text
    assert "noise (far)" in text
    for title in ("mean, all", "mean, near", "mean, far", "mean AUPR", "mean FPR95", "kept, MB"):
        assert title in text
    assert "250.0 +" in text  # ms, with passes of its own
    assert "12.5" in text
    assert "2.50" in text
    joined = " ".join(text.split())
    for note in (
        "32.1 ms for 1000 inputs",
        "odin_1 was tuned on smooth noise (80 inputs) by fpr95: temperature 10, radius 0.002.",
        "letters_1: 3 of its 50 inputs",
        "kana is not at hand: nescio data download kuzushiji_mnist",
        "vim left out: no last linear layer",
        "Intervals (90 %)",
        "300 resamples",
        "share of test that is flagged",
    ):
        assert note in joined


def test_markdown_has_a_table_for_each_metric(result):
    text = detection_markdown(result)
    assert text.count("| --- |") == 4
    assert "| odin_1 | **0.950** (0.946-0.954) |" in text
    assert "| worse | 0.400 (0.396-0.404) |" in text
    assert "| worse | 0.200 (0.196-0.204) |" in text
    assert "| worse | 12.5 | 250.0 | 2.50 |" in text


def test_latex_escapes_and_marks(result):
    text = detection_latex(result)
    assert r"odin\_1 & \textbf{0.950} & 0.990 & 0.970 & \textbf{0.950} & 0.990 \\" in text
    assert r"letters\_1 (near)" in text
    assert text.count("{") == text.count("}")
    assert r"worse & 0.200 & 0.100 &" in detection_latex(result, "fpr_at_95_tpr")


def test_without_near_sets_there_is_one_mean(result):
    result["groups"] = {"all": ["letters_1", "noise"]}
    text = detection_text(result)
    assert "mean, all" in text
    assert "near" not in text.split("shares")[0]


@pytest.mark.parametrize("samples", [20, 3000])
def test_a_curve_lies_on_the_exact_one(samples):
    draw = np.random.default_rng(0)
    in_dist, ood = draw.normal(size=samples).round(1), 1 + draw.normal(size=samples).round(2)
    false, true = curve(in_dist, ood)
    truth = np.r_[np.zeros(samples), np.ones(samples)]
    exact = roc_curve(truth, np.r_[in_dist, ood], drop_intermediate=False)
    known = set(zip(exact[0].round(9), exact[1].round(9), strict=True))
    assert set(zip(false.round(9), true.round(9), strict=True)) <= known
    assert (false[0], true[0], false[-1], true[-1]) == (0, 0, 1, 1)
    assert (np.diff(false) >= 0).all()
    assert (np.diff(true) >= 0).all()


def test_bins_hold_nearly_all_scores():
    edges = bins([np.arange(1000.0), np.r_[np.arange(500.0), np.inf]])
    assert edges[0] == pytest.approx(2.5, abs=0.1)
    assert edges[-1] == pytest.approx(994, abs=0.1)
    assert np.diff(bins([np.zeros(5)])).sum() == 1


def test_pictures_name_what_they_show(result):
    draw = np.random.default_rng(0)
    sets = ("test", "letters_1", "noise")
    scores = {n: {s: draw.normal(size=50) for s in sets} for n in result["detectors"]}
    roc = roc_curves(result, scores)
    assert [a.get_title(loc="left") for a in roc.axes] == ["letters_1", "noise"]
    labels = [t.get_text() for t in roc.axes[0].get_legend().get_texts()]
    assert labels == ["worse: 0.800", "odin_1: 0.950"]
    assert all("flagged" in axis.get_xlabel() for axis in roc.axes)
    assert all("caught" in axis.get_ylabel() for axis in roc.axes)
    histograms = score_histograms(result, scores)
    assert [a.get_title(loc="left") for a in histograms.axes] == ["worse", "odin_1"]
    assert [t.get_text() for t in histograms.legends[0].get_texts()] == list(sets)
    assert {a.get_xlabel() for a in histograms.axes} == {"score"}
