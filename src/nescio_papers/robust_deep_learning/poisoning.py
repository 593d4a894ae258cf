"""Part `poisoning`: one training image, changed invisibly, and the test predictions it flips."""

from collections.abc import Mapping
from typing import Any

import torch
from matplotlib.figure import Figure
from torch import Tensor

from nescio.conformal import binomial_interval
from nescio.core import digest, kept, to_json
from nescio.evaluation.compare import Absent
from nescio.metrics import Interval
from nescio_papers.kit import Findings, Settings, absent, folder_of
from nescio_papers.robust_deep_learning.poisoning_attack import (
    Poisoned,
    attacked,
    candidates,
    changed,
)
from nescio_papers.robust_deep_learning.poisoning_detectors import detection
from nescio_papers.robust_deep_learning.poisoning_head import Head
from nescio_papers.robust_deep_learning.poisoning_pictures import (
    Shown,
    flipped_figure,
    shares_figure,
)
from nescio_papers.robust_deep_learning.poisoning_task import NAMES, PART, Task, budget, made
from nescio_papers.robust_deep_learning.poisoning_words import (
    EACH,
    LEAST,
    PUBLISHED,
    SIMILAR,
    STATED,
    Rows,
    comparisons,
    page,
)

PICTURE, SHARES = "poisoning-images.png", "poisoning-shares.png"
SHOWN = 5  # test images in the picture, as on the slide
Found = dict[int, dict[int, Poisoned]]  # radius -> target -> attack


def run(settings: Settings) -> Findings:
    """Each test image attacked by a separate training image, and many by one."""
    task = made(settings)
    if isinstance(task, Absent):
        return absent("CIFAR-10", task.why)
    features = task.tested()
    right = _right(task, features)
    sizes = budget(settings)
    named = right[: sizes.named]
    similar = _nearest(features, right, sizes.together)
    attacks = {
        EACH: _each(settings, task, features, named),
        SIMILAR: _together(settings, task, features, similar),
        LEAST: _together(settings, task, features, _least(task, features, right, sizes.together)),
    }
    return _found(settings, task, features, similar, attacks)


def _right(task: Task, features: Tensor) -> Tensor:
    """The test dogs that the clean head gets right, in the order of the file."""
    logits = task.head.logits(features)
    return ((task.test.signs > 0) & (logits > 0)).nonzero()[:, 0]


def _nearest(features: Tensor, among: Tensor, count: int) -> Tensor:
    """The first of some test images, and those nearest to it in features."""
    far = (features[among] - features[among[0]]).norm(dim=1)
    return among[far.argsort(stable=True)[:count]]


def _least(task: Task, features: Tensor, among: Tensor, count: int) -> Tensor:
    """Those of some test images with the least confidence."""
    return among[task.head.logits(features[among]).abs().argsort(stable=True)[:count]]


def _each(settings: Settings, task: Task, features: Tensor, named: Tensor) -> Found:
    """Attacks on test images one by one, from the stated radius downward and upward.

    One that is flipped stays so at a larger radius, one that is not stays so at a smaller one.
    """
    radii, candidates = budget(settings).radii, budget(settings).candidates

    def attack(target: int, radius: int) -> Poisoned:
        return _stored(settings, task, features, [target], candidates, radius)

    start = {target: attack(target, STATED) for target in named.tolist()}
    found = {STATED: start}
    for wanted, others in ((True, [r for r in reversed(radii) if r < STATED]),
                           (False, [r for r in radii if r > STATED])):  # fmt: skip
        row = start
        for radius in others:
            row = {
                target: attack(target, radius) if bool(one.flipped.all()) is wanted else one
                for target, one in row.items()
            }
            found[radius] = row
    return {radius: found[radius] for radius in radii}


def _together(settings: Settings, task: Task, features: Tensor, similar: Tensor) -> Found:
    """Attacks on all test images by one training image, by radius."""
    sizes = budget(settings)
    return {
        radius: {0: _stored(settings, task, features, similar.tolist(), sizes.many, radius)}
        for radius in sizes.radii
    }


def _stored(
    settings: Settings, task: Task, features: Tensor, targets: list[int], count: int, radius: int
) -> Poisoned:
    """The best attack by `count` candidates, made once and kept."""
    goal, signs = features[targets], task.test.signs[targets]
    steps = budget(settings).steps

    def attack() -> dict[str, Any]:
        chosen = candidates(task, goal, signs, count)
        best = attacked(task, goal, signs, chosen, radius, steps)
        return {"index": best.index, "image": best.image.flatten().tolist()}

    weights = digest(*task.body.state_dict().values())
    key = {"network": weights, "targets": targets, "count": count, "steps": steps}
    name = f"{len(targets)}-from-{targets[0]}-within-{radius}.json"
    there = kept(folder_of(settings, PART) / name, key, attack)
    image = torch.tensor(there["image"], dtype=torch.uint8).view_as(task.train.x[0])
    return changed(task, task.head, goal, signs, there["index"], image, radius)


def _found(
    settings: Settings,
    task: Task,
    features: Tensor,
    similar: Tensor,
    attacks: Mapping[str, Found],
) -> Findings:
    shares = {name: {r: _share(row) for r, row in rows.items()} for name, rows in attacks.items()}
    single, each = attacks[SIMILAR][STATED][0], attacks[EACH][STATED]
    poisons = [
        single,
        attacks[LEAST][STATED][0],
        *(one for one in each.values() if bool(one.flipped.all())),
    ]
    noticed = detection(settings, task, poisons)
    rows = _confidences(task, features, similar, single)
    setting = _setting(settings, task, features)
    return Findings(
        numbers={
            "setting": setting,
            "flipped": to_json(shares),
            "attacks": {str(t): _said(task, features[t], one) for t, one in each.items()},
            "together": {"training_image": single.index, "targets": rows},
            "detection": noticed,
        },
        figures={PICTURE: _picture(task, single, rows), SHARES: shares_figure(shares, PUBLISHED)},
        captions={
            PICTURE: "Above, the training image that is changed, its label unchanged; below, test "
            "images with class and confidence before and after.",
            SHARES: "Bars are exact 95 % intervals.",
        },
        comparisons=comparisons(shares),
        text=page(setting, shares, rows, noticed),
    )


def _setting(settings: Settings, task: Task, features: Tensor) -> dict[str, Any]:
    sizes = budget(settings)
    right = task.head.logits(features) * task.test.signs > 0
    return {
        "test_accuracy": float(right.double().mean()),
        "gradient_norm": task.head.gradient_norm,
        "training_images": len(task.train),
        "features": task.head.features.shape[1] - 1,
        "decay": task.head.decay,
        **{name: getattr(sizes, name) for name in ("named", "candidates", "together", "many")},
    }


def _share(row: Mapping[int, Poisoned]) -> Interval:
    """The share of targets that are flipped."""
    flipped = torch.cat([one.flipped for one in row.values()])
    return binomial_interval(int(flipped.sum()), len(flipped))


def _confidences(
    task: Task, features: Tensor, similar: Tensor, single: Poisoned
) -> list[dict[str, Any]]:
    """Of all targets, the class and the confidence before and after; flipped first, sure first."""
    rows = []
    for target in similar.tolist():
        before, after = (_answer(head, features[target]) for head in (task.head, single.head))
        rows.append({"test_image": target, "before": before, "after": after})
    return sorted(rows, key=lambda row: (row["after"][0] == "dog", -row["after"][1]))


def _answer(head: Head, feature: Tensor) -> tuple[str, float]:
    logit = float(head.logits(feature[None])[0])
    return NAMES[1 if logit > 0 else -1], float(torch.tensor(abs(logit)).double().sigmoid())


def _said(task: Task, feature: Tensor, one: Poisoned) -> dict[str, Any]:
    before, after = (_answer(head, feature) for head in (task.head, one.head))
    return {"training_image": one.index, "radius": one.radius, "before": before, "after": after}


def _picture(task: Task, single: Poisoned, rows: Rows) -> Figure:
    shown = [
        Shown(image=task.test.x[row["test_image"]], before=row["before"], after=row["after"])
        for row in rows[:SHOWN]
    ]
    flipped = sum(row["after"][0] != row["before"][0] for row in rows)
    label = NAMES[int(task.train.signs[single.index])]
    title = f"One poisoned training image flips {flipped} of {len(rows)} similar test images"
    clean = task.train.x[single.index]
    figure: Figure = flipped_figure(clean, single.image, label, single.radius, shown, title)
    return figure
