"""What influence is on: a loss, a logit, a confidence or a margin of test samples."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from nescio.applications.influence.objective import Objective
from nescio.core import Head, NescioError, as_tensor, unknown

Quantity = str | Callable[[Tensor], Tensor]  # a name, or outputs (T, O) -> (T,)
NAMES = ("loss", "logit", "confidence", "margin")


@dataclass(frozen=True, eq=False, kw_only=True)
class Asked:
    """The quantity that is asked for: outputs `(T, O)` of all test samples to numbers `(T,)`."""

    name: str
    of: Callable[[Tensor], Tensor]
    target: Tensor | None  # (T,) the class whose logit, confidence or margin it is
    labels: Tensor | None  # (T,), or targets (T, D)

    def slopes(self, outputs: Tensor) -> tuple[Tensor, Tensor]:
        """The quantity `(T,)` and its derivatives in the outputs `(T, O)`."""
        outputs = outputs.detach().requires_grad_()
        with torch.enable_grad():
            value = self.of(outputs)
            (slopes,) = torch.autograd.grad(value.sum(), outputs)
        fine = value.isfinite() & slopes.isfinite().all(-1)
        if not fine.all():
            raise NescioError(
                f"the {self.name} of test sample {int((~fine).nonzero()[0])}, or its gradient, is "
                "NaN or infinite, so nothing can be said about it"
            )
        return value.detach(), slopes


@dataclass(frozen=True, eq=False, kw_only=True)
class Tested:
    """What is asked about test samples, and its gradients in the parameters."""

    asked: Asked
    outputs: Tensor  # (T, O)
    value: Tensor  # (T,)
    gradients: Tensor  # (T, P)


def asked_for(
    on: Quantity,
    outputs: Tensor,
    labels: Tensor | None,
    *,
    head: Head,
    objective: Objective,
    target: object = None,
) -> Asked:
    """The quantity `on` of the outputs of test samples; classes are those predicted by default."""
    if callable(on):
        name = getattr(on, "__name__", "a function")
        return Asked(name=name, of=_checked(on, name), target=None, labels=labels)
    if on not in NAMES:
        raise NescioError(unknown("quantity", on, NAMES) + "; or a function of outputs (T, O)")
    if on == "loss":
        if labels is None:
            raise NescioError("on='loss' needs the labels of the test samples: test=(x, y)")
        return Asked(name=on, of=lambda z: objective.scores(z, labels), target=None, labels=labels)
    if head.task != "classification":
        raise NescioError(f"a {head.task} has no {on}; use on='loss' or a function of its outputs")
    classes = _classes(target, head.logits(outputs))
    single = head.name == "binary"  # one logit, that of class 1; of class 0 it is the negative

    def of(z: Tensor) -> Tensor:
        logits = head.logits(z)
        if on == "confidence":
            return logits.softmax(-1).gather(-1, classes[:, None])[:, 0]
        own = logits.gather(-1, classes[:, None])
        rest = logits.scatter(-1, classes[:, None], -torch.inf).amax(-1)
        return own[:, 0] if on == "logit" and not single else own[:, 0] - rest

    return Asked(name=on, of=of, target=classes, labels=labels)


def _classes(target: object, logits: Tensor) -> Tensor:
    """The class that is meant for each test sample: the predicted one unless it is given."""
    if target is None:
        return logits.argmax(-1)
    classes = as_tensor(target, "target").to(logits.device)
    samples, count = logits.shape
    classes = classes.expand(samples) if classes.ndim == 0 else classes
    if classes.shape != (samples,) or classes.is_floating_point():
        raise NescioError(f"target must be one class for each of {samples} test samples")
    if not ((classes >= 0) & (classes < count)).all():
        raise NescioError(f"target must be classes from 0 to {count - 1}, got {classes.tolist()}")
    return classes.long()


def _checked(function: Callable[[Tensor], Tensor], name: str) -> Callable[[Tensor], Tensor]:
    def of(outputs: Tensor) -> Tensor:
        values = function(outputs)
        if not isinstance(values, Tensor) or values.shape != outputs.shape[:1]:
            raise NescioError(
                f"{name} must give one number for each test sample, ({len(outputs)},), of outputs "
                f"{tuple(outputs.shape)}"
            )
        return values

    return of
