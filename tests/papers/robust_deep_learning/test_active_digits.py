"""Active learning on digits: the fixed features, the methods, and what is said of their curves."""

import json
import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from nescio.applications.active_learning import Curves
from nescio_papers import Settings, named, run_experiment
from nescio_papers.robust_deep_learning import active_digits, active_runs, active_verdicts
from nescio_papers.robust_deep_learning.active_features import edges
from nescio_papers.robust_deep_learning.active_runs import (
    BALD,
    BALD_20,
    BATCH,
    DELTA_BALD,
    METHODS,
    MNIST,
    ON_COPIES,
    RANDOM,
    RATIO,
    REPEATED,
)

TINY = replace(
    active_runs.QUICK, train=60, test=20, labels=30, few=30, updates=3, passes=3, some=20
)
FIGURES = {
    f"active-learning-{name}.png"
    for name in ("errors", "posteriors", "repeated", "asked", "copies")
}


@pytest.fixture(scope="module")
def run(image_files, tmp_path_factory):
    data = image_files(tmp_path_factory.mktemp("data"), train=60, test=20, letters=26)
    folder = tmp_path_factory.mktemp("active")
    experiment, quickly = named("robust-deep-learning"), Settings(quick=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("NESCIO_DATA", str(data))
        patch.setattr(active_runs, "QUICK", TINY)
        page = run_experiment(
            experiment, folder, settings=quickly, only=["active-learning"], show=False
        )
        yield folder, page.read_text()


def test_a_quick_run_writes_the_pictures_and_leaves_claims_open(run):
    folder, text = run
    assert {path.name for path in folder.iterdir()} >= FIGURES
    table = text[text.index("## What the source says") :]
    assert table.count("| open |") >= 15
    assert all(f"| {word} |" not in table for word in ("holds", "does not hold", "holds in part"))


def test_an_engine_changes_no_curve(run, workers, tmp_path, monkeypatch):
    folder, _ = run
    chosen = {name: METHODS[name] for name in (BALD, RANDOM)}
    monkeypatch.setattr(active_runs, "METHODS", chosen)
    monkeypatch.setattr(active_runs, "ON_COPIES", {})
    settings = Settings(quick=True, folder=tmp_path, engine=workers(2))
    found = active_runs.curves(settings)[MNIST]
    for name, there in found.items():
        here = Curves.load(active_runs.folder(replace(settings, folder=folder), name, chosen[name]))
        assert np.array_equal(here.acquired, there.acquired)
        assert np.array_equal(here.accuracy, there.accuracy)
    settings = replace(settings, engine=workers(2, last=0))  # all is there
    assert list(active_runs.curves(settings)[MNIST]) == list(chosen)


def test_under_a_delta_posterior_bald_is_zero_and_asks_for_what_random_asks_for(run):
    folder, _ = run
    delta, chance = (
        Curves.load(folder / "active-learning" / name)
        for name in ("mnist-bald-delta", "mnist-random")
    )
    assert not delta.scores[:, 20:].any()
    assert np.array_equal(delta.acquired, chance.acquired)
    assert np.array_equal(delta.accuracy, chance.accuracy)


def test_every_method_has_a_curve_from_the_same_start(run):
    folder, _ = run
    numbers = json.loads((folder / "active-learning.json").read_text())["numbers"]
    assert set(numbers[MNIST]) == set(METHODS)
    assert set(numbers[REPEATED]) == set(ON_COPIES)
    starts = [Curves.load(path).acquired[:, :20].tolist() for path in
              (folder / "active-learning").glob("mnist-*")]  # fmt: skip
    assert all(start == starts[0] for start in starts)


def bars(angle):
    """Dark and bright bars across a direction."""
    y, x = torch.meshgrid(torch.arange(28.0), torch.arange(28.0), indexing="ij")
    wave = torch.cos(0.75 * np.pi * (x * np.cos(angle) + y * np.sin(angle)))
    return (0.5 + 0.5 * wave)[None, None]


@pytest.mark.parametrize("number", range(8))
def test_the_features_tell_directions_apart(number):
    found = edges(bars(np.pi * number / 8)).reshape(17, 7, 7)[:8, 2:5, 2:5].mean((1, 2))
    assert found.argmax() == number


def test_the_filters_do_not_see_brightness_alone():
    flat = edges(torch.full((1, 1, 28, 28), 0.7)).reshape(17, 7, 7)[:, 2:5, 2:5]
    assert flat[:16].abs().max() < 1e-6
    assert torch.allclose(flat[16], torch.tensor(0.7), atol=1e-5)


def test_copies_differ_by_small_noise():
    x = torch.rand(5, 1, 28, 28)
    first, second = active_runs.noisy(x, 0), active_runs.noisy(x, 1)
    assert not torch.equal(first, second)
    assert torch.equal(first, active_runs.noisy(x, 0))
    assert (first - x).std().item() == pytest.approx(active_runs.NOISE, rel=0.1)


@pytest.mark.parametrize(("labels", "epochs"), [(20, 300), (64, 300), (65, 150), (1010, 19)])
def test_a_step_has_about_as_many_updates_for_any_number_of_labels(labels, epochs):
    assert active_runs.epochs(labels, 300, 64) == epochs


def curve(*accuracies, acquired=None, scores=0.0):
    accuracy = np.array(accuracies, float)
    seeds, steps = accuracy.shape
    count = 20 + 10 * (steps - 1)
    return Curves(
        labels=np.arange(20, count + 1, 10),
        accuracy=accuracy,
        acquired=np.tile(np.arange(count), (seeds, 1)) if acquired is None else acquired,
        scores=np.full((seeds, count), scores),
        seconds=np.zeros((steps, 3)),
        seeds=tuple(range(seeds)),
        settings={},
    )


def test_copies_of_an_image_count_once():
    acquired = np.array([[0, 100, 200, 1], [0, 1, 2, 3]])
    found = curve([0.5], [0.5], acquired=acquired)
    assert active_verdicts.distinct(found, 100) == [2, 4]


def learned(*errors, step=10):
    """Stored errors by seed, every `step` labels from 20 on."""
    labels = list(range(20, 20 + step * len(errors[0]), step))
    return active_verdicts.Learned(labels, errors, [math.nan] * len(errors))


@pytest.mark.parametrize(
    ("batch", "bald", "verdict"),
    [
        (0.04, 0.06, "holds"),
        (0.04, 0.04, "holds in part"),
        (0.06, 0.04, "does not hold"),
        (0.05, 0.06, "open"),
    ],
)
def test_bald_must_fail_on_copies_where_batchbald_does_not(batch, bald, verdict):
    def ending(error):  # the labels end at 310, and 280 is a step
        near = [0.5] * 26 + [error] * 4
        return learned([one - 0.0001 for one in near], [one + 0.0001 for one in near])

    rows = {BATCH: ending(batch), BALD: ending(bald)}
    assert active_verdicts._fails_on_copies(rows).verdict == verdict


def test_a_score_other_than_zero_refutes_the_claim_on_delta_posteriors():
    plain = learned([0.5, 0.4], [0.5, 0.4])
    rows = {RANDOM: plain, DELTA_BALD: plain}
    assert active_verdicts._zero_under_delta(rows, 0.0).verdict == "holds"
    assert active_verdicts._zero_under_delta(rows, None).verdict == "holds"
    assert active_verdicts._zero_under_delta(rows, 1e-6).verdict == "holds in part"
    other = {**rows, DELTA_BALD: learned([0.5, 0.3], [0.5, 0.4])}
    assert active_verdicts._zero_under_delta(other, 1e-6).verdict == "does not hold"


def test_a_stored_curve_has_errors_by_labels_and_their_mean():
    own = learned([0.5, 0.3, 0.1], [0.7, 0.3, 0.3])
    assert own.error_at(40).values == (0.1, 0.3)
    assert own.until(30).values == pytest.approx((0.4, 0.5))
    assert all(map(math.isnan, own.error_at(35).values))


def test_more_labels_than_at_random_refute_an_optimal_convergence():
    def needing(*labels, ends):
        rows = [[0.5, end] for end in ends]
        return active_verdicts.Learned([20, 30], rows, labels)

    chance = needing(400.0, 410.0, ends=(0.03, 0.031))
    better = needing(160.0, 175.0, ends=(0.01, 0.012))
    claim = active_verdicts._better_than_random
    assert claim(BALD, {BALD: better, RANDOM: chance}).verdict == "holds"
    assert claim(BALD, {BALD: chance, RANDOM: better}).verdict == "does not hold"
    assert claim(BALD, {BALD: chance, RANDOM: chance}).verdict == "open"


@pytest.mark.parametrize(
    ("name", "most", "source"),
    [
        (BATCH, 240, "Kirsch et al. (2019)"),
        (BALD, 250, "here, our own goal"),
        (RATIO, 300, "here, our own goal"),
    ],
)
def test_a_limit_that_is_not_the_published_number_is_our_own_goal(name, most, source):
    def judged(*needed):
        return active_verdicts._within(
            name, active_verdicts.Learned([20], [[0.5]] * 3, needed), most
        )

    assert judged(160.0, 170.0, 180.0).source == source
    assert judged(160.0, 170.0, 180.0).verdict == "holds"
    assert judged(400.0, 410.0, 420.0).verdict == "does not hold"
    assert judged(200.0, 240.0, 280.0).verdict == "open"
    assert ("recalled from the paper" in judged(1.0, 2.0, 3.0).note) == (name == RATIO)


def test_the_published_accuracy_is_that_of_as_many_passes():
    good, poor = learned([0.01, 0.010], [0.01, 0.0101]), learned([0.02, 0.030], [0.02, 0.0301])
    rows = dict.fromkeys((BALD, BATCH, RATIO, RANDOM), poor)
    assert active_verdicts._small_error({**rows, BALD_20: good}).verdict == "holds"
    rows = dict.fromkeys((BALD, BATCH, RATIO, RANDOM), good)
    assert active_verdicts._small_error({**rows, BALD_20: poor}).verdict == "does not hold"


def test_verdicts_follow_from_stored_numbers(run):
    folder, _ = run
    numbers = json.loads((folder / "results.json").read_text())["parts"]["active-learning"]
    found = active_digits.judge(numbers["numbers"])
    assert len(found) == len(numbers["claims"]) >= 15
    assert active_digits.judge({"absent": "not there"}) == []
