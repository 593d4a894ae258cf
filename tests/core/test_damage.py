"""Damage of every file that nescio reads again: refused with a message, never a wrong answer.

`PYTHONPATH=src python tests/core/test_damage.py 1500` makes that many tries.
"""

import shutil
import sys
import tempfile
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import torch

import nescio
from nescio import NescioError, Results, calibration, conformal, detectors, metrics, nets, score
from nescio.core import Row, kept
from nescio.data import learn_columns, read_table
from nescio.evaluation.under_shift import ShiftCurves
from nescio.models import mc_dropout
from nescio.training.state import State
from nescio_papers.kit import Experiment, Findings, Part, run_experiment
from nescio_papers.know_your_limits_search import searching

DRAW = torch.Generator().manual_seed(0)
X, LOGITS = torch.randn(40, 2, generator=DRAW), torch.randn(120, 3, generator=DRAW)
LABELS = torch.arange(120) % 3
MADE = nescio.Activations(logits=LOGITS, features=LOGITS[:, :2], labels=LABELS)
TABLE = read_table({"age": [20.0, 30.0, 41.5, 52.0] * 5, "sex": ["F", "M", "F", "F"] * 5})
TRIALS = 3


class StopError(Exception):
    """Ends a run in the middle."""


def network():
    torch.manual_seed(0)
    return nets.mlp(2, 3, widths=(4,), dropout=0.5)


def guard():
    net = network().eval()
    labels = (net(X).argmax(1) + (torch.arange(40) % 7 == 0)) % 3
    options = {"false_alarm": 0.05, "risk": 0.9, "batch_size": 8, "progress": False}
    return nescio.guard(net, (X, labels), detector=detectors.energy(), **options)


def model(folder):
    nescio.models.plain(network()).save(folder)
    return "model.safetensors", lambda: nescio.load(folder)(X).logits


def predictor(folder):
    calibration.scaled(
        mc_dropout(nescio.models.plain(network()), passes=3), 0.5, (0.0, 1.0, 0.0)
    ).save(folder)
    return "predictor.safetensors", lambda: nescio.load(folder)(X).logits


def saved(make, answer, **options):
    def write(folder):
        make().save(folder / "file", **options)
        return "file", lambda: answer(nescio.load(folder / "file"))

    return write


def monitor():
    scores = LOGITS[:, 0].numpy()
    return nescio.monitor(scores).update(scores[:50])


def checkpoint(folder):
    options = {"epochs": 3, "batch_size": 20, "run": folder, "progress": False}
    data = (X, torch.arange(40) % 3)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(nescio.Model, "write", stop)
        with pytest.raises(StopError):
            nescio.train(network, data, checkpoint_seconds=0, **options)
    config = nescio.core.load_manifest(folder / "checkpoint.safetensors", "checkpoint")["config"]

    def answer():
        state = State.load(folder / "checkpoint.safetensors", config, torch.device("cpu"))
        return torch.cat([t.flatten() for t in state.weights.values()])

    return "checkpoint.safetensors", answer


def stop(*_, **__):
    raise StopError


def unfinished_score(file):
    def write(folder):
        made = guard()
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(nescio.guards.resumable_table.Table, "finish", stop)
            with pytest.raises(StopError):
                score(made, X, folder / "d.csv", batch_bytes=64)
        return file, lambda: (score(made, X, folder / "d.csv"), (folder / "d.csv").read_bytes())[1]

    return write


def finished_score(file):
    def write(folder):
        made = guard()
        score(made, X, folder / "d.csv")

        def answer():
            summary = score(made, X, folder / "d.csv")
            return summary.inputs, summary.decisions, (folder / "d.csv").read_bytes()

        return file, answer

    return write


def results(folder):
    rows = [Row(subject="a", data=f"d{n}", metric="auroc", value=n / 7) for n in range(9)]
    Results(tuple(rows)).save(folder / "table")
    return "table.json", lambda: Results.load(folder / "table.json").rows


def curves(folder):
    rows = [Row(subject="a", data=f"{n}", metric="accuracy", value=n / 7) for n in range(9)]
    names = {"shift": "rotation", "description": "turned", "samples": 9, "sets": ()}
    ShiftCurves(**names, rows=tuple(rows)).save(folder / "along.json")
    return "along.json", lambda: ShiftCurves.load(folder / "along.json")


def kept_result(folder):
    ask = lambda: kept(folder / "x.json", {"a": 1}, lambda: [1.5, 2.5])  # noqa: E731
    ask()
    return "x.json", ask


def trial(task):
    known = {"trial": task.number, "parameters": task.parameters, "nll": task.number / 7}
    return {**dict.fromkeys((*searching.RESULTS, "seconds")), **known}


def search(file):
    def write(folder):
        def ask():
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(searching, "evaluate", trial)
                options = {"trials": TRIALS, "workers": 1, "epochs": 1, "show": False}
                return searching.random_search("plain", folder, **options)

        ask()
        return file, ask

    return write


def experiment(file):
    def write(folder):
        from matplotlib.figure import Figure

        found = Findings(numbers={"n": [0.25, 7]}, figures={"f.png": Figure((1, 1))}, text="Words.")
        part = Part("one", "One", lambda settings: found)
        plan = {"source": "", "needs": "", "parts": (part,)}
        whole = Experiment(name="paper", title="A paper", **plan)

        def ask():
            run_experiment(whole, folder, show=False)
            names = ("results.json", "f.png")
            return [(folder / name).read_bytes() for name in names]

        ask()
        return file, ask

    return write


KINDS = {
    "model": model,
    "predictor": predictor,
    "calibration": saved(
        lambda: calibration.fit("platt", LOGITS, LABELS), lambda one: one(LOGITS).logits
    ),
    "sets": saved(lambda: conformal.threshold(LOGITS, LABELS), lambda one: one(LOGITS)),
    "intervals": saved(
        lambda: conformal.residual(LOGITS[:, :1], LOGITS[:, 1:2]),
        lambda one: torch.stack(list(one(LOGITS[:, :1]))),
    ),
    "detector": saved(lambda: detectors.knn(MADE, k=3), lambda one: one(MADE)),
    "guard": saved(guard, lambda one: one(X).p_value, weights=True),
    "monitor": saved(
        monitor, lambda one: torch.tensor(one.update(LOGITS[50:, 0].numpy()).log_martingale)
    ),
    "sketch": saved(
        lambda: metrics.sketch(LOGITS[:, 0].numpy(), LOGITS[:, 1].numpy()),
        lambda one: one.auroc.value,
    ),
    "columns": saved(lambda: learn_columns(TABLE), lambda one: one.encode(TABLE).x),
    "checkpoint": checkpoint,
    "score part": unfinished_score("d.csv.parts/00000001.csv"),
    "score journal": unfinished_score("d.csv.parts/journal.json"),
    "decisions": finished_score("d.csv"),
    "summary of decisions": finished_score("d.csv.json"),
    "results": results,
    "shift curves": curves,
    "kept result": kept_result,
    "search": search("search.json"),
    "search trials": search("trials.jsonl"),
    "experiment": experiment("experiment.json"),
    "part of an experiment": experiment("one.json"),
    "figure of an experiment": experiment("f.png"),
}


def damaged(content, draw):
    """A bit that is turned, an end that is lost or added, a stretch of zeros or that is gone."""
    at, how = int(draw.integers(len(content))), draw.integers(5)
    end = min(len(content), at + int(draw.integers(1, 64)))
    if how == 0:
        return content[:at]
    if how == 1:
        return content[:at] + bytes(end - at) + content[end:]
    if how == 2:
        return content[:at] + content[end:]
    if how == 3:
        return content + draw.bytes(end - at)
    turned = bytearray(content)
    turned[at] ^= 1 << int(draw.integers(8))
    return bytes(turned)


def try_damages(name, count, seed=0):
    """What became of each: refused, harmless (the same answer), silent, or a traceback."""
    found, draw = Counter(), np.random.default_rng([seed, *name.encode()])
    with tempfile.TemporaryDirectory() as home:
        folder, whole = Path(home) / "now", Path(home) / "whole"
        folder.mkdir()
        file, answer = KINDS[name](folder)
        shutil.copytree(folder, whole)
        truth = answer()
        for _ in range(count):
            shutil.rmtree(folder)
            shutil.copytree(whole, folder)
            content = (whole / file).read_bytes()
            while (new := damaged(content, draw)) == content:
                pass
            (folder / file).write_bytes(new)
            found[outcome(answer, truth)] += 1
    return found


def outcome(answer, truth):
    try:
        now = answer()
    except NescioError as error:
        return "refused" if str(error) else "empty message"
    except Exception as error:
        return f"traceback: {error!r}"
    same = torch.equal(now, truth) if isinstance(now, torch.Tensor) else now == truth
    return "harmless" if same else "silent"


@pytest.mark.parametrize("name", KINDS)
def test_damage_is_refused_with_a_message(name):
    assert set(try_damages(name, 8)) <= {"refused", "harmless"}


if __name__ == "__main__":
    tries, total = int(sys.argv[1]), Counter()
    for number, kind in enumerate(KINDS):
        share = tries * (number + 1) // len(KINDS) - tries * number // len(KINDS)
        found = try_damages(kind, share, seed=1)
        print(f"{kind:>24}  {dict(found)}")
        total += found
    print(f"{tries} tries: {dict(total)}")
