"""Failure prediction: which answers of a network are wrong? Scores, larger = less sure."""

from nescio.failing.comparison import FailureComparison as FailureComparison
from nescio.failing.comparison import compare as compare
from nescio.failing.confidnet import confidnet as confidnet
from nescio.failing.crossing import CrossFit as CrossFit
from nescio.failing.crossing import cross_fit as cross_fit
from nescio.failing.extra_score import extra_score as extra_score
from nescio.failing.extra_score import without_score as without_score
from nescio.failing.recommended import recommended as recommended
from nescio.failing.truth import log_odds_against as log_odds_against
from nescio.failing.truth import true_class_probability as true_class_probability
