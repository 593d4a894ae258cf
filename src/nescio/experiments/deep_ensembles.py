"""The deep-ensembles practical: its toy worlds, whole, as they were and corrected."""

from nescio.experiments.experiment import Experiment, Part
from nescio.experiments.practical import (
    adversarial,
    density,
    diversity,
    members,
    regions,
    regression,
    spiral,
)
from nescio.registry import experiments

PARTS = (
    Part("regression", "The cubic by six networks, faithful and corrected", regression.run),
    Part("spiral", "The spiral by four networks, faithful and corrected", spiral.run),
    Part("adversarial", "What adversarial training changes", adversarial.run),
    Part("density", "Laplace against Gaussian density", density.run),
    Part("members", "How many members", members.run),
    Part("diversity", "What makes members differ", diversity.run),
    Part("regions", "Uncertainty by region of the spiral's world", regions.run),
)


@experiments.register
def deep_ensembles() -> Experiment:
    """The toy regression and spiral of the deep-ensembles practical, and its questions answered."""
    return Experiment(
        "deep-ensembles",
        "Deep ensembles on toy data",
        "Uncertainty Estimation Practical, part I, on Lakshminarayanan et al. (2017)",
        "no data, no extras",
        (0.7, 4),
        PARTS,
    )
