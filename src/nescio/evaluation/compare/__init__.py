"""Predictors, detectors and functions on data they do not know, and on their errors."""

from nescio.evaluation.compare.compare import compare as compare
from nescio.evaluation.compare.comparison import Comparison as Comparison
from nescio.evaluation.compare.ood_inputs import Absent as Absent
from nescio.evaluation.compare.ood_inputs import AdversarialNoise as AdversarialNoise
from nescio.evaluation.compare.ood_inputs import AdversarialSamples as AdversarialSamples
