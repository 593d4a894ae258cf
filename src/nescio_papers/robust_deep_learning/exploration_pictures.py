"""Pictures of exploration: Q and its uncertainty along the chain and over the car's states."""

from dataclasses import replace

import torch
from matplotlib.figure import Figure
from torch import Tensor

from nescio.applications.exploration import GymEnvironment, learner
from nescio.report.plots.action_values_plot import Axle, action_value_lines, action_value_maps
from nescio.report.plots.maze_plot import maze_picture
from nescio_papers.kit import Settings
from nescio_papers.robust_deep_learning.exploration_races import (
    DROPOUT,
    ENSEMBLE,
    Looks,
    Race,
    budget,
)

ACROSS, UP = 61, 41  # states in a map


def maze_world(settings: Settings, race: Race) -> Figure:
    """Where the agent of the first seed is after its last batch."""
    state = learner(
        race.environment,
        race.agents[DROPOUT],
        seeds=race.seeds,
        seed=settings.seed,
        run=race.folder(settings, DROPOUT),
        **race.learning,
    )
    title = f"The maze after {len(state.rewards)} batches: nine eyes, five actions"
    figure: Figure = maze_picture(state.runs.world, title=title)  # type: ignore[attr-defined]
    return figure


def chain_values(settings: Settings, race: Race) -> Figure:
    """Q of the step on and of the step back along the chain, of one seed that learns alone."""
    alone = replace(race, name=f"{race.name}-look", seeds=race.seeds[:1])
    chain = race.environment
    stages = budget(settings).looks["chain"]
    looks = alone.looked(settings, ENSEMBLE, chain.observations(), stages)  # type: ignore[attr-defined]
    onward: Tensor = chain.start(alone.seeds).onward[0]  # type: ignore[attr-defined]
    both = torch.stack([onward, 1 - onward], -1)  # (N, 2)
    ordered = {
        after: values.gather(-1, both.expand(len(values), -1, -1))
        for after, (values, _) in looks.items()
    }
    found: Figure = action_value_lines(
        _named(ordered),
        actions=("towards the far end", "back"),
        title="The chain: Q of ten members, mean and two standard deviations",
    )
    return found


def car_values(settings: Settings, race: Race) -> Figure:
    """The value of the car's states and its uncertainty, and the states it has been in."""
    car = race.environment
    assert isinstance(car, GymEnvironment)
    (left, right), (down, up) = car.ranges
    looks = car_looks(settings, race)
    low, high = torch.tensor(car.ranges).T
    visited = {a: low + (x + 1) / 2 * (high - low) for a, (_, x) in looks.items()}
    found: Figure = action_value_maps(
        _named({after: values.unflatten(1, (UP, ACROSS)) for after, (values, _) in looks.items()}),
        Axle(car.names[0], left, right),
        Axle(car.names[1], down, up),
        visited=_named(visited),
        title="MountainCar: value of states and its uncertainty; dots: where the car has been",
    )
    return found


def car_looks(settings: Settings, race: Race) -> Looks:
    """Q over the car's states after some numbers of episodes."""
    assert isinstance(race.environment, GymEnvironment)
    stages = budget(settings).looks[race.name]
    return race.looked(settings, ENSEMBLE, car_states(race.environment), stages)


def car_states(car: GymEnvironment) -> Tensor:
    """Observations over position and velocity, a grid whose rows go up."""
    (left, right), (down, up) = car.ranges
    across = torch.linspace(left, right, ACROSS, dtype=torch.float64)
    rise = torch.linspace(down, up, UP, dtype=torch.float64)
    rows, columns = torch.meshgrid(rise, across, indexing="ij")
    return car.scaled(torch.stack([columns, rows], -1).view(-1, 2))


def _named(by_episodes: dict[int, Tensor]) -> dict[str, Tensor]:
    return {f"after {count} episodes": values for count, values in by_episodes.items()}
