"""The table against metrics of scores that are made by hand."""

import json

import numpy as np
import pytest
import torch
from torch import nn

import nescio
from nescio import NescioError, detectors, measures, metrics, models
from nescio.data.ood import uniform
from nescio.evaluation import Comparison, compare
from nescio.evaluation.compare.subjects import candidates

FEW = ["energy", "knn,k=5", "mahalanobis"]


def cell(found, detector, row):
    rows = [one for one in found.rows if (one.subject, one.data) == (detector, row)]
    return {one.metric: {"value": one.value, "low": one.low, "high": one.high} for one in rows}


def about(found, subject):
    (one,) = [one for one in found.about.subjects if one.name == subject]
    return one


def data_set(found, name):
    (one,) = [one for one in found.sets if one.name == name]
    return one


@pytest.fixture
def found(net, in_dist, ood, train):
    return compare(
        net, in_dist, ood, train=train, detectors=FEW, near=["middle"], resamples=60, seed=4
    )


def test_numbers_are_those_of_the_scores(net, in_dist, ood, train, found):
    seen = nescio.observe(net, train)
    made = [detectors.energy(), detectors.knn(seen, k=5), detectors.mahalanobis(seen)]
    for name, detector in zip(FEW, made, strict=True):
        own = detector(nescio.observe(net, in_dist)).numpy()
        assert found.scores[name]["test"] == pytest.approx(own)
        for row, x in ood.items():
            other = detector(nescio.observe(net, x)).numpy()
            part = cell(found, name, row)
            expected = metrics.delong_interval(own, other, logit=True)
            assert part["auroc"] == pytest.approx(vars(expected))
            ranked = metrics.bootstrap_ranking(own, other, resamples=60, seed=4)
            assert part["aupr"] == pytest.approx(vars(ranked["aupr"]))
            assert part["fpr_at_95_tpr"] == pytest.approx(vars(ranked["fpr_at_tpr"]))


def test_marks_are_those_of_the_paired_test(found):
    for row in ("middle", "far"):
        pairs = {n: (s["test"], s[row]) for n, s in found.scores.items()}
        p = metrics.against_best(pairs)
        for name, value in p.items():
            assert found.value(name, row, "auroc_p_value") == pytest.approx(value)
            best = value >= 0.05 and min(p.values()) < 0.05
            assert (found.row(name, row, "auroc").note == "best") == best


def test_means_are_over_all_near_and_far_sets(found):
    assert {one.name: one.of for one in found.sets if one.kind == "mean"} == {
        "mean, all": ("middle", "far"), "mean, near": ("middle",), "mean, far": ("far",),
    }  # fmt: skip
    for name in FEW:
        for key in ("auroc", "aupr", "fpr_at_95_tpr"):
            values = [found.value(name, row, key) for row in ("middle", "far")]
            assert found.value(name, metric=key) == pytest.approx(np.mean(values))
            assert found.value(name, "mean, near", key) == values[0]
            assert found.value(name, "mean, far", key) == values[1]
        mean = cell(found, name, "mean, far")["auroc"]
        assert mean == pytest.approx(cell(found, name, "far")["auroc"])
    assert found.ranked == sorted(FEW, key=found.value, reverse=True)
    assert found.value("energy", "far") == cell(found, "energy", "far")["auroc"]["value"]


def test_each_data_set_passes_the_network_once(net, in_dist, ood, train):
    seen = []
    net[2].register_forward_hook(lambda *call: seen.append(len(call[2])))
    names = [n for n in (c.name for c in candidates(None, members=1, vectors=True)) if n != "odin"]
    compare(net, in_dist, ood, train=train, detectors=names, resamples=0)
    sizes = [120, 80, 60, 200]
    dry = 4 * len(sizes) * 2  # at most two trial runs of four inputs a set
    assert sum(sizes) <= sum(seen) <= sum(sizes) + dry


def test_all_detectors_are_taken_unless_some_are_named(net, in_dist, ood, train):
    found = compare(net, in_dist, ood, train=train, resamples=0)
    expected = set(nescio.core.registry.detectors) - {"combined", "measured"}
    assert {*found.subjects, *found.about.left_out} == expected
    assert not found.about.left_out
    assert about(found, "odin").own_pass
    assert not about(found, "knn").own_pass
    stored = (200 * 4 + 200 + 2 * 4) * 4  # the bank, its squares, its mean in float64
    assert found.row("knn", "", "bytes").value == stored
    assert found.row("energy", "", "bytes").value == 0
    assert found.about.forward_seconds_per_1000 > 0


def test_images_leave_out_the_detectors_of_tables():
    names = {one.name for one in candidates(None, members=1, vectors=False)}
    assert not {"gower", "smoothed_density"} & names
    assert {"knn", "odin", "msp"} <= names


def test_without_training_data_those_with_a_fit_are_left_out(net, in_dist, ood):
    found = compare(net, in_dist, ood, resamples=0)
    assert {"energy", "msp", "odin"} <= set(found.subjects)
    assert "train=(x, y)" in found.about.left_out["knn"]
    with pytest.raises(NescioError, match="knn is fitted on training data"):
        compare(net, in_dist, ood, detectors=["knn"])


def test_several_networks_are_measured_together(net, in_dist, ood, train):
    other = nn.Sequential(nn.Linear(2, 4), nn.ReLU(), nn.Linear(4, 2))
    found = compare([net, other], in_dist, ood, train=train, resamples=0)
    logits = nescio.observe([net, other], in_dist).logits
    expected = measures.mutual_information(nescio.Categorical(logits))
    assert found.scores["mutual_information"]["test"] == pytest.approx(expected.numpy())
    assert found.about.networks == 2
    assert "2 networks" in str(found)


def test_predictors_stand_beside_detectors(in_dist, ood, train):
    net = nn.Sequential(nn.Linear(2, 16), nn.ReLU(), nn.Dropout(0.4), nn.Linear(16, 2)).eval()
    sampled = models.mc_dropout(net, passes=12)
    options = {"detectors": ["msp"], "resamples": 0}
    found = compare({"net": net, "MC dropout": sampled, "again": net}, in_dist, ood, **options)
    assert set(found.scores) == {
        "msp", "again: log_odds", "again: predictive_entropy", "MC dropout: log_odds",
        "MC dropout: predictive_entropy", "MC dropout: mutual_information",
    }  # fmt: skip
    prediction = sampled(ood["far"]).to(torch.float64)
    expected = measures.mutual_information(prediction).numpy()
    assert found.scores["MC dropout: mutual_information"]["far"] == pytest.approx(expected)
    assert found.value("again: log_odds") == pytest.approx(found.value("msp"), abs=1e-6)
    assert about(found, "MC dropout: log_odds").own_pass


def test_the_other_sense_of_fpr_and_aupr(net, in_dist, ood):
    found = compare(net, in_dist, ood, detectors=["energy"], positive="in_dist", resamples=0)
    scores = found.scores["energy"]
    part = cell(found, "energy", "middle")
    expected = metrics.fpr_at_tpr(scores["test"], scores["middle"], positive="in_dist")
    assert part["fpr_at_95_tpr"] == {"value": expected, "low": None, "high": None}
    aupr = metrics.aupr(scores["test"], scores["middle"], positive="in_dist")
    assert part["aupr"]["value"] == aupr
    assert "is accepted where 95 % of test are" in " ".join(str(found).split())


def test_detectors_by_name_ready_made_and_as_functions(net, in_dist, ood, train):
    ready = detectors.knn(nescio.observe(net, train), k=3)
    given = {
        "nearest": "knn,k=3",
        "ready": ready,
        "function": lambda seen: detectors.knn(seen, k=3),
        "unit": "knn,k=3,normalize=no",
        "margin": "log_odds",
    }
    found = compare(net, in_dist, ood, train=train, detectors=given, resamples=0)
    assert np.array_equal(found.scores["nearest"]["far"], found.scores["ready"]["far"])
    assert np.array_equal(found.scores["nearest"]["far"], found.scores["function"]["far"])
    assert not np.array_equal(found.scores["nearest"]["far"], found.scores["unit"]["far"])
    assert about(found, "unit").options["normalize"] is False


def test_what_odin_was_tuned_on_is_said_and_may_not_be_tested_on(net, in_dist, ood, train):
    def tuned(x):
        noise = nescio.observe(net, x, inputs=True)
        return lambda seen: detectors.tuned_odin(seen[:50], noise, name="noise", radii=[0, 0.1])

    given = {"on noise": tuned(uniform((2,)).take(40)), "alone": "tuned_odin", "plain": "odin"}
    found = compare(net, in_dist, ood, train=train, detectors=given, resamples=0)
    text = " ".join(str(found).split())
    assert "on noise was tuned on noise (40 inputs) by auroc" in text
    assert "alone was tuned on no OOD data by mean confidence" in text
    assert "plain was not tuned: temperature 1000, radius 0.0014" in text
    assert "hashes" not in found.json()
    given = {"cheat": tuned(ood["far"][:30])}
    with pytest.raises(NescioError, match="tuned on 30 of the 60 inputs of 'far'"):
        compare(net, in_dist, ood, train=train, detectors=given)


def test_test_inputs_among_the_training_inputs_are_counted(net, in_dist, ood, train):
    both = (torch.cat([train[0], in_dist[0][:7]]), torch.cat([train[1], in_dist[1][:7]]))
    found = compare(net, in_dist, ood, train=both, detectors=["knn"], resamples=0)
    assert data_set(found, "test").in_train == 7
    assert "7 of its 120 inputs are among the training inputs" in " ".join(str(found).split())


def test_out_distributions_and_absent_sets(net, in_dist):
    noise = uniform((2,))
    rows = {"noise": (noise, 30), "letters": nescio.Absent("download letters")}
    rows["more"] = noise.take(20, start=30)
    found = compare(net, in_dist, rows, detectors=["msp"], resamples=0, near=["letters"])
    assert len(found.scores["msp"]["noise"]) == 30
    assert [(one.name, one.of) for one in found.sets if one.kind == "mean"] == [
        ("mean, all", ("noise", "more"))
    ]
    assert "letters is not at hand: download letters" in str(found)


def test_saved_and_read_again(tmp_path, found):
    path = found.save(tmp_path / "out")
    assert {p.name for p in path.parent.iterdir()} == {
        "comparison.txt", "comparison.md", "comparison.tex", "comparison.json",
        "scores.safetensors", "roc.png", "histograms.png",
    }  # fmt: skip
    again = Comparison.load(tmp_path / "out")
    assert again.to_json() == json.loads(found.json())
    assert again.rows == found.rows
    assert str(again) == str(found)
    for name, by_set in found.scores.items():
        for row, values in by_set.items():
            assert np.array_equal(again.scores[name][row], values)
    (tmp_path / "out" / "scores.safetensors").unlink()
    with pytest.raises(NescioError, match="scores are not there"):
        Comparison.load(tmp_path / "out").roc()
    with pytest.raises(NescioError, match="no file"):
        Comparison.load(tmp_path)
    (tmp_path / "comparison.json").write_text('{"kind": "detectors"}')
    with pytest.raises(NescioError, match="has no manifest"):
        Comparison.load(tmp_path)
    (tmp_path / "comparison.json").write_text('{"kind": "comparison"}')
    with pytest.raises(NescioError, match="was not written by nescio"):
        Comparison.load(tmp_path)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"ood": {}}, "OOD data by name"),
        ({"ood": {"test": torch.ones(3, 2)}}, "'test' is taken"),
        ({"ood": {"one": torch.ones(1, 2)}}, "at least two"),
        ({"ood": {"wide": torch.ones(5, 3)}}, "data 'wide'"),
        ({"ood": {"gone": nescio.Absent("why")}}, "no OOD data is at hand: gone: why"),
        ({"ood": {"noise": uniform((2,))}}, "endless"),
        ({"near": ["midle"]}, "did you mean 'middle'"),
        ({"near": "middle"}, r"near=\['middle'\]"),
        ({"detectors": ["nkn"]}, "did you mean 'knn'"),
        ({"detectors": ["knn,kk=3"]}, "k=50"),
        ({"detectors": ["knn,k=300"]}, "k must be"),
        ({"detectors": ["knn,k=2.5"]}, "k=2.5 does not fit, the default is 50; expected a whole"),
        ({"detectors": ["knn,k=abc"]}, "k=abc does not fit"),
        ({"detectors": ["knn,normalize=perhaps"]}, "the default is True; expected 1 or 0"),
        ({"detectors": ["energy,temperature=hot"]}, "temperature=hot does not fit"),
        ({"detectors": ["gower,columns=age"]}, "only Python can give"),
        ({"detectors": ["tuned_odin,radii=0.1"]}, "only Python can give"),
        ({"detectors": ["combined"]}, "made of others"),
        ({"detectors": {"mine": 3}}, "got a int"),
        ({"detectors": {"mine": lambda seen: 3}}, "made a int"),
        ({"detectors": 3}, "detectors are names"),
        ({"detectors": [lambda seen: 3]}, "has no name"),
        ({"detectors": []}, "nothing to compare"),
        ({"detectors": ["entropy,base=2,"]}, "expected NAME,OPTION=VALUE"),
        ({"scores": [len]}, "functions of inputs by name"),
        ({"published": {}}, "published= has no meaning in the task 'ood'"),
        ({"measures": "log_odds"}, r"\['log_odds'\]"),
        ({"measures": ["log_od"]}, "'log_odds'"),
        ({"positive": "near"}, "'ood' or 'in_dist'"),
        ({"level": 1.5}, "level"),
        ({"resamples": 1}, "resamples"),
    ],
)
def test_errors_teach(net, in_dist, ood, train, change, message):
    options = {"ood": ood, "train": train, "detectors": ["msp"], **change}
    with pytest.raises(NescioError, match=message):
        compare(net, in_dist, options.pop("ood"), **options)


def test_unknown_names_of_results(found):
    with pytest.raises(NescioError, match="did you mean 'energy'"):
        found.value("enrgy")
    with pytest.raises(NescioError, match="did you mean 'middle'"):
        found.value("energy", "midle")
    with pytest.raises(NescioError, match="unknown subject"):
        found.roc(["nothing"])
    with pytest.raises(NescioError, match="unknown metric"):
        found.latex("mmc")


def test_options_in_text_are_read_as_their_annotations_say(train):
    seen = nescio.observe(nn.Sequential(nn.Linear(2, 4), nn.Linear(4, 2)), train)
    wanted = {
        "knn,k=7,normalize=no": {"k": 7, "normalize": False},
        "mahalanobis,shrinkage=ledoit_wolf": {"shrinkage": "ledoit_wolf"},
        "mahalanobis,shrinkage=0.5": {"shrinkage": 0.5},
        "vim,dim=1": {"dim": 1},
        "kl_matching,by=true": {"by": "true"},
    }
    made = candidates(list(wanted), members=1, vectors=True)
    for one, options in zip(made, wanted.values(), strict=True):
        assert options.items() <= one.ready(seen).options.items()
    named = candidates("knn,k=3,layer=0", members=1, vectors=True)[0]
    layer = nescio.observe(nn.Sequential(nn.Linear(2, 4), nn.Linear(4, 2)), train, layers="0")
    assert named.ready(layer).layers == ("0",)


def test_names_are_checked_before_the_network_runs(in_dist, ood):
    def failing(x):
        raise AssertionError("the network ran")

    net = nn.Linear(2, 2)
    net.forward = failing
    for change in ({"detectors": ["nkn"]}, {"positive": "near"}):
        with pytest.raises(NescioError):
            compare(net, in_dist, ood, **change)


def test_two_detectors_of_one_name_are_not_one(net, in_dist, ood, train):
    seen = nescio.observe(net, train)
    two = [detectors.knn(seen, k=3), detectors.knn(seen, k=9)]
    with pytest.raises(NescioError, match="two detectors are called 'knn'"):
        compare(net, in_dist, ood, detectors=two)
    found = compare(net, in_dist, ood, detectors=["msp", "msp"], resamples=0)
    assert found.subjects == ["msp"]


def test_a_tuned_part_of_a_combined_detector_may_not_be_tested_on(net, in_dist, ood, train):
    seen = nescio.observe(net, train, inputs=True)
    tuned = detectors.tuned_odin(
        seen[:50], nescio.observe(net, ood["far"][:30], inputs=True), radii=[0.0, 0.1]
    )
    inner = detectors.combined([tuned, detectors.energy()], seen[50:])
    for one in (inner, detectors.combined([inner], seen[50:])):
        with pytest.raises(NescioError, match="mine was tuned on 30 of the 60 inputs of 'far'"):
            compare(net, in_dist, ood, detectors={"mine": one})


def test_a_count_may_be_numpys(net, in_dist, ood):
    given = {"far": (ood["far"], np.int64(40))}
    found = compare(net, in_dist, given, detectors=["msp"], resamples=0)
    assert data_set(found, "far").samples == 40


def test_functions_of_inputs_stand_beside_detectors(net, in_dist, ood):
    found = compare(
        net, in_dist, ood, detectors=["msp"], scores={"norm": lambda x: x.norm(dim=1)}, resamples=0
    )
    assert found.subjects == ["msp", "norm"]
    area = metrics.auroc(in_dist[0].norm(dim=1), ood["far"].norm(dim=1))
    assert found.value("norm", "far") == pytest.approx(area)
    with pytest.raises(NescioError, match="gave 1 scores for 120 inputs"):
        compare(net, in_dist, ood, scores={"one": lambda x: x[:1, 0]}, detectors=["msp"])


def test_a_subject_that_is_not_a_network_is_refused(net, in_dist, ood):
    with pytest.raises(NescioError, match="'three' must be a network or a function"):
        compare({"net": net, "three": 3}, in_dist, ood, detectors=["msp"])
    with pytest.raises(NescioError, match="there is no network"):
        compare({}, in_dist, ood)


@pytest.mark.parametrize("task", ["ood", "confidence"])
def test_the_same_inputs_under_two_names_are_refused(net, in_dist, ood, task):
    given = {**ood, "again": ood["far"].clone()}
    with pytest.raises(NescioError, match="'far' and 'again' are the same inputs.*one name"):
        compare(net, in_dist, given, task=task, resamples=0, progress=False)


def test_a_detector_is_called_once_before_it_is_timed(net, in_dist, ood, monkeypatch):
    whole, seen = detectors.Detector.__call__, []

    def counted(self, activations):
        seen.append(activations.samples)
        return whole(self, activations)

    monkeypatch.setattr(detectors.Detector, "__call__", counted)
    compare(net, in_dist, ood, detectors=["energy"], resamples=0, progress=False)
    assert seen == [2, 120, 80, 60]
