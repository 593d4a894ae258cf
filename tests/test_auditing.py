"""The audit: numbers that agree with the metrics, on networks whose answers are known."""

import json
from pathlib import Path

import pytest
import torch
from torch import nn

import nescio
from nescio import NescioError, audit, data, metrics
from nescio.demo import audit_digits
from nescio.predictors import ensemble, plain


def linear(scale: float = 1.0) -> nn.Module:
    """Two classes, decided by the first feature, sure in proportion to it."""
    net = nn.Linear(2, 2)
    with torch.no_grad():
        net.weight.copy_(scale * torch.tensor([[-1.0, 0.0], [1.0, 0.0]]))
        net.bias.zero_()
    return net


@pytest.fixture(scope="module")
def labelled() -> tuple[torch.Tensor, torch.Tensor]:
    draw = torch.Generator().manual_seed(0)
    x = torch.randn(200, 2, generator=draw)
    return x, (x[:, 0] + 0.3 * torch.randn(200, generator=draw) > 0).long()


def test_quality_equals_the_metrics(labelled) -> None:
    x, y = labelled
    found = audit(linear(), labelled).result["predictors"]["network"]
    probs = linear()(x).softmax(-1).double()
    assert found["test"]["accuracy"] == pytest.approx(metrics.accuracy(probs, y))
    assert found["test"]["nll"] == pytest.approx(metrics.nll(probs, y), rel=1e-6)
    assert found["test"]["brier"] == pytest.approx(metrics.brier(probs, y), rel=1e-6)
    confidence, correct = probs.amax(-1), probs.argmax(-1) == y
    assert found["test"]["ece"] == pytest.approx(metrics.ece(confidence, correct), rel=1e-6)
    assert sum(found["reliability"]["count"]) == 200
    assert sum(found["confidence_histograms"]["test"]) == 200


def test_confidence_along_the_ray_is_exact_and_tends_to_one(labelled) -> None:
    x, _ = labelled
    ray = audit(linear(), labelled).result["predictors"]["network"]["scaling"]
    for alpha, confidence in zip(ray["alpha"], ray["mean_max_confidence"], strict=True):
        truth = torch.sigmoid(2 * alpha * x[:, 0].abs().double()).mean().item()
        assert confidence == pytest.approx(truth, rel=1e-5)
    assert ray["alpha"][0] == 1
    assert ray["alpha"][-1] == 10_000
    assert ray["auroc"]["least_confidence"][0] == 0.5  # the test data against themselves
    assert ray["auroc"]["least_confidence"][-1] < 0.05


def test_the_separation_is_the_ranking_of_each_measure(labelled) -> None:
    outside = torch.zeros(50, 2)  # on the boundary: as unsure as can be
    result = audit(linear(), labelled, outside={"boundary": outside}).result
    numbers = result["predictors"]["network"]["outside"]["boundary"]["measures"]
    assert numbers["least_confidence"]["auroc"] == 1.0
    assert numbers["least_confidence"]["fpr_at_95_tpr"] == 0.0
    assert numbers["mutual_information"]["auroc"] == 0.5  # one network has none
    assert result["sets"]["boundary"] == 50


def test_several_predictors_and_the_table(labelled) -> None:
    both = {"one": linear(), "two": ensemble([linear(), linear(3.0)]), "three": plain(linear(2.0))}
    findings = audit(both, labelled, train=labelled, alphas=(1.0, 10.0))
    rows = findings.table
    assert {row["predictor"] for row in rows} == {"one", "two", "three"}
    assert {row["data"] for row in rows} == {
        "test", "uniform noise", "shuffled features", "scaled x 10",
    }  # fmt: skip
    assert findings.result["predictors"]["two"]["members"] == 2


def test_images_get_permuted_pixels() -> None:
    digits = data.digits()
    net = nn.Sequential(nn.Flatten(), nn.Linear(64, 10))
    result = audit(net, digits.test, alphas=(1.0, 100.0)).result
    assert "permuted pixels" in result["sets"]


def test_saving_writes_a_page_and_the_numbers(labelled, tmp_path: Path) -> None:
    findings = audit(linear(), labelled, alphas=(1.0, 10.0))
    page = findings.save(tmp_path / "out")
    assert page.read_text().startswith("<!DOCTYPE html>")
    saved = json.loads((tmp_path / "out" / "audit.json").read_text())
    assert saved["nescio"] == nescio.__version__
    assert (
        saved["predictors"]["network"]["test"] == findings.result["predictors"]["network"]["test"]
    )
    assert "AUROC" in str(findings)


def test_the_same_seed_gives_the_same_audit(labelled) -> None:
    first, second = (audit(linear(), labelled, seed=4).result for _ in range(2))
    assert first == second
    assert audit(linear(), labelled, seed=5).result != first


def test_the_demo_shows_what_helps_and_what_does_not() -> None:
    result = audit_digits(members=3, epochs=6).result["predictors"]
    single, ensemble_ = result["single network"], result["deep ensemble"]
    assert single["test"]["accuracy"] > 0.9
    assert ensemble_["members"] == 3
    noise = "uniform noise"
    sure = [found["outside"][noise]["mean_max_confidence"] for found in (single, ensemble_)]
    assert sure[1] < sure[0]  # members disagree on noise
    assert single["scaling"]["mean_max_confidence"][-1] > 0.999  # and far away nothing helps
    assert single["outside"]["scaled x 10000"]["measures"]["predictive_entropy"]["auroc"] < 0.05


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"net": {}}, "empty"),
        ({"data": (torch.zeros(3, 2), torch.zeros(4).long())}, "one a case"),
        ({"data": (torch.zeros(3, 2), torch.tensor([0, 1, 2]))}, r"0\.\.1"),
        ({"data": (torch.full((3, 2), torch.nan), torch.zeros(3).long())}, "NaN"),
        ({"outside": {"wide": torch.zeros(4, 3)}}, "resize them first"),
        ({"outside": {"test": torch.zeros(4, 2)}}, "taken"),
        ({"outside": {"uniform noise": torch.zeros(4, 2)}}, "taken"),
        ({"alphas": (1.0, 0.5)}, "increasing"),
        ({"alphas": ()}, "increasing"),
    ],
)
def test_bad_input_is_refused(change: dict, said: str, labelled) -> None:
    given = {"net": linear(), "data": labelled, **change}
    with pytest.raises(NescioError, match=said):
        audit(given.pop("net"), given.pop("data"), **given)


def test_regression_models_are_refused(labelled) -> None:
    x, _ = labelled
    net = plain(linear(), head=nescio.heads.gaussian())
    with pytest.raises(NescioError, match="class probabilities"):
        audit(net, (x, torch.zeros(200).long()))
