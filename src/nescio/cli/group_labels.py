"""Groups of test samples, as `--group` names them: a column of the test data, or a file."""

import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nescio.cli.named_data import named
from nescio.core import NescioError
from nescio.data import read_table


def groups_named(given: Sequence[str], data_name: str | None) -> dict[str, list[str]] | None:
    """By name the group of each test sample, as words; None where no group is named."""
    found = {}
    for text in given:
        name, equals, path = text.partition("=")
        if _is_file(text):
            found[name if equals else Path(text).stem] = _words(_file(Path(path or text)))
        else:
            found[text] = _words(_column(text, data_name))
    return found or None


def columns_aside(given: Sequence[str]) -> list[str]:
    """The columns of --data that name groups."""
    return [text for text in given if not _is_file(text)]


def _is_file(text: str) -> bool:
    return "=" in text or text.endswith(".npy")


def _file(path: Path) -> NDArray[Any]:
    if path.suffix != ".npy":
        raise NescioError(f"--group reads .npy files, got {path}; write it with numpy.save")
    return _loaded(path)


def _column(name: str, data_name: str | None) -> NDArray[Any]:
    """A column of a table, or an array of an .npz file."""
    if data_name is None:
        raise NescioError(f"--group {name} names a column of --data; give NAME=FILE.npy")
    source = named(data_name)
    if source.table:
        return read_table(source.source, **source.header)[name]
    if source.source.endswith(".npz"):
        return _loaded(Path(source.source), name)
    raise NescioError(
        f"--group {name} names a column of a table or an array of an .npz file; of {data_name} "
        "give NAME=FILE.npy, with one value for each test sample in their order"
    )


def _loaded(path: Path, name: str | None = None) -> NDArray[Any]:
    """An array of numbers or words; nothing is unpickled."""
    try:
        found = np.load(path, allow_pickle=False)
        if name is not None and name not in found:
            raise NescioError(
                f"{path} has no array {name!r} for --group; it holds {', '.join(found)}"
            )
        values = found if name is None else found[name]
    except FileNotFoundError:
        raise NescioError(f"there is no file {path} for --group") from None
    except (OSError, EOFError, zipfile.BadZipFile) as error:
        raise NescioError(f"{path} cannot be read ({error}); write it with numpy.save") from None
    except ValueError as error:
        if isinstance(error, NescioError):
            raise
        raise NescioError(
            f"{path} holds pickled objects or is cut off; save words as an array of text: "
            "numpy.save(path, numpy.array(labels, dtype=str))"
        ) from None
    if not isinstance(values, np.ndarray) or values.ndim != 1 or values.dtype.kind not in "biufU":
        shape = getattr(values, "shape", "no array")
        raise NescioError(
            f"{path} must hold one number or word per sample for --group, got {shape}"
        )
    return values


def _words(values: NDArray[Any]) -> list[str]:
    """As text; whole numbers without a decimal point, what is missing as "missing"."""
    if values.dtype.kind != "f":
        return [str(one) or "missing" for one in values.tolist()]
    return [f"{one:.12g}" if one == one else "missing" for one in values.tolist()]
