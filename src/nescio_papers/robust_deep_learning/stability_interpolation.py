"""What interpolation between pixels does by itself, apart from the deformation it is made for."""

import math
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from nescio.core import as_batch
from nescio.metrics import Interval, bootstrap_mean
from nescio_papers.kit import Claim, Findings, table
from nescio_papers.robust_deep_learning.stability_pairs import changed, outputs_of
from nescio_papers.robust_deep_learning.stored_facts import between, less

AROUND = 8  # zeros on each side, so that nothing comes in on the other
MOVES = ("interpolated", "exact", "blur alone")
DIFFERENCE = "difference"  # the first network less the second, by digit
Changes = Mapping[str, Mapping[str, Interval]]  # by move and network


def half_a_pixel(networks: Mapping[str, nn.Module], x: Tensor) -> Findings:
    """Digits that move by half a pixel: interpolated as deformations are, exactly, and not at all.

    networks: the fixed one and the trained one, in this order.
    """
    values = {
        move: {name: _change(net, as_batch(x), moved) for name, net in networks.items()}
        for move, moved in zip(MOVES, _moved(as_batch(x)), strict=True)
    }
    changes = {
        move: {name: bootstrap_mean(one) for name, one in found.items()}
        for move, found in values.items()
    }
    fixed, trained = networks
    return Findings(
        numbers={
            move: {name: vars(one) for name, one in found.items()}
            | {DIFFERENCE: vars(bootstrap_mean(values[move][fixed] - values[move][trained]))}
            for move, found in changes.items()
        },
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


def _change(net: nn.Module, x: Tensor, moved: Tensor) -> Tensor:
    """The change of the outputs of each image; 1 is the distance of those of two images."""
    return changed(outputs_of(net, x), outputs_of(net, moved))


def claims(numbers: Mapping[str, Any]) -> list[Claim]:
    """Is it interpolation that makes the logits behind fixed coefficients change more?"""
    gaps = {move: _difference(numbers[move]) for move in MOVES}

    def told(move: str) -> str:
        return f"{move}: change behind the scattering less that of the trained network"

    return [
        Claim(
            source="stability, what is asked here",
            sentence="Logits behind a scattering change more than those of a trained network "
            "because of the interpolation between pixels, which blurs, not because of the move. "
            "(half a pixel)",
            facts=[
                between(told("exact"), gaps["exact"], below=0, form="+.3f"),
                between(told("blur alone"), gaps["blur alone"], above=0, form="+.3f"),
            ],
            needs=[between(told("interpolated"), gaps["interpolated"], above=0, form="+.3f")],
            note="paired by digit",
        )
    ]


def _difference(found: Mapping[str, Any]) -> Mapping[str, Any]:
    """The paired difference; of older numbers, from the separate intervals."""
    if DIFFERENCE in found:
        own: Mapping[str, Any] = found[DIFFERENCE]
        return own
    return less(*found.values())


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
