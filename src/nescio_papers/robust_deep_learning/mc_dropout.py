"""Part `mc-dropout`: the lecture's examples with right values, its pictures and its errors."""

import math
from collections.abc import Mapping
from typing import Any

import torch

from nescio.core import Categorical, measures
from nescio.evaluation.compare import Absent
from nescio_papers.kit import Claim, Comparison, Findings, Settings, absent, exactly, joined, table
from nescio_papers.robust_deep_learning import dropout_digits, dropout_errors
from nescio_papers.robust_deep_learning.sets import BLOCKS, budget, in_data

SOURCE = "lecture, Uncertainty in classification: metrics"
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
    first = Findings(
        numbers=values,
        comparisons=_comparisons(values),
        text=_text(values, settings.unit),
    )
    if isinstance(in_dist, Absent):
        return joined({"examples": first, "errors": absent("MNIST", in_dist.why)})
    errors = dropout_errors.findings(settings, in_dist)
    digits = dropout_digits.findings(settings, in_dist)
    return joined({"examples": first, "errors": errors, "digits": digits})


def judge(numbers: Mapping[str, Any]) -> list[Claim]:
    """The measures by closed forms, and the errors where they were measured."""
    claims = [entropy_claim(numbers["examples"]), variation_claim()]
    errors = numbers["errors"]
    errors = errors.get("MNIST", errors)  # an earlier version had CIFAR-10 beside it
    if "absent" not in errors:
        claims += [dropout_errors.sampling_claim(errors), dropout_errors.training_claim(errors)]
    return claims


def examples(base: float) -> dict[str, dict[str, float]]:
    """The measures of the lecture's three distributions, entropies to the given base."""
    return {name: passes(pair, base) for name, (pair, _) in EXAMPLES.items()}


def passes(pair: tuple[float, float], base: float = math.e) -> dict[str, float]:
    """The measures of passes that give the first class one probability or another, by turns."""
    first = torch.tensor(pair, dtype=torch.float64).repeat(PASSES // 2)
    prediction = Categorical.from_probs(torch.stack([first, 1 - first], -1)[:, None])
    return {one: _value(one, prediction, base) for one in MEASURES}


def entropy_claim(values: Mapping[str, Mapping[str, float]]) -> Claim:
    """Is the predictive entropy the aleatoric uncertainty, as the lecture has it?

    The aleatoric part is the expected entropy, what is left without the mutual information.
    """
    words = [
        f"{name}: entropy {own['predictive_entropy']:.4g}, of which aleatoric "
        f"{own['predictive_entropy'] - own['mutual_information']:.4g}"
        for name, own in values.items()
    ]
    return Claim(
        source=SOURCE,
        sentence="The predictive entropy captures aleatoric uncertainty.",
        facts=[
            exactly(
                "largest part of it that is not aleatoric, in the lecture's three examples",
                max(own["mutual_information"] for own in values.values()),
                why="closed form",
                below=EXACT,
                form=".4g",
            )
        ],
        note="; ".join([*words, "it is the sum of aleatoric and epistemic uncertainty"]),
    )


def variation_claim() -> Claim:
    """Is the variation ratio the epistemic uncertainty?"""
    alike = [passes((chance, chance))["variation_ratio"] for chance in (1.0, 0.9, 0.51)]
    far, near = (passes(pair) for pair in ((1.0, 0.0), (0.51, 0.49)))
    return Claim(
        source=SOURCE,
        sentence="The variation ratio: epistemic uncertainty.",
        facts=[
            exactly(
                "largest variation ratio of passes that all agree",
                max(alike),
                why="closed form",
                below=EXACT,
            ),
            exactly(
                "difference of the mutual information of passes by turns (1, 0) and (0, 1), or "
                f"(.51, .49) and (.49, .51), at one variation ratio of {far['variation_ratio']:g}, "
                "nats,",
                far["mutual_information"] - near["mutual_information"],
                why="closed form",
                below=EXACT,
            ),
        ],
        note="where noise makes two classes alike, the smallest change of the network changes "
        f"labels: a mutual information of {near['mutual_information']:.1g} has the ratio of one of "
        f"{far['mutual_information']:.3g}",
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
