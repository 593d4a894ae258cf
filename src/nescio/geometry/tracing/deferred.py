"""A ReLU that waits: where max pooling follows, it is taken of the winners only.

ReLU and the largest of several can be taken in either order. Pooling first leaves fewer units to
bend, and no breakpoints of units that never win.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from torch import Tensor

from nescio.geometry.tracing.domain import Bend, Domain, Function, Part

RELU = Bend((0.0,), (0.0, 1.0), (0.0, 0.0))


@dataclass(frozen=True)
class Waiting:
    """What a domain keeps beside a part whose ReLU has not been taken yet."""

    error: Any


class Deferred(Domain):
    """Put in front of a domain: its ReLUs are taken when something other than a pool needs them."""

    def bend(self, part: Part, bend: Bend) -> Part:
        if is_relu(bend):
            waits = isinstance(part.error, Waiting)
            return part if waits else Part(part.coefs, part.version, Waiting(part.error))
        return super().bend(self.settled(part), bend)

    def settled(self, part: Part) -> Part:
        """The part with its ReLU taken, if one waits."""
        return super().bend(plain(part), RELU) if isinstance(part.error, Waiting) else part

    def current(self, part: Part) -> Part:
        return super().current(self.settled(part))

    def map(
        self,
        part: Part,
        function: Function,
        *,
        absolute: Function | None = None,
        terms: int = 1,
        constant: Tensor | float | None = None,
    ) -> Part:
        if isinstance(part.error, Waiting) and absolute is None and terms == 1 and constant is None:
            chosen = super().map(plain(part), function)  # a choice of units
            return Part(chosen.coefs, chosen.version, Waiting(chosen.error))
        return super().map(
            self.settled(part), function, absolute=absolute, terms=terms, constant=constant
        )

    def add(self, first: Part, second: Part) -> Part:
        first, second = self.settled(first), self.settled(second)
        return super().add(first, second)

    def join(self, parts: Sequence[Part], dim: int) -> Part:
        return super().join([self.settled(part) for part in parts], dim)

    def largest(self, parts: Sequence[Part]) -> Part:
        if all(isinstance(part.error, Waiting) for part in parts):
            return self.largest_waiting([plain(part) for part in parts])
        return super().largest([self.settled(part) for part in parts])

    def largest_waiting(self, parts: Sequence[Part]) -> Part:
        """The ReLU of the largest of several parts: the largest of them and 0."""
        zero = replace(parts[0], coefs=parts[0].coefs.new_zeros(()).expand_as(parts[0].coefs))
        return super().largest([zero, *parts])


def is_relu(bend: Bend) -> bool:
    """Whether an activation is the plain ReLU."""
    return bend.points == (0.0,) and bend.slopes == (0.0, 1.0)


def plain(part: Part) -> Part:
    """The part before the ReLU that waits."""
    return Part(part.coefs, part.version, part.error.error)
