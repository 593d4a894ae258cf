"""Hein, Andriushchenko and Bitterwolf (2019): ReLU networks far away from the training data."""

from nescio.experiments.experiment import Experiment, Part
from nescio.experiments.overconfidence import far_field
from nescio.registry import experiments
from nescio.threads import one_thread

PARTS = {
    "far-field": ("Scaled noise with exact factors, and far limits (table 2)", far_field.run),
}


@experiments.register
def relu_overconfidence() -> Experiment:
    """How sure ReLU networks are far away from the data, by exact factors and limits."""
    return Experiment(
        "relu-overconfidence",
        "Why ReLU networks are sure of themselves far away from the data",
        "Hein, Andriushchenko and Bitterwolf, Why ReLU networks yield high-confidence predictions "
        "far away from the training data and how to mitigate the problem, CVPR 2019",
        "no extras; MNIST too where NESCIO_DATA names a folder that holds it",
        (0.3, 4),
        tuple(Part(name, title, one_thread()(run)) for name, (title, run) in PARTS.items()),
    )
