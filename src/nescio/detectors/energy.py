"""The free energy of the logits (Liu et al., 2020, eq. 4)."""

import torch
from torch import Tensor

from nescio.core import NescioError
from nescio.core.registry import detectors
from nescio.detectors.activations import View
from nescio.detectors.detector import Detector, State, scores
from nescio.detectors.kit.blocks import by_rows, check_temperature

NONE = 1e-5  # an energy that is 0 but for rounding


@detectors.register
def energy(*, temperature: float = 1.0) -> Detector:
    """The free energy -T log sum exp(z / T) of the logits z.

    temperature: T; towards 0 the energy becomes minus the largest logit.
    """
    return Detector("energy", {"temperature": check_temperature(temperature)})


@scores.named("energy")
def score(view: View, state: State, layers: tuple[str, ...], *, temperature: float) -> Tensor:
    """-T log sum exp(z / T) of each row."""
    del state, layers
    found = free_energy(view.logits, temperature)
    if temperature == 1.0 and len(found) > 1 and bool((found.abs() < NONE).all()):
        raise NescioError(
            "the logits are logarithms of probabilities (a log-softmax at the end, or a Dirichlet "
            "head), so their energy is 0 for every input; use msp or entropy"
        )
    return found


def free_energy(logits: Tensor, temperature: float = 1.0) -> Tensor:
    """-T log sum exp(z / T) of each row, `(N,)`."""
    return by_rows(logits, temperature, lambda z: _minus_log_sum(z) * temperature)


def _minus_log_sum(logits: Tensor) -> Tensor:
    if logits.requires_grad:
        return -logits.logsumexp(-1)
    top = logits.amax(-1, keepdim=True)
    return torch.log_((logits - top).exp_().sum(-1)).add_(top[:, 0]).neg_()
