"""`import nescio` adds little to `import torch`: the rest is loaded where it is used."""

import json
import subprocess
import sys

import click

from nescio.cli.main import COMMANDS, main

CODE = """
import sys, torch
before = set(sys.modules)
import {name}
print(*sorted({{module.split(".")[0] for module in set(sys.modules) - before}}))
"""
LATER = {"rich", "sympy", "matplotlib", "scipy", "sklearn", "PIL", "jinja2", "click", "optuna"}
LATER |= {"pytorch_lightning", "transformers", "mlflow", "pandas", "onnxruntime"}


def added(name: str) -> set[str]:
    """The packages that an import loads, torch and what it loads aside."""
    words = [sys.executable, "-c", CODE.format(name=name)]
    return set(subprocess.run(words, capture_output=True, text=True, check=True).stdout.split())


def test_importing_nescio_is_light() -> None:
    found = added(
        "nescio, nescio.integrations, nescio.guards, nescio.training.train, nescio.monitoring"
    )
    assert "nescio" in found
    assert not found & LATER


def test_the_check_sees_what_is_loaded() -> None:
    assert "click" in added("nescio.cli.main")


WORDS = """
import contextlib, io, json, os, sys
from nescio.cli.main import main, reference
from nescio.cli.parameters import Choice, Name

LOADED = ("torch", "numpy", "scipy", "matplotlib", "nescio.evaluation")

def run(*words, **settings):
    os.environ.update(settings)
    file = io.TextIOWrapper(io.BytesIO(), "utf-8")
    with contextlib.redirect_stdout(file), contextlib.redirect_stderr(file):
        try:
            main(list(words), prog_name="nescio")
        except SystemExit as end:
            code = end.code
    for name in settings:
        del os.environ[name]
    loaded = [name for name in LOADED if name in sys.modules]
    file.flush()
    return code, file.buffer.getvalue().decode(), loaded

def completed(*words):
    return run(
        _NESCIO_COMPLETE="bash_complete",
        COMP_WORDS=" ".join(["nescio", *words]),
        COMP_CWORD=str(len(words)),
    )

found = {}
for words in {words!r}:
    found[" ".join(words)] = run(*words)
for page in {pages}:
    words = page.name.split()
    for wrong in ("--help", "--explain", "--no-such-option"):
        found[" ".join([*words, wrong])] = run(*words, wrong)
    found[" ".join([*words, "TAB"])] = completed(*words[:-1], words[-1][:2])
    found[" ".join([*words, "-- TAB"])] = completed(*words, "--")
    for one in page.command.params:
        if isinstance(one.type, (Choice, Name)) and one.param_type_name == "option":
            name = one.opts[0]
            found[" ".join([*words, name, "TAB"])] = completed(*words, name, "")
print(json.dumps(found))
"""


def in_one_process(words: list[list[str]], pages: str) -> dict[str, tuple[int, str, list[str]]]:
    """The exit code, the output and what was loaded, by the words of a command."""
    code = WORDS.replace("{words!r}", repr(words)).replace("{pages}", pages)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found: dict[str, tuple[int, str, list[str]]] = json.loads(done.stdout)
    return found


def test_help_wrong_words_and_the_tab_key_need_no_torch() -> None:
    whole = [["--help"], ["--version"], ["--explain"], ["--wrong"], ["scor"]]
    found = in_one_process(whole, "reference()")
    loaded = {words: modules for words, (_, _, modules) in found.items() if modules}
    assert not loaded, f"first: {next(iter(loaded.items()))}"
    for words, (code, said, _) in found.items():
        wrong = words.endswith(("--no-such-option", "--wrong", "scor"))
        assert code == int(wrong), (words, said)
        assert said.strip() or words.endswith("TAB"), words
    assert "plain,--budget" in found["audit -- TAB"][1]
    assert "plain,thorough" in found["audit --budget TAB"][1]
    assert "plain,deep_ensemble" in found["label start --recipe TAB"][1]
    assert "plain,digits" in found["train --data TAB"][1]
    assert "plain,start" in found["label start TAB"][1]


def test_the_check_sees_what_a_command_loads() -> None:
    found = in_one_process([["--help"], ["list", "heads"], ["--version"]], "[]")
    assert [bool(modules) for _, _, modules in found.values()] == [False, True, True]


def test_the_papers_are_listed_without_what_they_run() -> None:
    code, said, loaded = in_one_process([["reproduce"]], "[]")["reproduce"]
    assert code == 0
    assert "table-1-svhn" in said
    assert not {"scipy", "matplotlib", "nescio.evaluation"} & set(loaded)


def test_the_list_of_commands_says_what_their_help_says() -> None:
    context = click.Context(main)
    for name, line in COMMANDS.items():
        assert line.sentence == main.get_command(context, name).get_short_help_str(limit=200)
