"""Hein, Andriushchenko and Bitterwolf (2019): ReLU networks far away from the training data."""

from functools import partial

from nescio.core import one_thread
from nescio.core.registry import experiments
from nescio_papers.kit import Experiment, Part, deferred
from nescio_papers.relu_overconfidence.blocks import BLOCKS

TABLE_1 = tuple(block.part for block in BLOCKS.values())
PARTS = (
    Part(
        "far-field",
        "Scaled noise with exact factors, and far limits (table 2)",
        one_thread()(deferred(__name__, "far_field:run")),
        deferred(__name__, "far_field_claims:claims_of"),
    ),
    *(
        Part(
            block.part,
            f"Off the data: networks trained on {name} (table 1)",
            partial(deferred(__name__, "table_1:run"), name),
            deferred(__name__, "table_1_claims:claims_of"),
        )
        for name, block in BLOCKS.items()
    ),
    Part(
        "table-2",
        "Scaled noise for the networks of table 1 (table 2)",
        deferred(__name__, "table_2:run"),
        deferred(__name__, "table_2_claims:claims_of"),
        TABLE_1,
    ),
    Part(
        "figures",
        "Polytopes, adversarial noise and adversarial samples (figures 1 to 4)",
        deferred(__name__, "figures:run"),
        deferred(__name__, "figure_claims:figure_claims"),
        TABLE_1,
    ),
    Part(
        "acet-cost",
        "What ACET costs",
        deferred(__name__, "acet_cost:run"),
        deferred(__name__, "acet_cost:claims_of"),
    ),
)


@experiments.register
def relu_overconfidence() -> Experiment:
    """How confident ReLU networks are off the data and far away, and the remedies CEDA and ACET."""
    return Experiment(
        name="relu-overconfidence",
        title="Why ReLU networks are sure of themselves far away from the data",
        source="Hein, Andriushchenko and Bitterwolf, Why ReLU networks yield high-confidence "
        "predictions far away from the training data and how to mitigate the problem, CVPR 2019",
        needs="no extras; the parts on images need data sets: see `nescio data list`",
        parts=PARTS,
    )
