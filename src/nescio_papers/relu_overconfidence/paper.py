"""Hein, Andriushchenko and Bitterwolf (2019): ReLU networks far away from the training data."""

from nescio.core import one_thread
from nescio.core.registry import experiments
from nescio_papers.kit import Experiment, Part
from nescio_papers.relu_overconfidence import acet_cost, far_field, figures, table_1, table_2
from nescio_papers.relu_overconfidence.blocks import BLOCKS
from nescio_papers.relu_overconfidence.figure_claims import figure_claims

PARTS = {
    "far-field": (
        "Scaled noise with exact factors, and far limits (table 2)",
        one_thread()(far_field.run),
    ),
    **{
        block.part: (f"Off the data: networks trained on {name} (table 1)", table_1.part_of(name))
        for name, block in BLOCKS.items()
    },
    "table-2": ("Scaled noise for the networks of table 1 (table 2)", table_2.run),
    "figures": (
        "Polytopes, adversarial noise and adversarial samples (figures 1 to 4)",
        figures.run,
    ),
    "acet-cost": ("What ACET costs", acet_cost.run),
}
JUDGES = {"figures": figure_claims}  # of parts that are judged from their numbers


@experiments.register
def relu_overconfidence() -> Experiment:
    """How confident ReLU networks are off the data and far away, and the remedies CEDA and ACET."""
    return Experiment(
        name="relu-overconfidence",
        title="Why ReLU networks are sure of themselves far away from the data",
        source="Hein, Andriushchenko and Bitterwolf, Why ReLU networks yield high-confidence "
        "predictions far away from the training data and how to mitigate the problem, CVPR 2019",
        needs="no extras; the parts on images need data sets: see `nescio data list`",
        minutes=(4, 240),
        parts=tuple(
            Part(name, title, run, judge=JUDGES.get(name)) for name, (title, run) in PARTS.items()
        ),
    )
