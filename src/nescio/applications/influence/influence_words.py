"""Influence in words: helpful or harmful, and what the loss or the confidence would do."""

from typing import TYPE_CHECKING

from torch import Tensor

if TYPE_CHECKING:
    from nescio.applications.influence.influence import Influence


def test_words(found: "Influence", test: int, count: int) -> str:
    """One test sample: its quantity now, and its most helpful and harmful training samples."""
    now = f"The {found.on} of test sample {test}{_about(found, test)} is {found.value[test]:.4g}."
    most = min(count, found.values.shape[1])
    helpful = _side(found, test, found.helpful(most)[test], "helpful")
    harmful = _side(found, test, found.harmful(most)[test], "harmful")
    return " ".join([now, *helpful, *harmful])


def _about(found: "Influence", test: int) -> str:
    """Its label and its class, in brackets."""
    if found.predicted.is_floating_point():
        return ""
    known = [] if found.test_labels is None else [f"label {int(found.test_labels[test])}"]
    if found.target is not None and int(found.target[test]) != int(found.predicted[test]):
        known.append(f"asked about class {int(found.target[test])}")
    return f" ({', '.join([*known, f'predicted {int(found.predicted[test])}'])})"


def _side(found: "Influence", test: int, index: Tensor, kind: str) -> list[str]:
    """The samples that are helpful, or harmful, with what their removal would do."""
    sign = 1 if kind == "helpful" else -1
    parts = []
    for sample in index.tolist():
        change = float(found.values[test, sample])
        if sign * float(found.help[test, sample]) <= 0:
            continue
        label = found.labels[sample]
        named = f" (label {int(label)})" if label.ndim == 0 else ""
        moves = "rise" if change > 0 else "fall"
        parts.append(
            f"without training sample {sample}{named} it would {moves} by {abs(change):.3g}"
        )
    if not parts:
        return [f"No training sample is {kind}."]
    return [f"Most {kind}: {'; '.join(parts)}."]


def examined_words(found: "Influence") -> str:
    """What was examined: the weights, their objective, and how near the minimum they are."""
    damped = f", damping {found.damping:g}" if found.damping else ""
    weights = "all weights" if found.parameters == "all" else "the last linear layer"
    text = (
        f"Examined: {weights} (gradient norm {found.gradient_norm:.2g}{damped}, residual "
        f"{found.residual:.2g}). Objective: {found.objective}."
    )
    refit = found.refit
    if refit is None or not refit.steps:
        return text
    moved = f"by {refit.shift:.3g} on average"
    if not found.predicted.is_floating_point():
        moved = f"{refit.changed:.2%} of the training predictions changed, probabilities {moved}"
    else:
        moved = f"predictions changed {moved}"
    return (
        f"{text} The layer was first fitted to its minimum in {refit.steps} Newton steps, as its "
        f"gradient norm was {refit.gradient_norm:.2g}: {moved}. The answers are about that layer."
    )
