"""An audit of arrays: what a network gave that runs elsewhere, whose inputs are not there."""

from collections.abc import Mapping
from typing import Any

from torch import Tensor

from nescio.core import Inputs, NescioError
from nescio.detectors import Activations, as_recorded, read_back, recorded_model, recorded_nets
from nescio.evaluation.audit.ood_section import NO_RANGE, has_range
from nescio.models import Predictor

NO_INPUTS = "only what the network gave is known, neither its inputs nor the network itself"


def from_arrays(data: Any, others: Mapping[str, Any]) -> tuple[Any, Any, dict[str, Any]]:
    """A stand-in for the network, and its data: the columns of the arrays are its inputs.

    others: training, validation and OOD data.
    """
    test = as_recorded(data, "test data")
    if test.labels is None:
        raise NescioError(
            "the test data must have labels: nescio.recorded(..., labels=y), --labels"
        )
    found: dict[str, Any] = {"train": None, "validation": None}
    for part, name in (("train", "training data"), ("validation", "validation data")):
        if (given := others[part]) is not None:
            own = as_recorded(given, name, test)
            found[part] = own.inputs if own.labels is None else (own.inputs, own.labels)
    ood = others["ood"]
    if ood is not None and not isinstance(ood, Mapping):
        raise NescioError('OOD data come by name: ood={"letters": nescio.recorded(z)}')
    rows = {n: as_recorded(one, f"OOD data {n!r}", test).inputs for n, one in (ood or {}).items()}
    return recorded_model(test), (test.inputs, test.labels), {**found, "ood": rows or None}


def unmoved(x: Inputs, predictors: Mapping[str, Predictor]) -> str | None:
    """Why inputs cannot be moved, by noise, attacks and along rays; None: they can be."""
    if any(recorded_nets(one) for one in predictors.values()):
        return NO_INPUTS
    return None if has_range(x) else NO_RANGE


def arrays_of(predictor: Predictor, x: Any) -> Tensor | None:
    """The features in the columns of arrays `(N, F)`; None: these are inputs of a network."""
    nets = recorded_nets(predictor)
    if not nets or x is None:
        return None
    found: Activations = read_back(nets, x)
    return found.features[found.layer()].transpose(0, 1).flatten(1)
