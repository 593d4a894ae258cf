"""The audit: numbers that agree with the metrics, on networks whose answers are known."""

import json
from pathlib import Path

import pytest
import torch
from torch import nn

import nescio
from nescio import NescioError, audit, data, metrics
from nescio.cli.demo import audit_digits
from nescio.core import derive
from nescio.data.ranges import noise, units_of
from nescio.models import ensemble, plain
from nescio.report.audit_report import report_of


def linear(scale: float = 1.0) -> nn.Module:
    """Two classes, decided by the first feature, sure in proportion to it."""
    net = nn.Linear(2, 2)
    with torch.no_grad():
        net.weight.copy_(scale * torch.tensor([[-1.0, 0.0], [1.0, 0.0]]))
        net.bias.zero_()
    return net


def sizes(result):
    """Samples by data set."""
    return {one["name"]: one["samples"] for one in result["sets"]}


@pytest.fixture(scope="module")
def labeled() -> tuple[torch.Tensor, torch.Tensor]:
    draw = torch.Generator().manual_seed(0)
    x = torch.randn(200, 2, generator=draw)
    return x, (x[:, 0] + 0.3 * torch.randn(200, generator=draw) > 0).long()


def test_quality_equals_the_metrics(labeled) -> None:
    x, y = labeled
    found = audit(linear(), labeled).to_json()["predictors"]["network"]
    probs = linear()(x).softmax(-1).double()
    assert found["test"]["accuracy"] == pytest.approx(metrics.accuracy(probs, y))
    assert found["test"]["nll"] == pytest.approx(metrics.nll(probs, y), rel=1e-6)
    assert found["test"]["brier"] == pytest.approx(metrics.brier(probs, y), rel=1e-6)
    confidence, correct = probs.amax(-1), probs.argmax(-1) == y
    assert found["test"]["ece"] == pytest.approx(metrics.ece(confidence, correct), rel=1e-6)
    assert sum(found["reliability"]["count"]) == 200
    assert sum(found["confidence_histograms"]["test"]) == 200


def test_confidence_along_the_ray_is_exact_and_tends_to_one(labeled) -> None:
    x, _ = labeled
    ray = audit(linear(), labeled).to_json()["predictors"]["network"]["scaling"]
    for alpha, confidence in zip(ray["alpha"], ray["mean_max_confidence"], strict=True):
        truth = torch.sigmoid(2 * alpha * x[:, 0].abs().double()).mean().item()
        assert confidence == pytest.approx(truth, rel=1e-5)
    assert ray["alpha"][0] == 1
    assert ray["alpha"][-1] == 10_000
    assert ray["auroc"]["least_confidence"][0] == 0.5  # the test data against themselves
    assert ray["auroc"]["least_confidence"][-1] < 0.05


def test_the_separation_is_the_ranking_of_each_measure(labeled) -> None:
    ood = torch.zeros(50, 2)  # on the boundary: as unsure as can be
    result = audit(linear(), labeled, ood={"boundary": ood}).to_json()
    numbers = result["predictors"]["network"]["ood"]["boundary"]["measures"]
    assert numbers["least_confidence"]["auroc"] == 1.0
    assert numbers["least_confidence"]["fpr_at_95_tpr"] == 0.0
    assert numbers["mutual_information"]["auroc"] == 0.5  # one network has none
    assert sizes(result)["boundary"] == 50


def test_several_predictors_and_the_table(labeled) -> None:
    both = {"one": linear(), "two": ensemble([linear(), linear(3.0)]), "three": plain(linear(2.0))}
    findings = audit(both, labeled, train=labeled, alphas=(1.0, 10.0), attack_steps=7)
    results = findings.results
    assert results.names("subject") == ["one", "two", "three"]
    assert (
        results.value("one", "test", "accuracy")
        == findings.findings.predictors["one"].test.accuracy
    )
    assert set(results.names("data")) == {
        "test", "uniform noise", "shuffled features", "scaled x 10",
        "adversarial noise (radius 0.05, 7 steps)",
    }  # fmt: skip
    assert findings.to_json()["predictors"]["two"]["members"] == 2


def test_images_get_permuted_pixels() -> None:
    digits = data.digits()
    net = nn.Sequential(nn.Flatten(), nn.Linear(64, 10))
    result = audit(net, digits.test, alphas=(1.0, 100.0)).to_json()
    assert "permuted pixels" in sizes(result)


def test_the_attack_finds_the_surest_inputs_near_noise(labeled) -> None:
    """Sure in proportion to the first feature: the surest point is at the end of its reach."""
    x, _ = labeled
    result = audit(linear(), labeled, rays=0, attack_radius=0.2, attack_steps=30).to_json()
    name = "adversarial noise (radius 0.2, 30 steps)"
    found = result["predictors"]["network"]["ood"][name]["mean_max_confidence"]
    units = units_of(x)
    start = noise(x, seed=derive(0, "audit")).take(sizes(result)[name])[:, 0]
    ends = torch.stack([(start - 0.2).clamp(min=0), (start + 0.2).clamp(max=1)])
    ends = units.low[0] + ends * units.width[0]
    best = torch.sigmoid(2 * ends.abs().amax(0).double()).mean().item()
    noisy = torch.sigmoid(2 * (units.low[0] + start * units.width[0]).abs().double()).mean().item()
    assert noisy + 0.05 < found < best + 1e-6
    assert found == pytest.approx(best, abs=0.01)  # in the middle it may climb the lower side
    assert result["attack"]["steps"] == 30


def test_the_attack_can_be_left_out(labeled) -> None:
    result = audit(linear(), labeled, rays=0, attack_steps=0).to_json()
    assert "attack" not in result
    assert set(result["predictors"]["network"]["ood"]) == {
        "uniform noise", "shuffled features", "scaled x 10000",
    }  # fmt: skip


def test_a_predictor_without_gradients_is_audited_without_the_attack(labeled) -> None:
    model = plain(linear())
    findings = audit({"plain": model, "closed": lambda x: model(x)}, labeled, rays=0)
    closed = findings.to_json()["predictors"]["closed"]
    assert "no method answer" in closed["attack"]["skipped"]
    assert closed["test"] == findings.to_json()["predictors"]["plain"]["test"]
    assert "closed: no adversarial noise. a function has no method answer" in " ".join(
        str(findings).split()
    )


def unit_square(samples: int = 300) -> tuple[torch.Tensor, torch.Tensor]:
    x = torch.rand(samples, 2, generator=torch.Generator().manual_seed(1))
    x[:2] = torch.tensor([[0.0, 0.0], [1.0, 1.0]])
    return x, (x[:, 0] > 0.5).long()


def stepped(activation: nn.Module, edge: float) -> nn.Module:
    """Unsure until the first feature passes `edge`, where the only hidden unit wakes up."""
    net = nn.Sequential(nn.Linear(2, 1), activation, nn.Linear(1, 2))
    with torch.no_grad():
        net[0].weight.copy_(torch.tensor([[1.0, 0.0]]))
        net[0].bias.fill_(-edge)
        net[2].weight.copy_(torch.tensor([[0.0], [1000.0]]))
        net[2].bias.copy_(torch.tensor([0.0, 0.1]))
    return net


def test_an_attack_without_gradients_leaks_through_dead_units() -> None:
    """What can reach the edge does, though the gradient at the start is zero."""
    given = unit_square()
    net = stepped(nn.ReLU(), 0.9)
    result = audit(net, given, rays=0, attack_radius=0.2, attack_steps=40).to_json()
    found = result["predictors"]["network"]
    start = noise(given[0], seed=derive(0, "audit")).take(200)[:, 0]
    share = ((start + 0.2).clamp(max=1) > 0.9).double().mean().item()
    name = "adversarial noise (radius 0.2, 40 steps)"
    sure = found["ood"][name]["mean_max_confidence"]
    unmoved = torch.sigmoid(torch.tensor(0.1)).item()
    assert sure == pytest.approx(share + (1 - share) * unmoved, abs=0.01)
    assert found["attack"] == {"blind": 0.0}


def test_inputs_that_no_attack_can_move_are_counted() -> None:
    net = stepped(nn.Hardtanh(0.0, 1.0), 2.0)  # flat on all of the data, and nothing leaks
    findings = audit(net, unit_square(), rays=0, attack_steps=5)
    assert findings.to_json()["predictors"]["network"]["attack"] == {"blind": 1.0}
    assert "could not move 100 % of its inputs" in " ".join(str(findings).split())


class Watching:
    """A predictor that remembers the range of what it was asked."""

    def __init__(self, net: nn.Module) -> None:
        self.model, self.low, self.high = plain(net), torch.inf, -torch.inf

    def __call__(self, x: torch.Tensor) -> nescio.Prediction:
        return self.model(x)

    def answer(self, x: torch.Tensor) -> nescio.Prediction:
        self.low, self.high = min(self.low, x.min().item()), max(self.high, x.max().item())
        return self.model.answer(x)


def test_images_of_another_range_are_attacked_in_that_range() -> None:
    x, y = data.digits().test
    net = nn.Sequential(nn.Flatten(), nn.Linear(64, 10))
    watching = Watching(net)
    result = audit(watching, (4 * x - 1, y), rays=0, alphas=(1.0,), attack_steps=5).to_json()
    assert "adversarial noise (radius 0.3, 5 steps)" in sizes(result)
    assert watching.low == pytest.approx(-1)
    assert watching.high == pytest.approx(3)


def test_images_of_bytes_are_images() -> None:
    x, y = data.digits().test
    images = (255 * x).round().to(torch.uint8)
    net = nn.Sequential(nn.Flatten(), nn.Linear(64, 10))
    options = {"rays": 0, "alphas": (1.0, 10.0), "attack_steps": 5, "skip": ["provenance"]}
    found = [
        audit(net, (given, y), train=(given, y), ood={"same": given}, **options).to_json()
        for given in (images, images / 255)
    ]
    assert found[0] == found[1]


def test_saving_writes_a_page_and_the_numbers(labeled, tmp_path: Path) -> None:
    findings = audit(linear(), labeled, alphas=(1.0, 10.0))
    page = findings.save(tmp_path / "out")
    assert page.read_text().startswith("<!DOCTYPE html>")
    saved = json.loads((tmp_path / "out" / "audit.json").read_text())
    assert saved["nescio"] == nescio.__version__
    assert (
        saved["predictors"]["network"]["test"]
        == findings.to_json()["predictors"]["network"]["test"]
    )
    assert "AUROC" in str(findings)


def test_a_guard_of_an_earlier_audit_does_not_stay(labeled, tmp_path: Path) -> None:
    names = [tmp_path / "guard.safetensors", tmp_path / "guard.safetensors.json"]
    for name in names:
        name.write_bytes(b"of another network")
    findings = audit(linear(), labeled, rays=0, attack_steps=0, progress=False)
    assert findings.guard is None
    findings.save(tmp_path)
    assert not any(name.exists() for name in names)


def test_test_data_scaled_otherwise_than_the_training_data_are_said(labeled) -> None:
    x, y = labeled
    options = {"rays": 0, "attack_steps": 0, "alphas": (1.0,), "progress": False}
    found = audit(linear(), (1000 * x + 500, y), train=(x, y), **options)
    assert found.to_json()["range"]["ood"] > len(x) / 2
    assert "are they scaled alike?" in " ".join(str(found).split())
    alike = audit(linear(), (x, y), train=(x, y), **options)
    assert alike.to_json()["range"]["ood"] == 0
    assert "are they scaled alike?" not in str(alike)
    assert "range" not in audit(linear(), (x, y), **options).to_json()


def test_test_samples_among_the_validation_data_are_left_out(labeled) -> None:
    x, y = labeled
    options = {"rays": 0, "attack_steps": 0, "alphas": (1.0,), "progress": False}
    cut = len(x) // 2
    found = audit(linear(), (x, y), validation=(x[:cut], y[:cut]), **options).to_json()
    assert f"({cut} left out)" in found["held_out"]
    bins = found["predictors"]["network"]["calibration"]["before"]["reliability"]
    assert sum(bins["count"]) == len(x) - cut
    assert found["predictors"]["network"]["failure"]["samples"] == len(x) - cut
    assert found["shift"]["samples"] == min(500, len(x) - cut)
    assert found["guard"]["left_out"] == cut


def test_the_same_seed_gives_the_same_audit(labeled) -> None:
    first, second = (audit(linear(), labeled, seed=4).to_json() for _ in range(2))
    assert first == second
    assert audit(linear(), labeled, seed=5).to_json() != first


def test_the_demo_shows_what_helps_and_what_does_not(tmp_path: Path) -> None:
    findings = audit_digits(
        members=3, epochs=6, rays=0, attack_steps=6, recipe=["acet"], run=tmp_path
    )
    result = findings.to_json()["predictors"]
    single, ensemble_ = result["single network"], result["deep ensemble"]
    attacked = "adversarial noise (radius 0.3, 6 steps)"
    acet = result["ACET"]
    assert acet["test"]["accuracy"] > 0.85
    assert acet["ood"][attacked]["mean_max_confidence"] < 0.3  # 0.1 is "I do not know"
    for found in (single, ensemble_):
        assert found["ood"][attacked]["mean_max_confidence"] > 0.98
    kept = nescio.load(tmp_path / "acet")  # the trained remedy is there to be used
    accuracy = metrics.accuracy(kept(data.digits().test[0]).probs, data.digits().test[1])
    assert accuracy == acet["test"]["accuracy"]
    assert single["test"]["accuracy"] > 0.9
    assert ensemble_["members"] == 3
    noise = "uniform noise"
    sure = [found["ood"][noise]["mean_max_confidence"] for found in (single, ensemble_)]
    assert sure[1] < sure[0]  # members disagree on noise
    assert single["scaling"]["mean_max_confidence"][-1] > 0.999  # and far away nothing helps
    assert single["ood"]["scaled x 10000"]["measures"]["predictive_entropy"]["auroc"] < 0.05


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"net": {}}, "empty"),
        ({"data": (torch.zeros(3, 2), torch.zeros(4).long())}, "one per sample"),
        ({"data": (torch.zeros(3, 2), torch.tensor([0, 1, 2]))}, r"0\.\.1"),
        ({"data": (torch.full((3, 2), torch.nan), torch.zeros(3).long())}, "NaN"),
        ({"ood": {"wide": torch.zeros(4, 3)}}, "resize them first"),
        ({"ood": {"test": torch.zeros(4, 2)}}, "taken"),
        ({"ood": {"uniform noise": torch.zeros(4, 2)}}, "taken"),
        ({"alphas": (1.0, 0.5)}, "increasing"),
        ({"alphas": ()}, "increasing"),
        ({"ood": {"adversarial noise (radius 0.05, 50 steps)": torch.zeros(4, 2)}}, "taken"),
        ({"ood": {"scaled x 10000": torch.zeros(4, 2)}}, "taken"),
        ({"train": (torch.zeros(4, 3), torch.zeros(4).long())}, "training inputs have shape"),
        ({"attack_radius": 2.0}, "leaves the box"),
        ({"attack_radius": 0.0}, "must be positive"),
        ({"attack_steps": -1}, "steps must be a whole number"),
    ],
)
def test_bad_input_is_refused(change: dict, said: str, labeled) -> None:
    given = {"net": linear(), "data": labeled, **change}
    with pytest.raises(NescioError, match=said):
        audit(given.pop("net"), given.pop("data"), **given)


def test_targets_that_never_vary_are_refused(labeled) -> None:
    x, _ = labeled
    net = plain(linear(), head=nescio.heads.gaussian())
    with pytest.raises(NescioError, match="never varies"):
        audit(net, (x, torch.zeros(200).long()))


def test_an_audit_within_inference_mode_is_the_same(labeled) -> None:
    net = nescio.nets.mlp(2, 2, widths=(8,))
    options: dict = {"rays": 3, "attack_steps": 2, "progress": False}
    truth = audit(net, labeled, **options).to_json()
    with torch.inference_mode():
        x, y = (part.clone() for part in labeled)
        assert audit(net, (x, y), **options).to_json() == truth
    assert audit(net, (x, y), **options).to_json() == truth


def test_the_kind_of_a_data_set_is_a_field(labeled) -> None:
    given = {"adversarial noise of mine": torch.zeros(4, 2), "scaled x 2": torch.ones(4, 2)}
    found = audit(linear(), labeled, ood=given, rays=0, attack_steps=2, progress=False)
    kinds = {one.name: one.kind for one in found.results.sets}
    assert kinds == {
        "test": "test", "uniform noise": "noise", "shuffled features": "noise",
        "adversarial noise (radius 0.05, 2 steps)": "adversarial",
        "adversarial noise of mine": "ood", "scaled x 2": "ood", "scaled x 10000": "far",
    }  # fmt: skip
    said = report_of(found.findings)
    assert said.headline.startswith("At 10000 times the test inputs")
    assert "confidence on shuffled features" in said.verdict[0]
    assert found.findings.kind("adversarial noise of mine") == "ood"
