"""Little labels: draws, the same for all methods, and a quick run whose verdicts stay open."""

import math
from dataclasses import replace

import pytest
import torch

from nescio_papers import Settings, named, run_experiment
from nescio_papers.kit import numbers_of
from nescio_papers.kit.samples import sample
from nescio_papers.robust_deep_learning import little_digits, little_moons, little_verdicts
from nescio_papers.robust_deep_learning.little_methods import (
    SUPERVISED,
    VIRTUAL,
    Outcome,
    stratified,
)

METHODS = [
    "pi_model",
    "temporal_ensembling",
    "mean_teacher",
    "transformation_consistency",
    "virtual_adversarial",
]
QUICKLY = Settings(quick=True)


def outcome(*errors):
    return Outcome(model=None, errors=sample(errors), updates=1, cpu_seconds=None)


@pytest.fixture(scope="module")
def run(image_files, tmp_path_factory):
    data = image_files(tmp_path_factory.mktemp("data"), train=150, test=50, letters=26)
    folder = tmp_path_factory.mktemp("little")
    experiment = named("robust-deep-learning")
    moons = replace(little_moons.QUICK, samples=30, test=20, updates=3)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("NESCIO_DATA", str(data))
        patch.setattr(little_moons, "QUICK", moons)
        part = {"settings": QUICKLY, "only": ["little-labels"], "show": False}
        page = run_experiment(experiment, folder, **part)
        yield folder, page.read_text()


def test_a_quick_run_writes_the_pictures_and_leaves_claims_open(run):
    folder, text = run
    names = {f"little-labels-{name}.png" for name in ("moons", "mnist", "ramps")}
    assert {path.name for path in folder.iterdir()} >= names
    claims = text[text.index("## What the source says") :]
    assert claims.count("| open |") == 2 + 2 * len(METHODS)
    assert all(f"| {word} |" not in claims for word in ("holds", "does not hold", "holds in part"))


def test_every_method_is_beside_the_supervised_one_on_all_draws(run):
    folder, _ = run
    numbers = numbers_of(replace(QUICKLY, folder=folder), "little-labels")
    for data, draws in (("half_moons", 10), ("mnist", 2)):
        assert {*METHODS, SUPERVISED} <= set(numbers[data])
        for one in numbers[data].values():
            assert len(one["error"]["values"]) == draws
            assert one["cpu_seconds"] is not None


def test_draws_have_as_many_samples_of_every_group_and_none_twice():
    groups = torch.arange(60) % 3
    first, again, other = (
        stratified(groups, 4, torch.Generator().manual_seed(seed)) for seed in (0, 0, 1)
    )
    assert groups[first].tolist() == [0] * 4 + [1] * 4 + [2] * 4
    assert len(set(first.tolist())) == 12
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


def test_thirds_of_an_arm_are_those_of_the_angle_it_was_drawn_at():
    angle = torch.linspace(0.01, math.pi - 0.01, 300)
    first = torch.stack([angle.cos(), angle.sin()], 1)
    second = torch.stack([1 - angle.cos(), 0.5 - angle.sin()], 1)
    wanted = (3 * angle / math.pi).long()
    for label, arm in enumerate((first, second)):
        found = little_moons.third(arm, torch.full((300,), label))
        assert torch.equal(found, wanted)
    beyond = torch.tensor([[-1.0, -0.1], [1.0, -0.1]])  # noise carries samples past the ends
    assert little_moons.third(beyond, torch.zeros(2)).tolist() == [2, 0]


def test_six_labels_lie_along_the_arms():
    task = little_moons.task(QUICKLY)
    x, y = (part.view(10, 6, *part.shape[1:]) for part in task.labeled)
    for draw in range(10):
        assert y[draw].tolist() == [0, 0, 0, 1, 1, 1]
        assert little_moons.third(x[draw], y[draw]).tolist() == [0, 1, 2, 0, 1, 2]
    assert len(task.unlabeled) == little_moons.QUICK.samples


def test_verdicts_follow_the_paired_intervals():
    outcomes = {
        SUPERVISED: outcome(0.06, 0.08, 0.07),
        "pi_model": outcome(0.011, 0.029, 0.02),
        VIRTUAL: outcome(0.05, 0.10, 0.03),
    }
    assert little_verdicts.best(outcomes) == "pi_model"
    found = {name: one.errors for name, one in outcomes.items()}
    better, unclear = little_verdicts.helps(found, "there")
    assert better.verdict == "holds"
    assert better.source == "here"
    assert "7.00" in better.measured
    assert "in 3 of 3 draws" in better.measured
    assert unclear.verdict == "open"
    turned = {SUPERVISED: found["pi_model"], "pi_model": found[SUPERVISED]}
    assert little_verdicts.helps(turned, "there")[0].verdict == "does not hold"
    assert little_verdicts.moons_figure(found).verdict == "holds"
    worse = {**found, "pi_model": sample([0.03, 0.03, 0.06])}
    assert little_verdicts.moons_figure(worse).verdict == "does not hold"


@pytest.mark.parametrize(
    ("errors", "verdict"),
    [
        ((0.019, 0.02, 0.021), "holds"),
        ((0.019, 0.02, 0.03), "open"),
        ((0.03, 0.031, 0.032), "does not hold"),
    ],
)
def test_the_figure_on_digits_is_judged_with_its_interval(errors, verdict):
    assert little_verdicts.digits_figure({"pi_model": sample(errors)}).verdict == verdict


def test_without_digits_only_the_moons_are_judged():
    moons = {name: {"error": {"values": [0.1, 0.2]}} for name in (SUPERVISED, VIRTUAL)}
    numbers = {"half_moons": moons, "mnist": {"absent": "not there"}}
    assert len(little_verdicts.judge(numbers)) == 2


def test_the_network_of_digits_takes_their_size():
    assert little_digits.network(4)(torch.zeros(2, 1, 28, 28)).shape == (2, 10)
