"""Test samples of an audit whose labels are likely wrong."""

from typing import Any

from nescio.core import NescioError
from nescio.evaluation.audit.sections import Material, section
from nescio.evaluation.label_errors import LabelErrors, find_label_errors


@section("label errors", title="Labels that are likely wrong", place=37)
def likely_label_errors(material: Material) -> LabelErrors:
    """Test samples whose labels the network, and their neighbors, speak against."""
    labels = None if material.train is None else material.train[1]
    known: dict[str, Any] = {}
    if labels is not None:
        try:
            observed = material.observed
            known = {
                "features": observed.of,
                "train_features": observed.train,
                "train_labels": labels[observed.rows],
            }
        except NescioError:  # no features: the network alone judges
            known = {}
    log_probs = material.answers().log_probs
    return find_label_errors(log_probs, material.y, **known, seed=material.seed)
