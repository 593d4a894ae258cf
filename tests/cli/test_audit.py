"""`nescio audit`: what it writes, trains beside and refuses."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from click.testing import Result
from PIL import Image
from safetensors.torch import load_file, save_file
from torch import nn

from nescio import load
from nescio import load as nescio_load
from nescio.cli.work import audit as audit_command
from nescio.evaluation import Audit
from nescio.evaluation.audit.findings import Findings, GuardFindings
from nescio.guards import guard as make_guard

JUDGED = (0, 2, 3)  # pass, attention, fail

NAME = "guarded_module_of_tests"
DEFAULT = f"{NAME}:make_net"


@pytest.mark.parametrize("weights", ["w.safetensors", "w.pt"])
def test_audit_of_a_users_network(
    folder: Path, weights: str, nescio: Callable[..., Result], own: Callable[..., str]
) -> None:
    words = ["audit", own(folder), "--weights", weights, "--data", "test.npz", "--out", "a"]
    result = nescio(*words, "--ood", "moved=other.npz", "--passes", "5", "--train", "test.npz")
    assert result.exit_code in JUDGED, result.output
    found = json.loads((folder / "a" / "audit.json").read_text())
    assert set(found["predictors"]) == {"network", "MC dropout"}
    assert [s["samples"] for s in found["sets"] if s["name"] == "moved"] == [60]
    assert "<svg" in (folder / "a" / "audit.html").read_text()


def findings_of_a_guard() -> Findings:
    """Findings with nothing but what was asked of the guard."""
    guard = GuardFindings(predictor="network", false_alarm=0.01, risk=0.02, confidence=0.95,
                          samples=300, needed=188, halved=False)  # fmt: skip
    return Findings(samples=1, features=(2,), seed=0, sets=(), predictors={}, guard=guard)


def test_train_a_remedy_and_audit_it_beside_a_plain_network(
    folder: Path, nescio: Callable[..., Result]
) -> None:
    words = ["train", "single", "--data", "half_moons", "--run", "plain", "--epochs", "40"]
    assert nescio(*words, "--learning-rate", "0.01", "--standardize").exit_code == 0
    words = ["audit", "plain", "--data", "half_moons", "--train", "half_moons", "--out", "a"]
    words += ["--recipe", "acet,weight=2", "--recipe", "ceda", "--epochs", "40"]
    words += ["--rays", "0", "--attack-steps", "10", "--attack-radius", "0.1", "--full"]
    result = nescio(*words)
    assert result.exit_code in JUDGED, result.output
    found = json.loads((folder / "a" / "audit.json").read_text())["predictors"]
    assert list(found) == ["network", "ACET, weight=2", "CEDA"]
    row = "adversarial noise (radius 0.1, 10 steps)"
    assert row in result.output
    plain, acet, ceda = (part["ood"][row]["mean_max_confidence"] for part in found.values())
    assert acet < plain
    assert ceda < plain
    page = (folder / "a" / "audit.html").read_text()
    assert row in page
    kept = nescio("predict", "a/ceda", "--data", "half_moons", "--out", "p.csv")
    assert kept.exit_code == 0, kept.output
    again = nescio(*words)  # the trained recipes are there
    assert again.exit_code in JUDGED, again.output
    assert json.loads((folder / "a" / "audit.json").read_text())["predictors"] == found


def test_a_remedy_has_the_users_own_network(
    folder: Path, nescio: Callable[..., Result], own: Callable[..., str]
) -> None:
    words = ["audit", own(folder), "--weights", "w.pt", "--data", "test.npz", "--out", "a"]
    words += ["--train", "test.npz", "--recipe", "ceda", "--epochs", "1"]
    result = nescio(*words, "--rays", "0", "--attack-steps", "2", "--ood", "other.npz")
    assert result.exit_code in JUDGED, result.output
    found = json.loads((folder / "a" / "audit.json").read_text())
    assert [s["samples"] for s in found["sets"] if s["name"] == "other.npz"] == [60]
    net = nn.Sequential(nn.Linear(2, 8), nn.ReLU(), nn.Dropout(0.2), nn.Linear(8, 2))
    assert load(folder / "a" / "ceda", net=net).members == 1


@pytest.mark.parametrize("recipes", [[], ["--recipe", "acet"]])
def test_a_stopped_audit_says_that_it_goes_on(
    folder: Path,
    recipes: list[str],
    monkeypatch: pytest.MonkeyPatch,
    nescio: Callable[..., Result],
    own: Callable[..., str],
) -> None:
    def stopped(*words: object, **options: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("nescio.cli.work.audit.audit_files", stopped)
    result = nescio("audit", own(folder), "--weights", "w.pt", "--data", "test.npz", *recipes)
    assert result.exit_code == 130
    assert "stopped" in result.output
    assert "goes on where it stopped" in result.output


def test_an_audit_of_a_network_with_several_outputs(
    home: Path,
    monkeypatch: pytest.MonkeyPatch,
    nescio: Callable[..., Result],
    draw: Callable[..., Any],
    rows_of: Callable[..., Any],
    net_of: Callable[[], nn.Module],
) -> None:
    state = {f"net.{n}": t for n, t in load_file(home / "w.safetensors").items()}
    save_file(state, home / "w2.safetensors")
    seen: dict[str, Any] = {}

    def audit(predictors: Any, test: Any, *, output: str, **_: Any) -> Audit:
        net = predictors["network"]
        seen["logits"] = net(test[0])[output]
        options: dict[str, Any] = {"detector": "mahalanobis", "risk": 0.08, "output": output}
        made = make_guard(net, test, train=draw(500, 5), **options)
        seen["decisions"] = made(draw(50, 9)[0])
        return Audit(findings_of_a_guard(), made)

    monkeypatch.setattr(audit_command, "run_audit", audit)
    monkeypatch.setattr(Audit, "__str__", lambda self: "")
    monkeypatch.setattr(
        Audit, "save", lambda self, folder: self.guard.save("h2.safetensors", weights=True)
    )
    words = ["audit", f"{NAME}:two", "--weights", "w2.safetensors", "--data", "held.npz"]
    result = nescio(*words, "--output", "logits")
    assert result.exit_code in JUDGED, result.output
    truth = net_of()(torch.from_numpy(draw(900, 1)[0]))
    torch.testing.assert_close(seen["logits"], truth)
    np.save("fifty.npy", draw(50, 9)[0])
    words = ["score", "h2.safetensors", "fifty.npy", "--net", f"{NAME}:two", "--out", "h2.csv"]
    done = nescio(*words)
    assert done.exit_code == 0, done.output
    columns = seen["decisions"].columns()
    assert [row["decision"] for row in rows_of(home / "h2.csv")] == columns["decision"].tolist()
    run = nescio("audit", ".", "--data", "held.npz", "--output", "logits")
    assert run.exit_code == 1


def test_audit_reads_tables(
    home: Path,
    guard: Path,
    monkeypatch: pytest.MonkeyPatch,
    nescio: Callable[..., Result],
    draw: Callable[..., Any],
    write_words: Callable[..., None],
    write_csv: Callable[..., None],
    net_of: Callable[[], nn.Module],
) -> None:
    seen: dict[str, Any] = {}

    def audit(predictors: Any, test: Any, **options: Any) -> Audit:
        seen.update(options, test=test)
        return Audit(findings_of_a_guard(), nescio_load(guard, net=net_of()))

    def save(self: Audit, folder: str) -> Path:
        seen["columns"] = self.guard.notes["columns"]
        return Path(folder)

    monkeypatch.setattr(audit_command, "run_audit", audit)
    monkeypatch.setattr(Audit, "save", save)
    monkeypatch.setattr(Audit, "__str__", lambda self: "")
    write_words(home / "words.csv", 1)
    x, y = draw(900, 3)
    write_csv(home / "valid.csv", x, y)
    np.savetxt(home / "strange.csv", x[:50] * 9, "%.9g", ",", header="b,a", comments="")
    words = ["audit", DEFAULT, "--weights", "w.safetensors", "--out", "audited"]
    table = ["--data", "words.csv:without=patient", "--target", "way", "--class-names", "west,east"]
    (home / "valid2.csv").write_text((home / "valid.csv").read_text().replace("class", "way"))
    more = ["--validation", "valid2.csv", "--ood", "odd=strange.csv"]
    result = nescio(*words, *table, *more)
    assert result.exit_code in JUDGED, result.output
    for part, own in (("test", draw(900, 1)), ("validation", (x, y))):
        np.testing.assert_allclose(seen[part][0], own[0], rtol=1e-6)
        assert seen[part][1].tolist() == own[1].tolist()
    np.testing.assert_allclose(seen["ood"]["odd"], x[:50, ::-1] * 9, rtol=1e-6)  # by name
    assert seen["columns"] == ["a", "b"]
    assert "--target NAME" in nescio(*words, "--data", "words.csv").output
    one = [*words, "--data", "valid.csv", "--target", "class", "--recipe", "ceda"]
    assert "are one file" in nescio(*one, "--train", "valid.csv").output
    assert "are one file" in nescio(*one[:-2], "--validation", "valid.csv").output
    (home / "flat").mkdir()
    Image.fromarray(np.zeros((2, 2), np.uint8)).save(home / "flat" / "a.png")
    assert "flat/0/a.png and flat/1/b.png" in nescio(*words, "--data", "flat").output


def test_how_stable(folder: Path, nescio: Callable[..., Result], own: Callable[..., str]) -> None:
    words = ["audit", own(folder), "--weights", "w.safetensors", "--data", "test.npz", "--out", "a"]
    few = ["--also", "stability", "--rays", "0", "--attack-steps", "0", "--full"]
    result = nescio(*words, *few)
    assert result.exit_code in JUDGED, result.output
    assert "How stable the answers are" in result.output
    found = json.loads((folder / "a" / "audit.json").read_text())["sections"]["stability"]
    assert len(found["changes"]["size"]) == len(found["changes"]["sample"]) > 0
    assert "Lipschitz constant" in (folder / "a" / "audit.html").read_text()
