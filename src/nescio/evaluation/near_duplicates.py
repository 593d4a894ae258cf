"""Near-duplicates: samples far closer to another one than the spacing of the data explains.

Where the density is about constant within the K nearest neighbors, at distances d_1 < ... < d_K,
in any dimension, the numbers j log(d_{j+1} / d_j) are independent and exponential with one mean
(Renyi, 1953; the ratios are those of Facco et al., 2017). A near-duplicate makes the first of them
too large for the others: (first / mean of the others) has an F distribution with 2 and 2 (K - 2)
degrees of freedom, whatever the dimension. Copies of copies are found by the second and the third.
"""

import torch
from torch import Tensor
from torch.nn import functional as F

from nescio.core import Bundle, Inputs, NescioError, as_batch
from nescio.detectors import nearest_rows
from nescio.metrics import benjamini_hochberg

NEIGHBORS = 50  # whose spacing is compared, at most
LEAST = 10  # neighbors
COPIES = 3  # of one sample that are recognized
SIDE = 16  # pixels of a reduced image
COLUMNS = 1024  # of other inputs, at most
SAMPLES = 1 << 12  # reduced at a time
SAME = 1e-6  # a share of the length of a row: closer rows differ by rounding, or by brightness
TIED = 0.01  # share of equal distances from which the data are not spread smoothly


@torch.no_grad()
def comparable_rows(x: Inputs, like: Inputs | None = None) -> Tensor:
    """Inputs as rows `(N, F)` float32 whose distances say how alike they are.

    Images are reduced to 16 x 16 pixels, and neither brightness nor contrast counts. Of other
    inputs each number is divided by its standard deviation over `like`, by default over `x`.
    """
    if isinstance(x, Tensor) and x.ndim == 4:
        return torch.cat([_reduced(as_batch(part)) for part in x.split(SAMPLES)])
    known = _numbers(x if like is None else like)
    width = known.double().std(0, correction=0)
    if not (width > 0).any():
        raise NescioError("all inputs are equal: no distance tells them apart")
    rows = _numbers(x)[:, width > 0] / width[width > 0]
    if rows.shape[1] > COLUMNS:
        raise NescioError(
            f"inputs of {rows.shape[1]} numbers that are not images are not compared one by one; "
            f"give features of them, at most {COLUMNS}"
        )
    return rows.float()


def _numbers(x: Inputs) -> Tensor:
    if isinstance(x, Bundle):
        return x.rows()
    if not x.is_floating_point() and x.dtype != torch.uint8:
        raise NescioError("tokens have no distances; give features of the samples")
    return as_batch(x).flatten(1)


def _reduced(images: Tensor) -> Tensor:
    height, width = (min(side, SIDE) for side in images.shape[2:])
    rows = F.adaptive_avg_pool2d(images, (height, width)).flatten(1)
    return F.normalize(rows - rows.mean(1, keepdim=True), dim=1)


def near_duplicates(rows: Tensor, others: Tensor | None = None, *, level: float = 0.01) -> Tensor:
    """For each row the index of the nearest other row where it is a near-duplicate, else -1.

    others: rows to compare with; None: the rows themselves. level: the largest share of false ones
    among those that are named, in expectation (Benjamini and Hochberg, 1995); where there are no
    near-duplicates, the probability that any is named.
    """
    bank = rows if others is None else others
    count = min(NEIGHBORS, len(bank) - (others is None))
    if count < LEAST:
        raise NescioError(
            f"near-duplicates stand out against the {LEAST} nearest samples or more, there are "
            f"{len(bank)} samples"
        )
    far, index = nearest_rows(rows, bank, count + (others is None))
    if others is None:
        far, index = _without_itself(far, index)
    same = far[:, 0] <= SAME * max(float(bank.double().norm(dim=1).median()), 1e-300)
    tied = (far[:, 1:] <= far[:, :-1] * (1 + 1e-9))[~same]
    if tied.numel() and float(tied.double().mean()) > TIED:
        raise NescioError(
            f"{100 * float(tied.double().mean()):.0f} % of the distances to neighbors are equal: "
            "inputs of few different values lie close to each other by chance"
        )
    found = same | benjamini_hochberg(spacing_p_values(far), level)
    return torch.where(found, index[:, 0], -1)


def _without_itself(far: Tensor, index: Tensor) -> tuple[Tensor, Tensor]:
    """The neighbors of each row but itself; where copies hid it, but the last."""
    own = index == torch.arange(len(index))[:, None]
    own[:, -1] |= ~own.any(1)
    shape = (len(index), index.shape[1] - 1)
    return far[~own].view(shape), index[~own].view(shape)


def spacing_p_values(far: Tensor) -> Tensor:
    """Of no near-duplicate among the neighbors of each sample, `(n,)`.

    far: distances `(n, K)` to the K nearest neighbors, ascending. Of the tests for 1, 2 and 3
    copies the smallest p-value counts, times their number.
    """
    logs = far.double().clamp_min(torch.finfo(torch.float64).tiny).log()
    steps = logs.diff(dim=1) * torch.arange(1, far.shape[1])
    tests = range(min(COPIES, steps.shape[1] - 1))
    least = torch.stack([_p_value(steps[:, j], steps[:, j + 1 :]) for j in tests]).amin(0)
    return (len(tests) * least).clamp_max(1)


def _p_value(step: Tensor, others: Tensor) -> Tensor:
    """Of a spacing that is no larger than the others: one less the F distribution function."""
    ratio = step / others.sum(1).clamp_min(1e-300)  # over the mean, less a factor that cancels
    return torch.exp(-others.shape[1] * torch.log1p(ratio))
