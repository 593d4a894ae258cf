"""All that is measured of one kind of network in one world."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from nescio_papers.relu_overconfidence.alphas import Alphas, measured, row
from nescio_papers.relu_overconfidence.directions import directions
from nescio_papers.relu_overconfidence.searches import Search, search_row, searched
from nescio_papers.relu_overconfidence.worlds import World, accuracies, members


@dataclass(frozen=True)
class Budget:
    """How many images there are of each kind."""

    rays: int
    together: int  # for averages of networks
    compared: int  # with searches, of each kind of direction
    directions: int  # for limits


@dataclass(frozen=True, eq=False)
class Found:
    """Factors of each training and of their average, and what searches find."""

    world: World
    name: str
    noise: Tensor  # the images
    each: Sequence[Alphas]  # a training each
    together: Alphas | None  # their average, on the first of the images
    ways: Mapping[str, Tensor]  # directions of the searches, by kind
    searches: Mapping[str, Sequence[Search]]

    @property
    def numbers(self) -> dict[str, Any]:
        """All of it as plain numbers."""
        numbers: dict[str, Any] = {
            "accuracy": accuracies(self.world.models[self.name], self.world.test),
            **row(self.each),
            "searches": {way: search_row(result) for way, result in self.searches.items()},
        }
        if self.together is not None:
            numbers["ensemble"] = row([self.together])
        return numbers


def found_of(world: World, name: str, size: Budget, seed: int) -> Found:
    """Measure the networks of one name."""
    model, noise = world.models[name], world.noise(size.rays, seed)
    single = [members(model, [i]) for i in range(model.members)]
    every = directions(world, size.compared, seed)
    ways = {way: every[way] for way in ("noise", "random")}
    return Found(
        world=world,
        name=name,
        noise=noise,
        each=[measured(one, noise) for one in single],
        together=measured(model, noise[: size.together]) if len(single) > 1 else None,
        ways=ways,
        searches={way: [searched(one, x) for one in single] for way, x in ways.items()},
    )
