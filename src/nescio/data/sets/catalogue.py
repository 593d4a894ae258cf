"""The data sets that are not part of nescio, as catalogue.toml lists them, and their folders.

A folder, named by the setting NESCIO_DATA or by an option, holds a folder for each data set.
"""

import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nescio.core import NescioError, unknown

SETTING = "NESCIO_DATA"


@dataclass(frozen=True, kw_only=True)
class File:
    """A file as its publisher serves it; without `addresses` it is copied by hand."""

    name: str
    size: int  # bytes
    sha256: str | None = None
    addresses: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class CatalogueEntry:
    """A data set of other people; catalogue.toml explains the fields."""

    name: str
    what: str
    license: str
    home: str
    folders: tuple[str, ...]
    files: tuple[File, ...] = ()
    others: tuple[File, ...] = ()
    patterns: tuple[str, ...] = ()
    by_hand: str = ""
    papers: bool = False  # whether only the papers read it

    @property
    def expected(self) -> str:
        """The files that belong into its folder: names, or words where they are put by hand."""
        return ", ".join(file.name for file in self.files) or self.by_hand

    @property
    def size(self) -> int:
        """Bytes of the published files."""
        return sum(file.size for file in self.files)


def read_catalogue(path: Path, *, papers: bool = False) -> dict[str, CatalogueEntry]:
    """The entries of a catalogue file by name.

    papers: whether only the papers read these data sets.
    """
    tables = tomllib.loads(path.read_text())
    return {name: _entry(name, table, papers) for name, table in tables.items()}


def _entry(name: str, table: dict[str, Any], papers: bool) -> CatalogueEntry:
    bases = table.pop("addresses", [])
    table["files"] = [
        File(name=file, addresses=tuple(base + file for base in bases), **known)
        for file, known in table.get("files", {}).items()
    ]
    table["others"] = [File(name=file, **known) for file, known in table.get("others", {}).items()]
    values: dict[str, Any] = {
        key: tuple(v) if isinstance(v, list) else v for key, v in table.items()
    }
    return CatalogueEntry(name=name, papers=papers, **values)


CATALOGUE = read_catalogue(Path(__file__).with_name("catalogue.toml"))


def catalogue() -> Mapping[str, CatalogueEntry]:
    """All entries, with those of the data sets that only the papers read."""
    import nescio_papers.data  # noqa: F401  (adds its entries)

    return CATALOGUE


def entry(name: str) -> CatalogueEntry:
    """The entry of a data set; hyphens are as good as underscores."""
    name = name.replace("-", "_")
    known = CATALOGUE if name in CATALOGUE else catalogue()
    if name not in known:
        raise NescioError(unknown("data set to download", name, known))
    return known[name]


def root(folder: str | Path | None = None) -> Path | None:
    """The folder above those of the data sets: `folder`, that of the setting, or None."""
    chosen = folder or os.environ.get(SETTING)
    return Path(chosen).expanduser() if chosen else None


def home(name: str, folder: str | Path | None = None) -> Path | None:
    """The folder of a data set, if it is there."""
    above = root(folder)
    if above is None:
        return None
    folders = (path for pattern in entry(name).folders for path in sorted(above.glob(pattern)))
    return next((path for path in folders if path.is_dir()), None)


def place(name: str, folder: str | Path | None = None) -> str:
    """The folder of a data set below that of all of them, or the one that a download makes."""
    above, there = root(folder), home(name, folder)
    if above is None or there is None:
        return entry(name).folders[0]
    return str(there.relative_to(above))


def data_folder(name: str, folder: str | Path | None = None) -> Path:
    """The folder of a data set, or an error that says what to set, expect and call."""
    where = home(name, folder)
    if where is not None:
        return where
    above, expected = root(folder), entry(name).folders[0]
    if above is None:
        raise NescioError(
            f"{name} is not part of nescio: set {SETTING} to a folder that holds a folder "
            f"{expected} (export {SETTING}=data), or pass folder=...; {how_to_get(name)}"
        )
    raise NescioError(
        f"there is no folder {above / expected}; {SETTING}, or folder=..., must name the folder "
        f"above it; {how_to_get(name)}"
    )


def locate(where: Path, name: str) -> Path | None:
    """A file in the folder of a data set or in one of its subfolders."""
    paths = (where / name, *sorted(where.glob(f"*/{name}")))
    return next((path for path in paths if path.is_file()), None)


def how_to_get(name: str) -> str:
    """Which files are expected, and the command that fetches them."""
    known = entry(name)
    if not known.files:
        return f"expected there: {known.expected} (see {known.home})"
    where = " --folder data" if root() is None else ""
    call = f"nescio data download {known.name}{where}"
    return f"expected there: {known.expected}; fetch them with: {call}"


def lacking(name: str, where: Path, what: str) -> NescioError:
    """The error for a folder without the files that are needed."""
    return NescioError(f"{where} lacks {what}; {how_to_get(name)}")
