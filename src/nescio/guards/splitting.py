"""Which calibration samples serve what: training samples are left out, the others are split."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from nescio.conformal import needed
from nescio.core import NescioError, generator
from nescio.detectors import Detector
from nescio.detectors.activations import Activations

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


def split(samples: int, *, fitting: bool, tuning: bool, false_alarm: float, seed: int) -> Split:
    """A random split; an error says how many samples the false-alarm rate asks for."""
    shares = (FITTING if fitting else 0.0, TUNING if tuning else 0.0)
    first, second = (round(share * samples) for share in shares)
    second = min(second, ENOUGH)
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


def unknown_to(
    samples: Activations, train: Activations | None, source: Any, fitted: Sequence[Any]
) -> Tensor | None:
    """Rows of the calibration samples that nothing was trained or fitted on, by their hashes.

    None: all of them. A few others are left out; from the share `KNOWN` on it is an error.
    source: the model, or models and modules in a list. fitted: detectors that were given.
    """
    if samples.hashes is None:
        return None
    known = [("the training data given", None if train is None else train.hashes)]
    known += [("the data the model was trained on", seen) for seen in _seen(source)]
    for one in fitted:
        if isinstance(one, Detector):
            known.append((f"the data the detector {one.name} was fitted on", one.fitted_on))
    new = torch.ones(samples.samples, dtype=torch.bool)
    for where, hashes in known:
        found = (
            torch.zeros_like(new) if hashes is None else torch.isin(samples.hashes, hashes.cpu())
        )
        new &= ~found
        if found.sum() >= KNOWN * samples.samples:
            raise NescioError(
                f"{int(found.sum())} of {samples.samples} calibration inputs are among {where}; a "
                "network is more confident there, so no guarantee would hold. Calibrate on other "
                "data, or give repeats=True (--repeats) where equal inputs are separate samples, "
                "as in tables of few values"
            )
    return None if new.all() else new.nonzero()[:, 0]


def _seen(source: Any) -> Iterator[Tensor]:
    """Hashes of the inputs that each of the models was trained on, where they are known."""
    if isinstance(source, (list, tuple)):
        for part in source:
            yield from _seen(part)
    elif isinstance(found := getattr(source, "seen", None), Tensor):
        yield found
