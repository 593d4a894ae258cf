"""How long a person waits for help and for the Tab key: `python -m benchmarks.start_up`.

Each command is a new process, as a shell starts it, run 10 times in turn with the others; the table
has the median of the seconds on the clock and of processor time, and the bare interpreter beside
them. The same numbers follow as JSON; `--json FILE` writes them to a file.
"""

import argparse
import json
import os
import platform
import subprocess
import sys
import time
from pathlib import Path
from statistics import median

ROUNDS = 10
LIMIT = 0.3  # seconds that a person does not notice
CODE = "from nescio.cli.main import main; main(prog_name='nescio')"
TYPED = {  # what is typed; the Tab key follows the last two
    "nescio --help": False,
    "nescio audit --help": False,
    "nescio au": True,
    "nescio audit --bud": True,
}


def process(typed: str | None, *, tab: bool = False) -> tuple[list[str], dict[str, str]]:
    """The words and the environment of the process that a shell starts."""
    if typed is None:
        return [sys.executable, "-c", "pass"], {}
    words = typed.split()
    if not tab:
        return [sys.executable, "-c", CODE, *words[1:]], {}
    asked = {"COMP_WORDS": typed, "COMP_CWORD": str(len(words) - 1)}
    return [sys.executable, "-c", CODE], {"_NESCIO_COMPLETE": "bash_complete", **asked}


def measured(words: list[str], settings: dict[str, str]) -> tuple[float, float]:
    """Seconds on the clock, and of processor time."""
    before, start = os.times(), time.perf_counter()
    subprocess.run(words, env={**os.environ, **settings}, capture_output=True, check=True)
    wall, after = time.perf_counter() - start, os.times()
    used = after.children_user + after.children_system
    return wall, used - before.children_user - before.children_system


def run(rounds: int = ROUNDS) -> dict[str, dict[str, float]]:
    """The medians by what is typed; one call before them fills the caches."""
    processes = {"python": process(None)}
    processes |= {f"{typed}{' TAB' * tab}": process(typed, tab=tab) for typed, tab in TYPED.items()}
    took: dict[str, list[tuple[float, float]]] = {name: [] for name in processes}
    for turn in range(rounds + 1):
        for name, (words, settings) in processes.items():
            pair = measured(words, settings)
            if turn:
                took[name].append(pair)
    return {
        name: {"seconds": round(median(wall), 3), "processor_seconds": round(median(used), 3)}
        for name, pairs in took.items()
        for wall, used in [zip(*pairs, strict=True)]
    }


def main() -> None:
    """Measure, print, and write if asked."""
    parser = argparse.ArgumentParser(description=__doc__.partition(":")[0])
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    found = run(options.rounds)
    print(f"{'typed':<24} {'seconds':>8} {'processor':>10}   below {LIMIT} s")
    for name, one in found.items():
        below = "yes" if one["seconds"] < LIMIT else "no"
        print(f"{name:<24} {one['seconds']:>8.3f} {one['processor_seconds']:>10.3f}   {below}")
    machine = f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}"
    text = json.dumps({"machine": machine, "rounds": options.rounds, "medians": found}, indent=1)
    print(text)
    if options.json is not None:
        options.json.write_text(text + "\n")


if __name__ == "__main__":
    main()
