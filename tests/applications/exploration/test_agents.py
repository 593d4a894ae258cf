"""Agents of the registry: options by keyword, each with an effect; nonsense is refused."""

import inspect

import pytest

from nescio.applications.exploration import Agent, epsilon_greedy
from nescio.applications.exploration.agents import as_agent
from nescio.core import NescioError
from nescio.core.registry import agents, keyword_only

OTHER = {
    "ensemble": {"members": "3", "prior": "0.5", "share": "1"},
    "dropout": {"rate": "0.3", "masks": "step"},
    "epsilon_greedy": {"epsilon": "0.2", "decay": "7"},
}


@pytest.mark.parametrize("name", agents)
def test_every_option_has_an_effect_and_is_in_the_description(name):
    plain = as_agent(name)
    assert plain == agents[name]()
    assert plain.name == name
    assert len(inspect.signature(agents[name]).parameters) == len(keyword_only(agents[name]))
    assert {p.name for p in keyword_only(agents[name])} == set(OTHER[name])
    for option, value in OTHER[name].items():
        other = as_agent(f"{name},{option}={value}")
        changed = [key for key, own in other.described.items() if own != plain.described[key]]
        assert len(changed) == 1


def test_the_chance_of_a_random_action_falls_to_epsilon():
    agent = epsilon_greedy(epsilon=0.2, decay=4)
    assert [agent.chance(episode) for episode in range(6)] == pytest.approx(
        [1.0, 0.8, 0.6, 0.4, 0.2, 0.2]
    )
    assert epsilon_greedy(epsilon=0.2, decay=0).chance(0) == 0.2
    assert as_agent("ensemble").chance(0) == 0


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"members": 0}, "a whole number of members"),
        ({"members": 2.5}, "a whole number of members"),
        ({"prior": -1.0}, "a prior of 0 or more"),
        ({"share": 0.0}, "a share above 0"),
        ({"dropout": 1.0}, "below 1"),
        ({"masks": "day"}, "masks for each 'episode' or 'step'"),
        ({"epsilon": float("nan")}, "an epsilon of 0 to 1"),
        ({"decay": -1}, "a decay of 0 or more"),
    ],
)
def test_options_out_of_range_are_refused(options, words):
    with pytest.raises(NescioError, match=words):
        Agent(name="mine", **options)
