"""Claims about patients unlike those of the training, judged from the numbers of `medical`."""

from collections.abc import Mapping
from typing import Any

from nescio_papers.kit import Claim, Fact, fact, percent, sample
from nescio_papers.know_your_limits.claims import RELIABLE
from nescio_papers.know_your_limits.judging import half_or_inf
from nescio_papers.know_your_limits.patients import FACTORS

Numbers = Mapping[str, Any]  # of all worlds, by name


def medical_claims(numbers: Numbers) -> list[Claim]:
    """What the paper says of patients, wrong units and discrete features."""
    worlds = {name: own for name, own in numbers.items() if "auroc" in own}
    if not worlds:  # the data were not at hand
        return []
    return [_wrong_units(worlds), _groups(worlds), _discrete(worlds)]


def is_measure(name: str) -> bool:
    """Whether a score is a measure of a model; else it is a detector."""
    return ": " in name


def _wrong_units(worlds: Numbers) -> Claim:
    """The mean over the columns at the largest factor, of the best measure."""
    ends: dict[str, list[float]] = {}
    for own in worlds.values():
        for name, columns in own["scaled"].items():
            cells = [column[f"{FACTORS[-1]:g}"]["mean"] for column in columns.values()]
            ends.setdefault(name, []).extend(cells)
    results = {name: sample(values) for name, values in ends.items()}
    best = max(filter(is_measure, results), key=lambda name: results[name].mean)
    other = max((n for n in results if not is_measure(n)), key=lambda name: results[name].mean)
    one = results[best]
    half = half_or_inf(one)
    blind = sum(results[name].mean < 0.5 for name in results if is_measure(name))
    return Claim(
        source="Ulmer and Cinà, section 1",
        sentence="These results entail that, when the conditions of the theorem are met, these "
        "models cannot be used to reliably detect OOD.",
        facts=[
            fact(
                f"AUROC of the best measure, one of {len(one.values)} columns times "
                f"{FACTORS[-1]:g} ({best})",
                one.mean,
                (max(0.0, one.mean - half), min(1.0, one.mean + half)),
                below=RELIABLE,
            )
        ],
        note=f"{blind} of {sum(map(is_measure, results))} measures are below 1/2; {other} "
        f"{results[other].mean:.2f}",
    )


def _groups(worlds: Numbers) -> Claim:
    """The best measure in each world; the ends are those of the trainings' own intervals."""
    facts = [_of_world(name, own) for name, own in worlds.items()]
    return Claim(
        source="Ulmer and Cinà, section 2",
        sentence="The methods used in our work fail in practice to detect clinically relevant OOD "
        "groups of patients in a medical context.",
        facts=facts,
        note="both the score and the limit favor the measures: the best of each world was chosen "
        "by this very number",
    )


def _of_world(name: str, own: Numbers) -> Fact:
    best = _best(own, measure=True)
    row = own["auroc"][best]
    return fact(
        f"AUROC of the best measure, {name} ({best})",
        row["mean"],
        (row["low"], row["high"]),
        below=RELIABLE,
        form=".2f",
        alike=True,
    )


def _best(own: Numbers, *, measure: bool) -> str:
    names: list[str] = [name for name in own["auroc"] if is_measure(name) == measure]
    return max(names, key=lambda name: float(own["auroc"][name]["mean"]))


def _discrete(worlds: Numbers) -> Claim:
    """The best detector, which looks at the rows, less the best measure, over the worlds."""
    gaps = {
        name: own["auroc"][_best(own, measure=False)]["mean"]
        - own["auroc"][_best(own, measure=True)]["mean"]
        for name, own in worlds.items()
    }
    one = sample(gaps.values())
    half = half_or_inf(one)
    shown = ", ".join(f"{name} {gap:+.2f}" for name, gap in gaps.items())
    better = percent(sum(gap > 0 for gap in gaps.values()) / len(gaps))
    return Claim(
        source="Ulmer and Cinà, section 7",
        sentence="Reasoning in the limit is not available for categorical or ordinal variables and "
        "one would probably have to resort to techniques that address directly the difference "
        "between the training and the new distribution.",
        facts=[
            fact(
                f"AUROC of the best detector of rows less that of the best measure, mean of "
                f"{len(gaps)} worlds",
                one.mean,
                (one.mean - half, one.mean + half),
                above=0,
            )
        ],
        note=f"detectors are such techniques; better in {better} of the worlds: {shown}",
    )
