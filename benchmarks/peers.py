"""Peers in a folder of their own, which only the processes that measure them see.

They are installed without what they depend on: torch and numpy are those of this environment, so
every side runs on the same ones, and no other build of torch is pulled in.
"""

import subprocess
import sys
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

from benchmarks.timing import ROOT, Side

FOLDER = ROOT / ".venv" / "peers"  # beside what make installs, and not kept by git


@dataclass(frozen=True)
class Guest(Side):
    """A side whose package is installed into the folder of peers when it is first asked for."""

    package: str = ""  # as pip names it

    @property
    def installed(self) -> bool:
        return (FOLDER / self.needs).is_dir() or _install(self.package)


def _install(package: str) -> bool:
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps"]
    command += ["--disable-pip-version-check", "--target", str(FOLDER), package]
    return subprocess.run(command, check=False).returncode == 0


def guest(name: str) -> Any:
    """A module of the folder, as `package.module`."""
    if str(FOLDER) not in sys.path:
        sys.path.append(str(FOLDER))
    return import_module(name)


def part_of(package: str, name: str) -> Any:
    """A module of a package whose `__init__` imports more than is installed: it is not run."""
    whole = f"{package}.{name}"
    outer, place = "", Path(FOLDER)
    for step in whole.split(".")[:-1]:
        outer, place = f"{outer}.{step}".strip("."), place / step
        if outer not in sys.modules:
            empty = ModuleType(outer)
            empty.__path__ = [str(place)]
            sys.modules[outer] = empty
    return guest(whole)
