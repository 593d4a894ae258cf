"""The examples at the end of every help run, in order, in one folder with the files they name."""

import csv
import importlib.util
import io
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import click
import numpy as np
import pytest
import torch
from click.testing import CliRunner
from PIL import Image
from safetensors.torch import save_file

import nescio
from nescio.cli import demo
from nescio.cli.main import COMMANDS, HELP, main, reference
from nescio.cli.verbs import Context

COUNT, TEST = 300, 500  # samples of a file, and of test.npz
MODULE = """
from torch import nn

def make_net():
    return nn.Sequential(nn.Linear(2, 16), nn.ReLU(), nn.Dropout(0.1), nn.Linear(16, 2))

def make_regressor():
    return nn.Sequential(nn.Linear(2, 16), nn.ReLU(), nn.Linear(16, 2))
"""
ONLY_READ = {  # examples that are parsed, and why they are not run
    "nescio data download": "it needs the network; tests/data/sets has a publisher of its own",
}
FIRST = ("train", "nescio")  # what other examples work with
AUDIT = "nescio audit mymodule:make_net --weights w.safetensors --data test.npz --budget quick"
AUDIT += " --attack-steps 0 --skip shift"
ASK = ["nescio label next pool --out ask.csv", "nescio label add ask.csv"]
BEFORE = {  # what a person has done before the examples of a command
    "diff": [f"{AUDIT} --rays {rays} --out {out}" for rays, out in ((3, "old"), (4, "new"))],
    "monitor": [
        f"nescio score guard.safetensors {day}.npz --net mymodule:make_net --out {day}.csv"
        for day in ("monday", "tuesday")
    ]
    + ["nescio serve guard.safetensors --net mymodule:make_net --log decisions.db --check"],
    "label add": ["nescio label export pool --format label-studio --out export.json"],
    "label plan": 3 * ASK,
}
CODES = {"audit": (0, 2, 3), "diff": (0, 3), "verify": (0, 2)}  # others: 0


def examples(text: str) -> list[str]:
    """The commands at the end of a help, each in one line."""
    _, _, end = text.partition("\nExamples:\n")
    joined = re.sub(r" \\\n +", " ", end)
    return [line.strip() for line in joined.splitlines() if line.strip().startswith("nescio ")]


def helps() -> dict[str, str]:
    """Every help at 80 columns, by the name of the command; that of nescio itself too."""
    context = Context(
        main, info_name="nescio", terminal_width=80, max_content_width=80, help_option_names=HELP
    )
    return {"nescio": main.get_help(context)} | {one.name: one.help for one in reference(80)}


HELPS = helps()


@pytest.mark.parametrize("name", HELPS)
def test_every_help_ends_with_two_examples_and_fits_80_columns(name: str) -> None:
    found = examples(HELPS[name])
    assert len(found) >= 2
    if name != "nescio":
        assert sum(one.startswith(f"nescio {name}") for one in found) >= 2
    wide = [line for line in HELPS[name].splitlines() if len(line) > 80]
    assert not wide


def test_the_lines_of_all_commands_are_whole() -> None:
    for name, one in COMMANDS.items():
        assert f"  {name:<10}  {one.sentence}\n" in HELPS["nescio"]
        assert f"\n{one.group}:\n" in HELPS["nescio"]
    assert "..." not in HELPS["label"].split("Commands:")[1].split("Options:")[0]


def moons(seed: int, count: int) -> tuple[np.ndarray, np.ndarray]:
    x, y = nescio.data.half_moons(seed=seed, train=count).train
    return x.numpy(), y.numpy()


def patients(path: Path, seed: int, count: int) -> None:
    draw = np.random.default_rng(seed)
    with path.open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["name", "age", "smoker", "hospital", "died"])
        for at in range(count):
            age, smoker = draw.integers(20, 90), draw.choice(["yes", "no", ""])
            died = "yes" if age + 20 * (smoker == "yes") + 8 * draw.normal() > 65 else "no"
            rows.writerow([f"p{seed}-{at}", age, smoker, draw.choice(["north", "south"]), died])


def prices(path: Path, seed: int, count: int) -> tuple[torch.Tensor, torch.Tensor]:
    draw = torch.Generator().manual_seed(seed)
    x = torch.rand(count, 2, generator=draw)
    y = 10 * x.sum(1, keepdim=True) + torch.randn(count, 1, generator=draw)
    rows = [f"{a:.6f},{b:.6f},{c:.6f}" for (a, b), (c,) in zip(x, y, strict=True)]
    path.write_text("\n".join(["size,age,price", *rows]) + "\n")
    return x, y


@pytest.fixture(scope="module")
def prepared(
    tmp_path_factory: pytest.TempPathFactory, run_again: Callable[..., Any]
) -> Iterator[Path]:
    """A folder with all files that examples name; the current one."""
    home = tmp_path_factory.mktemp("examples")
    (home / "mymodule.py").write_text(MODULE)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(home)
        patch.syspath_prepend(home)
        patch.setenv("NESCIO_DATA", str(home / "data"))
        patch.setattr(demo, "PASSES", 5)
        less = {"audit_digits": {"members": 2}, "compare_digits": {"passes": 5, "resamples": 50}}
        for name, options in less.items():
            patch.setattr(demo, name, partial(getattr(demo, name), epochs=1, **options))
        here = SimpleNamespace(run=run_again, DEVNULL=subprocess.DEVNULL)
        patch.setattr("nescio.cli.verify.subprocess", here)  # a page of the docs starts a process
        patch.setattr("nescio.cli.work.pieces.EPOCHS", 2)
        fill(home)
        yield home
        sys.modules.pop("mymodule", None)


def fill(home: Path) -> None:
    import mymodule

    names = ("train", "test", "calibration", "validation", "new", "monday", "tuesday")
    sizes = {"test": TEST}
    drawn = {n: moons(seed, sizes.get(n, COUNT)) for seed, n in enumerate(names)}
    for name, (x, y) in drawn.items():
        np.savez(home / f"{name}.npz", x=x, y=y)
    np.savez(home / "other.npz", x=drawn["new"][0] + 6)
    np.savez(home / "unlabeled.npz", x=drawn["validation"][0])
    (home / "moved").mkdir()
    shutil.copy(home / "test.npz", home / "moved" / "test.npz")
    rows = [f"{at},{label}" for at, label in enumerate(drawn["validation"][1][:30])]
    (home / "known.csv").write_text("\n".join(["id,label", *rows]) + "\n")
    settings = {"epochs": 30, "learning_rate": 0.02, "progress": False}
    net = nescio.train(mymodule.make_net, drawn["train"], **settings).member(0).eval()
    save_file(net.state_dict(), home / "w.safetensors")
    for letter, (x, y) in {
        "": drawn["test"],
        "t": drawn["train"],
        "o": (drawn["new"][0] + 6, drawn["new"][1]),
    }.items():
        features = net[:2](torch.as_tensor(x))
        np.save(home / f"z{letter}.npy", net[2:](features).detach().numpy())
        np.save(home / f"f{letter}.npy", features.detach().numpy())
        np.save(home / f"y{letter}.npy", y)
    patients(home / "patients.csv", 0, 300)
    patients(home / "new-patients.csv", 1, 300)
    made = nescio.train(
        mymodule.make_regressor, prices(home / "prices.csv", 0, 400), head="gaussian", **settings
    )
    save_file(made.member(0).state_dict(), home / "price.safetensors")
    if importlib.util.find_spec("sqlalchemy"):
        queue(home / "decisions.db")
    (home / "photos").mkdir()
    draw = np.random.default_rng(0)
    for at in range(40):
        image = Image.fromarray(draw.integers(0, 256, (8, 8, 3), np.uint8))
        image.save(home / "photos" / f"{at:02}.png")


def queue(path: Path) -> None:
    """A decision log with a review queue, as a service of guard.safetensors writes it."""
    from nescio.serving import Entry, KeptInput, Label, open_log

    about = {"classes": ["0", "1"], "input": {"shape": [2], "columns": None}}
    x, y = moons(6, COUNT)
    own = {"replica": "0", "guard": "moons", "version": "v", "digest": "", "label": "0"}
    own |= {"probability": 0.5, "p_value": 0.5, "score": 0.0, "failure_score": 0.0, "rule": ""}
    own |= {"in_range": True, "set": None, "more": None, "picked": True, "propensity": 1.0}
    with open_log(path) as log:
        log.register("moons", "v", about)
        for at in range(COUNT):
            file = io.BytesIO()
            np.save(file, x[at])
            kept = KeptInput("npy", file.getvalue())
            log.write([Entry(id=f"d{at}", time=at, decision="unsure", kept=kept, **own)])
        labels = {"reviewer": "anna", "kind": "label", "time": 0.0}
        numbers = range(COUNT - 20)
        log.add_labels([Label(decision=f"d{at}", label=str(y[at]), **labels) for at in numbers])


def answer(home: Path) -> None:
    """What a person does with the questions in ask.csv."""
    if not (home / "ask.csv").exists():
        return
    y = moons(3, COUNT)[1]  # of unlabeled.npz
    with (home / "ask.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    for row in rows:
        row["label"] = row["label"] or y[int(row["id"])]
    with (home / "ask.csv").open("w", newline="") as file:
        table = csv.DictWriter(file, list(rows[0]))
        table.writeheader()
        table.writerows(rows)


def commands() -> Iterator[str]:
    """All examples, those first whose results others need; nothing is done twice for nothing."""
    known: set[str] = set()
    for name in sorted(HELPS, key=lambda one: FIRST.index(one) if one in FIRST else len(FIRST)):
        for command in [*BEFORE.get(name, ()), *examples(HELPS[name])]:
            if command not in known or name.startswith("label"):
                yield command
            known.add(command)


def test_the_examples_run(prepared: Path) -> None:
    for command in commands():
        words = shlex.split(command)[1:]
        if command.startswith(tuple(ONLY_READ)):
            parse(words)
        elif all(importlib.util.find_spec(one) for one in needed(words)):
            answer(prepared)
            result = CliRunner().invoke(main, words)
            assert result.exit_code in CODES.get(words[0], (0,)), (
                f"{command}\n{result.output}\n{result.exception!r}"
            )


def needed(words: list[str]) -> list[str]:
    """The packages of extras that a command needs."""
    log = words[0] in ("serve", "review") or "--from-log" in words
    return ["optuna"] if words[0] == "search" else ["sqlalchemy", "fastapi"] if log else []


def parse(words: list[str]) -> None:
    """Read the words of a command without running it."""
    context: click.Context = Context(main, info_name="nescio")
    command: click.Command | None = main
    while isinstance(command, click.Group):
        name, command, words = command.resolve_command(context, words)
        assert command is not None
        if not isinstance(command, click.Group):
            command.make_context(name, words, parent=context)
