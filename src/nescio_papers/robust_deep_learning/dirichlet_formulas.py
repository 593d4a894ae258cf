"""The formulas of the lecture's Dirichlet slides, checked: KL, ELBO, digamma, entropies."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from matplotlib.figure import Figure
from torch import Tensor

from nescio.core import Dirichlet, generator, measures
from nescio.report.plots.look import DASHES, GRAY, line, panels, with_look
from nescio_papers.kit import Claim, Findings, Settings, exactly, table

SLIDE = "lecture, Dirichlet Prior Networks (DPN)"
DISTRIBUTION = "lecture, Dirichlet distribution"
FIGURE = "dirichlet-kl.png"
CLASSES = 5
PRECISIONS = (5, 50, 500, 5000)
SHARPNESS = 100.0  # 1 / lambda: what the label adds to its concentration
CLOSED = "computed in closed form"
ROUNDING = 1e-10  # what rounding leaves of an identity
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


def claims(numbers: Mapping[str, Any]) -> list[Claim]:
    """The sentences of the slides, in closed form."""
    return [*_of_uncertainties(numbers), *_of_the_loss(numbers), *_of_expansions(numbers)]


def _of_uncertainties(numbers: Mapping[str, Any]) -> list[Claim]:
    apart = {
        kind: abs(numbers[f"{kind}_{one}"] - numbers[f"{kind}_{two}"])
        for kind, one, two in (
            ("expected_entropy", "flat", "sharp"),
            ("mutual_information", "middle", "corner"),
        )
    }
    return [
        Claim(
            source=DISTRIBUTION,
            sentence="Concentrations: position on the simplex, aleatoric uncertainty; their sum: "
            "total evidence, distribution spread, epistemic uncertainty.",
            facts=[
                exactly(
                    "mutual information in the middle at precision 3 less at 3,000, nats,",
                    numbers["mutual_information_flat"] - numbers["mutual_information_sharp"],
                    why=CLOSED,
                    above=0,
                ),
                exactly(
                    "by which expected entropies differ at one position, precisions 3 and 3,000,",
                    apart["expected_entropy"],
                    why=CLOSED,
                    below=ROUNDING,
                ),
                exactly(
                    "by which mutual informations differ at one precision, 103, middle and corner,",
                    apart["mutual_information"],
                    why=CLOSED,
                    below=ROUNDING,
                ),
            ],
            note="the sum sets the spread, but position and sum each move both uncertainties",
        ),
        Claim(
            source="lecture, Uncertainty in classification",
            sentence="Predictive entropy: aleatoric uncertainty.",
            facts=[
                exactly(
                    "predictive entropy of Dir(1, 1, 1) less its aleatoric part, the expected "
                    "entropy, nats,",
                    numbers["predictive_entropy_flat"] - numbers["expected_entropy_flat"],
                    why=CLOSED,
                    below=ROUNDING,
                )
            ],
            note="Dir(1000, 1000, 1000) has the same entropy, "
            f"{numbers['predictive_entropy_sharp']:.4f}, and nearly all of it is aleatoric: "
            "entropy is the total",
        ),
    ]


def _of_the_loss(numbers: Mapping[str, Any]) -> list[Claim]:
    return [
        Claim(
            source=SLIDE,
            sentence="The mean of Dir(exp f) is the softmax of f: Soft-max prediction!",
            facts=[
                exactly(
                    f"largest difference over {DRAWS:,} random outputs",
                    numbers["softmax_largest_error"],
                    why=CLOSED,
                    below=ROUNDING,
                )
            ],
        ),
        Claim(
            source=SLIDE,
            sentence="Minimizing KL to the target is minimizing the ELBO loss: expected negative "
            "log-likelihood plus KL to the prior.",
            facts=[
                exactly(
                    f"largest relative error of a constant difference, {DRAWS:,} concentrations,",
                    numbers["elbo_largest_error"],
                    why=CLOSED,
                    below=ROUNDING,
                )
            ],
            note=f"the constant is log P(y) = {numbers['elbo_constant']:.6f}",
        ),
        Claim(
            source=SLIDE,
            sentence="The loss is that sum + P(y|x), and proportional to it without P(y|x).",
            facts=[
                exactly(
                    "distance of the constant from P(y|x)",
                    abs(numbers["elbo_constant"] - numbers["evidence"]),
                    why=CLOSED,
                    below=ROUNDING,
                ),
                exactly(
                    "largest less smallest ratio of the two",
                    numbers["elbo_ratio_high"] - numbers["elbo_ratio_low"],
                    why=CLOSED,
                    below=ROUNDING,
                ),
            ],
            note=f"the constant is log P(y|x) = {numbers['elbo_constant']:.3f}; the two are equal "
            "up to it",
        ),
    ]


def _of_expansions(numbers: Mapping[str, Any]) -> list[Claim]:
    errors = {x: numbers[f"digamma_error_times_x2_at_{x}"] for x in (10, 100, 1000)}
    kl = numbers["kl_to_flat"]
    return [
        Claim(
            source=SLIDE,
            sentence="Digamma: psi(x) = ln(x) - 1/(2x) + O(x^2).",
            facts=[
                exactly(
                    "error of ln(x) - 1/(2x) at 1,000",
                    errors[1000] / 1000**2,
                    why=CLOSED,
                    below=1e-6,
                    form=".2g",
                ),
                exactly(
                    "error at 1,000 over that at 10 (O(x^2): 10,000)",
                    errors[1000] / errors[10] / 100**2,
                    why=CLOSED,
                    above=1,
                    form=".2g",
                ),
            ],
            note=f"the error times x^2 goes to 1/12 ({errors[1000]:.5f} at 1,000): it is O(x^-2)",
        ),
        Claim(
            source=SLIDE,
            sentence="KL to the flat Dirichlet is a differential entropy, proportional to "
            "1/precision.",
            facts=[
                exactly(
                    "KL at precision 5,000 over that at 50 (1/precision: 0.01),",
                    kl["5000"] / kl["50"],
                    why=CLOSED,
                    below=1,
                )
            ],
            note=f"{CLASSES} classes, equal means: {', '.join(f'{v:.2f}' for v in kl.values())} "
            f"nats at {', '.join(kl)}; it grows by {numbers['slope_per_log_precision']:.2f} = "
            "(K - 1)/2 per unit of log precision, and is minus the differential entropy less "
            "log (K - 1)!",
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
