"""Which name was meant: a hint for names that do not exist; the command needs it without torch."""

import difflib
from collections.abc import Iterable

NEIGHBORS = {  # other words for a name, without signs and the s of a plural
    "baseline": "msp",
    "softmax": "msp",
    "maxsoftmax": "msp",
    "nearestneighbor": "knn",
    "fmnist": "fashion_mnist",
    "kmnist": "kuzushiji_mnist",
    "emnist": "emnist_letters",
    "moon": "half_moons",
    "ensemble": "deep_ensemble",
    "mcdropout": "dropout",
    "temperaturescaling": "temperature",
    "plattscaling": "platt",
    "aps": "adaptive",
    "cnn": "small_cnn",
    "id": "keep",
    "drop": "without",
    "label": "target",
    "class": "class_names",
}


def did_you_mean(name: object, known: Iterable[str]) -> str:
    """The end of a sentence about a name: the nearest known one, if one is near."""
    found = nearest(str(name), known)
    return "." if found is None else f"; did you mean {found!r}?"


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The known name that was meant: but for signs, a plural, a beginning or some letters."""
    known = list(known)
    bare, by_core = _core(name), {_core(one): one for one in reversed(known)}
    if bare in by_core or NEIGHBORS.get(bare) in known:
        return by_core.get(bare) or NEIGHBORS[bare]
    close = difflib.get_close_matches(name, known, n=1) or [
        by_core[core] for core in difflib.get_close_matches(bare, by_core, n=1)
    ]
    begins = [one for one in known if len(bare) > 2 and _core(one).startswith(bare)]
    return next(iter(begins or close), None)


def _core(name: str) -> str:
    """A name in small letters, without signs and the s of a plural."""
    letters = "".join(letter for letter in name.lower() if letter.isalnum())
    return letters.removesuffix("s") or letters
