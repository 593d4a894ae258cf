"""The papers behind nescio: every figure and table of one from one command; a folder per paper."""

from nescio_papers import data as data
from nescio_papers.deep_ensembles.paper import deep_ensembles as deep_ensembles
from nescio_papers.kit import Claim as Claim
from nescio_papers.kit import Comparison as Comparison
from nescio_papers.kit import Experiment as Experiment
from nescio_papers.kit import Findings as Findings
from nescio_papers.kit import Part as Part
from nescio_papers.kit import Settings as Settings
from nescio_papers.kit import listing as listing
from nescio_papers.kit import named as named
from nescio_papers.kit import run_experiment as run_experiment
from nescio_papers.know_your_limits.paper import know_your_limits as know_your_limits
from nescio_papers.know_your_limits_search.paper import (
    know_your_limits_search as know_your_limits_search,
)
from nescio_papers.relu_overconfidence.paper import relu_overconfidence as relu_overconfidence
from nescio_papers.robust_deep_learning.paper import robust_deep_learning as robust_deep_learning
from nescio_papers.uci.paper import uci as uci
