"""Experiments: every figure and table of a paper from one command; one file a paper."""

from nescio.experiments.deep_ensembles import deep_ensembles as deep_ensembles
from nescio.experiments.experiment import Claim as Claim
from nescio.experiments.experiment import Comparison as Comparison
from nescio.experiments.experiment import Experiment as Experiment
from nescio.experiments.experiment import Findings as Findings
from nescio.experiments.experiment import Part as Part
from nescio.experiments.experiment import Settings as Settings
from nescio.experiments.experiment import run_experiment as run_experiment
from nescio.experiments.know_your_limits import know_your_limits as know_your_limits
from nescio.experiments.listing import listing as listing
from nescio.experiments.listing import named as named
from nescio.experiments.relu_overconfidence import relu_overconfidence as relu_overconfidence
from nescio.experiments.robust_deep_learning import robust_deep_learning as robust_deep_learning
from nescio.experiments.search import know_your_limits_search as know_your_limits_search
