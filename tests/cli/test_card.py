"""`nescio card` and `nescio verify`: what is found, and what is said where files have moved."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from safetensors.torch import load_file, save_file

from nescio import NescioError
from nescio.cli import verify as verify_command
from nescio.cli.main import main
from nescio.core import save_manifest
from nescio.evaluation import make_card, read_card
from nescio.evaluation.card.claims import canonical_digest

AUDIT = ("--budget", "quick", "--rays", "0", "--attack-steps", "0", "--skip", "shift")


@pytest.fixture(scope="module")
def carded(guarded, tmp_path_factory):
    """A folder with a network, data, its audit and its card."""
    home = tmp_path_factory.mktemp("card") / "home"
    shutil.copytree(guarded, home)
    patch = pytest.MonkeyPatch()
    patch.chdir(home)
    patch.setattr(sys, "path", [str(home), *sys.path])
    net = ("guarded_module_of_tests:make_net", "--weights", "w.safetensors")
    data = ("--data", "new.npz", "--validation", "held.npz", "--train", "train.npz")
    done = CliRunner().invoke(main, ["audit", *net, *data, *AUDIT, "--out", "audit"])
    assert done.exit_code in (0, 2, 3), done.output
    words = ["card", "audit/audit.json", "audit/guard.safetensors", "--out", "card.json"]
    done = CliRunner().invoke(main, words)
    assert done.exit_code == 0, done.output
    patch.undo()
    return home


@pytest.fixture
def here(carded, run_again, tmp_path, monkeypatch):
    """A copy of it, as the current folder."""
    own = tmp_path / "own"
    shutil.copytree(carded, own)
    monkeypatch.chdir(own)
    monkeypatch.setattr(sys, "path", [str(own), *sys.path])
    monkeypatch.setattr(verify_command.subprocess, "run", run_again)
    monkeypatch.delitem(sys.modules, "guarded_module_of_tests", raising=False)
    return own


def changed(path: Path, index: int) -> None:
    """Change one bit of one byte."""
    content = bytearray(path.read_bytes())
    content[index] ^= 1
    path.write_bytes(bytes(content))


def test_every_claim_is_found_again(here, nescio):
    done = nescio("verify", "card.json")
    assert done.exit_code == 0, done.output
    assert "Verified: every claim" in done.output
    said = " ".join(done.output.split())
    assert "to the last bit" in said
    assert "guard right: made again, tensor for tensor" in said
    assert "does not show that the labels are right" in said


def test_a_card_holds_digests_guarantees_versions_and_commands(here):
    card = read_card("card.json").card
    assert set(card.files) == {
        "guarded_module_of_tests", "w.safetensors", "new.npz", "held.npz", "train.npz",
    }  # fmt: skip
    assert {"test data", "training data", "fitting data"} <= set(card.data)
    assert card.commands[0][:2] == ("nescio", "audit")
    assert any("at most 2 %" in text for text in card.guarantees)
    assert {"torch", "nescio", "python"} <= set(card.versions)
    audit = json.loads(Path("audit/audit.json").read_text())
    accuracy = audit["predictors"]["network"]["test"]["accuracy"]
    assert card.numbers["predictors/network/test/accuracy"] == f"{accuracy:.6g}"


@pytest.mark.parametrize(
    "name",
    ["w.safetensors", "new.npz", "audit/guard.safetensors", "audit/audit.json",
     "guarded_module_of_tests.py"],
)  # fmt: skip
def test_one_changed_bit_of_a_file_is_found_and_nothing_runs(here, nescio, monkeypatch, name):
    monkeypatch.setattr(verify_command.subprocess, "run", None)
    changed(here / name, (here / name).stat().st_size // 2)
    done = nescio("verify", "card.json")
    assert done.exit_code == 3
    assert "NOT verified: files" in done.output
    assert Path(name).stem in done.output


def test_one_changed_byte_of_a_card_is_found(here, nescio):
    whole = Path("card.json").read_bytes()
    for index in range(0, len(whole), max(1, len(whole) // 60)):
        changed(here / "card.json", index)
        with pytest.raises(NescioError):
            read_card("card.json")
        Path("card.json").write_bytes(whole)
    Path("card.json").write_bytes(whole.replace(b",\n", b", \n", 1))  # a space
    done = nescio("verify", "card.json")
    assert done.exit_code == 1
    assert "not as it was written" in done.output


def forged(**changes):
    """The card with other claims, its digests computed again."""
    said = json.loads(Path("card.json").read_text())
    said["card"] |= changes
    said["sha256"] = canonical_digest(said["card"])
    kept = {name: said[name] for name in ("kind", "card", "sha256", "signature")}
    save_manifest(Path("card.json"), kept)


def test_a_forged_number_is_found_by_computing_it_again(here, nescio):
    numbers = dict(read_card("card.json").card.numbers)
    numbers["predictors/network/test/accuracy"] = "0.999999"
    forged(numbers=numbers)
    done = nescio("verify", "card.json")
    assert done.exit_code == 3
    assert "predictors/network/test/accuracy: 0.999999 claimed" in done.output


def test_a_forged_guarantee_is_found_by_making_the_guard_again(here, nescio):
    forged(guarantees=["Everything is safe."])
    done = nescio("verify", "card.json")
    assert done.exit_code == 3
    assert "its guarantees differ" in done.output


def test_a_signature_binds_the_card(here, nescio, monkeypatch):
    Path("secret.key").write_bytes(bytes(range(32)))
    Path("other.key").write_bytes(bytes(range(1, 33)))
    words = ("audit", "audit/guard.safetensors", "--out", "card.json")
    assert nescio("card", *words, "--key", "secret.key").exit_code == 0
    assert nescio("verify", "card.json", "--key", "secret.key", "--no-run").exit_code == 2
    assert "not checked" in nescio("verify", "card.json", "--no-run").output
    monkeypatch.setattr(verify_command.subprocess, "run", None)
    assert nescio("verify", "card.json", "--key", "other.key").exit_code == 3
    forged(status="pass", verdict="fine")
    done = nescio("verify", "card.json", "--key", "secret.key")
    assert done.exit_code == 3
    assert "NOT verified: signature" in done.output
    secret = bytes(range(32)).hex()
    assert secret not in Path("card.json").read_text() + done.output


def test_a_card_without_a_signature_does_not_pass_for_a_signed_one(here, nescio):
    Path("secret.key").write_bytes(bytes(range(32)))
    done = nescio("verify", "card.json", "--key", "secret.key")
    assert done.exit_code == 3
    assert "the card has none, but a key was given" in done.output


def test_files_that_moved_are_named_and_can_be_pointed_to(here, nescio):
    (here / "elsewhere").mkdir()
    shutil.move("new.npz", "elsewhere/renamed.npz")
    shutil.move("audit/guard.safetensors", "guard.safetensors")  # beside the card: it is found
    done = nescio("verify", "card.json")
    assert done.exit_code == 1
    assert "1 of 7 files of the card are not where they were" in done.output
    assert "--file new.npz=PATH" in done.output
    done = nescio("verify", "card.json", "--file", "new.npz=elsewhere/renamed.npz")
    assert done.exit_code == 0, done.output
    done = nescio("verify", "card.json", "--file", "mew.npz=elsewhere/renamed.npz")
    assert done.exit_code == 1
    assert "new.npz" in done.output
    assert nescio("verify", "card.json", "--file", "new.npz").exit_code == 1


def test_without_running_nothing_is_computed(here, nescio, monkeypatch):
    monkeypatch.setattr(verify_command.subprocess, "run", None)
    done = nescio("verify", "card.json", "--no-run")
    assert done.exit_code == 2
    assert "Verified in part" in done.output


def test_only_audits_and_guards_are_run(here, nescio, monkeypatch):
    monkeypatch.setattr(verify_command.subprocess, "run", None)
    for command in (["nescio", "train", "x"], ["rm", "-r", "x"], ["nescio"], []):
        forged(commands=[command])
        done = nescio("verify", "card.json")
        assert done.exit_code == 1
        assert "a command that is not run" in done.output


def test_what_a_command_writes_is_left_out(here, monkeypatch, nescio):
    seen = []
    monkeypatch.setattr(
        verify_command.subprocess,
        "run",
        lambda words, **_: seen.append(words) or subprocess.CompletedProcess(words, 1),
    )
    command = [*read_card("card.json").card.commands[0], "--junit=report.xml"]
    forged(commands=[command])
    assert nescio("verify", "card.json").exit_code == 1
    assert "--junit=report.xml" not in seen[0]
    assert seen[0].count("--out") == 1
    assert "audit" not in seen[0][seen[0].index("--out") + 1 :]


def test_an_audit_of_python_is_compared_with_one_made_again(here, nescio):
    forged(commands=[])
    done = nescio("verify", "card.json")
    assert done.exit_code == 2
    assert "--against" in done.output
    done = nescio("verify", "card.json", "--against", "audit")
    assert done.exit_code == 0, done.output


def test_a_guard_of_another_network_is_refused(here, nescio):
    state = load_file("w.safetensors")
    save_file({name: 2 * tensor for name, tensor in state.items()}, "double.safetensors")
    net = ("guarded_module_of_tests:make_net", "--weights", "double.safetensors")
    done = nescio("guard", *net, "--calibration", "held.npz", "--out", "other.safetensors")
    assert done.exit_code == 0, done.output
    done = nescio("card", "audit", "other.safetensors")
    assert done.exit_code == 1
    assert "guards another network" in done.output


def test_a_guard_with_a_command_of_its_own_is_made_again_by_it(here, nescio):
    net = ("guarded_module_of_tests:make_net", "--weights", "w.safetensors")
    words = (*net, "--calibration", "held.npz", "--train", "train.npz", "--risk", "0.05")
    assert nescio("guard", *words, "--out", "strict.safetensors").exit_code == 0
    assert nescio("card", "audit", "strict.safetensors").exit_code == 0
    assert len(read_card("card.json").card.commands) == 2
    done = nescio("verify", "card.json")
    assert done.exit_code == 0, done.output
    assert "tensor for tensor" in done.output


def test_an_audit_without_digests_has_no_card(here, tmp_path):
    said = json.loads(Path("audit/audit.json").read_text())
    del said["sections"]["provenance"]
    said["not_run"]["provenance"] = "left out as asked"
    (tmp_path / "audit.json").write_text(json.dumps(said))
    with pytest.raises(NescioError, match="left out as asked"):
        make_card(tmp_path / "audit.json")


def test_other_data_with_the_same_name_are_found(here, nescio):
    with np.load("new.npz") as data:
        x, y = data["x"], data["y"]
    np.savez("new.npz", x=x, y=1 - y)
    assert nescio("verify", "card.json").exit_code == 3


def test_the_section_for_a_model_card_has_every_finding(here):
    words = ["card", "audit/audit.json", "audit/guard.safetensors", "--markdown", "model.md"]
    done = CliRunner().invoke(main, words)
    assert done.exit_code == 0, done.output
    text = Path("model.md").read_text()
    assert text.startswith("## Uncertainty and limits")
    for one in json.loads(Path("audit/audit.json").read_text())["findings"]:
        assert f"{one['title']}" in text
    assert "nescio.load('audit/guard.safetensors'" in text
