"""Which calibration samples serve what: each promise is shown on samples that tuned nothing."""

from dataclasses import dataclass

import torch
from torch import Tensor

from nescio.conformal import needed
from nescio.errors import NescioError
from nescio.randomness import generator

TUNING = 0.2  # the calibration map, the combination of detectors, the grid of thresholds
ENOUGH = 1000  # samples for that, at most
FITTING = 0.3  # the detector, where there is no training data


@dataclass(frozen=True, eq=False)
class Split:
    """Places of the calibration samples, in three parts that share none."""

    fitting: Tensor  # fit the detector; empty where `train` or a fitted detector is given
    tuning: Tensor  # tune what the promises are about
    promises: Tensor  # show them


def split(cases: int, *, fitting: bool, false_alarm: float, seed: int) -> Split:
    """A random split; an error says how many samples the false-alarm rate asks for."""
    shares = (FITTING if fitting else 0.0, TUNING)
    first, second = (round(share * cases) for share in shares)
    second = min(second, ENOUGH)
    least = needed(false_alarm)
    if cases - first - second < least:
        whole = -(-least // (1 - sum(shares)))
        raise NescioError(
            f"{cases} calibration samples are too few for false_alarm={false_alarm:g}: its "
            f"p-values need {least} that tune nothing, so about {whole + 2:.0f} in all; give more, "
            "or a larger false_alarm" + ("; with train= fewer are needed" if fitting else "")
        )
    order = torch.randperm(cases, generator=generator(seed, "guard"))
    ends = order[:first], order[first : first + second], order[first + second :]
    return Split(*(part.sort().values for part in ends))
