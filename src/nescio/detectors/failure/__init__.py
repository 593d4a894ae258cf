"""Failure prediction: which answers of a network are wrong? Scores, larger = less sure."""

from nescio.detectors.failure.confidnet import confidnet as confidnet
from nescio.detectors.failure.outputs import extra_score as extra_score
from nescio.detectors.failure.outputs import log_odds_against as log_odds_against
from nescio.detectors.failure.outputs import true_class_probability as true_class_probability
from nescio.detectors.failure.outputs import without_score as without_score
from nescio.detectors.failure.recommended import CrossFit as CrossFit
from nescio.detectors.failure.recommended import cross_fit as cross_fit
from nescio.detectors.failure.recommended import recommended as recommended
