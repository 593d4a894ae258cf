"""Digits that begin to change in the middle of a stream: when does the monitor raise an alarm?"""

from typing import Any

import torch
from torch import Tensor

from nescio.core import NescioError, quiet, registry
from nescio.data.dataset import Part
from nescio.guards import Guard
from nescio.monitoring import Monitor, monitor
from nescio.monitoring.monitor import LEAST
from nescio.report.plots.monitor_plot import martingale
from nescio_papers.data import corruptions
from nescio_papers.kit import Findings, table

FALSE_ALARM = 0.01
STRENGTHS = (1, 2, 3)
KINDS = ("rotation", "translation", "gaussian_noise", "blur", "contrast")
SHOWN = 2  # the strength that is drawn


def streams(watch: Guard, test: Part, *, seed: int) -> Findings:
    """Test digits in a random order: a third calibrates, a third comes as it is, a third changed.

    In its own order MNIST is not a calm stream: the writers of the second half are others.
    """
    x, third = test[0], len(test[0]) // 3
    order = torch.randperm(len(x), generator=torch.Generator().manual_seed(seed))
    if third < LEAST:
        return Findings(text=f"{len(x)} test digits are too few for a monitor.")
    known, before, after = (x[rows] for rows in order[: 3 * third].split(third))
    calm = monitor(_scores(watch, known), false_alarm=FALSE_ALARM, seed=seed)
    calm = calm.update(_scores(watch, before))
    result: dict[str, Monitor] = {"unchanged": calm.update(_scores(watch, after))}
    for kind in KINDS:
        for strength in STRENGTHS:
            moved = registry.corruptions[kind]()(after, strength)
            result[f"{kind}, strength {strength}"] = calm.update(_scores(watch, moved))
    for kind, images in _corrupted().items():
        result[f"MNIST-C {kind}"] = calm.update(_scores(watch, images[:third]))
    rows = [[name.replace("_", " "), _said(one, third)] for name, one in result.items()]
    drawn = {name.replace("_", " "): result[f"{name}, strength {SHOWN}"] for name in KINDS}
    figure = martingale({"unchanged": result["unchanged"], **drawn}, changed=third)
    return Findings(
        numbers={name: _numbers(one, third) for name, one in result.items()},
        figures={"monitor.png": figure},
        captions={
            "monitor.png": f"The monitor on the guard's scores; after {third:,} digits they are "
            f"shifted with strength {SHOWN}."
        },
        text=f"A monitor watches the guard's scores, calibrated on {third:,} other test digits, "
        f"with at most {100 * FALSE_ALARM:g} % false alarms ever. The digits change after "
        f"{third:,}:\n\n" + table(["then", "alarm after"], rows),
    )


def _scores(watch: Guard, x: Tensor) -> Tensor:
    with quiet():
        return watch(x).score


def _corrupted() -> dict[str, Tensor]:
    """The corrupted digits at hand; they are of test digits, in another order."""
    try:
        result = corruptions()
    except NescioError:
        return {}
    return {name: x[torch.randperm(len(x), generator=torch.Generator().manual_seed(0))]
            for name, (x, _) in result.items()}  # fmt: skip


def _numbers(one: Monitor, half: int) -> dict[str, Any]:
    late = None if one.alarm is None else one.alarm + 1 - half
    return {"delay": late, "p_value": one.p_value}


def _said(one: Monitor, half: int) -> str:
    if one.alarm is None:
        return f"none in {one.count - half:,} digits"
    if one.alarm < half:
        return "a false alarm before"
    return f"{one.alarm + 1 - half:,} digits"
