"""Wrong labels of MNIST: cleanlab's ranking beside ours, `python -m benchmarks.label_errors`.

5 % of the labels are flipped, and every score reads the same out-of-fold outputs: those of the part
`influence` of `nescio reproduce robust-deep-learning`, whose folder is taken up by `--run`. That
part computes cleanlab's scores by their formulas; where the package is installed (`pip install
cleanlab`), `formula` is the largest difference of both, and all its methods are ranked too.
"""

import argparse
import json
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from benchmarks.timing import machine
from nescio import metrics
from nescio_papers import Settings
from nescio_papers.robust_deep_learning import influence_labels as labels

METHODS = {
    "self_confidence": labels.CONFIDENCE,
    "normalized_margin": labels.MARGIN,
    "confidence_weighted_entropy": None,
}


def theirs(logits: Tensor, given: Tensor) -> dict[str, Tensor]:
    """One less the quality of each label by cleanlab's methods, also with adjusted thresholds."""
    score = import_module("cleanlab.rank").get_label_quality_scores
    probs = logits.double().softmax(-1).numpy()
    found = {}
    for method in METHODS:
        for adjust in (False, True):
            if adjust and method == "confidence_weighted_entropy":
                continue
            quality = score(given.numpy(), probs, method=method, adjust_pred_probs=adjust)
            name = f"cleanlab {method}{', adjusted' if adjust else ''}"
            found[name] = 1 - torch.from_numpy(quality)
    return found


def compared(settings: Settings) -> dict[str, Any]:
    """AUROCs of all scores, and ours less cleanlab's best, paired."""
    found: Any = labels.judged_images(settings)
    logits, given, wrong = found.crossed.logits()[0], found.given, found.wrong
    by_hand = labels.cleanlab_scores(logits, given)
    ours, package = labels.own_scores(found.crossed), {}
    numbers: dict[str, Any] = {"samples": len(given), "flipped": int(wrong.sum())}
    if find_spec("cleanlab"):
        package = theirs(logits, given)
        numbers["cleanlab"] = import_module("cleanlab").__version__
        numbers["formula"] = max(
            float((by_hand[name] - package[f"cleanlab {method}"]).abs().max())
            for method, name in METHODS.items()
            if name
        )
    pairs = {n: (s[~wrong], s[wrong]) for n, s in {**by_hand, **package, **ours}.items()}
    areas = {name: metrics.auroc(*pair) for name, pair in pairs.items()}
    best = max((name for name in areas if name not in ours), key=lambda name: areas[name])
    gaps = {name: vars(metrics.delong_test(pairs[name], pairs[best])) for name in ours}
    return {**numbers, "auroc": areas, "best": best, "less_best": gaps}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.label_errors")
    parser.add_argument("--run", type=Path, help="folder of `nescio reproduce`, to take up")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--output", type=Path, help="file for the numbers as JSON")
    options = parser.parse_args()
    torch.set_num_threads(1)
    numbers = compared(Settings(quick=options.quick, folder=options.run))
    print(json.dumps(numbers, indent=2))
    if options.output:
        content = {"machine": machine(), **numbers}
        options.output.write_text(json.dumps(content, indent=2) + "\n")


if __name__ == "__main__":
    main()
