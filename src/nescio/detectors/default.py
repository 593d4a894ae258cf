"""The detector of a guard for which none was named: chosen on the network, without OOD data.

Candidates read the logits, the layer before the last, an early and a middle layer that keep some
position, and of tables the inputs. Training samples that fit none of them give p-values, and
outliers made from these samples show what a combination of p-values finds: three candidates are
taken, and more as long as the mean AUROC grows.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from nescio.core import Inputs, NescioError, generator
from nescio.data import ood
from nescio.detectors.activations import Activations
from nescio.detectors.combined import CALIBRATED, calibrated, combined, surprise
from nescio.detectors.detector import CHOSEN, Detector
from nescio.detectors.gower import as_encoded, gower
from nescio.detectors.knn import knn
from nescio.detectors.last_layer import vim
from nescio.detectors.mahalanobis import mahalanobis, relative_mahalanobis
from nescio.detectors.observe.layers import GRID as GRID
from nescio.detectors.observe.layers import Call, last_linear
from nescio.detectors.observe.network import Network
from nescio.detectors.simple import energy, generalized_entropy
from nescio.metrics import auroc
from nescio.nets import Output, is_scripted

HELD, ENOUGH = 0.2, 1000  # share of the training samples that give p-values, and their most
OUTLIERS = 200  # of each kind, and at most as many as there are samples to make them from
MOST = 50_000  # training samples that candidates are fitted on, at most; 5,000 lost .001 of AUROC
BANK = 10_000  # features that neighbors are searched among, at most
ROWS, COLUMNS = 5_000, 200  # of a table that Gower's coefficient compares with; its columns at most
FEWEST, PARTS = 3, 5  # candidates that are combined
LOSS, GAIN = 0.01, 0.002  # of the mean AUROC: what one of the fewest may cost, and a further adds
TABLE = ("gower", "inputs")  # the candidate that a table always has
WEIGHTED = (nn.Linear, nn.Conv1d, nn.Conv2d, nn.Conv3d)
BENDS = (nn.ReLU, nn.LeakyReLU, nn.GELU, nn.SiLU, nn.ELU, nn.Tanh, nn.Sigmoid, nn.Softplus)

See = Callable[[Tensor], Activations]  # inputs to what the networks give for them
Build = Callable[[], Detector]


@torch.no_grad()
def watched_layers(
    net: nn.Module, x: Inputs, *, pool: Any = GRID, output: Output = None
) -> list[str | None]:
    """An early and a middle layer that can be pooled, and what enters the last linear layer."""
    if is_scripted(net):
        return []  # no layer can be reached: detectors of logits remain
    _, calls = Network(net).traced(x[:2])
    places = list(_bends([call for call in calls if call.leaf], last_linear(calls)))
    wanted = list(dict.fromkeys([*places[:1], *places[len(places) // 2 : len(places) // 2 + 1]]))
    found: list[str | None] = []
    for name in wanted if len(places) > 2 else wanted[:1]:
        try:
            Network(net, output, pool, [name])(x[:2])
        except NescioError:  # sequences, whose features are not pooled like maps
            continue
        found.append(name)
    return [*found, None]


def _bends(calls: Sequence[Call], last: str | None) -> Iterator[str]:
    """Each layer with weights but the last, after its bend if that follows."""
    for at, call in enumerate(calls):
        if not issubclass(call.kind, WEIGHTED) or call.name == last:
            continue
        found = call.name
        for after in calls[at + 1 :]:
            if issubclass(after.kind, WEIGHTED):
                break
            if issubclass(after.kind, BENDS):
                found = after.name
                break
        yield found


def default_detector(train: Activations, see: See | None = None) -> Detector:
    """The combination of candidates that finds the outliers made from training samples best.

    see: runs the networks on the outliers; None, or inputs that are not one array of real numbers:
    nothing is chosen, and a fixed combination is used.
    """
    train.layer()  # where there are no features, it says what to do
    held, train = _held(train)
    if train.regression:
        train = replace(train, labels=None)
    elif not is_labeled(train):  # the network's own labels will do
        train = replace(train, labels=train.mean().logits[0].argmax(1))
    fits = _candidates(train)
    outliers = {} if see is None else _outliers(held, see)
    if not outliers:
        early = next(iter(train.features))
        fixed = [("mahalanobis", early), ("knn", train.layer()), ("relative", train.layer())]
        names = [name for name in dict.fromkeys(fixed) if name in fits]
        return combined([fits[name]() for name in names], held)
    return _chosen({name: scored(build, held, outliers) for name, build in fits.items()}, held)


def _held(train: Activations) -> tuple[Activations, Activations]:
    """Samples that give p-values, and those that fit the candidates."""
    order = torch.randperm(train.samples, generator=generator(0, "p-values"))
    count = min(ENOUGH, round(HELD * train.samples))
    parts = order[:count], order[count : count + MOST]
    held, rest = (train[rows.sort().values] for rows in parts)
    return held, rest


def _outliers(held: Activations, see: See) -> dict[str, Activations]:
    """What the networks give for outliers, by kind; none of tokens and of several inputs."""
    x = held.inputs
    if not isinstance(x, Tensor) or not (x.is_floating_point() or x.dtype == torch.uint8):
        return {}
    made = ood.from_inputs(x, min(OUTLIERS, len(x)))
    if layout := held.about.get("columns"):  # candidates read rows as the encoding gives them
        made = {name: as_encoded(rows, layout) for name, rows in made.items()}
    return {name: see(rows) for name, rows in made.items()}


Name = tuple[str, str]  # what it is, and the layer that it reads


def _candidates(train: Activations) -> dict[Name, Build]:
    """The candidates by name, not yet fitted."""
    bank = some(train, BANK)
    fits: dict[Name, Build] = {}
    if not train.regression:
        fits = {("energy", "logits"): energy, ("entropy", "logits"): generalized_entropy}
    for layer in train.features:
        fits |= {
            ("knn", layer): partial(knn, bank, k=1, layer=layer),
            ("distance", layer): partial(knn, bank, k=1, layer=layer, normalize=False),
            ("mahalanobis", layer): partial(mahalanobis, train, layers=layer),
        }
        if not train.regression:
            fits["relative", layer] = partial(relative_mahalanobis, train, layer=layer)
    if train.weight is not None:
        fits["vim", train.layer()] = partial(vim, train)
    x = train.inputs
    if isinstance(x, Tensor) and x.ndim == 2 and x.is_floating_point() and x.shape[1] <= COLUMNS:
        fits[TABLE] = partial(gower, train, unseen=1.0, bank=ROWS)
    return fits


@dataclass(frozen=True, eq=False)
class Scored:
    """A fitted candidate, and -log p of what it gave: the mean over the networks, `(N,)` each."""

    detector: Detector
    held: Tensor
    outliers: Mapping[str, Tensor]


def scored(build: Build, held: Activations, outliers: Mapping[str, Activations]) -> Scored | None:
    """A candidate that is fitted and tried; none where it does not suit the network."""
    try:
        detector = build()
        own = detector.each(held)
        states = [calibrated(values, detector.name) for values in own]
        found = {name: _logs(detector.each(rows), states) for name, rows in outliers.items()}
    except NescioError:
        return None
    return Scored(detector, _logs(own, states), found)


def _logs(each: Tensor, states: Sequence[Mapping[str, Tensor]]) -> Tensor:
    rows = [surprise(v, *(s[n] for n in CALIBRATED)) for v, s in zip(each, states, strict=True)]
    return torch.stack(rows).mean(0)


def _chosen(found: Mapping[Name, Scored | None], held: Activations) -> Detector:
    """The candidates that are best together, by Fisher's rule; `about` records how good."""
    fits = {name: one for name, one in found.items() if one is not None}
    alone = {name: _areas([one]) for name, one in fits.items()}
    names = [TABLE] if TABLE in fits else []
    best = _mean(alone[TABLE]) if names else 0.0
    while len(names) < min(PARTS, len(fits)):
        left = [name for name in fits if name not in names]
        means = {n: _mean(_areas([fits[m] for m in (*names, n)])) for n in left}
        first = max(means, key=lambda n: means[n])
        if means[first] < best + (GAIN if len(names) >= FEWEST else -LOSS):
            break
        names.append(first)
        best = means[first]
    result = combined([fits[name].detector for name in names], held)
    record = {
        "parts": [" of ".join(name) for name in names],
        "auroc": _areas([fits[name] for name in names]),
        "alone": {" of ".join(name): _mean(areas) for name, areas in alone.items()},
        "samples": [held.samples, min(OUTLIERS, held.samples)],
    }
    return replace(result, about={**result.about, CHOSEN: record})


def _areas(parts: Sequence[Scored]) -> dict[str, float]:
    """The AUROC of the sum of -log p for each kind of outliers."""
    held = torch.stack([part.held for part in parts]).sum(0)
    kinds = parts[0].outliers
    sums = {name: torch.stack([part.outliers[name] for part in parts]).sum(0) for name in kinds}
    return {name: float(auroc(held, total)) for name, total in sums.items()}


def _mean(areas: Mapping[str, float]) -> float:
    return sum(areas.values()) / len(areas)


def is_labeled(train: Activations) -> bool:
    """Whether classes are known."""
    return train.labels is not None and not train.labels.is_floating_point()


def some(train: Activations, most: int) -> Activations:
    """A random subset of the inputs, among which neighbors are searched."""
    if train.samples <= most:
        return train
    order = torch.randperm(train.samples, generator=generator(0, "bank"))
    return train[order[:most].sort().values]
