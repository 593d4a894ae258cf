"""The one error of nescio: every message says what was expected, what came, and what to do."""


class NescioError(ValueError):
    """Input that nescio cannot use; the message says why and what to try."""
