"""The one error of nescio and its warnings: what was expected, what came, and what to do."""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

LONGEST = 2000  # characters of a message; what a user gave may be a whole file in one cell
QUOTED = 200  # characters of a value within it


class NescioError(ValueError):
    """Input that nescio cannot use; the message says why and what to try."""

    def __str__(self) -> str:
        return shortened(super().__str__(), LONGEST)


def quoted(value: object) -> str:
    """A value of a user's in a message: as Python writes it, and not longer than a line or two."""
    return shortened(repr(value), QUOTED)


def shortened(text: str, most: int) -> str:
    """A text without its middle, where it is too long."""
    if len(text) <= most:
        return text
    side = (most - 30) // 2
    return f"{text[:side]} ... ({len(text) - 2 * side} characters) ... {text[-side:]}"


class InputShapeError(NescioError):
    """Inputs of a shape that the network does not take."""


class NotFiniteError(NescioError):
    """What a network gives for inputs is NaN or infinite."""


class NescioWarning(UserWarning):
    """Something to know about a result that was computed; every warning of nescio is one."""


class FewSamplesWarning(NescioWarning):
    """The calibration data are too few, or the network errs too often, for what was asked."""


class RepeatedInputsWarning(NescioWarning):
    """Some calibration inputs are copies of others, and show less than separate samples do."""


class RangeWarning(NescioWarning):
    """Inputs hold numbers that the calibration data did not have; they may be scaled otherwise."""


class NotFiniteWarning(NescioWarning):
    """Inputs are, or lead to, NaN or infinite numbers."""


_is_quiet: ContextVar[bool] = ContextVar("quiet", default=False)


@contextmanager
def quiet() -> Iterator[None]:
    """No warnings of nescio in this block and thread: what they say is counted, or said elsewhere.

    Python's filters are one list for all threads; they stay as they are.
    """
    token = _is_quiet.set(True)
    try:
        yield
    finally:
        _is_quiet.reset(token)


def warn(message: str, kind: type[NescioWarning], *, stacklevel: int) -> None:
    """Warn the caller `stacklevel` calls above, as `warnings.warn` counts them here."""
    if not _is_quiet.get():
        warnings.warn(message, kind, stacklevel=stacklevel + 1)
