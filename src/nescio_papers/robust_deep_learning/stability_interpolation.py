"""What interpolation between pixels does by itself, apart from the deformation it is made for."""

import math
from collections.abc import Mapping

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from nescio.core import as_batch
from nescio.metrics import Interval, bootstrap_mean
from nescio_papers.kit import Claim, Findings, table, verdict

AROUND = 8  # zeros on each side, so that nothing comes in on the other
MOVES = ("interpolated", "exact", "blur alone")
Changes = Mapping[str, Mapping[str, Interval]]  # by move and network


def half_a_pixel(networks: Mapping[str, nn.Module], x: Tensor) -> Findings:
    """Digits that move by half a pixel: interpolated as deformations are, exactly, and not at all.

    networks: the fixed one and the trained one, in this order.
    """
    changes = {
        move: {name: _change(net, as_batch(x), moved) for name, net in networks.items()}
        for move, moved in zip(MOVES, _moved(as_batch(x)), strict=True)
    }
    return Findings(
        numbers={
            move: {name: vars(one) for name, one in found.items()}
            for move, found in changes.items()
        },
        claims=[interpolation_claim(changes)],
        text=_text(changes),
    )


def _moved(x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """To the right; by the mean of two pixels, by the phases of waves, and there and back."""
    right = halfway(x)
    return right, shifted(x, 0.5), halfway(right.flip(-1)).flip(-1)


def halfway(x: Tensor) -> Tensor:
    """Images half a pixel to the right, by linear interpolation: each pixel a mean of two."""
    return (x + F.pad(x, (1, 0))[..., :-1]) / 2


def shifted(x: Tensor, pixels: float) -> Tensor:
    """Images to the right, exactly for waves: no frequency loses anything."""
    wide = torch.fft.rfft(F.pad(x, (AROUND, AROUND)).double())
    length = x.shape[-1] + 2 * AROUND
    waves = torch.exp(-2j * math.pi * torch.fft.rfftfreq(length).double() * pixels)
    found: Tensor = torch.fft.irfft(wide * waves, n=length)[..., AROUND:-AROUND]
    return found.to(x.dtype)


@torch.no_grad()
def _change(net: nn.Module, x: Tensor, moved: Tensor) -> Interval:
    """The mean change of the outputs; 1 is the distance of those of two images."""
    before, after = (torch.cat([net(part) for part in images.split(64)]) for images in (x, moved))
    apart = math.sqrt(2 * float((before - before.mean(0)).square().sum(1).mean()))
    return bootstrap_mean((after - before).norm(dim=1).double() / (apart or 1.0))


def interpolation_claim(changes: Changes) -> Claim:
    """Is it interpolation that makes the logits behind fixed coefficients change more?"""
    fixed, trained = changes["exact"]
    exact, blur = changes["exact"], changes["blur alone"]
    less = exact[fixed].high < exact[trained].low
    return Claim(
        "stability, what is asked here",
        "Logits behind a scattering change more than those of a trained network because of the "
        "interpolation between pixels, which blurs, not because of the move. (half a pixel)",
        "; ".join(
            f"{move} {', '.join(f'{name} {_written(one)}' for name, one in found.items())}"
            for move, found in changes.items()
        ),
        verdict=verdict(less and blur[fixed].low > blur[trained].high, less),
    )


def _written(one: Interval) -> str:
    return f"{one.value:.3f} [{one.low:.3f}, {one.high:.3f}]"


def _text(changes: Changes) -> str:
    rows = [[move, *(_written(one) for one in found.values())] for move, found in changes.items()]
    return "\n\n".join(
        [
            "Deformed images are interpolated between pixels, which blurs them, and the finest "
            "wavelets see that. A move by half a pixel, as it is interpolated (each pixel the mean "
            "of two), exactly (by the phases of waves, nothing is blurred), and there and back "
            "(the blur alone, twice); changes of the logits:",
            table(["half a pixel", *changes["exact"]], rows),
        ]
    )
