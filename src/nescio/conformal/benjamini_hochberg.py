"""Many decisions at once: a bound on the share of false alarms among alarms."""

import numpy as np
import torch
from torch import Tensor

from nescio.errors import NescioError
from nescio.metrics.arrays import Numbers, numbers
from nescio.metrics.resampling import check_level


def benjamini_hochberg(p: Numbers, level: float) -> Tensor:
    """Which of N p-values to reject, `(N,)`: at most a share `level` of those falsely, on average.

    The largest k with k of the p-values at or below k level / N are rejected (Benjamini and
    Hochberg, 1995). Conformal p-values of one calibration set depend on one another in the way
    that it allows (Bates et al., 2023).
    """
    check_level(level)
    values = numbers("p", p, axes=1).astype(np.float64)
    if not ((values >= 0) & (values <= 1)).all():
        raise NescioError("p-values must lie between 0 and 1; give those of `p_values`")
    ordered = np.sort(values)
    passing = np.flatnonzero(ordered <= level * np.arange(1, len(values) + 1) / len(values))
    cut = ordered[passing[-1]] if len(passing) else -1.0
    device = p.device if isinstance(p, Tensor) else "cpu"
    return torch.from_numpy(values <= cut).to(device)
