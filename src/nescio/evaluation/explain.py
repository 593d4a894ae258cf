"""Why a network answers as it does: the training samples that its confident errors rest on."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from nescio.applications import influence as functions
from nescio.core import Bundle, Head, NescioError, as_targets, as_tensor, check_indices, hash_inputs
from nescio.evaluation.answers import Seen, see
from nescio.models import plain, with_head
from nescio.nets import Output

QUANTITIES = ("loss", "logit", "confidence", "margin")


@dataclass(frozen=True, kw_only=True)
class Support:
    """A training sample, and what its removal would do to a test sample.

    sample: index in the training data.
    label: its label.
    change: change of the loss, logit, confidence or margin, if the sample were removed.
    """

    sample: int
    label: int
    change: float


@dataclass(frozen=True, kw_only=True)
class Explained:
    """A test sample: what the network says, and which training samples it rests on.

    sample: index in the test data.
    label: its label.
    predicted: the predicted class.
    confidence: confidence of the network.
    examined: class predicted by the layer whose influence is examined, after it was fitted.
    value: the quantity now, by that layer.
    helpful: training samples, most helpful first.
    harmful: training samples, most harmful first.
    """

    sample: int
    label: int
    predicted: int
    confidence: float
    examined: int
    value: float
    helpful: tuple[Support, ...]
    harmful: tuple[Support, ...]


@dataclass(frozen=True, kw_only=True)
class Explanation:
    """Test samples with their most helpful and harmful training samples.

    on: the quantity: loss, logit, confidence or margin.
    samples: the test samples.
    examined: which weights were examined, and how precisely, in words.
    skipped: why nothing is explained.
    """

    on: str
    samples: tuple[Explained, ...]
    examined: str = ""
    skipped: str | None = None

    def words(self) -> str:
        """A paragraph for each test sample: what is helpful, what is harmful."""
        if self.skipped is not None:
            return self.skipped
        parts = [line for one in self.samples for line in _lines(one, self.on)]
        return "\n".join([*parts, self.examined])


def explain(
    source: Any,
    train: Any,
    test: tuple[Tensor, Tensor],
    *,
    index: Any = None,
    errors: int = 3,
    count: int = 5,
    on: str = "loss",
    head: Head | str | None = None,
    output: Output = None,
    **options: Any,
) -> Explanation:
    """The most helpful and harmful training samples of test samples.

    A model knows what it was trained on: other samples of `train` are left out, which is said.

    source: an `nn.Module`, or a model with one member.
    train, test: inputs and labels, `(x, y)`, of the training and the test data.
    index: indices of the test samples to explain; None: the `errors` most confident errors.
    errors: number of errors to explain, where no index is given.
    count: number of helpful and of harmful samples for each.
    on: `"loss"` (of the true label), or `"logit"`, `"confidence"` or `"margin"` of the predicted
      class.
    head: how the outputs of modules are read, as for `nescio.observe`.
    output: where the outputs are in what the network returns, as for `nescio.observe`.
    options: options of `nescio.applications.influence.fit`.
    """
    if on not in QUANTITIES:
        raise NescioError(f"on is one of {', '.join(QUANTITIES)}, got {on!r}")
    x, y = test[0], as_targets(test[1], len(test[0]), task="classification")
    seen = seen_by(source, train, x, head=head, output=output)
    chosen = confident_errors(seen, y, errors) if index is None else _rows(index, len(x))
    if not len(chosen):
        why = f"The network makes no error on the {len(x)} test samples; name some by index."
        return Explanation(on=on, samples=(), skipped=why)
    train, rows, said = _trained_on(source, train)
    minimum = functions.fit(source, train, head=head, output=output, **options)
    target = None if on == "loss" else seen.labels[chosen]
    found = functions.at_minimum(minimum, (x[chosen], y[chosen]), on=on, target=target)
    each = min(count, len(found.labels))
    return Explanation(
        on=on,
        samples=tuple(
            Explained(
                sample=int(sample),
                label=int(y[sample]),
                predicted=int(seen.labels[sample]),
                confidence=float(seen.confidence[sample]),
                examined=int(found.predicted[row]),
                value=float(found.value[row]),
                helpful=_supports(found, row, found.helpful(each)[row], 1, rows),
                harmful=_supports(found, row, found.harmful(each)[row], -1, rows),
            )
            for row, sample in enumerate(chosen)
        ),
        examined=f"{said}{found.examined()}",
    )


def _trained_on(source: Any, train: Any) -> tuple[Any, Tensor | None, str]:
    """The training samples that a model was trained on, which rows they are, and words for it.

    Others would change the layer that is fitted: test samples in the same file, for example.
    """
    known = getattr(source, "seen", None)
    pair = isinstance(train, (tuple, list)) and len(train) == 2
    if not isinstance(known, Tensor) or not pair or not isinstance(train[0], (Tensor, Bundle)):
        return train, None, ""
    kept = torch.isin(hash_inputs(train[0]), known.cpu())
    count = int(kept.sum())
    if not count:
        return train, None, "None of the training samples given is one the model was trained on. "
    if count == len(kept):
        return train, None, ""
    rows = kept.nonzero()[:, 0]
    said = f"The model was trained on {count} of the {len(kept)} training samples; the others are "
    return (train[0][rows], as_tensor(train[1], "labels")[rows]), rows, f"{said}left out. "


@dataclass(frozen=True, kw_only=True)
class Suspect:
    """A training sample whose label may be wrong.

    sample: index in the training data.
    label: its label.
    predicted: the predicted class.
    confidence: probability of the predicted class.
    self_influence: how much its own loss rises when it is removed.
    """

    sample: int
    label: int
    predicted: int
    confidence: float
    self_influence: float


def suspects(
    source: Any,
    train: tuple[Tensor, Tensor],
    *,
    head: Head | str | None = None,
    output: Output = None,
    **options: Any,
) -> tuple[Suspect, ...]:
    """All training samples by self-influence, largest first: wrong labels come early.

    source: an `nn.Module`, or a model with one member.
    train: training inputs and labels, `(x, y)`.
    head: how the outputs of modules are read, as for `nescio.observe`.
    output: where the outputs are in what the network returns, as for `nescio.observe`.
    options: options of `nescio.applications.influence.self_influence`.
    """
    y = as_targets(train[1], len(train[0]), task="classification")
    seen = seen_by(source, train, train[0], head=head, output=output)
    values = functions.self_influence(source, train, head=head, output=output, **options)
    return tuple(
        Suspect(
            sample=sample,
            label=int(y[sample]),
            predicted=int(seen.labels[sample]),
            confidence=float(seen.confidence[sample]),
            self_influence=float(values[sample]),
        )
        for sample in values.argsort(descending=True, stable=True).tolist()
    )


def seen_by(source: Any, train: Any, x: Any, *, head: Head | str | None, output: Output) -> Seen:
    """What a network, or a model, says about inputs."""
    read = with_head(source, train, head=head, output=output)
    return see(plain(read) if isinstance(read, nn.Module) else read, x)


def confident_errors(seen: Seen, y: Tensor, count: int) -> Tensor:
    """The wrong answers with the highest confidence, at most `count`, by index."""
    wrong = (seen.labels != y.to(seen.labels.device)).nonzero()[:, 0]
    order = seen.confidence[wrong].argsort(descending=True, stable=True)
    return wrong[order[:count]]


def _rows(index: Any, samples: int) -> Tensor:
    rows: Tensor = torch.atleast_1d(as_tensor(index, "index"))
    check_indices(rows, samples, "index")
    return rows.long()


def _supports(
    found: functions.Influence, row: int, order: Tensor, sign: int, rows: Tensor | None
) -> tuple[Support, ...]:
    """The training samples that help (sign 1) or harm (-1) a test sample.

    rows: their places in the training data, where some of these were left out.
    """
    return tuple(
        Support(
            sample=sample if rows is None else int(rows[sample]),
            label=int(found.labels[sample]),
            change=float(found.values[row, sample]),
        )
        for sample in order.tolist()
        if sign * float(found.help[row, sample]) > 0
    )


def _lines(one: Explained, on: str) -> Sequence[str]:
    """A test sample in lines: itself, then who helps and who harms."""
    verdict = "right" if one.predicted == one.label else "wrong"
    first = (
        f"test sample {one.sample}: label {one.label}, predicted {one.predicted} ({verdict}), "
        f"confidence {one.confidence:.3f}, {on} {one.value:.3g}{_moved(one)}"
    )
    return [first, *_side(one.helpful, on, "helpful"), *_side(one.harmful, on, "harmful")]


def _moved(one: Explained) -> str:
    """What the fitted layer says, where it is something else."""
    return "" if one.examined == one.predicted else f"; the fitted layer says {one.examined}"


def remark(one: Explained, on: str) -> tuple[str, str]:
    """A test sample and its training samples in one sentence: a name, and the words.

    one: the test sample.
    on: the quantity: loss, logit, confidence or margin.
    """
    name = f"test sample {one.sample}, label {one.label}, predicted {one.predicted}"
    parts = [f"confidence {one.confidence:.3f}{_moved(one)}"]
    for kind, samples in (("harmful", one.harmful), ("helpful", one.helpful)):
        said = [f"{s.sample} (label {s.label}, {on} {s.change:+.2g} without it)" for s in samples]
        parts.append(f"{kind} training samples: {', '.join(said) or 'none'}")
    return name, "; ".join(parts)


def _side(samples: Sequence[Support], on: str, kind: str) -> list[str]:
    return [
        f"  {kind if not place else '':8} training sample {one.sample:>6}, label {one.label}: "
        f"without it the {on} would {'rise' if one.change > 0 else 'fall'} by {abs(one.change):.2g}"
        for place, one in enumerate(samples)
    ] or [f"  {kind:8} none"]
