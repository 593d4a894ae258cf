"""Regression on UCI tables: the standard splits of probabilistic regression."""

from nescio.core.registry import experiments
from nescio_papers.kit import Experiment, Part
from nescio_papers.uci import overview
from nescio_papers.uci.judging_tables import overview_claims
from nescio_papers.uci.one_table import part
from nescio_papers.uci.tables import TABLES


@experiments.register
def uci() -> Experiment:
    """Deep ensembles, MC dropout, evidential regression and others on UCI tables."""
    tables = (Part(name, own.title, part(name)) for name, own in TABLES.items())
    return Experiment(
        name="uci",
        title="Regression on UCI tables: deep ensembles, MC dropout, evidential regression",
        source="Lakshminarayanan, Pritzel and Blundell (2017), table 1, with the splits of "
        "Hernandez-Lobato and Adams (2015) and Gal and Ghahramani (2016); Pearce et al. (2020), "
        "Amini et al. (2020)",
        needs="the UCI tables: see `nescio data list`; a table that is absent is left out",
        parts=(
            *tables,
            Part("overview", "Beside the published table", overview.run, judge=overview_claims),
        ),
    )
