"""How much a guard answers, against MAPIE: `python -m benchmarks.guard_coverage [--output FILE]`.

A network with 3 % errors: the log-odds of its answers are normal, and errors as probable as they
say; at most 2 % errors among the answers are wished, with a confidence of 95 %. Calibration sets
are drawn again and again; the coverage and the risk of each side are known exactly. MAPIE's fixed
sequence tests confidences 0.01 to 0.99 (`pip install mapie`; left out where it is not installed).
nescio is the whole `nescio.guard` with an energy detector, which also calls 1 % OOD; `rule` is
`largest_coverage` alone. The guarantee is tried with `--redraws` sets on the rule.
"""

import argparse
import json
import warnings
from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.special import expit
from scipy.stats import binom, norm

import nescio
from benchmarks.timing import machine
from nescio.guards import largest_coverage

SIZES, RISK, CONFIDENCE = (300, 500, 1000, 2000, 5000), 0.02, 0.95
MEAN, SPREAD = 4.4466, 1.5  # of the log-odds: 3 % errors
Floats = NDArray[np.float64]
Draw = tuple[Floats, NDArray[np.bool_]]  # log-odds of being right, and whether it is wrong


def draw(samples: int, rng: np.random.Generator) -> Draw:
    odds = rng.normal(MEAN, SPREAD, samples)
    return odds, rng.random(samples) < expit(-odds)


def truth() -> tuple[Floats, Floats]:
    """Log-odds in descending order, and the risk of answering down to each."""
    odds = MEAN + SPREAD * norm.isf((np.arange(400_000) + 0.5) / 400_000)
    return odds, np.cumsum(expit(-odds)) / np.arange(1, len(odds) + 1)


def rule_side(odds: Floats, wrong: Any) -> float:
    """The smallest log-odds that are answered; infinite: nothing is."""
    return -largest_coverage(-odds, wrong, risk=RISK, confidence=CONFIDENCE).threshold


def guard_side(odds: Floats, wrong: Any) -> float:
    """Two logits, of which the larger is the answer; their sizes say nothing about errors."""
    answers = np.arange(len(odds)) % 2
    own = np.where(answers == 0, odds, -odds) / 2
    level = np.random.default_rng(len(odds)).normal(size=len(odds))  # for the detector
    logits = torch.from_numpy(np.stack([own + level, level - own], 1))
    labels = torch.from_numpy(np.where(wrong, 1 - answers, answers))
    seen = nescio.Activations(logits=logits, labels=labels)
    energy = nescio.detectors.energy()
    made = nescio.guard(None, seen, detector=energy, risk=RISK, confidence=CONFIDENCE, sets=None)
    return -float(made.rules[0].coverage.threshold)


def mapie_side(odds: Floats, wrong: Any) -> float:
    control = import_module("mapie.risk_control")
    probability = expit(odds)
    made = control.BinaryClassificationController(
        lambda _: np.stack([1 - probability, probability], 1),
        risk="precision",
        target_level=1 - RISK,
        confidence_level=CONFIDENCE,
        list_predict_params=np.linspace(0.01, 0.99, 99),
        fwer_method="fixed_sequence",
    )
    made.calibrate(odds[:, None], (~wrong).astype(int))
    best = made.best_predict_param
    return np.inf if best is None else float(np.log(best / (1 - best)))


def measured(
    sides: dict[str, Callable[[Floats, Any], float]], samples: int, redraws: int
) -> dict[str, Any]:
    """The mean coverage of each side, and how often its risk is above the wish."""
    odds, risks = truth()
    rng, lowest = np.random.default_rng(0), {name: np.zeros(redraws) for name in sides}
    for redraw in range(redraws):
        given = draw(samples, rng)
        for name, side in sides.items():
            lowest[name][redraw] = side(*given)
    row: dict[str, Any] = {"samples": samples, "redraws": redraws}
    for name, least in lowest.items():
        answered = np.searchsorted(-odds, -least, side="right")  # of the whole population
        kept = 1 - nescio_ood(name, samples)
        broken = risks[np.maximum(answered, 1) - 1] > RISK
        broken &= answered > 0
        row[f"{name}_coverage"] = float(kept * answered.mean() / len(odds))
        row[f"{name}_broken"] = float(broken.mean())
        p = float(binom.sf(int(broken.sum()) - 1, redraws, 1 - CONFIDENCE))
        row[f"{name}_p"] = p
    return row


def nescio_ood(name: str, samples: int) -> float:
    """The share that the guard calls OOD, on average over calibration sets."""
    return int(0.01 * (samples + 1)) / (samples + 1) if name == "guard" else 0.0


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.guard_coverage")
    parser.add_argument("--redraws", type=int, default=2000, help="of the guarantee")
    parser.add_argument("--output", type=Path, help="file for the numbers as JSON")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    sides: dict[str, Callable[[Floats, Any], float]] = {"guard": guard_side, "rule": rule_side}
    if find_spec("mapie"):
        sides["mapie"] = mapie_side
    _, risks = truth()
    print(f"oracle: {(risks <= RISK).mean():.1%} of {risks[-1]:.2%} errors")
    rows = [measured(sides, samples, 200) for samples in SIZES]
    kept = [measured({"rule": rule_side}, samples, options.redraws) for samples in SIZES]
    for row in (*rows, *kept):
        print({k: round(v, 4) if isinstance(v, float) else v for k, v in row.items()}, flush=True)
    if options.output:
        content = {"machine": machine(), "coverage": rows, "guarantee": kept}
        options.output.write_text(json.dumps(content, indent=2) + "\n")


if __name__ == "__main__":
    main()
