"""Regression on UCI tables: the standard splits of probabilistic regression."""

from functools import partial

from nescio.core.registry import experiments
from nescio_papers.kit import Experiment, Part, deferred
from nescio_papers.uci.tables import TABLES


@experiments.register
def uci() -> Experiment:
    """Deep ensembles, MC dropout, evidential regression and others on UCI tables."""
    table = deferred(__name__, "one_table:run")
    tables = (Part(name, own.title, partial(table, name)) for name, own in TABLES.items())
    return Experiment(
        name="uci",
        title="Regression on UCI tables: deep ensembles, MC dropout, evidential regression",
        source="Lakshminarayanan, Pritzel and Blundell (2017), table 1, with the splits of "
        "Hernandez-Lobato and Adams (2015) and Gal and Ghahramani (2016); Pearce et al. (2020), "
        "Amini et al. (2020)",
        needs="the UCI tables: see `nescio data list`; a table that is absent is left out",
        parts=(
            *tables,
            Part(
                "overview",
                "Beside the published table",
                deferred(__name__, "overview:run"),
                judge=deferred(__name__, "judging_tables:overview_claims"),
            ),
        ),
    )
