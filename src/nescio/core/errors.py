"""The one error of nescio and its warnings: what was expected, what came, and what to do."""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar


class NescioError(ValueError):
    """Input that nescio cannot use; the message says why and what to try."""


class InputShapeError(NescioError):
    """Inputs of a shape that the network does not take."""


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
