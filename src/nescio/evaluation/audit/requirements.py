"""Limits that a user sets: `ece<0.05`, `abstained[letters]>0.9`, or a TOML file with these."""

import math
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from nescio.core import NescioError
from nescio.evaluation.audit.audit_limits import Limit, find_limit

FORM = re.compile(
    r"\s*(?P<name>[\w-]+)\s*(?:\[(?P<data>.*)\])?\s*(?P<sign><=|>=|<|>)(?P<value>.*)", re.DOTALL
)
EXAMPLE = "`ece<0.05`, `coverage>=0.9` or `abstained[letters]>0.9`"
DIRECTION = {"<": "lower", ">": "higher"}


@dataclass(frozen=True)
class Requirement:
    """A limit that a user sets on a number, of one set or kind of sets (`data`) or of all."""

    limit: Limit
    data: str | None = None


def requirement(text: str) -> Requirement:
    """The requirement that a text such as `ece<0.05` states.

    >>> requirement("ece < 5 %").limit.fail
    0.05
    """
    match = FORM.fullmatch(text)
    if match is None:
        raise NescioError(f"expected a limit such as {EXAMPLE}; got {text!r}")
    known = find_limit(match["name"].replace("-", "_"))
    sign, better = match["sign"], DIRECTION[match["sign"][0]]
    if better != known.better:
        raise NescioError(
            f"{text!r}: of {known.name} {known.better} is better, so its limit is written "
            f"{known.name}{'<' if known.better == 'lower' else '>'}..."
        )
    value = _number(match["value"], text)
    own = replace(known, attention=value, fail=value, strict=len(sign) == 1, required=text.strip())
    data = match["data"]
    return Requirement(own, None if data is None else data.strip())


def _number(text: str, whole: str) -> float:
    bare = text.strip()
    try:
        value = float(bare.removesuffix("%")) / (100 if bare.endswith("%") else 1)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise NescioError(
            f"expected a number after the sign in {whole!r}, such as 0.05 or 5%; got {bare!r}"
        )
    return value


def requirements(wanted: str | Path | Mapping[str, Any] | Sequence[Any] | None) -> tuple[str, ...]:
    """All limits as texts, each of them checked.

    wanted: texts such as `ece<0.05`, names of .toml files, mappings such as `{"ece": "<0.05"}`, or
      a sequence of these; None: no limits.
    """
    found = tuple(_texts(wanted))
    for text in found:
        requirement(text)
    return found


def _texts(wanted: Any) -> Iterator[str]:
    if wanted is None:
        return
    if isinstance(wanted, Mapping):
        yield from _of_mapping(wanted)
    elif isinstance(wanted, Path) or (isinstance(wanted, str) and wanted.endswith(".toml")):
        yield from _of_mapping(_read(Path(wanted)))
    elif isinstance(wanted, str):
        yield wanted
    elif isinstance(wanted, Sequence):
        for one in wanted:
            yield from _texts(one)
    else:
        raise NescioError(f"expected limits such as {EXAMPLE}; got {type(wanted).__name__}")


def _of_mapping(table: Mapping[str, Any]) -> Iterator[str]:
    for name, bound in table.items():
        if isinstance(bound, Mapping):  # [abstained] letters = ">0.9"
            yield from _of_mapping({f"{name}[{data}]": inner for data, inner in bound.items()})
        elif isinstance(bound, (list, tuple)):
            yield from (f"{name}{one}" for one in bound)
        else:
            yield f"{name}{bound}"


def _read(path: Path) -> Mapping[str, Any]:
    """The limits of a TOML file: its table `limits`, that of `tool.nescio`, or the whole file."""
    try:
        table = tomllib.loads(path.read_text("utf-8"))
    except OSError as error:
        raise NescioError(f"{path} cannot be read ({error.strerror}); give a .toml file") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise NescioError(
            f'{path} is not a TOML file ({error}); write lines such as ece = "<0.05"'
        ) from None
    if "tool" in table:
        table = table["tool"].get("nescio", {})
        if "limits" not in table:
            raise NescioError(f"{path} has no table [tool.nescio.limits]")
    limits = table.get("limits", table)
    if not isinstance(limits, Mapping) or not limits:
        raise NescioError(f'{path} holds no limits; write lines such as ece = "<0.05"')
    return limits
