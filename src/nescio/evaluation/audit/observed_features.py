"""Features of test and training samples in one space, for sections that look at neighbors."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from nescio.core import Inputs, NescioError, generator
from nescio.detectors.observe import observe
from nescio.evaluation.near_duplicates import comparable_rows
from nescio.models import networks

if TYPE_CHECKING:
    from nescio.evaluation.audit.sections import Material

TRAINING = {"quick": 2_000, "standard": 10_000, "thorough": 50_000}  # samples, at most


@dataclass(frozen=True, eq=False, kw_only=True)
class ObservedFeatures:
    """Features `(n, F)` of some training samples, and of other samples where they are asked for.

    rows: which training samples. read: features of inputs. space: what they are, in words.
    """

    given: Tensor | None = None  # (N, F) of the test samples, where these came as features
    x: Any = None  # the test inputs
    train: Tensor | None
    rows: Tensor
    read: Callable[[Any], Tensor] | None = None
    space: str

    def of(self, rows: Tensor) -> Tensor:
        """Features of some test samples, by their row numbers."""
        if self.given is not None:
            return self.given[rows]
        assert self.read is not None
        return self.read(self.x[rows])


def observed_features(material: "Material") -> ObservedFeatures:
    """The features as given, of the first network, or else the inputs as comparable rows."""
    known = 0 if material.train is None else len(material.train[0])
    if material.features is not None:
        known = 0 if material.train_features is None else len(material.train_features)
    most = min(TRAINING[material.budget], material.draws.training)
    rows = _some(known, most, material.seed)
    if material.features is not None:
        train = None if material.train_features is None else material.train_features[rows]
        given = material.features
        return ObservedFeatures(given=given, train=train, rows=rows, space="the features given")
    x = material.inputs()
    inputs = None if material.train is None else material.train[0][rows]
    try:
        return _of_network(material.predictor, x, inputs, rows)
    except NescioError:  # a network without such a layer: the inputs themselves
        read = _reader_of_inputs(x if inputs is None else inputs)
        train = None if inputs is None else read(inputs)
        return ObservedFeatures(x=x, train=train, rows=rows, read=read, space="the inputs")


def _some(known: int, most: int, seed: int) -> Tensor:
    if known <= most:
        return torch.arange(known)
    order = torch.randperm(known, generator=generator(seed, "training features"))
    return order[:most].sort().values


def _of_network(predictor: Any, x: Inputs, train: Inputs | None, rows: Tensor) -> ObservedFeatures:
    """Features of the layer before the last linear one, of the first network."""
    if predictor is None or not callable(getattr(predictor, "networks", None)):
        raise NescioError("the predictor shows no networks")
    member = networks(predictor)[0]

    def read(inputs: Any) -> Tensor:
        found = observe(member, inputs, labels=False, progress=False)
        return found.features[found.layer(None)][0].float().cpu()

    name = observe(member, x[:2], labels=False, progress=False).layer(None)
    return ObservedFeatures(
        x=x,
        train=None if train is None else read(train),
        rows=rows,
        read=read,
        space=f"the features of the network ({name})",
    )


def _reader_of_inputs(like: Inputs) -> Callable[[Any], Tensor]:
    return lambda inputs: comparable_rows(inputs, like)
