"""How stable the answers of an audited network are: under attack, deformation and corruption."""

import math
from dataclasses import replace
from typing import Any

import torch
from torch import nn

from nescio.core import NescioError, generator
from nescio.data import corruptions, ranges
from nescio.evaluation.audit.audit_limits import Measured, limit
from nescio.evaluation.audit.findings import AuditFindings
from nescio.evaluation.audit.ood_section import NO_RANGE, has_range, in_units
from nescio.evaluation.audit.sections import Material, section
from nescio.evaluation.stability import Stability, stability
from nescio.evaluation.under_shift import ShiftCurves, under_shift
from nescio.models import takes_tokens

ATTACKED: dict[str, dict[str, Any]] = {  # correct answers, and what is made of them, by budget
    "standard": {"samples": 20, "steps": 10, "examples": 3, "lipschitz": False},
    "thorough": {"samples": 50},
}
CORRUPTED = {"standard": 200, "thorough": 1000}  # samples, by budget
STRENGTHS = (0, 1, 3, 5)
NOISE = 0.03  # standard deviation per step, as a share of the range of each number of a table
LARGE = (
    "an attack runs a large network too often for so few test samples; the thorough budget does it"
)
LATER = {"Lipschitz constants": "they are part of the thorough budget"}


@section("stability", title="How stable the answers are", place=70)
def how_stable(material: Material) -> Stability:
    """How small a change flips correct answers, and what deformations and corruptions change."""
    x, net = material.inputs(), material.net
    if not has_range(x) or takes_tokens(net):
        raise NescioError(NO_RANGE)
    given = material.reading if isinstance(net, nn.Module) else {}
    asked = dict(ATTACKED["thorough" if material.budget == "thorough" else "standard"])
    asked["samples"] = min(asked["samples"], material.draws.flip)
    moved = corrupted(material)
    if not asked["samples"]:
        return Stability(
            norm="linf", images=x.ndim == 4, corruptions=moved, skipped={"smallest change": LARGE}
        )
    found = stability(net, (x, material.y), seed=material.seed, **asked, **given)
    later = {} if asked.get("lipschitz", True) else LATER
    return replace(found, corruptions=moved, skipped={**found.skipped, **later})


def corrupted(material: Material) -> dict[str, ShiftCurves]:
    """Accuracy and the guard's decisions under growing noise; of images under blur and contrast."""
    x, y = material.held.measured
    most = CORRUPTED["thorough" if material.budget == "thorough" else "standard"]
    most = min(most, material.draws.corrupt)
    order = torch.randperm(len(x), generator=generator(material.seed, "corrupted"))[:most]
    rows = order.sort().values
    units = ranges.units_of(material.inputs())
    images = x.ndim == 4
    noise = corruptions.gaussian_noise(
        seed=material.seed, **({} if images else {"deviation": NOISE})
    )
    kinds = [noise, corruptions.blur(), corruptions.contrast()] if images else [noise]
    guards = {} if material.guard is None else {"guard": material.guard}
    assert material.predictor is not None
    return {
        kind.name.replace("_", " "): under_shift(
            {"network": material.predictor},
            (x[rows], y[rows]),
            in_units(kind, units, inside=images),
            strengths=STRENGTHS,
            guards=guards,
        )
        for kind in kinds
    }


@limit(
    "smallest_change",
    section="stability",
    title="change that flips half of the correct answers",
    better="higher",
    attention=2 / 255,
    unit="share",
    rank=65,
    meaning="A change of every number by at most this share of its range, found by an attack, "
    "flips half of the correct answers.",
    advice="Train with attacked inputs (--recipe adversarial-ensemble), or do not let others "
    "choose the inputs.",
)
def _smallest_change(found: AuditFindings) -> Measured | None:
    part: Stability | None = found.sections.get("stability")
    if part is None or part.changes is None:
        return None
    middle, count = part.changes.median, len(part.changes.size)
    if not middle.low or not math.isfinite(middle.value):  # of few samples nothing is known
        return None
    high = middle.high if math.isfinite(middle.high) else None
    return Measured(value=middle.value, low=middle.low, high=high, samples=count)
