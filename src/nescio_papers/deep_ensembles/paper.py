"""The deep-ensembles practical: its toy worlds, whole, as they were and corrected."""

from nescio.core.registry import experiments
from nescio_papers.kit import Experiment, deferred_parts

PARTS = {
    "regression": ("The cubic by six networks, faithful and corrected", "regression:run"),
    "spiral": ("The spiral by four networks, faithful and corrected", "spiral:run"),
    "adversarial": ("What adversarial training changes", "adversarial:run"),
    "density": ("Laplace against Gaussian density", "density:run"),
    "members": ("How many members", "members:run"),
    "diversity": ("What makes members differ", "diversity:run"),
    "regions": ("Uncertainty by region of the spiral's world", "regions:run"),
}
JUDGES = {"spiral": "spiral:judge", "diversity": "diversity:judge"}


@experiments.register
def deep_ensembles() -> Experiment:
    """The toy regression and spiral of the deep-ensembles practical, and its questions answered."""
    return Experiment(
        name="deep-ensembles",
        title="Deep ensembles on toy data",
        source="Uncertainty Estimation Practical, part I, on Lakshminarayanan et al. (2017)",
        needs="no data, no extras",
        parts=deferred_parts(__name__, PARTS, JUDGES, single_thread=True),
        unpublished=("adversarial", "density", "members", "diversity", "regions"),
    )
