"""Classes left out: the splits by hand, means and tests against scipy."""

import sys

import numpy as np
import pytest
import torch
from scipy import stats

import nescio
from nescio import NescioError, metrics, nets
from nescio.data import Dataset
from nescio.evaluation import leave_classes_out

MODULE = sys.modules["nescio.evaluation.leave_classes_out"]
LABELS = (1, 4, 6, 9)  # with gaps
HOW = {"epochs": 2, "batch_size": 20, "learning_rate": 0.02, "detectors": ["msp", "knn,k=3"]}


def clouds(count, seed):
    """Four clouds at the corners of a square."""
    draw = torch.Generator().manual_seed(seed)
    corner = torch.arange(count) % 4
    center = torch.stack([corner % 2, corner // 2], 1) * 4.0
    return center + 0.7 * torch.randn(count, 2, generator=draw), torch.tensor(LABELS)[corner]


@pytest.fixture
def parts():
    return {"data": clouds(120, 0), "test": clouds(60, 1)}


def make(classes):
    return nets.mlp(2, classes, widths=(8,))


def test_each_class_is_left_out_once(parts):
    found = leave_classes_out(make, **parts, **HOW)
    mean, *splits = found.sets
    assert mean.name == "mean over splits"
    assert [one.name for one in splits] == [f"without {label}" for label in LABELS]
    assert {one.samples for one in splits} == {15}
    assert {found.value("network", one.name, "samples") for one in splits} == {45}


def test_a_split_is_training_without_the_classes(parts):
    groups = [[4, 1], [9]]
    found = leave_classes_out(make, **parts, **HOW, splits=groups, seed=3)
    (x, y), (z, w) = parts["data"], parts["test"]
    known = (y == 6) | (y == 9)
    options = {k: v for k, v in HOW.items() if k != "detectors"}
    model = nescio.train(lambda: make(2), (x[known], (y[known] == 9).long()), seed=3, **options)
    in_dist = (w == 6) | (w == 9)
    scores = nescio.detectors.msp()(nescio.observe(model, z)).numpy()
    area = metrics.auroc(scores[in_dist.numpy()], scores[~in_dist.numpy()])
    assert found.value("msp", "without 1+4", "auroc") == pytest.approx(area)
    right = model(z[in_dist]).labels == (w[in_dist] == 9).long()
    accuracy = found.value("network", "without 1+4", "accuracy")
    assert accuracy == pytest.approx(right.double().mean().item())


def test_means_intervals_and_tests_are_students():
    draw = np.random.default_rng(0)
    base = draw.uniform(0.6, 0.8, size=9)
    areas = {"a": base + 0.15, "b": base + 0.1 * draw.uniform(size=9), "c": base}
    found = [
        {
            "classes": [split],
            "detectors": {
                n: {"auroc": v[split], "aupr": v[split] / 2, "fpr_at_95_tpr": 0.5}
                for n, v in areas.items()
            },
        }
        for split in range(9)
    ]
    means = {(row.subject, row.metric): row for row in MODULE._means(found, list(areas), 0.9)}
    for name, values in areas.items():
        low, high = stats.t.interval(0.9, 8, values.mean(), stats.sem(values))
        row = means[name, "auroc"]
        assert (row.value, row.low, row.high) == pytest.approx((values.mean(), low, high))
        assert means[name, "lowest_auroc"].value == values.min()
        assert means[name, "lowest_auroc"].note == f"without {values.argmin()}"
    row = means["a", "fpr_at_95_tpr"]
    assert (row.value, row.low, row.high) == (0.5, 0.5, 0.5)
    single = [
        stats.ttest_rel(areas["a"], areas["b"]).pvalue,
        2.0 ** (1 - len(areas["a"])),  # the same gap in every split: the chance of its signs
        stats.ttest_rel(areas["b"], areas["c"]).pvalue,
    ]
    assert means["b", "auroc_p_value"].value == pytest.approx(metrics.holm(single)[0])
    assert [means[n, "auroc"].note for n in "abc"] == ["best", "", ""]


def test_one_split_has_no_interval(parts):
    found = leave_classes_out(make, **parts, **HOW, splits=[[4]])
    row = found.row("msp", "mean over splits", "auroc")
    assert row.low is None
    assert found.value("msp", "without 4", "auroc") == row.value
    assert "1 split, without the classes 4" in str(found)


def test_a_stopped_run_goes_on(parts, tmp_path, monkeypatch):
    whole = leave_classes_out(make, **parts, **HOW)
    monkeypatch.setattr(MODULE, "compare", _failing_after(2))
    with pytest.raises(KeyboardInterrupt):
        leave_classes_out(make, **parts, **HOW, run=tmp_path)
    monkeypatch.undo()
    monkeypatch.setattr(MODULE, "compare", _failing_after(2))  # two are left
    again = leave_classes_out(make, **parts, **HOW, run=tmp_path)
    assert again == whole
    monkeypatch.setattr(MODULE, "compare", _failing_after(0))
    assert leave_classes_out(make, **parts, **HOW, run=tmp_path) == whole
    with pytest.raises(NescioError, match="epochs"):  # a model of other options is refused
        leave_classes_out(make, **parts, **{**HOW, "epochs": 3}, run=tmp_path)


def _failing_after(count):
    calls = []

    def compare(*args, **options):
        calls.append(1)
        if len(calls) > count:
            raise KeyboardInterrupt
        return nescio.compare(*args, **options)

    return compare


def test_a_data_set_and_its_files(parts, tmp_path):
    x, y = parts["data"]
    dataset = Dataset("clouds", (x, y), None, parts["test"], classes=10)
    found = leave_classes_out(make, dataset, **HOW, splits=[1, 9])
    assert [one.name for one in found.sets[1:]] == ["without 1", "without 9"]
    path = found.save(tmp_path / "new" / "left_out")
    assert {p.suffix for p in path.parent.iterdir()} == {".txt", ".md", ".json", ".tex"}
    text = path.with_suffix(".md").read_text()
    assert "| knn,k=3 |" in text
    assert "Student's t" in text
    assert nescio.Results.load(path).rows == found.rows


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"make_net": lambda: None}, "function of the number of known classes"),
        ({"make_net": nets.mlp(2, 2)}, "function of the number of known classes"),
        ({"splits": []}, "splits is empty"),
        ({"splits": [[3]]}, r"of \[1, 4, 6, 9\]; got \[3\]"),
        ({"splits": [[]]}, "got \\[\\]"),
        ({"splits": [[1, 4, 6]]}, "fewer than two classes"),
        ({"splits": [[1, 4], [4, 1]]}, "same classes"),
        ({"splits": [["x"]]}, "such as \\[3, 5\\]"),
        ({"test": None}, "test=\\(x, y\\)"),
        ({"data": torch.ones(3, 2)}, "must be a pair"),
        ({"data": (torch.ones(3, 2), torch.tensor([0, 1, 1]))}, "there are 2 classes"),
        ({"detectors": ["knnn"]}, "did you mean 'knn'"),
        ({"test": (torch.ones(4, 2), torch.tensor([1, 4, 6, 7]))}, r"classes \[7\]"),
    ],
)
def test_errors_teach(parts, change, message):
    options = {"make_net": make, **parts, **HOW, **change}
    with pytest.raises(NescioError, match=message):
        leave_classes_out(**options)


def test_a_split_of_another_network_is_not_taken_for_this_one(parts, tmp_path):
    leave_classes_out(make, **parts, **HOW, splits=[[4]], run=tmp_path)

    def wide(classes):
        return nets.mlp(2, classes, widths=(31,))

    with pytest.raises(NescioError, match="network|another|other"):
        leave_classes_out(wide, **parts, **HOW, splits=[[4]], run=tmp_path)
    file = next(tmp_path.glob("*/split.json"))
    file.write_text(file.read_text()[:40])
    with pytest.raises(NescioError, match="is damaged"):
        leave_classes_out(make, **parts, **HOW, splits=[[4]], run=tmp_path)


def test_an_unknown_detector_of_the_result(parts):
    found = leave_classes_out(make, **parts, **HOW, splits=np.array([4]))
    with pytest.raises(NescioError, match="unknown subject 'msq'; did you mean 'msp'"):
        found.value("msq", "mean over splits", "auroc")
