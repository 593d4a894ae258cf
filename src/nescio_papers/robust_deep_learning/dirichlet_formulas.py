"""The formulas of the lecture's Dirichlet slides, checked: KL, ELBO, digamma, entropies."""

import itertools
import math
from collections.abc import Sequence
from typing import Any

import torch
from matplotlib.figure import Figure
from torch import Tensor

from nescio.core import Dirichlet, generator, measures
from nescio.report.plots.look import DASHES, GRAY, line, panels, with_look
from nescio_papers.kit import Claim, Findings, Settings, table, verdict

SLIDE = "lecture, Dirichlet Prior Networks (DPN)"
DISTRIBUTION = "lecture, Dirichlet distribution"
FIGURE = "dirichlet-kl.png"
CLASSES = 5
PRECISIONS = (5, 50, 500, 5000)
SHARPNESS = 100.0  # 1 / lambda: what the label adds to its concentration
DRAWS = 2000  # random concentrations for the identities


def kl_to_flat(alpha: Tensor) -> Tensor:
    """KL from a Dirichlet `(..., K)` to the flat one: minus its entropy, less log (K - 1)!."""
    return _kl(alpha, torch.ones_like(alpha))


def _kl(a: Tensor, b: Tensor) -> Tensor:
    first, second = (
        Dirichlet.from_alpha(one.expand_as(a).reshape(1, -1, a.shape[-1])) for one in (a, b)
    )
    return first.kl(second).reshape(a.shape[:-1])


def asymptote(precision: Tensor, mean: Sequence[float]) -> Tensor:
    """`kl_to_flat` for large precisions and a fixed mean: (K - 1) / 2 log(precision) + const."""
    free = len(mean) - 1
    spread = 0.5 * (free * (1 + math.log(2 * math.pi)) + sum(map(math.log, mean)))
    return 0.5 * free * precision.log() - spread - math.lgamma(len(mean))


def corner_asymptote(precision: Tensor, classes: int) -> Tensor:
    """`kl_to_flat` for one large concentration, the others 1: (K - 1) (log(precision) - 1)."""
    return (classes - 1) * (precision.log() - 1) - math.lgamma(classes)


def middle(precision: Tensor, classes: int) -> Tensor:
    """Concentrations `(..., K)` with equal means."""
    return (precision / classes)[..., None].expand(*precision.shape, classes)


def corner(precision: Tensor, classes: int) -> Tensor:
    """Concentrations `(..., K)` of 1 but for one class."""
    alpha = torch.ones(*precision.shape, classes, dtype=precision.dtype)
    alpha[..., 0] = precision - (classes - 1)
    return alpha


def findings(settings: Settings) -> Findings:
    """The divergence from the flat Dirichlet, drawn, and every formula beside what is right."""
    at = torch.tensor(PRECISIONS, dtype=torch.float64)
    numbers: dict[str, Any] = {
        "classes": CLASSES,
        "kl_to_flat": dict(zip(map(str, PRECISIONS), kl_to_flat(middle(at, CLASSES)).tolist(),
                               strict=True)),
        "slope_per_log_precision": _slope(middle),
        "slope_towards_a_corner": _slope(corner),
        **_elbo(settings.seed),
        **_digamma(),
        **_uncertainties(),
    }  # fmt: skip
    rows = [[f"{p:,}", f"{kl:.4f}", f"{asymptote(torch.tensor(float(p)), [0.2] * 5):.4f}"]
            for p, kl in zip(PRECISIONS, numbers["kl_to_flat"].values(), strict=True)]  # fmt: skip
    return Findings(
        numbers=numbers,
        figures={FIGURE: _drawn()},
        captions={FIGURE: "KL from a Dirichlet to the flat one against its precision, with the "
                  "asymptotes; the lecture says that it is proportional to 1/precision."},
        claims=_claims(numbers),
        text="KL from a Dirichlet with equal means to the flat one, five classes, nats:\n\n"
        + table(["precision", "KL to the flat Dirichlet", "2 log(precision) + constant"], rows),
    )  # fmt: skip


def _slope(concentrations: Any) -> float:
    """The growth of the divergence per unit of log precision, at precisions round 1e6."""
    at = torch.tensor([1e6, 1e6 * math.e], dtype=torch.float64)
    low, high = kl_to_flat(concentrations(at, CLASSES)).tolist()
    return float(high - low)


def _elbo(seed: int) -> dict[str, float]:
    """Reverse KL to 1 + 100 at the label, and the ELBO: constant difference, means, softmax."""
    logs = 4 * torch.randn(DRAWS, CLASSES, generator=generator(seed, "concentrations"))
    gamma = logs.double().exp()
    target = torch.ones(CLASSES, dtype=torch.float64)
    target[0] += SHARPNESS
    reverse = _kl(gamma, target)
    elbo = SHARPNESS * (gamma.sum(-1).digamma() - gamma[:, 0].digamma()) + kl_to_flat(gamma)
    constant = math.lgamma(CLASSES) + math.lgamma(1 + SHARPNESS) - math.lgamma(CLASSES + SHARPNESS)
    gap = reverse - elbo
    softmax = Dirichlet.from_alpha(gamma[None]).probs - logs.double().softmax(-1)
    return {
        "elbo_constant": constant,
        "elbo_largest_error": float(((gap - constant) / reverse.clamp_min(1)).abs().max()),
        "elbo_ratio_low": float((elbo / reverse).min()),
        "elbo_ratio_high": float((elbo / reverse).max()),
        "evidence": math.exp(constant),
        "softmax_largest_error": float(softmax.abs().max()),
    }


def _digamma() -> dict[str, float]:
    """The error of log(x) - 1 / (2 x), times x squared."""
    x = torch.tensor([10.0, 100.0, 1000.0], dtype=torch.float64)
    error = (x.digamma() - (x.log() - 0.5 / x)).abs() * x**2
    return {f"digamma_error_times_x2_at_{int(v)}": float(e) for v, e in zip(x, error, strict=True)}


def _uncertainties() -> dict[str, float]:
    """Two Dirichlets with equal entropy, and two with equal precision."""
    values = {}
    for name, alpha in (
        ("flat", (1.0, 1.0, 1.0)),
        ("sharp", (1000.0, 1000.0, 1000.0)),
        ("corner", (101.0, 1.0, 1.0)),
        ("middle", (103 / 3, 103 / 3, 103 / 3)),
    ):
        one = Dirichlet.from_alpha(torch.tensor([[alpha]], dtype=torch.float64))
        for kind in ("predictive_entropy", "expected_entropy", "mutual_information"):
            values[f"{kind}_{name}"] = getattr(measures, kind)(one).item()
    return values


def _claims(numbers: dict[str, Any]) -> list[Claim]:
    kl = list(numbers["kl_to_flat"].values())
    errors = [numbers[f"digamma_error_times_x2_at_{x}"] for x in (10, 100, 1000)]
    return [
        Claim(
            DISTRIBUTION,
            "Concentrations: position on the simplex, aleatoric uncertainty; their sum: total "
            "evidence, distribution spread, epistemic uncertainty.",
            "the sum does set the spread, but the two are not apart: at one position, the middle, "
            f"the expected entropy is {numbers['expected_entropy_flat']:.3f} at precision 3 and "
            f"{numbers['expected_entropy_sharp']:.3f} at 3,000; at one precision, 103, the mutual "
            f"information is {numbers['mutual_information_middle']:.4f} in the middle and "
            f"{numbers['mutual_information_corner']:.4f} at Dir(101, 1, 1) (exact values, nats)",
            verdict=verdict(
                math.isclose(numbers["expected_entropy_flat"], numbers["expected_entropy_sharp"]),
                numbers["mutual_information_sharp"] < numbers["mutual_information_flat"],
            ),
        ),
        Claim(
            "lecture, Uncertainty in classification",
            "Predictive entropy: aleatoric uncertainty.",
            f"Dir(1, 1, 1) and Dir(1000, 1000, 1000) have one entropy, "
            f"{numbers['predictive_entropy_flat']:.4f}, but aleatoric uncertainties (expected "
            f"entropies) of {numbers['expected_entropy_flat']:.4f} and "
            f"{numbers['expected_entropy_sharp']:.4f}: entropy is the total (exact values, nats)",
            verdict=verdict(numbers["expected_entropy_flat"] == numbers["predictive_entropy_flat"]),
        ),
        Claim(
            SLIDE,
            "The mean of Dir(exp f) is the softmax of f: Soft-max prediction!",
            f"largest difference {numbers['softmax_largest_error']:.1g} over {DRAWS:,} random "
            "outputs",
            verdict=verdict(numbers["softmax_largest_error"] < 1e-12),
        ),
        Claim(
            SLIDE,
            "Minimizing KL to the target is minimizing the ELBO loss: expected negative "
            "log-likelihood plus KL to the prior.",
            f"the two differ by {numbers['elbo_constant']:.6f} = log P(y), whatever the "
            f"concentrations (relative error at most {numbers['elbo_largest_error']:.1g} over "
            f"{DRAWS:,} draws)",
            verdict=verdict(numbers["elbo_largest_error"] < 1e-10),
        ),
        Claim(
            SLIDE,
            "The loss is that sum + P(y|x), and proportional to it without P(y|x).",
            f"the constant is log P(y|x) = {numbers['elbo_constant']:.3f}, not P(y|x) = "
            f"{numbers['evidence']:.1g}; the two forms are equal up to it, not proportional: "
            f"their ratio goes from {numbers['elbo_ratio_low']:.3f} to "
            f"{numbers['elbo_ratio_high']:.3f}",
            verdict=verdict(math.isclose(numbers["elbo_ratio_low"], numbers["elbo_ratio_high"])),
        ),
        Claim(
            SLIDE,
            "Digamma: psi(x) = ln(x) - 1/(2x) + O(x^2).",
            "the error times x^2 is "
            + ", ".join(f"{e:.5f}" for e in errors)
            + " at 10, 100, 1,000: it goes to 1/12, so the error is O(x^-2)",
            verdict=verdict(errors[-1] > 1e3 * errors[0], max(errors) < 0.1),
        ),
        Claim(
            SLIDE,
            "KL to the flat Dirichlet is a differential entropy, proportional to 1/precision.",
            f"for {CLASSES} classes with equal means {', '.join(f'{v:.2f}' for v in kl)} nats at "
            f"precisions {', '.join(map(str, PRECISIONS))}: it grows by "
            f"{numbers['slope_per_log_precision']:.4f} = (K - 1)/2 per unit of log precision, and "
            f"by {numbers['slope_towards_a_corner']:.4f} = K - 1 towards a corner; it is minus the "
            "differential entropy, less log (K - 1)!",
            verdict=verdict(all(b < a for a, b in itertools.pairwise(kl))),
        ),
    ]


@with_look
def _drawn() -> Figure:
    title = "KL to the flat Dirichlet grows with the logarithm of the precision"
    figure, axes = panels(2, height=4.2, title=title)
    names = ("equal means", "one class: the other concentrations are 1")
    for axis, name, place in zip(axes, names, (middle, corner), strict=True):
        for index, classes in enumerate((3, CLASSES, 10)):
            at = torch.logspace(math.log10(classes), 5, 200, dtype=torch.float64)
            values = kl_to_flat(place(at, classes))
            style = {**line(index), "marker": ""}
            axis.plot(at, values, label=f"K = {classes}", **style)
            ends = _asymptotes(place, at, classes)
            axis.plot(
                at[ends > 0], ends[ends > 0], color="black", linestyle=DASHES[3], linewidth=1.6
            )
        tops = kl_to_flat(place(torch.tensor([50.0], dtype=torch.float64), CLASSES)).item() * 50
        at = torch.logspace(math.log10(CLASSES), 5, 200, dtype=torch.float64)
        axis.plot(at, tops / at, color=GRAY, linestyle=DASHES[6],
                  label="as the lecture says, K = 5:\n1/precision, equal at 50")  # fmt: skip
        axis.plot([], [], color="black", linestyle=DASHES[3], linewidth=1.6, label="asymptotes")
        axis.set(xscale="log", xlabel="precision")
        axis.set_ylim(-0.5, float(kl_to_flat(place(at[-1:], 10))) * 1.05)
        axis.set_title(name, loc="left")
    axes[0].set_ylabel("KL to the flat Dirichlet, nats")
    axes[0].legend(fontsize=9)
    return figure


def _asymptotes(place: Any, at: Tensor, classes: int) -> Tensor:
    if place is corner:
        return corner_asymptote(at, classes)
    return asymptote(at, [1 / classes] * classes)
