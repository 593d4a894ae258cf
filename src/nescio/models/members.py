"""The networks behind a predictor: each one fixed, with its masks and the scaling of its logits."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

from torch import nn

from nescio.core import Head, NescioError, categorical

CLASSES = categorical()  # of a bare network: its outputs are class logits


@dataclass(frozen=True, eq=False, kw_only=True)
class Member:
    """One fixed network of a predictor, and how its outputs are read.

    The logits are `slope * z + intercept` where the network gives z.
    """

    net: nn.Module  # in evaluation mode it is the member, apart from dropout masks
    head: Head = CLASSES
    masks: tuple[int, int] | None = None  # seed and number of the dropout pass
    slope: float = 1.0
    intercept: tuple[float, ...] | None = None  # (C,)
    template: nn.Module | None = None  # of networks that differ in their weights only

    @cached_property
    def is_bare(self) -> bool:
        """Whether the network itself is the member: no masks, no scaling."""
        return self.masks is None and self.slope == 1.0 and self.intercept is None

    def networks(self) -> "list[Member]":
        """Itself."""
        return [self]

    inner = None


def networks(source: Any) -> list[Member]:
    """The networks of a module or a predictor, one per member of its predictions."""
    if isinstance(source, nn.Module):
        return [Member(net=source)]
    answer = getattr(source, "networks", None)
    if not callable(answer):
        raise NescioError(
            f"a {type(source).__name__} shows no networks; pass an nn.Module, a model, or a "
            "predictor of nescio"
        )
    return list(answer())


def innermost(source: Any) -> Any:
    """The module or predictor behind calibrations and samplers."""
    while not isinstance(source, nn.Module) and getattr(source, "inner", None) is not None:
        source = source.inner
    return source
