"""The hyper-parameter search of Ulmer and Cinà (2021), appendix B."""

from nescio.core.registry import experiments
from nescio_papers.kit import Experiment, Part, deferred


@experiments.register
def know_your_limits_search() -> Experiment:
    """The hyper-parameter search on half-moons, with Bayes-by-backprop."""
    return Experiment(
        name="know-your-limits-search",
        title="Hyper-parameters for half-moons: up to 200 evaluations per model",
        source="Ulmer and Cinà (2021), Know your limits, appendix B",
        needs="Optuna: pip install nescio[search]",
        parts=(
            Part(
                "search",
                "Random search over table 2, beside table 1",
                deferred(__name__, "hyper_parameters:search"),
                judge=deferred(__name__, "hyper_parameters:judge"),
            ),
        ),
    )
