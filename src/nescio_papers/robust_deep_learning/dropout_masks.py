"""Errors of dropout as usual and of MC dropout, image by image, over several draws of the masks."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from nescio import metrics, models
from nescio.core import as_batch
from nescio_papers.kit import Fact, table
from nescio_papers.robust_deep_learning.stored_facts import between

Numbers = Mapping[str, Any]
PIECE = 500  # images at a time
QUANTILE = 1.959964  # of the normal distribution, for 95 % intervals


def at_dropout(net: nn.Module) -> tuple[nn.Module, nn.Module]:
    """The layers before the only dropout, and those from it on."""
    layers = list(net.children())
    places = [index for index, one in enumerate(layers) if isinstance(one, nn.Dropout)]
    assert len(places) == 1
    return nn.Sequential(*layers[: places[0]]), nn.Sequential(*layers[places[0] :])


def features_of(encoder: nn.Module, x: Tensor) -> Tensor:
    """What comes before the dropout, which no mask changes."""
    with torch.no_grad():
        return torch.cat([encoder(as_batch(piece)) for piece in x.split(PIECE)])


def paired_errors(
    net: nn.Module, x: Tensor, y: Tensor, *, passes: int, masks: Sequence[int]
) -> tuple[Tensor, Tensor]:
    """Which images are wrong as usual, `(N,)`, and with each draw of the masks, `(S, N)`."""
    encoder, rest = at_dropout(net)
    features = features_of(encoder, x)
    usual = _labels(models.plain(rest), features) != y
    draws = [models.mc_dropout(rest, passes=passes, seed=seed) for seed in masks]
    sampled = [_labels(sampler, features) != y for sampler in draws]
    return usual, torch.stack(sampled)


def _labels(predictor: Any, features: Tensor) -> Tensor:
    return torch.cat([predictor(piece).labels for piece in features.split(PIECE)])


def mask_numbers(usual: Sequence[Tensor], sampled: Sequence[Tensor]) -> dict[str, Any]:
    """The difference of the errors with an interval over images and masks, and all 2 x 2 counts.

    usual: for each network, which images are wrong as usual, `(N,)`.
    sampled: for each network, which are wrong with each draw of the masks, `(S, N)`.
    """
    pairs = list(zip(usual, sampled, strict=True))
    gaps = torch.stack([own.double() - one.double() for one, own in pairs])  # (M, S, N)
    images, runs = gaps.mean((0, 1)), gaps.mean(-1)  # (N,), (M, S)
    variance = float(images.var() / len(images))
    if runs.shape[1] > 1:  # what the draw of the masks adds, network by network
        variance += float(runs.var(1).mean() / runs.numel())
    half = QUANTILE * math.sqrt(variance)
    value = float(images.mean())
    return {
        "images": gaps.shape[-1],
        "usual": [float(one.double().mean()) for one in usual],
        "sampled": [own.double().mean(-1).tolist() for own in sampled],
        "difference": {"value": value, "low": value - half, "high": value + half},
        "tables": [[_table(own, one) for own in rows] for one, rows in pairs],
    }


def _table(sampled: Tensor, usual: Tensor) -> dict[str, float]:
    """How often only one of the two is wrong, and McNemar's exact p-value."""
    return {
        "only MC wrong": int((sampled & ~usual).sum()),
        "only usual wrong": int((usual & ~sampled).sum()),
        "both wrong": int((usual & sampled).sum()),
        "p": metrics.paired_share_test(sampled, usual).p,
    }


def mask_fact(name: str, found: Numbers) -> Fact:
    """Is the error of MC dropout lower, over images and masks?"""
    what = f"{name}: error of MC dropout less that of dropout as usual"
    return between(what, found["difference"], below=0, form=".3%")


def mask_note(found: Mapping[str, Numbers]) -> str:
    """How often McNemar's test tells the two apart."""
    words = []
    for name, one in found.items():
        tests = [own for rows in one["tables"] for own in rows]
        lower = sum(
            own["p"] < 0.05 and own["only MC wrong"] < own["only usual wrong"] for own in tests
        )
        higher = sum(
            own["p"] < 0.05 and own["only MC wrong"] > own["only usual wrong"] for own in tests
        )
        words.append(
            f"{name}: McNemar's test has it lower for {lower} and higher for {higher} of "
            f"{len(tests)} draws of the masks"
        )
    return "; ".join(words)


def mask_text(found: Mapping[str, Numbers]) -> str:
    """A row for each network and each draw of the masks."""
    rows = []
    for name, one in found.items():
        for net, (usual, tests) in enumerate(zip(one["usual"], one["tables"], strict=True)):
            shares = one["sampled"][net]
            for draw, (share, own) in enumerate(zip(shares, tests, strict=True)):
                rows.append([
                    name, str(net + 1), str(draw + 1), f"{100 * usual:.2f}", f"{100 * share:.2f}",
                    str(own["only MC wrong"]), str(own["only usual wrong"]), f"{own['p']:.3f}",
                ])  # fmt: skip
    header = ["", "network", "masks", "as usual, %", "MC, %", "only MC wrong", "only usual wrong",
              "McNemar's p"]  # fmt: skip
    return table(header, rows)
