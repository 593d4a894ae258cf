"""`nescio monitor`: quiet without drift, an alarm with it."""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from click.testing import Result

from nescio import Activations, load, monitor
from nescio import guard as make_guard
from nescio.cli.networks import load_guard
from nescio.monitoring import Monitor

NAME = "guarded_module_of_tests"
DEFAULT = f"{NAME}:make_net"


@pytest.mark.parametrize("ending", ["csv", "jsonl", "ndjson", "parquet"])
def test_monitor_reads_what_score_writes(
    home: Path, guard: Path, ending: str, nescio: Callable[..., Result]
) -> None:
    if ending == "parquet":
        pytest.importorskip("pyarrow")
    x = np.load(home / "new.npy")
    x[3] = np.nan
    np.save(home / "holes.npy", x)
    net = ["--net", DEFAULT]
    for words in (["holes.npy", *net], [f"w.{ending}"]):
        if len(words) == 1:
            out = nescio("score", guard, "holes.npy", *net, "--out", f"w.{ending}")
            assert out.exit_code == 0, out.output
        state = f"{ending}{len(words)}.safetensors"
        result = nescio("monitor", guard, *words, "--state", state)
        assert result.exit_code == 0, result.output
        assert "900 scores" in result.output
    one, two = ((home / f"{ending}{n}.safetensors.json").read_text() for n in (1, 3))
    assert one == two


def test_lines_of_scores_may_be_the_reference(home: Path, nescio: Callable[..., Result]) -> None:
    rng = np.random.default_rng(1)
    for name, count in (("u", 5000), ("v", 300)):
        lines = [
            json.dumps({"sample": i, "score": s}) for i, s in enumerate(rng.normal(size=count))
        ]
        (home / f"{name}.jsonl").write_text("\n".join(lines))
    result = nescio("monitor", "u.jsonl", "v.jsonl", "--state", "u.safetensors")
    assert result.exit_code == 0, result.output
    assert "300 scores" in result.output


def test_monitor_is_quiet_on_the_same_and_fires_on_another(
    home: Path, guard: Path, nescio: Callable[..., Result]
) -> None:
    net = ["--net", DEFAULT]
    assert nescio("score", guard, "new.npy", *net, "--out", "m.csv").exit_code == 0
    quiet = nescio("monitor", guard, "m.csv", "--state", "s.safetensors")
    assert quiet.exit_code == 0, quiet.output
    assert "900 scores, 900 of them new" in quiet.output
    assert "no alarm" in quiet.output
    words = ["monitor", guard, "far.npy", *net, "--state", "s.safetensors", "--plot", "s.png"]
    fired = nescio(*words)
    assert fired.exit_code == 3, fired.output
    assert "1800 scores, 900 of them new" in fired.output
    beside = json.loads((home / "s.safetensors.json").read_text())
    assert 900 <= beside["alarm"] < 1000
    assert f"ALARM at score {beside['alarm']}" in fired.output
    assert (home / "s.png").read_bytes().startswith(b"\x89PNG")
    other = nescio(*words, "--false-alarm", "0.1")
    assert "belongs to another run (--false-alarm: 0.01 there, 0.1 here)" in other.output


def test_monitor_reads_plain_scores(home: Path, nescio: Callable[..., Result]) -> None:
    rng = np.random.default_rng(0)
    np.save("usual.npy", rng.normal(size=1000))
    np.save("odd.npy", np.append(rng.normal(size=200), [np.nan, np.inf]))
    result = nescio("monitor", "usual.npy", "odd.npy", "--state", "p.safetensors")
    assert result.exit_code == 0, result.output
    assert "202 scores" in result.output


def test_monitor_counts_rows_without_a_score(home: Path, nescio: Callable[..., Result]) -> None:
    rng = np.random.default_rng(0)
    np.save("usual.npy", rng.normal(size=1000))
    np.save("odd.npy", np.append(rng.normal(size=200), [np.nan, np.nan, np.inf]))
    result = nescio("monitor", "usual.npy", "odd.npy", "--state", "h.safetensors")
    assert "2 of the new rows had no score" in result.output
    np.save("far_off.npy", np.full(9000, 1e3))
    drifted = nescio("monitor", "usual.npy", "far_off.npy", "--state", "k.safetensors")
    assert drifted.exit_code == 3
    assert "p-value of no drift: < 1e-300" in drifted.output


def test_a_file_is_read_once(home: Path, nescio: Callable[..., Result]) -> None:
    rng = np.random.default_rng(2)
    np.save("usual.npy", rng.normal(size=500))
    for name in ("monday", "tuesday"):
        np.save(f"{name}.npy", rng.normal(size=100))
    words = ["monitor", "usual.npy", "--state", "once.safetensors"]
    assert "given twice" in nescio(*words, "monday.npy", "monday.npy").output
    assert not (home / "once.safetensors").exists()
    assert nescio(*words, "monday.npy").exit_code == 0
    before = (home / "once.safetensors").read_bytes()
    np.save("copy.npy", np.load("monday.npy"))
    again = nescio(*words, "tuesday.npy", "copy.npy")
    assert again.exit_code == 1
    assert "copy.npy holds the same scores as a file that was read before" in again.output
    assert "same scores as the calibration data" in nescio(*words, "usual.npy").output
    assert (home / "once.safetensors").read_bytes() == before
    assert "200 scores, 100 of them new" in nescio(*words, "tuesday.npy").output
    np.save("few.npy", np.zeros(50))  # files of few different scores may be alike
    np.save("few_more.npy", np.zeros(50))
    assert "300 scores, 100 of them new" in nescio(*words, "few.npy", "few_more.npy").output


def same(one: Monitor, two: Monitor) -> bool:
    numbers = [(each.count, each.log_martingale, each.alarm) for each in (one, two)]
    return numbers[0] == numbers[1] and np.array_equal(one.logs, two.logs)


def test_python_and_the_command_continue_each_other(
    home: Path, guard: Path, nescio: Callable[..., Result]
) -> None:
    """Scores as the guard gives them in Python, and as tables of decisions hold them."""
    x, net = np.load(home / "new.npy"), ["--net", DEFAULT]
    halves = {"first": x[:450], "second": x[450:]}
    for name, half in halves.items():
        np.save(home / f"{name}.npy", half)
        out = nescio("score", guard, f"{name}.npy", *net, "--out", f"{name}.csv")
        assert out.exit_code == 0, out.output
    made = load_guard(str(guard), DEFAULT, None)
    begun = monitor(made)
    scores = {name: made(half).score for name, half in halves.items()}
    whole = begun.update(scores["first"]).update(scores["second"])

    state = begun.update(scores["first"]).save(home / "python.safetensors")
    result = nescio("monitor", guard, "second.csv", "--state", state)
    assert result.exit_code == 0, result.output
    assert "900 scores, 450 of them new" in result.output
    assert same(load(state), whole)

    result = nescio("monitor", guard, "first.csv", "--state", "command.safetensors")
    assert result.exit_code == 0, result.output
    assert same(load(home / "command.safetensors").update(scores["second"]), whole)


def test_the_rules_of_a_guard_are_in_one_order(home: Path, nescio: Callable[..., Result]) -> None:
    rng, y = np.random.default_rng(0), torch.arange(1200) % 12
    logits = torch.from_numpy(rng.normal(size=(1200, 12))) + 9 * torch.nn.functional.one_hot(y)
    known = Activations(logits=logits, labels=y)
    made = make_guard(None, known, detector="energy", false_alarm=0.05, risk=0.2, by="class")
    path = made.save(home / "twelve.safetensors")
    np.save(home / "later.npy", rng.normal(size=50))
    state = monitor(made).save(home / "twelve-state.safetensors")
    result = nescio("monitor", path, "later.npy", "--state", state)
    assert "50 scores, 50 of them new" in result.output
