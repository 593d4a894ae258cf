"""A guard for each label of a network that has several, whose guarantees hold all at once."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from nescio.core import (
    Head,
    NescioError,
    as_tensor,
    binary,
    categorical,
    check_label_table,
    generator,
    make_folder,
    two_logits,
)
from nescio.data import door
from nescio.detectors import Activations, Detector, knn
from nescio.detectors.observe import observe
from nescio.detectors.observe.network import members_of_labels
from nescio.guards.decide import Guard
from nescio.guards.decisions import Decisions
from nescio.guards.guard import guard
from nescio.guards.observing import Fitted, fitted_detector, known, own_copies
from nescio.guards.splitting import FITTING, unknown_to
from nescio.models import Member
from nescio.nets import Output


@dataclass(frozen=True, eq=False, repr=False)
class LabelGuards:
    """A guard for each label, by name; each is an ordinary guard that can be used by itself.

    guards: the guard of each label, by name.
    confidence: the probability with which the risks of all labels are bounded at once.
    """

    guards: Mapping[str, Guard]
    confidence: float

    def __call__(self, x: Any) -> dict[str, Decisions]:
        """The decisions about each label, by name, for inputs `x` as a guard takes them."""
        return {name: one(x) for name, one in self.guards.items()}

    def __getitem__(self, label: str) -> Guard:
        return self.guards[label]

    def __len__(self) -> int:
        return len(self.guards)

    @property
    def guarantees(self) -> tuple[str, ...]:
        """What is guaranteed for all labels together, then for each by itself."""
        first = next(iter(self.guards.values()))
        joint = (
            f"With a probability of at least {self.confidence:.4g} over the calibration data, the "
            f"share of wrong answers is at most {first.risk:g} for all {len(self)} labels at once: "
            f"each is shown with the confidence 1 - {1 - self.confidence:.3g} / {len(self)} "
            "(Bonferroni)."
        )
        each = [f"{name}: {text}" for name, one in self.guards.items() for text in one.guarantees]
        return (joint, *each)

    def save(self, folder: str | Path, *, weights: bool = False) -> Path:
        """Write NAME.safetensors for each label, which `nescio.load` and `nescio score` read.

        folder: where to write; it is made if it does not exist.
        weights: whether to write the weights of the network, too, in each file.
        """
        place = make_folder(Path(folder))
        for name, one in self.guards.items():
            one.save(place / f"{name}.safetensors", weights=weights)
        return place

    def __repr__(self) -> str:
        return f"LabelGuards({', '.join(self.guards)}; confidence={self.confidence:g})"

    def __str__(self) -> str:
        tables = [f"{name}\n{one.table()}" for name, one in self.guards.items()]
        return "\n".join([repr(self), *tables, f"- {self.guarantees[0]}"])


def guard_labels(
    source: Any,
    calibration: Any,
    *,
    train: Any = None,
    detector: Fitted | None = None,
    confidence: float = 0.95,
    sets: float | None = 0.1,
    names: Sequence[str] | None = None,
    output: Output = None,
    layers: Any = None,
    pool: str = "mean",
    seed: int = 0,
    batch_size: int = 256,
    progress: bool | None = None,
    **options: Any,
) -> LabelGuards:
    """A guard for each label of a network with a logit for each of several labels.

    Each guard answers whether its label is there, or abstains. The risk of wrong answers is bounded
    for all labels at once: each is shown with the confidence 1 - (1 - confidence) / K. Of the
    prediction sets, at most the share `sets` of inputs has a label whose set misses: each label
    gets sets / K. Whether an input is OOD is decided once, by one detector for all labels.

    source: an `nn.Module`, or a model with the head `multilabel`; it is copied.
    calibration: inputs and labels `(N, K)` of 0 and 1, which the network was not trained on.
    train: training inputs; they fit the detector. Without them a part of the calibration data does.
    detector: as for `nescio.guard`, but none that reads classes; None: the nearest neighbors.
    confidence: the probability with which the calibration data must show the risks of all labels.
    sets: the largest share of inputs with a label whose prediction set misses; None gives no sets.
    names: names of the labels; None: their numbers.
    output: where the outputs are in what the network returns, as for `nescio.observe`.
    layers: the layers whose features are read, as for `nescio.observe`.
    pool: how maps and sequences become vectors, as for `nescio.observe`.
    seed: seed of the split of the calibration data.
    batch_size: number of samples that the networks read at a time.
    progress: whether to draw a progress bar; None: where stderr is a terminal.
    options: other options of `nescio.guard`, such as risk and false_alarm.
    """
    members = own_copies(members_of_labels(source), calibration)
    how: dict[str, Any] = {"output": output, "layers": layers, "pool": pool, "progress": progress}
    how |= {"batch_size": batch_size}
    samples, labels = _observed(members, calibration, how)
    titles = _names(names, samples.classes)
    labels = check_label_table(labels, samples.classes, (samples.samples,))
    base = None if train is None else _observed(members, train, how, labeled=False)[0]
    count = samples.samples
    if not options.get("repeats") and samples.hashes is not None:
        seen = known(base, source, (detector, options.get("failure")))
        new = unknown_to(samples.hashes, seen)
        samples, labels = samples[new], labels[new.to(labels.device)]
    dropped = count - samples.samples
    if base is None and not isinstance(detector, Detector):
        base, samples, labels = _apart(samples, labels, seed)
    fitted = fitted_detector(knn if detector is None else detector, base)
    options |= {"seed": seed, "batch_size": batch_size, "detector": fitted}
    options |= {"sets": None if sets is None else sets / len(titles)}
    each = 1 - (1 - confidence) / len(titles)
    nets = tuple(member.net for member in members)
    columns = [_both(name, labels[:, k]) for k, name in enumerate(titles)]
    found = {}
    for k, name in enumerate(titles):
        own = of_label(samples, k, columns[k])
        made = guard(None, own, train=base and of_label(base, k), confidence=each, **options)
        notes = {**made.notes, "label": name, "labels": len(titles), "joint": confidence}
        notes |= {"dropped": made.notes["dropped"] + dropped}
        found[name] = replace(made, nets=nets, head=binary(label=k), output=output, notes=notes)
    return LabelGuards(found, confidence)


def of_label(activations: Activations, number: int, labels: Tensor | None = None) -> Activations:
    """Activations of several labels as those of one: two classes, not there and there."""
    weight, bias = activations.weight, activations.bias
    head = binary(label=number)
    return replace(
        activations,
        logits=two_logits(activations.logits, label=number),
        labels=labels,
        weight=None if weight is None else two_logits(weight.mT, label=number).mT,
        bias=None if bias is None else two_logits(bias, label=number),
        answers=[_Label(one, head) for one in activations.answers],
        about={**activations.about, "head": {"name": "binary", "options": {"label": number}}},
    )


@dataclass(frozen=True, eq=False)
class _Label:
    """What a network answers, read for one label."""

    answer: Any
    head: Head

    def __call__(self, x: Any) -> Tensor:
        return self.head.logits(self.answer(x))


def _observed(
    members: Sequence[Member], data: Any, options: Mapping[str, Any], *, labeled: bool = True
) -> tuple[Activations, Any]:
    """Activations with the outputs as they are, and the labels."""
    x, y = door.read(data, name="calibration data" if labeled else "train", labels=labeled)
    raw = [replace(member, head=categorical()) for member in members]
    found = observe(raw, x, labels=False, inputs=True, **options)
    return found, None if y is None else as_tensor(y, "labels")


def _apart(
    samples: Activations, labels: Tensor, seed: int
) -> tuple[Activations, Activations, Tensor]:
    """A part of the calibration data for the detector, and the rest."""
    order = torch.randperm(samples.samples, generator=generator(seed, "label guards"))
    first = round(FITTING * samples.samples)
    fitting, rest = order[:first].sort().values, order[first:].sort().values
    return samples[fitting], samples[rest], labels[rest]


def _both(name: str, labels: Tensor) -> Tensor:
    """The values of one label, which the calibration data must have both of."""
    if len(labels.unique()) < 2:
        raise NescioError(
            f"the label {name} is {int(labels[0])} in all {len(labels)} calibration samples, which "
            "show nothing about it; give more samples, or leave the label out"
        )
    return labels


def _names(names: Sequence[str] | None, count: int) -> tuple[str, ...]:
    given = tuple(map(str, range(count))) if names is None else tuple(map(str, names))
    if len(given) != count or len({name.lower() for name in given}) != count:
        raise NescioError(f"{len(given)} names for {count} labels; one each, all different")
    for name in given:
        if not name.strip(".") or Path(name).name != name or "\\" in name:
            raise NescioError(f"a label is the name of its file; {name!r} cannot be one, rename it")
    return given
