"""How well a predictor's errors are found, by its confidence and by the recommended score."""

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nescio import metrics

FEWEST = 10  # errors, or right answers: with fewer, the numbers are chance
POINTS = 200  # of a curve at most
RESAMPLES = 500
OF = ("ap_error", "auroc", "aurc")
BASELINE = "maximum probability"
RECOMMENDED = "recommended score"
GUARDS = "the guard's score"  # where it is another one
Array = NDArray[Any]


def failure(scores: Mapping[str, Array], wrong: Array, *, seed: int = 0) -> dict[str, Any]:
    """AP of errors, AUROC and AURC of scores by name, the first being what others are held against.

    With fewer than ten errors, or right answers, `skipped` says so in place of numbers.
    """
    errors, samples = int(wrong.sum()), len(wrong)
    found: dict[str, Any] = {"errors": errors, "samples": samples}
    if min(errors, samples - errors) < FEWEST:
        what = (
            ("error", errors) if errors <= samples - errors else ("right answer", samples - errors)
        )
        count = f"{what[1] or 'no'} {what[0]}{'' if what[1] == 1 else 's'}"
        return {
            **found,
            "skipped": f"{count} in {samples:,} answers: too few to say how well errors are found "
            f"(it takes {FEWEST})",
        }
    options: Any = {"of": OF, "resamples": RESAMPLES, "seed": seed}
    first, *others = scores
    found["scores"] = {
        name: {
            key: asdict(n) for key, n in metrics.bootstrap_selective(s, wrong, **options).items()
        }
        for name, s in scores.items()
    }
    for name in others:
        gain = metrics.selective_test(scores[name], scores[first], wrong, **options)
        found["scores"][name]["gain"] = {
            key: {"value": n.value, "low": n.low, "high": n.high} for key, n in gain.items()
        }
    found["curves"] = {name: _curve(score, wrong) for name, score in scores.items()}
    return found


def _curve(score: Array, wrong: Array) -> dict[str, list[float]]:
    """Risk against coverage at a few points."""
    found = metrics.risk_coverage(score, wrong)
    count = len(found.risk)
    shown = np.unique(np.linspace(0, count - 1, min(count, POINTS)).astype(int))
    return {"coverage": found.coverage[shown].tolist(), "risk": found.risk[shown].tolist()}
