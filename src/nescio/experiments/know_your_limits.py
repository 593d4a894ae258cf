"""Ulmer and Cinà, "Know your limits" (2021): the half-moons world, whole and corrected."""

from nescio.experiments.experiment import Experiment, Part
from nescio.experiments.limits.accuracy import models
from nescio.experiments.limits.activations import activations
from nescio.experiments.limits.blobs import blobs
from nescio.experiments.limits.flow_chart import flow_chart
from nescio.experiments.limits.half_moons import surfaces
from nescio.experiments.limits.rays import rays
from nescio.experiments.limits.softmax import softmax
from nescio.registry import experiments


@experiments.register
def know_your_limits() -> Experiment:
    """Uncertainty of ReLU classifiers far from the data, on blobs and half-moons."""
    return Experiment(
        name="know-your-limits",
        title="Know your limits: uncertainty of ReLU classifiers far from the data",
        source="Ulmer and Cinà, Know Your Limits: Uncertainty Estimation with ReLU Classifiers "
        "Fails at Reliable OOD Detection, UAI 2021",
        needs="nothing (half-moons and blobs are drawn)",
        minutes=(1, 5),
        parts=(
            Part("blobs", "Nine blobs: entropy and its gradient (figures 1a, 1c)", blobs),
            Part("models", "Half-moons: accuracy of all models, with two budgets", models),
            Part("surfaces", "Half-moons: uncertainty over the plane (figures 3, 5, 6)", surfaces),
            Part("rays", "Measures along axis rays, to a million times the input", rays),
            Part("activations", "tanh and Swish beside ReLU", activations),
            Part("softmax", "Softmax of two logits (figure 4)", softmax),
            Part("flow-chart", "Which statements hold (figure 2)", flow_chart),
        ),
    )
