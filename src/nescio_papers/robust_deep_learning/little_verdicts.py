"""What is said of learning from few labels, judged on our draws, and published numbers."""

from collections.abc import Mapping
from typing import Any

from nescio_papers.kit import Claim, Comparison, Sample, exactly, sample, table
from nescio_papers.robust_deep_learning.little_methods import SUPERVISED, VIRTUAL, Outcome
from nescio_papers.robust_deep_learning.stored_facts import over_seeds

FIGURES = "here, our own goal"
MOST, GOAL = 0.023, 0.014  # mean error on MNIST
RIGHT, DRAWS = 0.95, 0.9  # accuracy on half-moons, in this share of the draws
PUBLISHED = {  # error in per cent with 100 labels
    "ladder network, 1.06 ± 0.37 %": 0.0106,
    "virtual adversarial training (2018), 1.36 %": 0.0136,
    "virtual adversarial training (2016), 2.33 %": 0.0233,
}
Outcomes = Mapping[str, Outcome]


def judge(numbers: Mapping[str, Any]) -> list[Claim]:
    """The claims by stored errors of the draws."""
    moons, digits = (drawn(numbers[where]) for where in ("half_moons", "mnist"))
    claims = [moons_figure(moons), *helps(moons, "half-moons with 6 labels")]
    if digits:
        claims += [digits_figure(digits), *helps(digits, "MNIST with 100 labels")]
    return claims


def drawn(numbers: Mapping[str, Any]) -> dict[str, Sample]:
    """The errors of each method by draw; none where the data were absent."""
    if "absent" in numbers:
        return {}
    return {name: sample(one["error"]["values"]) for name, one in numbers.items()}


def helps(found: Mapping[str, Sample], where: str) -> list[Claim]:
    """Is each method better than the labels alone, on the same draws?"""
    plain = found[SUPERVISED]
    claims = []
    for name, errors in found.items():
        if name == SUPERVISED:
            continue
        gain = plain - errors
        wins = sum(value > 0 for value in gain.values)
        what = "error with labels alone less that with it, paired by draw"
        claims.append(
            Claim(
                source="here",
                sentence="A criterion for stable answers on inputs without labels lowers the test "
                f"error where labels are few ({name}, {where}).",
                facts=[over_seeds(what, gain, above=0, form=".2%")],
                note=f"{points(plain)} and {points(errors)}; less in {wins} of "
                f"{len(gain.values)} draws",
            )
        )
    return claims


def points(one: Sample) -> str:
    """A share with its interval, in per cent."""
    return f"{100 * one.mean:.2f} ± {100 * one.half:.2f} %"


def best(found: Outcomes) -> str:
    """The method with the smallest mean error."""
    return min(found, key=lambda name: found[name].errors.mean)


def digits_figure(found: Mapping[str, Sample]) -> Claim:
    """Does the best method reach the error that was asked for?"""
    name = min(found, key=lambda one: found[one].mean)
    return Claim(
        source=FIGURES,
        sentence=f"MNIST with 100 labels, 5 draws: the best method has at most {100 * MOST:g} % "
        f"mean error (goal {100 * GOAL:g} %).",
        facts=[over_seeds(f"error of {name}", found[name], below=MOST, form=".2%")],
        note=f"draws {listed(found[name])}",
    )


def moons_figure(found: Mapping[str, Sample]) -> Claim:
    """Does a method get half-moons right in nine of ten draws?"""
    counts = {name: right(errors) for name, errors in found.items()}
    draws = len(next(iter(found.values())).values)
    wanted = round(DRAWS * draws)
    return Claim(
        source=FIGURES,
        sentence=f"Half-moons with 6 labels, {draws} draws: at least {100 * RIGHT:g} % accuracy in "
        f"{wanted} of {draws} for one method.",
        facts=[
            exactly(
                f"draws of {draws} with at least {100 * RIGHT:g} %, of the method with the most",
                max(counts.values()),
                why="these draws are counted in full",
                above=wanted - 0.5,
            )
        ],
        note=", ".join(f"{name} {count}" for name, count in counts.items()),
    )


def right(errors: Sample) -> int:
    """The number of draws with the accuracy that was asked for."""
    return sum(1 - error >= RIGHT for error in errors.values)


def listed(errors: Sample) -> str:
    """The errors of the draws, in per cent."""
    return ", ".join(f"{100 * error:.2f}" for error in errors.values)


def compared(found: Outcomes) -> list[Comparison]:
    """Published errors beside ours, in per cent."""
    name = best(found)
    own, virtual = (100 * found[one].errors.mean for one in (name, VIRTUAL))
    what = "MNIST, 100 labels, error in %"
    return [
        Comparison(f"{what}: ladder network", 1.06, own, note=f"± 0.37; here {name}"),
        Comparison(f"{what}: virtual adversarial (2018)", 1.36, virtual, note="here a small CNN"),
        Comparison(f"{what}: virtual adversarial (2016)", 2.33, virtual, note="here a small CNN"),
        Comparison(f"{what}: best that we know of", 0.93, own, note=f"here {name}"),
    ]


def errors_table(found: Outcomes) -> str:
    """Errors of each method by draw, the paired gain, the updates and the CPU seconds."""
    plain = found[SUPERVISED].errors
    rows = [
        [
            name,
            points(one.errors),
            "–" if name == SUPERVISED else points(plain - one.errors),
            listed(one.errors),
            f"{one.updates:,}",
            "–" if one.cpu_seconds is None else f"{one.cpu_seconds:.0f}",
        ]
        for name, one in found.items()
    ]
    gain = f"less than {SUPERVISED}, paired"
    return table(["method", "error", gain, "by draw, %", "updates", "CPU seconds"], rows)
