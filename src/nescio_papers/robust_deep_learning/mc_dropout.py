"""Part `mc-dropout`: the lecture's examples with right values, its pictures and its errors."""

from collections.abc import Mapping
from typing import Any

import torch

from nescio.core import Categorical, measures
from nescio.evaluation.compare import Absent
from nescio_papers.kit import Claim, Comparison, Findings, Settings, absent, joined, table, verdict
from nescio_papers.robust_deep_learning import dropout_digits, dropout_errors, dropout_lecture
from nescio_papers.robust_deep_learning.sets import BLOCKS, budget, in_data

PASSES, EXACT = 100, 1e-9
MEASURES = ("variation_ratio", "predictive_entropy", "mutual_information")
# (probability of the first class in even passes, in odd ones), and what the lecture prints
EXAMPLES: dict[str, tuple[tuple[float, float], tuple[float, float, float]]] = {
    "all equal to 1": ((1.0, 1.0), (0.0, 0.0, 0.0)),
    "half-half": ((1.0, 0.0), (0.5, 0.5, 0.5)),
    "all close to 0.5": ((0.51, 0.51), (0.0, 0.5, 0.0)),
}


def run(settings: Settings) -> Findings:
    """The three distributions, then test errors, then single digits."""
    values = examples(settings.base)
    in_dist = in_data(BLOCKS["MNIST"], budget(settings))
    if isinstance(in_dist, Absent):
        digits, lecture = absent("MNIST", in_dist.why), Findings()
    else:
        digits = dropout_digits.findings(settings, in_dist)
        lecture = dropout_lecture.findings(settings, in_dist)
    first = Findings(
        numbers=values,
        comparisons=_comparisons(values),
        claims=[entropy_claim(values, settings.unit)],
        text=_text(values, settings.unit),
    )
    errors = dropout_errors.findings(settings)
    return joined({"examples": first, "errors": errors, "digits": digits, "lecture": lecture})


def examples(base: float) -> dict[str, dict[str, float]]:
    """The measures of the lecture's three distributions, entropies to the given base."""
    results = {}
    for name, (pair, _) in EXAMPLES.items():
        first = torch.tensor(pair, dtype=torch.float64).repeat(PASSES // 2)
        prediction = Categorical.from_probs(torch.stack([first, 1 - first], -1)[:, None])
        results[name] = {one: _value(one, prediction, base) for one in MEASURES}
    return results


def entropy_claim(values: Mapping[str, Mapping[str, float]], unit: str) -> Claim:
    """Is the predictive entropy the aleatoric uncertainty, as the lecture has it?

    The aleatoric part is the expected entropy, what is left without the mutual information.
    """
    words, right = [], []
    for name, own in values.items():
        total, epistemic = own["predictive_entropy"], own["mutual_information"]
        words.append(f"{name}: entropy {total:.4g}, of which aleatoric {total - epistemic:.4g}")
        right.append(abs(epistemic) < EXACT)
    return Claim(
        "lecture, Uncertainty in classification: metrics",
        "The predictive entropy captures aleatoric uncertainty.",
        f"in {unit}, {'; '.join(words)}; it is the sum of aleatoric and epistemic uncertainty",
        verdict=verdict(all(right)),
    )


def _value(name: str, prediction: Categorical, base: float) -> float:
    options: dict[str, Any] = {} if name == "variation_ratio" else {"base": base}
    measure = getattr(measures, name)
    return round(float(measure(prediction, **options)[0]), 12) + 0.0  # no -0, no rounding dust


def _comparisons(values: dict[str, dict[str, float]]) -> list[Comparison]:
    note = "the lecture's number is not the measure's"
    return [
        Comparison(f"{name}: {one}", said, values[name][one],
                   note="" if abs(said - values[name][one]) < 1e-9 else note)
        for name, (_, printed) in EXAMPLES.items()
        for one, said in zip(MEASURES, printed, strict=True)
    ]  # fmt: skip


def _text(values: dict[str, dict[str, float]], unit: str) -> str:
    rows = [[name, *(f"{own[one]:.5g}" for one in MEASURES)] for name, own in values.items()]
    header = ["", "variation ratio", f"predictive entropy ({unit})", f"mutual information ({unit})"]
    return "\n\n".join(
        [
            "The lecture's three distributions, with the values that its formulas give. Predictive "
            "entropy is the total uncertainty, not the aleatoric part; the variation ratio also "
            "grows with noise in the data.",
            table(header, rows),
        ]
    )
