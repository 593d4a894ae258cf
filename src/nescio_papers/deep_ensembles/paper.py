"""The deep-ensembles practical: its toy worlds, whole, as they were and corrected."""

from nescio.core import one_thread
from nescio.core.registry import experiments
from nescio_papers.kit import Experiment, Part, deferred

PARTS = {
    "regression": ("The cubic by six networks, faithful and corrected", "regression:run"),
    "spiral": ("The spiral by four networks, faithful and corrected", "spiral:run"),
    "adversarial": ("What adversarial training changes", "adversarial:run"),
    "density": ("Laplace against Gaussian density", "density:run"),
    "members": ("How many members", "members:run"),
    "diversity": ("What makes members differ", "diversity:run"),
    "regions": ("Uncertainty by region of the spiral's world", "regions:run"),
}


@experiments.register
def deep_ensembles() -> Experiment:
    """The toy regression and spiral of the deep-ensembles practical, and its questions answered."""
    return Experiment(
        name="deep-ensembles",
        title="Deep ensembles on toy data",
        source="Uncertainty Estimation Practical, part I, on Lakshminarayanan et al. (2017)",
        needs="no data, no extras",
        parts=tuple(
            Part(name, title, one_thread()(deferred(__name__, run)))
            for name, (title, run) in PARTS.items()
        ),
        unpublished=("adversarial", "density", "members", "diversity", "regions"),
    )
