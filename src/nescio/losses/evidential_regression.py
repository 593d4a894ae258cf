"""Evidential regression (Amini et al., 2020, eqs. 8 to 10)."""

from torch import Tensor

from nescio.core import Head, NescioError, Rng, evidence_of, normal_inverse_gamma
from nescio.core.registry import losses
from nescio.losses.loss import Batch, Loss, nll
from nescio.nets.stack import Forward


@losses.register
def evidential_regression(head: Head | None = None, *, weight: float = 0.01) -> Loss:
    """NLL of a Student t, plus `weight` times |y - mean| (2 nu + alpha): errors cost evidence.

    Targets must be standardized: the weight has their unit. The head is `normal_inverse_gamma`.
    """
    head = head or normal_inverse_gamma()
    if head.name != "normal_inverse_gamma":
        raise NescioError(f"evidential_regression reads normal_inverse_gamma, not {head.name}")
    if not weight >= 0:
        raise NescioError(f"weight must not be negative, got {weight}")
    base, floor = nll(head), head.options["floor"]

    def step(forward: Forward, batch: Batch, _: Rng) -> Tensor:
        outputs = forward(batch.x)
        mean, nu, alpha, _beta = evidence_of(floor, outputs)
        penalty = ((batch.y - mean).abs() * (2 * nu + alpha)).sum(-1)
        return batch.mean(base.score(outputs, batch.y) + weight * penalty)

    text = f"evidential_regression({base.description}, {weight=})"
    return base.with_step(text, step, weighted=base.weighted)
