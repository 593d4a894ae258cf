"""The deep-ensembles practical: its toy worlds, whole, as they were and corrected."""

from collections.abc import Callable

from nescio.experiments.experiment import Done, Experiment, Findings, Part, Settings
from nescio.experiments.practical import (
    adversarial,
    density,
    diversity,
    members,
    regions,
    regression,
    spiral,
)
from nescio.experiments.practical.worlds import one_thread
from nescio.registry import experiments

PARTS = {
    "regression": ("The cubic by six networks, faithful and corrected", regression.run),
    "spiral": ("The spiral by four networks, faithful and corrected", spiral.run),
    "adversarial": ("What adversarial training changes", adversarial.run),
    "density": ("Laplace against Gaussian density", density.run),
    "members": ("How many members", members.run),
    "diversity": ("What makes members differ", diversity.run),
    "regions": ("Uncertainty by region of the spiral's world", regions.run),
}


def _part(name: str, title: str, run: Callable[[Settings, Done], Findings]) -> Part:
    """A part on one thread: the same bits on any machine, and small networks gain from no more."""

    def alone(settings: Settings, done: Done) -> Findings:
        with one_thread():
            return run(settings, done)

    return Part(name, title, alone)


@experiments.register
def deep_ensembles() -> Experiment:
    """The toy regression and spiral of the deep-ensembles practical, and its questions answered."""
    return Experiment(
        "deep-ensembles",
        "Deep ensembles on toy data",
        "Uncertainty Estimation Practical, part I, on Lakshminarayanan et al. (2017)",
        "no data, no extras",
        (0.8, 4),
        tuple(_part(name, *rest) for name, rest in PARTS.items()),
    )
