"""Data poisoning: the head beside scikit-learn and finite differences, the attack, a quick run."""

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression
from torch import nn

from nescio import heads, losses
from nescio.applications.influence import fit, perturbation, self_influence
from nescio_papers import Settings, named, run_experiment
from nescio_papers.robust_deep_learning import (
    poisoning_attack,
    poisoning_detectors,
    poisoning_words,
)
from nescio_papers.robust_deep_learning.poisoning_head import fitted
from nescio_papers.robust_deep_learning.poisoning_task import Images, Task

DECAY = 1e-3


@pytest.fixture(scope="module")
def task():
    draws = torch.Generator().manual_seed(0)
    body = nn.Sequential(nn.Conv2d(3, 6, 3, stride=2), nn.ReLU(), nn.Flatten())
    with torch.no_grad():
        for weight in body.parameters():
            weight.copy_(0.4 * torch.randn(weight.shape, generator=draws))
    body.requires_grad_(False)
    signs = torch.tensor([1.0, -1.0]).double().repeat(12)
    x = torch.randint(0, 200, (24, 3, 8, 8), generator=draws).byte()
    x[signs > 0] += 40
    raw = body(x.float() / 255).double()
    scale = float(raw.square().sum(1).mean().sqrt())
    features = torch.cat([raw / scale, torch.ones(24, 1).double()], 1)
    train, test = (Images(x=x[part], signs=signs[part]) for part in (slice(16), slice(16, None)))
    head = fitted(features[:16], signs[:16], DECAY)
    return Task(body=body, scale=scale, train=train, test=test, spare=test, head=head)


def test_the_head_is_that_of_scikit_learn(task):
    head = task.head
    theirs = LogisticRegression(C=1 / (16 * DECAY), fit_intercept=False, tol=1e-10, max_iter=10_000)
    theirs.fit(head.features.numpy(), head.signs.numpy())
    np.testing.assert_allclose(head.weights, theirs.coef_[0], atol=1e-5)
    assert head.gradient_norm < 1e-8


def test_a_head_trained_again_is_the_head_of_the_new_features(task):
    feature = task.head.features[3] + 0.1
    again = task.head.moved(3, feature)
    features = task.head.features.clone()
    features[3] = feature
    torch.testing.assert_close(again.weights, fitted(features, task.head.signs, DECAY).weights)


def test_slopes_are_those_of_training_again(task):
    direction, step = task.tested()[0], 1e-5
    slope = task.head.slopes(direction, torch.tensor([5]))[0]
    for at in (0, 7, 20):
        up, down = (task.head.features[5].clone() for _ in range(2))
        up[at] += step
        down[at] -= step
        ends = [task.head.moved(5, one).weights @ direction for one in (up, down)]
        torch.testing.assert_close(
            (ends[0] - ends[1]) / (2 * step), slope[at], rtol=1e-4, atol=1e-7
        )


def test_slopes_and_self_influence_are_those_of_the_library(task):
    head, samples = task.head, slice(4)
    last = nn.Linear(head.features.shape[1] - 1, 1).double()
    with torch.no_grad():
        last.weight.copy_(head.weights[None, :-1])
        last.bias.copy_(head.weights[-1:])
    x, labels = head.features[:, :-1], (head.signs > 0).long()
    minimum = fit(
        last, (x, labels), loss=losses.nll(heads.binary()), weight_decay=DECAY / 2, head="binary"
    )
    torch.testing.assert_close(self_influence(minimum), head.self_influence(), rtol=1e-4, atol=1e-9)
    direction = task.tested()[:1]
    training = x[samples], labels[samples]
    found = perturbation(minimum, direction[:, :-1], training, on=lambda z: z[:, 0])[0]
    own = head.slopes(direction[0], torch.arange(4))[:, :-1]
    torch.testing.assert_close(found, own, rtol=1e-4, atol=1e-8)


@pytest.mark.parametrize("radius", [2, 20])
def test_an_attack_stays_within_its_radius_and_lowers_the_margins(task, radius):
    targets, signs = task.tested()[:3], task.test.signs[:3]
    chosen = poisoning_attack.candidates(task, targets, signs, 2)
    best = poisoning_attack.attacked(task, targets, signs, chosen, radius, steps=5)
    change = best.image.short() - task.train.x[best.index].short()
    assert best.image.dtype == torch.uint8
    assert 0 < change.abs().max() <= radius
    before = signs * task.head.logits(targets)
    assert best.margins.sum() < before.sum()
    again = poisoning_attack.changed(
        task, task.head, targets, signs, best.index, best.image, radius
    )
    torch.testing.assert_close(again.margins, best.margins, rtol=1e-5, atol=1e-7)


def test_the_classifier_gives_the_logits_of_the_head(task):
    net = poisoning_detectors.classifier(task)
    logits = net(task.test.x.float() / 255)
    torch.testing.assert_close(
        (logits[:, 0] - logits[:, 1]).double(),
        task.head.logits(task.tested()),
        rtol=1e-4,
        atol=1e-4,
    )


def test_ranks_begin_at_the_largest():
    assert poisoning_detectors.ranks(torch.tensor([0.1, 5.0, 2.0])).tolist() == [3, 1, 2]


def write_cifar(folder, name, count, rng):
    records = rng.integers(0, 200, (count, 3073), dtype=np.uint8)
    labels = np.arange(count) % 10
    records[:, 0] = labels
    for label in range(10):
        records[labels == label, 1 + 100 * label : 101 + 100 * label] += 50
    (folder / name).write_bytes(records.tobytes())


def test_a_quick_run_writes_the_pictures_and_leaves_claims_open(tmp_path, monkeypatch):
    folder, rng = tmp_path / "data" / "cifar10", np.random.default_rng(0)
    folder.mkdir(parents=True)
    write_cifar(folder, "data_batch_1.bin", 600, rng)
    write_cifar(folder, "test_batch.bin", 200, rng)
    monkeypatch.setenv("NESCIO_DATA", str(tmp_path / "data"))
    page = run_experiment(
        named("robust-deep-learning"),
        tmp_path / "run",
        settings=Settings(quick=True),
        only=["poisoning"],
        show=False,
    ).read_text()
    assert {"poisoning-images.png", "poisoning-shares.png"} <= {
        path.name for path in (tmp_path / "run").iterdir()
    }
    table = page[page.index("## What the source says") :]
    assert table.count("| open |") == 3


def stored(each, ranks, called):
    """Numbers of a run in which one image flips two of three targets."""
    flips = [{"before": ["dog", 0.9], "after": [name, 0.8]} for name in ("frog", "frog", "dog")]
    share = {"8": {"value": each[0], "low": each[1], "high": each[2]}}
    shares = {"poisoned": ranks, "clean": 0.1}
    return {
        "flipped": {poisoning_words.EACH: share, poisoning_words.LEAST: share},
        "together": {"targets": flips},
        "detection": {
            "training_images": 400,
            "rank_by_self_influence": {"poisoned": [1] * 100},
            "median_rank": {"poisoned": 1, "clean": 3},
            "share_in_top": shares,
            "share_called_ood": {**shares, "poisoned": called, "other_training_images": 0.05},
        },
    }


def test_verdicts_follow_from_stored_shares():
    first, second, third = poisoning_words.judge(stored((0.7, 0.6, 0.8), 1.0, 0.0))
    assert "recalled from the paper" in second.note
    assert (first.verdict, second.verdict, third.verdict) == ("holds", "holds", "holds in part")
    _, unclear, both = poisoning_words.judge(stored((0.6, 0.4, 0.8), 1.0, 1.0))
    assert (unclear.verdict, both.verdict) == ("open", "holds")
    _, fewer, neither = poisoning_words.judge(stored((0.2, 0.1, 0.3), 0.0, 0.0))
    assert (fewer.verdict, neither.verdict) == ("does not hold", "does not hold")
    assert poisoning_words.judge({"absent": "not there"}) == []


def test_without_cifar_it_says_what_is_missing(tmp_path, monkeypatch):
    monkeypatch.setenv("NESCIO_DATA", str(tmp_path))
    page = run_experiment(
        named("robust-deep-learning"),
        tmp_path / "run",
        settings=Settings(quick=True),
        only=["poisoning"],
        show=False,
    ).read_text()
    assert "CIFAR-10 is not at hand" in page
