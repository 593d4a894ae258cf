"""Which calibration samples serve what: training samples are left out, the others are split."""

import math
from collections.abc import Iterable
from dataclasses import dataclass

import torch
from torch import Tensor

from nescio.conformal import needed
from nescio.core import NescioError, generator

FITTING = 0.3  # share that fits the detector, where there is no training data
TUNING = 0.2  # share that tunes what decides, where something does
ENOUGH = 1000  # samples for that, at most
KNOWN = 0.01  # share of training samples among the calibration samples that is refused


@dataclass(frozen=True, eq=False)
class Split:
    """Indices of the calibration samples, in three parts that share none."""

    fitting: Tensor  # fit the detector; empty where `train` or a fitted detector is given
    tuning: Tensor  # tune what the guarantees are about; empty where nothing needs it
    guarantees: Tensor  # show them


def split(
    samples: int,
    *,
    fitting: bool,
    tuning: float,
    false_alarm: float,
    seed: int,
    most: int = ENOUGH,
) -> Split:
    """A random split; an error says how many samples the false-alarm rate asks for.

    tuning, most: the share of the samples that tune, and their largest number.
    """
    shares = (FITTING if fitting else 0.0, tuning)
    first, second = (round(share * samples) for share in shares)
    second = min(second, most)
    least = needed(false_alarm)
    if samples - first - second < least:
        whole = -(-least // (1 - sum(shares)))
        raise NescioError(
            f"{samples} calibration samples are too few for false_alarm={false_alarm:g}: its "
            f"p-values need {least} that tune nothing, so about {whole + 2:.0f} in all; give more, "
            "or a larger false_alarm" + ("; with train= fewer are needed" if fitting else "")
        )
    order = torch.randperm(samples, generator=generator(seed, "guard"))
    ends = order[:first], order[first : first + second], order[first + second :]
    return Split(*(part.sort().values for part in ends))


def fewest_samples(false_alarm: float, *, fitting: bool) -> int:
    """The fewest calibration samples that a guard takes for a rate of `false_alarm`.

    fitting: whether some of them fit its detector.
    """
    least = needed(false_alarm)
    count = math.ceil(least / (1 - FITTING * fitting)) - 1
    while count - round(FITTING * fitting * count) < least:
        count += 1
    return count


def unknown_to(hashes: Tensor, known: Iterable[tuple[str, Tensor | None]]) -> Tensor:
    """Rows of the calibration inputs that are not among known inputs, all by their hashes.

    A few known ones are left out; from the share `KNOWN` on it is an error.
    """
    new = torch.ones(len(hashes), dtype=torch.bool)
    for where, others in known:
        both = torch.isin(hashes, others.cpu()) if others is not None else ~torch.ones_like(new)
        if both.sum() >= KNOWN * len(hashes):
            raise NescioError(
                f"{int(both.sum())} of {len(hashes)} calibration inputs are among {where}; a "
                "network is more confident there, so no guarantee would hold. Remove repeated "
                "inputs before you split the data, or give repeats=True (--repeats) where equal "
                "inputs are separate samples, as in tables of few values or tokenized text"
            )
        new &= ~both
    return new.nonzero()[:, 0]
