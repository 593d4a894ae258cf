"""The renderings of a comparison of detectors, from numbers that are known."""

from dataclasses import replace

import numpy as np
import pytest
from rich.cells import cell_len
from sklearn.metrics import roc_curve

from nescio.core.results import DataSet, Row
from nescio.evaluation import Comparison
from nescio.evaluation.compare.comparison import About, SubjectAbout
from nescio.report.comparison_tables import comparison_page
from nescio.report.plots.score_plots import bins, curve, roc_curves, score_histograms

SETS = ("letters_1", "noise")
COSTS = {"fit_seconds": 0.0125, "score_seconds_per_1000": 0.25, "bytes": 2_500_000}


def row(subject, data, metric, value, **more):
    ends = {} if metric in COSTS else {"low": value - 0.004, "high": value + 0.004}
    return Row(subject=subject, data=data, metric=metric, value=value, **ends, **more)


def rows(subject, areas, best):
    mean = sum(areas) / 2
    means = {"mean, all": mean, "mean, near": areas[0], "mean, far": areas[1]}
    for data, area in (dict(zip(SETS, areas, strict=True)) | means).items():
        marked = {"note": "best"} if best and data in ("letters_1", "mean, near") else {}
        yield row(subject, data, "auroc", area, **marked)
        yield row(subject, data, "aupr", area / 2)
        yield row(subject, data, "fpr_at_95_tpr", 1 - area)
    yield from (row(subject, "", metric, value) for metric, value in COSTS.items())


@pytest.fixture
def found():
    subjects = (
        SubjectAbout(name="worse", kind="detector", detector="knn", own_pass=False),
        SubjectAbout(name="odin_1", kind="detector", detector="odin", own_pass=True,
                     said="was tuned on smooth noise (80 inputs) by fpr95: temperature 10, "
                     "radius 0.002."),
    )  # fmt: skip
    about = About(
        task="ood", data="test", samples=10000, positive="ood", level=0.9, resamples=300, seed=0,
        forward_seconds_per_1000=0.0321, subjects=subjects,
        left_out={"vim": "no last linear layer"},
    )  # fmt: skip
    sets = (
        DataSet(name="test", kind="test", samples=10000, in_train=0),
        DataSet(name="letters_1", kind="near", samples=50, in_train=3),
        DataSet(name="noise", samples=40, in_train=0),
        DataSet(name="kana", absent="nescio data download kuzushiji_mnist"),
        DataSet(name="mean, all", kind="mean", of=SETS),
        DataSet(name="mean, near", kind="mean", of=SETS[:1]),
        DataSet(name="mean, far", kind="mean", of=SETS[1:]),
    )
    numbers = (*rows("worse", (0.8, 0.9), False), *rows("odin_1", (0.95, 0.99), True))
    return Comparison(numbers, sets, about)


def test_the_text_has_every_number_and_fits_the_width(found):
    text = comparison_page(found).text(70)
    assert max(map(cell_len, text.splitlines())) <= 70
    assert text.index("odin_1") < text.index("worse")  # the better one first
    assert "*0.950 (0.946-0.954)" in text
    assert " 0.800 (0.796-0.804)" in text
    assert "letters_1 (near)" in text
    assert "noise (far)" in text
    for title in ("mean, all", "mean, near", "mean, far", "mean AUPR", "mean FPR95", "fitted, MB"):
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
        "FPR95 (OOD is positive): the share of test that is flagged where 95 % of the OOD data are",
    ):
        assert note in joined


def test_markdown_has_a_table_for_each_metric(found):
    text = found.markdown()
    assert text.count("| --- |") == 4
    assert "| odin_1 | **0.950** (0.946–0.954) |" in text
    assert "| worse | 0.400 (0.396–0.404) |" in text
    assert "| worse | 0.200 (0.196–0.204) |" in text
    assert "| worse | 12.5 | 250.0 | 2.50 |" in text


def test_latex_escapes_and_marks(found):
    text = found.latex()
    assert r"odin\_1 & \textbf{0.950} & 0.990 & 0.970 & \textbf{0.950} & 0.990 \\" in text
    assert r"letters\_1 (near)" in text
    assert text.count("{") == text.count("}")
    assert r"worse & 0.200 & 0.100 &" in found.latex("fpr_at_95_tpr")


def test_without_near_sets_there_is_one_mean(found):
    sets = tuple(one for one in found.sets if one.name not in ("mean, near", "mean, far"))
    text = str(replace(found, sets=sets))
    assert "mean, all" in text
    assert "near" not in text.split("as good as")[0]


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


def test_pictures_name_what_they_show(found):
    draw = np.random.default_rng(0)
    sets = ("test", "letters_1", "noise")
    scores = {n: {s: draw.normal(size=50) for s in sets} for n in found.subjects}
    roc = roc_curves(found, scores)
    assert [a.get_title(loc="left") for a in roc.axes] == ["letters_1", "noise"]
    labels = [t.get_text() for t in roc.axes[0].get_legend().get_texts()]
    assert labels == ["worse: 0.800", "odin_1: 0.950"]
    assert all("flagged" in axis.get_xlabel() for axis in roc.axes)
    assert all("caught" in axis.get_ylabel() for axis in roc.axes)
    histograms = score_histograms(found, scores)
    assert [a.get_title(loc="left") for a in histograms.axes] == ["worse", "odin_1"]
    assert [t.get_text() for t in histograms.legends[0].get_texts()] == list(sets)
    assert {a.get_xlabel() for a in histograms.axes} == {"score"}
