"""Exploration: races on the same seeds, verdicts, and a quick run whose verdicts stay open."""

from dataclasses import replace

import numpy as np
import pytest

from nescio.applications.exploration import Rewards
from nescio.core import finite
from nescio_papers import Settings, named, run_experiment
from nescio_papers.kit import numbers_of
from nescio_papers.robust_deep_learning import exploration_verdicts as verdicts
from nescio_papers.robust_deep_learning import exploration_worlds
from nescio_papers.robust_deep_learning.exploration_races import (
    ALONE,
    DROPOUT,
    ENSEMBLE,
    GREEDY,
    SLOW,
    races,
)

QUICKLY = Settings(quick=True)
WORLDS = ["bandit", "chain", "maze", "cart_pole", "mountain_car"]


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("exploration")
    part = {"settings": QUICKLY, "only": ["exploration"], "show": False}
    page = run_experiment(named("robust-deep-learning"), folder, **part)
    return folder, page.read_text()


def rewards(*rows, window=1, solved=0.5):
    return Rewards(rewards=np.array(rows, float), seeds=(0, 1), window=window, solved=solved)


def test_a_quick_run_writes_the_pictures_and_leaves_claims_open(run):
    folder, text = run
    wanted = [*WORLDS, "maze-world", "chain-values", "mountain-car-values"]
    names = {f"exploration-{name.replace('_', '-')}.png" for name in wanted}
    assert {path.name for path in folder.iterdir()} >= names
    claims = text[text.index("## What the source says") :]
    assert claims.count("| open |") == 2 * 4 + 4 + 2 + 2  # two agents, in the maze two rivals
    assert all(f"| {word} |" not in claims for word in ("holds", "does not hold", "holds in part"))


def test_every_agent_learns_in_every_world_with_the_same_seeds(run):
    folder, _ = run
    numbers = numbers_of(replace(QUICKLY, folder=folder), "exploration")
    assert list(numbers) == WORLDS
    for name, race in races(QUICKLY).items():
        assert list(numbers[name]) == list(race.agents)
        for one in numbers[name].values():
            assert len(one["mean_reward"]["values"]) == 2
    assert set(numbers["maze"]) == {ENSEMBLE, DROPOUT, GREEDY, SLOW, ALONE}


def test_what_was_learned_is_not_learned_again_and_looks_stay(run):
    folder, _ = run
    race = races(QUICKLY)["mountain_car"]
    settings = replace(QUICKLY, folder=folder)
    state = race.folder(settings, ENSEMBLE) / "learner.safetensors"
    before = state.stat().st_mtime_ns
    assert race.learned(settings, ENSEMBLE).rewards.shape == (2, race.episodes)
    looks = exploration_worlds.pictures.car_looks(settings, race)
    assert state.stat().st_mtime_ns == before
    assert list(looks) == [1, 2]
    values, visited = looks[2]
    assert values.shape == (5, 61 * 41, 3)
    assert visited.shape == (2 * race.environment.steps, 2)


def test_without_gymnasium_the_other_worlds_remain(monkeypatch):
    monkeypatch.setattr(exploration_worlds, "find_spec", lambda name: None)
    found = exploration_worlds._world(QUICKLY, races(QUICKLY)["cart_pole"])
    assert "nescio[exploration]" in found.text
    assert verdicts.judge({"cart_pole": found.numbers}) == []


def stored(race, found):
    """The numbers of agents as JSON has them."""
    return finite(verdicts.numbers(race, found))


def test_faster_is_more_reward_on_the_same_seeds():
    race = races(QUICKLY)["bandit"]
    found = {
        ENSEMBLE: rewards([1, 1, 1], [1, 1, 0.9]),
        DROPOUT: rewards([1, 0, 0], [0, 1, 1]),
        GREEDY: rewards([0, 0, 1], [0, 0, 1]),
    }
    unclear, better = verdicts.faster("bandit", stored(race, found))
    assert (unclear.verdict, better.verdict) == ("open", "holds")
    assert "more in 2 of 2 seeds" in better.measured


def arriving(*batches, of=40):
    """Rewards of seeds that have 1 from a batch on."""
    return rewards(*([0] * (batch - 1) + [1] * (of - batch + 1) for batch in batches))


def test_the_time_in_the_maze_is_beside_the_published_one():
    race = replace(races(QUICKLY)["maze"], window=1, goal=1.0)
    quick, late, never = (
        arriving(30, 31, 30, of=220), arriving(150, 154, 151, of=220), rewards(*[[0] * 220] * 3)
    )  # fmt: skip
    found = {ENSEMBLE: quick, DROPOUT: quick, GREEDY: late, SLOW: late, ALONE: never}
    assert verdicts.batches(stored(race, found)).verdict == "holds"
    sooner = stored(race, {**found, DROPOUT: arriving(39, 40, 40, of=220), GREEDY: quick})
    assert verdicts.batches(sooner).verdict == "holds in part"  # no faster than one that decays
    slower = stored(race, {**found, SLOW: arriving(210, 211, 212, of=220)})
    assert verdicts.batches(slower).verdict == "holds in part"  # not within 175 after the burn-in
    mixed = stored(race, {**found, GREEDY: arriving(20, 50, 21, of=220)})
    assert verdicts.batches(mixed).verdict == "open"
    first, second = verdicts.compared(race, found)
    assert (first.published, first.ours) == (50, 30)
    assert (second.published, second.ours) == (200, 151)
    assert "recalled" in first.note


@pytest.mark.parametrize(
    ("agent", "batches", "verdict"),
    [
        (DROPOUT, (18, 19, 20), "not reached here"),
        (SLOW, (18, 19, 20), "not reached here"),
        (DROPOUT, (20, 26, 32), "open"),
        (GREEDY, (30, 31, 32), "open"),
    ],
)
def test_a_goal_within_the_burn_in_says_nothing_of_the_time_after_it(agent, batches, verdict):
    race = replace(races(QUICKLY)["maze"], window=1, goal=1.0)
    found = {
        DROPOUT: arriving(30, 31, 30, of=220),
        SLOW: arriving(150, 154, 151, of=220),
        GREEDY: arriving(60, 61, 62, of=220),
        agent: arriving(*batches, of=220),
    }
    assert verdicts.batches(stored(race, found)).verdict == verdict


def test_without_random_actions_as_many_seeds_must_arrive():
    race = replace(races(QUICKLY)["maze"], window=1, goal=1.0)
    every, most = arriving(*[2] * 8), rewards(*[[0] * 40] * 7, [1] * 40)
    few = stored(race, {DROPOUT: every, ALONE: most})
    assert verdicts.burn_in_matters(few).verdict == "does not hold"
    more = stored(race, {DROPOUT: most, ALONE: every})
    assert verdicts.burn_in_matters(more).verdict == "holds"


def test_the_chain_is_judged_by_how_many_seeds_solve_it():
    race = replace(races(QUICKLY)["chain"], window=1, goal=1.0)
    solved, not_solved = rewards([0, 1], [1, 1]), rewards([0, 0], [0, 0])
    found = stored(race, {ENSEMBLE: solved, DROPOUT: not_solved, GREEDY: not_solved})
    assert [one.verdict for one in verdicts.chain_figures(found)] == ["holds", "holds"]
    swapped = stored(race, {ENSEMBLE: not_solved, DROPOUT: solved, GREEDY: solved})
    assert [one.verdict for one in verdicts.chain_figures(swapped)] == ["does not hold"] * 2


def test_numbers_have_times_that_json_can_hold(run):
    folder, _ = run
    numbers = numbers_of(replace(QUICKLY, folder=folder), "exploration")
    times = numbers["cart_pole"][GREEDY]["episodes_to_goal"]
    assert times["reached_seeds"] == 0
    assert times["by_seed"] == [None, None]
