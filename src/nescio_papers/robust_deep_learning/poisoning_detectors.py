"""Who notices a poisoned training image: its self-influence, and a guard of clean images."""

from collections.abc import Iterable, Sequence
from statistics import median
from typing import Any

import torch
from torch import Tensor, nn

from nescio.guards import Guard
from nescio.guards import guard as make_guard
from nescio_papers.kit import Settings
from nescio_papers.robust_deep_learning.poisoning_attack import Poisoned
from nescio_papers.robust_deep_learning.poisoning_task import Images, Task, budget

FALSE_ALARM = 0.05  # of the guard: the share of clean images that it may call OOD
RISK = 0.3  # of the guard; it has no part in what it calls OOD
TOP = 0.05  # share of the training images that a person looks at, by self-influence


def detection(settings: Settings, task: Task, found: Sequence[Poisoned]) -> dict[str, Any]:
    """Ranks by self-influence and p-values of the guard, of clean and of poisoned images."""
    clean = ranks(task.head.self_influence())
    own = [int(ranks(one.head.self_influence())[one.index]) for one in found]
    before = [int(clean[one.index]) for one in found]
    guard = fitted_guard(settings, task)
    p_values = {
        name: guard(images).p_value.tolist()
        for name, images in (
            ("clean", task.train.x[[one.index for one in found]]),
            ("poisoned", torch.stack([one.image for one in found])),
            ("other_training_images", task.train.x),
        )
    }
    samples = len(task.train)
    return {
        "training_images": samples,
        "rank_by_self_influence": {"clean": before, "poisoned": own},
        "median_rank": {"clean": median(before), "poisoned": median(own)},
        "share_in_top": {
            "top": TOP,
            "clean": _share(one <= TOP * samples for one in before),
            "poisoned": _share(one <= TOP * samples for one in own),
        },
        "p_value": p_values,
        "share_called_ood": {
            name: _share(p <= FALSE_ALARM for p in values) for name, values in p_values.items()
        },
        "false_alarm": FALSE_ALARM,
    }


def ranks(scores: Tensor) -> Tensor:
    """1 for the largest, `(N,)`."""
    order = scores.argsort(descending=True, stable=True)
    return torch.empty_like(order).scatter(0, order, torch.arange(1, len(order) + 1))


def fitted_guard(settings: Settings, task: Task) -> Guard:
    """A guard of the clean head, fitted and calibrated on images that nothing was trained on."""
    count = min(budget(settings).reference, len(task.spare) // 2)
    parts = (slice(count), slice(count, 2 * count))
    train, calibration = (_labeled(task.spare[part]) for part in parts)
    made: Guard = make_guard(
        classifier(task),
        calibration,
        train=train,
        false_alarm=FALSE_ALARM,
        risk=RISK,
        seed=settings.seed,
        progress=False,
    )
    return made


def classifier(task: Task) -> nn.Module:
    """The frozen network and the clean head, with the logits of dog and frog."""
    weights = task.head.weights / 2
    last = nn.Linear(len(weights) - 1, 2)
    with torch.no_grad():
        last.weight.copy_(torch.stack([weights[:-1], -weights[:-1]]) / task.scale)
        last.bias.copy_(torch.stack([weights[-1], -weights[-1]]))
    return nn.Sequential(*task.body, last).eval()  # type: ignore[misc]


def _labeled(images: Images) -> tuple[Tensor, Tensor]:
    return images.x, (images.signs < 0).long()


def _share(facts: Iterable[bool]) -> float:
    values = list(facts)
    return sum(values) / len(values)
