"""How often a patch misleads a network in fresh views, beside a gray patch of the same shape."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from nescio.attacks import Patch, Views
from nescio.conformal import binomial_interval
from nescio.core import Head, NescioError, as_batch, as_inputs, as_targets
from nescio.evaluation.answers import SAMPLES, see
from nescio.metrics import Interval, bootstrap_mean
from nescio.models import Predictor, plain, with_head
from nescio.nets import Output


@dataclass(frozen=True, kw_only=True)
class PatchSuccess:
    """Shares of images that a patch misleads, each image in one fresh view.

    Images count that are answered correctly without it; with a target, those of other classes.

    target: class that the patch should be taken for; None: any wrong one.
    samples: number of images that count.
    share: share of these that are answered with the target; without one, wrongly.
    gray: the same, under a gray patch in the same views.
    gain: by how much the patch misleads more than the gray one, paired.
    """

    target: int | None
    samples: int
    share: Interval
    gray: Interval
    gain: Interval

    def words(self) -> str:
        """The shares in one sentence."""
        what = "wrongly" if self.target is None else f"as class {self.target}"
        return (
            f"Of {self.samples} images, {_per_cent(self.share)} are answered {what} with the patch "
            f"in a fresh view, {_per_cent(self.gray)} with a gray patch in the same view."
        )


@torch.no_grad()
def patch_success(
    patch: Patch,
    source: nn.Module | Predictor,
    data: tuple[Any, Any],
    *,
    views: Views | None = None,
    seed: int = 1,
    head: Head | str | None = None,
    output: Output = None,
) -> PatchSuccess:
    """How often a patch misleads a network on images, each in one view that was not trained on.

    `patch_success(attacks.patch(net, x), net, test).share`, best on other images than the patch was
    made from.

    patch: the patch, as `nescio.attacks.patch` makes it.
    source: a network or a predictor.
    data: images and labels, `(x, y)`.
    views: views to show it in; None: those it was made for.
    seed: seed of the random views.
    head: how the outputs of modules are read, as for `nescio.observe`.
    output: where the outputs are in what the network returns, as for `nescio.observe`.
    """
    x = as_inputs(data[0], keep_bytes=True)
    y = as_targets(data[1], len(x), task="classification").cpu()
    read = with_head(source, data, head=head, output=output)
    predictor: Predictor = plain(read) if isinstance(read, nn.Module) else read
    counts = _answers(predictor, x, lambda piece, _: as_batch(piece)) == y
    if patch.target is not None:
        counts &= y != patch.target
    if not counts.any():
        raise NescioError(
            f"none of the {len(x)} images counts: they must be answered correctly, and not be "
            "of the target class"
        )
    one, other = (
        _misled(patch.target, _answers(predictor, x, _shown(own, views, seed)), y)[counts]
        for own in (patch, patch.gray())
    )
    samples = len(one)
    return PatchSuccess(
        target=patch.target,
        samples=samples,
        share=binomial_interval(int(one.sum()), samples),
        gray=binomial_interval(int(other.sum()), samples),
        gain=bootstrap_mean((one.double() - other.double()).numpy(), seed=seed),
    )


def _shown(patch: Patch, views: Views | None, seed: int) -> Callable[[Tensor, int], Tensor]:
    return lambda piece, first: patch(piece, views=views, seed=seed, first=first)


def _answers(predictor: Predictor, x: Tensor, show: Callable[[Tensor, int], Tensor]) -> Tensor:
    """The labels of images that are shown a piece at a time."""
    starts = range(0, len(x), SAMPLES)
    parts = [see(predictor, show(x[first : first + SAMPLES], first)).labels for first in starts]
    return torch.cat(parts)


def _misled(target: int | None, answers: Tensor, y: Tensor) -> Tensor:
    return answers != y if target is None else answers == target


def _per_cent(share: Interval) -> str:
    ends = f"{100 * share.low:.1f} to {100 * share.high:.1f}"
    return f"{100 * share.value:.1f} % ({ends})"
