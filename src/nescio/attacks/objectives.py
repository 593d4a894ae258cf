"""What an attack raises: functions of inputs, one value per sample.

Values are log-odds, so that they go on rising where float32 probabilities have rounded to 1.
"""

from collections.abc import Callable
from functools import wraps
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.overrides import TorchFunctionMode

from nescio.core import (
    Categorical,
    Classification,
    NescioError,
    Prediction,
    answer,
    categorical,
    check_ignore_index,
    check_labels,
    log_odds,
    mean_per_sample,
    without_ignored,
)
from nescio.core import measures as _measures  # noqa: F401 (fills the registry)
from nescio.core.registry import measures
from nescio.models.model import Model, check_logits
from nescio.nets import refusing_shapes, unwrapped
from nescio.nets.stack import stack

Objective = Callable[..., Tensor]  # inputs (N, ...), or inputs and targets, -> (N,)


def confidence(source: object) -> Objective:
    """The log-odds of the most probable class: high where the network is confident of something.

    source: an `nn.Module`, a model, or another predictor.
    """
    answered = answer_of(source)
    return lambda x: _per_sample(-log_odds(answered(x)))


def label_loss(source: object, *, ignore_index: int | None = None) -> Objective:
    """The log-odds against the true label: positive where it has less than half.

    source: an `nn.Module`, a model, or another predictor.
    ignore_index: of label maps, the label of pixels that are left out; None: none are.
    """
    answered = answer_of(source)

    def value(x: Tensor, y: Tensor) -> Tensor:
        logs = answered(x).log_probs
        return _per_sample(-_odds(logs, _column(y, logs, ignore_index)), y, ignore_index)

    return value


def class_confidence(source: object) -> Objective:
    """The log-odds of the class y: high where the network is confident of just this one.

    source: an `nn.Module`, a model, or another predictor.
    """
    answered = answer_of(source)

    def value(x: Tensor, y: Tensor) -> Tensor:
        logs = answered(x).log_probs
        if y.ndim == 1 and logs.ndim > 2:  # the same class for every pixel
            y = y.view(-1, *(1 for _ in logs.shape[1:-1])).expand(logs.shape[:-1])
        return _per_sample(_odds(logs, _column(y, logs, None)))

    return value


def wrong_confidence(source: object, *, ignore_index: int | None = None) -> Objective:
    """The log-odds of the most probable class but the label: confident, and wrong.

    source: an `nn.Module`, a model, or another predictor.
    ignore_index: of label maps, the label of pixels that are left out; None: none are.
    """
    answered = answer_of(source)

    def value(x: Tensor, y: Tensor) -> Tensor:
        logs = answered(x).log_probs
        wrong = logs.scatter(-1, _column(y, logs, ignore_index), -torch.inf)
        return _per_sample(_odds(logs, wrong.argmax(-1, keepdim=True)), y, ignore_index)

    return value


FAR = 100.0  # more than log-odds of a class that wins can be below 0, for any number of classes


def misread(source: object) -> Objective:
    """As `wrong_confidence`, less FAR where the label is more probable: misread inputs come first.

    A wrong class that has won has log-odds above -FAR, one that has not has at most -FAR.

    source: an `nn.Module`, a model, or another predictor.
    """
    answered = answer_of(source)

    def value(x: Tensor, y: Tensor) -> Tensor:
        logs = answered(x).log_probs
        label = _column(y, logs, None)
        wrong = logs.scatter(-1, label, -torch.inf).argmax(-1, keepdim=True)
        right = logs.gather(-1, label) >= logs.gather(-1, wrong)
        return _per_sample(_odds(logs, wrong) - FAR * right[..., 0])

    return value


def margin(source: object, *, ignore_index: int | None = None) -> Objective:
    """The log-ratio of the most probable class but the label to the label: positive where it wins.

    Its sign is exactly whether the answer is another class than y, whatever the number of classes.

    source: an `nn.Module`, a model, or another predictor.
    ignore_index: of label maps, the label of pixels that are left out; None: none are.
    """
    answered = answer_of(source)

    def value(x: Tensor, y: Tensor) -> Tensor:
        logs = answered(x).log_probs
        label = _column(y, logs, ignore_index)
        others = logs.scatter(-1, label, -torch.inf).amax(-1)
        return _per_sample(others - logs.gather(-1, label)[..., 0], y, ignore_index)

    return value


def uncertainty(source: object, measure: str, *, lower: bool = True, **options: Any) -> Objective:
    """A measure of the prediction, lowered (the model looks confident) or raised.

    variation_ratio counts votes and has no gradient.

    source: an `nn.Module`, a model, or another predictor.
    measure: a name of `nescio.measures`.
    lower: whether to lower it; otherwise it is raised.
    options: options of the measure.
    """
    answered, read = _predictions(source), measures[measure]
    if measure == "variation_ratio":
        raise NescioError("variation_ratio counts votes and has no gradient; use another measure")
    sign = -1.0 if lower else 1.0
    return lambda x: sign * _per_sample(read(answered(x), **options))


def answer_of(source: object) -> Callable[[Tensor], Classification]:
    """Class probabilities as a function of inputs, for your own objective.

    A network stays as it is: its weights are frozen copies and its layers in evaluation mode, so
    only inputs get gradients.

    source: an `nn.Module`, a model, or another predictor.
    """
    predict = _predictions(source)

    def read(x: Tensor) -> Classification:
        prediction = predict(x)
        if not isinstance(prediction, Classification):
            kind = type(prediction).__name__
            raise NescioError(
                f"expected class probabilities to attack, got a {kind}; of several labels choose "
                "one: nescio.models.plain(net, head=nescio.heads.binary(label=0))"
            )
        return prediction

    return read


def _predictions(source: object) -> Callable[[Tensor], Prediction]:
    predictor = source
    if isinstance(source, nn.Module):
        net = unwrapped(source)
        predictor = Model(net, stack([net]), categorical())

    def read(x: Tensor) -> Prediction:
        with refusing_shapes(x):
            prediction = answer(predictor, x)
        if isinstance(prediction, Categorical):
            check_logits(prediction.logits, categorical())
        return prediction

    return read


def _column(y: Tensor, logs: Tensor, ignore_index: int | None) -> Tensor:
    """Labels `(..., 1)`, with class 0 where they are ignored."""
    known, _ = without_ignored(y, check_ignore_index(ignore_index, logs.shape[-1]))
    return check_labels(known, logs.shape[-1], logs.shape[:-1]).to(logs.device)[..., None]


def _per_sample(values: Tensor, y: Tensor | None = None, ignore_index: int | None = None) -> Tensor:
    """One value per sample `(N,)`: of maps the mean over pixels, of those that count."""
    if ignore_index is None or y is None:
        return values if values.ndim == 1 else mean_per_sample(values)
    table = values.reshape(len(values), -1)
    labels = y.to(values.device).reshape(table.shape)
    return mean_per_sample(table, labels, ignore_index=ignore_index)


def _odds(logs: Tensor, label: Tensor) -> Tensor:
    """Log-odds of the class `label` (..., 1): log p - log (1 - p), from the other classes."""
    return logs.gather(-1, label)[..., 0] - logs.scatter(-1, label, -torch.inf).logsumexp(-1)


IN_PLACE = (torch.relu_, Tensor.relu_)
RELUS = (torch.relu, Tensor.relu, F.relu, *IN_PLACE)


class _Leak(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, slope: float) -> Tensor:
        ctx.save_for_backward(x)
        ctx.slope = slope
        return x.clamp(min=0)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        (x,) = ctx.saved_tensors
        return torch.where(x > 0, gradient, ctx.slope * gradient), None


class _Leaking(TorchFunctionMode):
    def __init__(self, slope: float) -> None:
        super().__init__()
        self.slope = slope

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        options = kwargs or {}
        if func not in RELUS:
            return func(*args, **options)
        x = args[0] if args else options["input"]
        written = func in IN_PLACE or (args[1:] or (options.get("inplace", False),))[0]
        leaked = _Leak.apply(x.clone() if written else x, self.slope)  # type: ignore[no-untyped-call]
        return x.copy_(leaked) if written else leaked


def leaking(objective: Callable[..., Tensor], *, slope: float = 0.1) -> Callable[..., Tensor]:
    """The same objective, whose gradient passes dead ReLUs with a factor `slope`.

    A network that was trained to be unsure on noise can have its last hidden layer dead there. Its
    input gradient is then exactly zero, plain gradient steps never move, and a low confidence
    "under attack" says nothing. The backward pass here treats ReLU as leaky ReLU; values stay.
    It sees ReLU layers and calls of relu, in a network or around one; no other activation.

    objective: what is raised, as in `pgd`.
    slope: slope of the leaky ReLU below zero, above 0 and at most 1.
    """
    if not 0 < slope <= 1:
        raise NescioError(f"slope must be above 0 and at most 1, got {slope}")

    @wraps(objective)
    def leaked(*inputs: Tensor) -> Tensor:
        with _Leaking(slope):
            return objective(*inputs)

    return leaked
