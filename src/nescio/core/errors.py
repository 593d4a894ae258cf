"""The one error of nescio and its warnings: what was expected, what came, and what to do."""


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
