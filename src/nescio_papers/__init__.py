"""Experiments: every figure and table of a paper from one command; one file a paper."""

from nescio_papers.deep_ensembles.paper import deep_ensembles as deep_ensembles
from nescio_papers.kit.experiment import Claim as Claim
from nescio_papers.kit.experiment import Comparison as Comparison
from nescio_papers.kit.experiment import Experiment as Experiment
from nescio_papers.kit.experiment import Findings as Findings
from nescio_papers.kit.experiment import Part as Part
from nescio_papers.kit.experiment import Settings as Settings
from nescio_papers.kit.experiment import run_experiment as run_experiment
from nescio_papers.kit.listing import listing as listing
from nescio_papers.kit.listing import named as named
from nescio_papers.know_your_limits.paper import know_your_limits as know_your_limits
from nescio_papers.know_your_limits_search.paper import (
    know_your_limits_search as know_your_limits_search,
)
from nescio_papers.relu_overconfidence.paper import relu_overconfidence as relu_overconfidence
from nescio_papers.robust_deep_learning.paper import robust_deep_learning as robust_deep_learning
