"""Definition 3, the test for it that the paper names, and footnote 4, on exact pieces.

A network without a zero entry in any V is monotone on each piece. It need not be on the whole
plane, where a slope may change its sign from one piece to the next.
"""

from typing import Any

import torch
from torch import Tensor, nn

from nescio.core import generator
from nescio.geometry.regions.regions import regions
from nescio.geometry.regions.regions_value import Regions
from nescio_papers.kit import Settings
from nescio_papers.know_your_limits.blobs import trained_blobs

DRAWS = 200
BOX = ((-5.0, 5.0), (-5.0, 5.0))


def definition_numbers(settings: Settings) -> dict[str, Any]:
    """Signs of the slopes from piece to piece, and the gradient that footnote 4 speaks of."""
    model, _ = trained_blobs(settings.seed, 5 if settings.quick else 20)
    nets = [model.member(i) for i in range(model.members)]
    slopes = [_slopes(net) for net in nets]
    whole = [signs for signs in slopes if bool((signs != 0).all())]
    return {
        "networks": len(nets),
        "without a zero entry": len(whole),
        "of these with slopes of both signs": sum(_mixed(signs) for signs in whole),
        "signs of the slope of |x|": _signs_of_size(),
        "equal column": _equal_column(settings.seed),
    }


def _slopes(net: nn.Module) -> Tensor:
    """V of every piece in the box, `(P, C, D)`."""
    result = regions(net, BOX)
    assert isinstance(result, Regions)
    return result.maps[..., :2]


def _mixed(slopes: Tensor) -> bool:
    """Whether some logit rises in some input on one piece and falls on another."""
    return bool(((slopes > 0).any(0) & (slopes < 0).any(0)).any())


def _signs_of_size() -> int:
    """How many signs the slope of relu(x_1) + relu(-x_1), added to x_2, has along x_1."""
    first, last = nn.Linear(2, 4).double(), nn.Linear(4, 1).double()
    first.weight.data = torch.tensor([[1.0, 0], [-1, 0], [0, 1], [0, -1]], dtype=torch.float64)
    first.bias.data.zero_()
    last.weight.data = torch.tensor([[1.0, 1, 1, -1]], dtype=torch.float64)
    last.bias.data.zero_()
    slopes = _slopes(nn.Sequential(first, nn.ReLU(), last))
    assert bool((slopes != 0).all())
    return len(slopes[:, 0, 0].sign().unique())


def _equal_column(seed: int) -> dict[str, float]:
    """Probabilities' slopes in x_1 where that column of V is one number, over random matrices."""
    source = generator(seed, "footnote 4")
    along, across = 0.0, float("inf")
    for _ in range(DRAWS):
        matrix = torch.randn(5, 3, generator=source, dtype=torch.float64)
        matrix[:, 0] = matrix[0, 0]
        x = torch.randn(3, generator=source, dtype=torch.float64)
        slopes: Tensor = torch.autograd.functional.jacobian(
            lambda point, m=matrix: (m @ point).softmax(0), x
        )
        along = max(along, float(slopes[:, 0].abs().max()))
        across = min(across, float(slopes[:, 1:].norm()))
    return {"along": along, "across": across, "matrices": DRAWS}
