"""The files that a command names: found among its words, digested, and pointed to elsewhere."""

import importlib.util
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from nescio.cli.networks import search_here
from nescio.evaluation import FileDigest, digest_of

WRITES = ("--out", "--junit", "--summary", "--write-tests")  # options of files that are written


def read_words(command: Sequence[str]) -> Iterator[str]:
    """The words of a command after its verb, without the files that it writes."""
    words = iter(command[2:])
    for word in words:
        if word in WRITES:
            next(words, None)
        elif word.partition("=")[0] not in WRITES:
            yield word


def command_files(command: Sequence[str]) -> dict[str, FileDigest]:
    """The digests of files, folders and modules that a command reads, by how it names them."""
    found: dict[str, FileDigest] = {}
    for word in read_words(command):
        for name in _names(word):
            if Path(name).exists():
                found[name] = digest_of(Path(name))
                break
        else:
            if (source := module_file(word)) is not None:
                found[word.partition(":")[0]] = digest_of(source, module=True)
    return found


def _names(word: str) -> list[str]:
    """What may be a path in a word: all of it, after `NAME=`, and without `:changes`."""
    wholes = [word, word.partition("=")[2]] if "=" in word else [word]
    return [part for text in wholes for part in (text, text.partition(":")[0]) if part.strip("-.")]


def module_file(word: str) -> Path | None:
    """The source of the module of `package.module:factory`; None if it is not one."""
    name, colon, factory = word.partition(":")
    if not colon or not factory.isidentifier() or not all(map(str.isidentifier, name.split("."))):
        return None
    search_here()
    try:
        spec = importlib.util.find_spec(name)
    except (ImportError, ValueError):
        return None
    return None if spec is None or spec.origin is None else Path(spec.origin)


def pointed(command: Sequence[str], places: Mapping[str, Path]) -> list[str]:
    """The words of a command, with files where they are now, and without what it writes."""
    words = []
    for word in read_words(command):
        name = next((one for one in _names(word) if one in places), None)
        words.append(word if name is None else word.replace(name, str(places[name]), 1))
    return [*command[1:2], *words]
