"""What prediction sets and intervals promise, and what they rest on, in words."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from nescio.conformal.exact_quantiles import needed

ASSUMES = (
    "This holds if the calibration samples and the new case are exchangeable, for example drawn "
    "independently from one distribution, and nothing (network, temperature, options) was fitted "
    "or chosen on the calibration samples. It is an average over calibration draws and samples, "
    "not a promise about one sample, and it says nothing under shift."
)


def guarantee(
    what: str,
    where: str,
    options: Mapping[str, Any],
    state: Mapping[str, Tensor],
    *,
    exact: bool,
) -> str:
    """The guarantee as sentences: of a `label` in its `set`, or a `target` in its `interval`."""
    kept = 100 * (1 - options["miscoverage"])
    bound = "exactly" if exact else "at least"
    each = {"class": ", for each class by itself", "group": ", for each group by itself"}
    said = (
        f"The {where} of a new case holds its true {what} with probability {bound} {kept:.10g} %"
        f"{each.get(options['by'], '')} (calibrated on {options['samples']} samples)."
    )
    return " ".join(filter(None, [said, unlimited(state, options), ASSUMES]))


def unlimited(state: Mapping[str, Tensor], options: Mapping[str, Any]) -> str:
    """Which classes or groups had too few samples for a limit; nothing where all had enough."""
    least, by = needed(options["miscoverage"]), options["by"]
    sizes = state["sizes"][:: options.get("targets", 1)]  # the same for all targets
    few = (sizes < least).nonzero()[:, 0]
    if not len(few) or by is None:
        return ""
    names = state.get("groups", torch.arange(len(sizes)))
    listed = ", ".join(f"{int(names[place])} ({int(sizes[place])})" for place in few[:10])
    then = {"class": "these classes are in every set", "group": "they get everything"}[by]
    more = ", ..." if len(few) > 10 else ""
    plural = "classes" if by == "class" else "groups"
    return (
        f"{len(few)} of {len(sizes)} {plural} have fewer than the {least} calibration "
        f"samples needed, so {then}: {listed}{more}."
    )


def too_few(options: Mapping[str, Any], most: int) -> str:
    """The message where no limit is finite."""
    share, by = options["miscoverage"], options["by"]
    each = f" in any {by}" if by else ""
    return (
        f"{most} calibration samples{each} are too few for a miscoverage of {share:g}: only the "
        f"set of everything could promise it. Give at least {needed(share)} samples"
        f"{f' for each {by}' if by else ''}, or raise miscoverage"
    )
