"""The lecture's parts on made-up image files, with networks that train in seconds."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch
from sklearn.metrics import roc_auc_score

import nescio
from nescio import nets
from nescio.evaluation import Comparison
from nescio.evaluation.compare import Absent
from nescio_papers import Settings, named, run_experiment
from nescio_papers.kit import InData, slug
from nescio_papers.robust_deep_learning import (
    all_detectors,
    exposure,
    networks,
    ood,
    ood_verdicts,
    sets,
)
from nescio_papers.robust_deep_learning.sets import BLOCKS, FULL, NOISE, QUICK

QUICKLY = Settings(quick=True)
PARTS = ["ood", "detectors"]
TINY = replace(
    QUICK, train=120, test=40, out=40, batch=30, seeds=2, passes=3, resamples=10, tuning=20
)


@pytest.fixture(scope="module")
def folder_of_data(image_files, tmp_path_factory):
    return image_files(tmp_path_factory.mktemp("data"), train=150, test=50, letters=104)


@pytest.fixture(scope="module")
def small(folder_of_data):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("NESCIO_DATA", str(folder_of_data))
        patch.setattr(sets, "QUICK", TINY)
        build = nets.small_cnn
        patch.setattr(
            networks.nets,
            "small_cnn",
            lambda shape, classes, dropout: build(shape, classes, width=2, dropout=dropout),
        )
        yield


@pytest.fixture(scope="module")
def run(small, tmp_path_factory):
    folder = tmp_path_factory.mktemp("run")
    experiment = named("robust-deep-learning")
    run_experiment(experiment, folder, settings=QUICKLY, only=PARTS, show=False)
    return folder, json.loads((folder / "results.json").read_text())["parts"]


def test_out_sets_that_are_shown_are_not_those_of_the_test(small):
    block = BLOCKS["MNIST"]
    in_dist = sets.in_data(block, TINY)
    assert in_dist.shape == (1, 28, 28)
    assert (len(in_dist.train[0]), len(in_dist.test[0])) == (120, 40)
    tested = sets.ood_data(block, in_dist, TINY, seed=0)
    assert list(tested) == [*block.ood, NOISE]
    assert isinstance(tested[sets.KANA], Absent)
    assert "nescio data download kuzushiji_mnist" in tested[sets.KANA].why
    for name in (sets.STRICT, sets.FASHION, sets.GRAY):
        shown = sets.shown_data(block, name, in_dist, TINY, seed=0)
        images = (255 * shown.take(shown.size)).round().to(torch.uint8).flatten(1)
        both = torch.cat([images, tested[name].flatten(1)]).unique(dim=0)
        assert len(both) == len(images) + len(tested[name])
    noise, count = tested[NOISE]
    shown = sets.shown_data(block, NOISE, in_dist, TINY, seed=0)
    assert not torch.isclose(noise.take(count)[:40], shown.take(40), atol=0.01).all((1, 2, 3)).any()


def test_letters_serve_half_each(small):
    block = BLOCKS["MNIST"]
    in_dist = sets.in_data(block, TINY)
    tested = sets.ood_data(block, in_dist, replace(TINY, test=1000), seed=0)[sets.STRICT]
    shown = sets.shown_data(block, sets.STRICT, in_dist, replace(TINY, out=1000), seed=0)
    assert len(tested) + shown.size == 104 - 16


def test_color_out_sets_have_the_shape_of_the_in_data(small):
    block = BLOCKS["CIFAR-10"]
    in_dist = sets.in_data(block, TINY)
    tested = sets.ood_data(block, in_dist, TINY, seed=0)
    there = {name: x for name, x in tested.items() if torch.is_tensor(x)}
    assert set(there) == {sets.FASHION, sets.LETTERS}
    assert {tuple(x.shape[1:]) for x in there.values()} == {(3, 32, 32)}


def test_photographs_start_from_the_residual_network_that_was_shown_nothing(run):
    folder, parts = run
    for name, block in (("mnist", "MNIST"), ("cifar-10", "CIFAR-10")):
        shown = parts["ood"]["numbers"]["exposure"]["blocks"][block]["rows"]
        assert {exposure.PLAIN, sets.NOISE} < set(shown)
        for one in shown:
            residual = block == "CIFAR-10"
            kept = f"{name}--{slug(one)}{'-resnet-20' * residual}"
            trained = nescio.load(folder / exposure.PART / kept)
            layers = {type(layer).__name__ for layer in trained.net.modules()}
            assert ("Block" in layers) == residual
            assert ("start" in trained.notes) == (residual and one != exposure.PLAIN)
            assert ("weight_decay" in trained.notes["loss"]) == residual
            assert ("outlier_exposure" in trained.notes["loss"]) == (one != exposure.PLAIN)


def test_the_example_has_the_lectures_scores_and_all_detectors(run):
    folder, parts = run
    numbers = parts["ood"]["numbers"]["example"]
    assert set(ood.LECTURE) - {ood_verdicts.SHOWN} <= set(numbers["predictors"])
    assert {"knn", "vim", "energy"} <= set(numbers["predictors"])
    assert numbers["sets"][sets.KANA]["absent"]
    assert numbers["sets"]["mean, near"]["of"] == [sets.STRICT]
    text = (folder / "ood.md").read_text()
    assert "Kuzushiji-MNIST is not at hand" in text
    assert "nescio data download kuzushiji_mnist" in text
    assert "was tuned on drawn shapes (20 inputs) by auroc" in text
    assert {"ood-roc.png", "ood-histograms.png", "exposure.png"} <= {
        p.name for p in folder.iterdir()
    }
    assert {claim["verdict"] for claim in parts["ood"]["claims"]} == {"open"}  # a quick run
    assert len(parts["ood"]["claims"]) == 7


def test_a_cell_of_the_matrix_is_what_scikit_learn_finds(run, small):
    folder, parts = run
    block = BLOCKS["MNIST"]
    in_dist = sets.in_data(block, TINY)
    name = "mnist--fashion-mnist"
    model = nescio.load(folder / "exposure" / name)
    assert "outlier_exposure" in model.notes["loss"]
    ood = sets.ood_data(block, in_dist, TINY, seed=0)[sets.GRAY]
    scores = []
    for x in (in_dist.test[0], ood):
        logits = model.outputs(x)[0].double()
        others = logits.scatter(1, logits.argmax(1, keepdim=True), -torch.inf)
        scores.append((others.logsumexp(1) - logits.amax(1)).numpy())
    truth = np.r_[np.zeros(len(scores[0])), np.ones(len(scores[1]))]
    rows = parts["ood"]["numbers"]["exposure"]["blocks"]["MNIST"]["rows"]
    found = rows[sets.FASHION][sets.GRAY]["value"]
    assert found == pytest.approx(roc_auc_score(truth, np.concatenate(scores)), abs=1e-6)
    assert set(rows) == {exposure.PLAIN, sets.STRICT, sets.FASHION, sets.GRAY, NOISE}
    assert all(
        set(cells) == {sets.STRICT, sets.FASHION, sets.GRAY, NOISE} for cells in rows.values()
    )


def test_scores_are_paired_with_the_maximum_probability_for_every_network(run):
    folder, parts = run
    numbers = parts["ood"]["numbers"]["example"]
    assert numbers["tested"] == [sets.STRICT, sets.FASHION, sets.GRAY, NOISE]
    gains = numbers["gains"]
    assert set(gains) == {ood_verdicts.DISPERSION, ood_verdicts.TUNED, ood_verdicts.SHOWN}
    assert gains[ood_verdicts.SHOWN] == {}  # Kuzushiji-MNIST is not at hand
    for index in range(TINY.example_seeds):
        kept = Comparison.load(folder / "ood" / f"mnist-detectors-{index}")
        other = kept.value(ood_verdicts.TUNED, sets.FASHION) - kept.value("msp", sets.FASHION)
        found = gains[ood_verdicts.TUNED][sets.FASHION][index]
        assert found["value"] == pytest.approx(other, abs=1e-6)
        assert found["low"] <= found["value"] <= found["high"]
    published = {row["what"]: row["published"] for row in parts["ood"]["comparisons"]}
    assert published["MNIST, AUROC of the maximum probability: Fashion-MNIST"] == 0.9931


def test_kuzushiji_tunes_with_one_half_and_is_tested_with_the_other(tmp_path, monkeypatch):
    images = np.random.default_rng(0).integers(0, 256, (24, 28, 28), dtype=np.uint8)
    folder = tmp_path / "kuzushiji-mnist"
    folder.mkdir()
    np.savez(folder / "kmnist-test-imgs.npz", images)
    np.savez(folder / "kmnist-test-labels.npz", np.arange(24) % 10)
    monkeypatch.setenv("NESCIO_DATA", str(tmp_path))
    shown = sets.shown_images(BLOCKS["MNIST"], sets.KANA, 100)
    x = torch.zeros(2, 1, 28, 28)
    in_dist = InData((x, x), (x, x), 10)
    tested = sets.ood_data(BLOCKS["MNIST"], in_dist, TINY, seed=0)[sets.KANA]
    assert len(shown) == len(tested) == 12
    assert len(torch.cat([shown, tested]).flatten(1).unique(dim=0)) == 24
    made = ood._tuned_on_kana(torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(784, 10)), 6)
    assert list(made) == [ood_verdicts.SHOWN]


def example(*gaps):
    """Numbers of the lecture's example with one OOD set, as they are stored."""
    rows = {"kana": [{"value": gap, "low": gap - 0.01, "high": gap + 0.01} for gap in gaps]}
    auroc = {"value": 0.9, "low": 0.89, "high": 0.91}
    return {
        "tested": ["kana"],
        "predictors": {
            "max_logit": {"rows": {"kana": {"auroc": auroc}}},
            "msp": {"rows": {"kana": {"auroc": {"value": 0.95, "low": 0.94, "high": 0.96}}}},
        },
        "gains": dict.fromkeys(
            (ood_verdicts.DISPERSION, ood_verdicts.TUNED, ood_verdicts.SHOWN), rows
        ),
    }


def test_scores_are_judged_over_trainings():
    nothing = {"blocks": {}}
    logits, dispersion, odin = ood_verdicts.judge(
        {"example": example(-0.01, -0.012, -0.011), "exposure": nothing}
    )
    assert logits.verdict == "holds"
    assert "its AUROC: kana 0.950" in logits.note  # of the maximum probability
    assert (dispersion.verdict, odin.verdict) == ("does not hold", "does not hold")
    assert "interval over 3 trainings" in odin.measured
    better = ood_verdicts.judge({"example": example(0.01, 0.012), "exposure": nothing})[2]
    assert better.verdict == "open"  # two trainings are few
    older = ood_verdicts.judge({"example": {"detectors": {}}, "exposure": nothing})
    assert {claim.verdict for claim in older} == {"open"}  # numbers without paired differences
    absent = {"example": {"absent": "no digits"}, "exposure": nothing}
    assert ood_verdicts.judge(absent) == []


def matrix(**rows):
    """AUROCs by what was shown, as they are stored, with intervals of 0.01 to both sides."""
    return {
        shown: {
            row: {"value": value, "low": value - 0.01, "high": value + 0.01}
            for row, value in zip("abc", values, strict=True)
        }
        for shown, values in rows.items()
    }


def test_gains_are_paired_by_the_set_that_is_tested():
    rows = matrix(
        nothing=(0.7, 0.7, 0.7), a=(0.99, 0.7, 0.6), b=(0.8, 0.98, 0.7), c=(0.7, 0.72, 0.99)
    )
    found = exposure.paired_gains(rows)
    assert found["a"] == pytest.approx((0.29, 0.05))
    assert found["b"] == pytest.approx((0.28, 0.01))
    claim = exposure.dependence_claim("MNIST", {"rows": rows})
    assert claim.verdict == "holds"
    assert "1 of 6 pairs got worse" in claim.measured
    alike = matrix(
        nothing=(0.7, 0.7, 0.7), a=(0.97, 0.96, 0.95), b=(0.95, 0.96, 0.95), c=(0.96, 0.95, 0.96)
    )
    little = exposure.dependence_claim("MNIST", {"rows": alike})
    assert [one.verdict for one in little.facts] == ["open", "does not hold"]
    alone = exposure.dependence_claim("MNIST", {"rows": {exposure.PLAIN: {}}})
    assert alone.verdict == "open"


def test_a_set_that_stands_for_all_others_is_short_of_none():
    rows = matrix(
        nothing=(0.7, 0.7, 0.7), a=(0.99, 0.7, 0.6), b=(0.8, 0.98, 0.7), c=(0.7, 0.72, 0.99)
    )
    claim = exposure.modeled_claim("MNIST", {"rows": rows})
    assert claim.verdict == "holds"
    assert "shown a, tested on c" in claim.facts[0].what
    rows["a"] = matrix(a=(0.99, 0.99, 0.999))["a"]
    one = exposure.modeled_claim("MNIST", {"rows": rows})
    assert [fact.verdict for fact in one.facts] == ["does not hold", "holds", "holds"]
    assert one.verdict == "holds in part"
    rows["a"] = matrix(a=(0.99, 0.99 - exposure.STRONG, 0.99))["a"]
    close = exposure.modeled_claim("MNIST", {"rows": rows})
    assert [fact.verdict for fact in close.facts] == ["open", "holds", "holds"]
    assert exposure.modeled_claim("MNIST", {"rows": {exposure.PLAIN: {}}}).verdict == "open"


def test_all_detectors_are_averaged_over_trainings(run):
    folder, parts = run
    for name in BLOCKS:
        numbers = parts["detectors"]["numbers"][name]
        assert numbers["seeds"] == len(numbers["accuracy"]) == 2
        assert {"knn", "gaussian_mixture", all_detectors.COMBINED} <= set(numbers["detectors"])
        assert not numbers["left_out"]
    kept = [Comparison.load(path) for path in (folder / "detectors").glob("mnist--*")]
    assert len(kept) == 2
    values = [one.value("knn", sets.FASHION) for one in kept]
    cell = parts["detectors"]["numbers"]["MNIST"]["detectors"]["knn"]["rows"][sets.FASHION]["auroc"]
    assert cell["value"] == pytest.approx(np.mean(values))
    assert cell["deviation"] == pytest.approx(np.std(values, ddof=1))
    assert kept[0].about.layers == (all_detectors.EARLY, all_detectors.LAST)
    knn = next(one for one in kept[0].about.subjects if one.name == "knn")
    assert knn.layers == (all_detectors.LAST,)
    said = {row["what"]: row for row in parts["detectors"]["comparisons"]}
    row = said["trained on MNIST, AUROC of the maximum probability: Fashion-MNIST"]
    ours = parts["detectors"]["numbers"]["MNIST"]["detectors"]["msp"]["rows"][sets.FASHION]
    assert (row["published"], row["ours"]) == (0.9931, ours["auroc"]["value"])
    assert said["trained on CIFAR-10, AUROC of the maximum probability: mean, all"]["note"]


def test_a_part_that_was_lost_is_made_of_what_was_kept(run, small, monkeypatch):
    folder, _ = run
    path = folder / "detectors.json"
    before = json.loads(path.read_text())
    path.unlink()
    monkeypatch.setattr(all_detectors, "compare", None)  # nothing is measured again
    experiment = named("robust-deep-learning")
    run_experiment(experiment, folder, settings=QUICKLY, only=PARTS, show=False)
    assert json.loads(path.read_text())["numbers"] == before["numbers"]


def test_without_any_data_the_commands_are_said(tmp_path, monkeypatch):
    monkeypatch.setenv("NESCIO_DATA", str(tmp_path))
    found = ood.run(QUICKLY)
    assert "nescio data download mnist" in found.text
    assert "nescio data download cifar10" in found.text
    assert not found.figures
    assert "nescio data download fashion_mnist" in all_detectors.run(QUICKLY).text


def test_the_full_budget_is_that_of_the_goal():
    assert FULL.seeds == 3
    assert FULL.test == 10_000
    assert sets.budget(Settings()) is FULL
