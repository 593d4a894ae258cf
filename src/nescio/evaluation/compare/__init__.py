"""Predictors and detectors on data they do not know, in one table."""

from nescio.evaluation.compare.compare_detectors import compare_detectors as compare_detectors
from nescio.evaluation.compare.compare_predictors import compare as compare
from nescio.evaluation.compare.detector_comparison import DetectorComparison as DetectorComparison
from nescio.evaluation.compare.failure_comparison import FailureComparison as FailureComparison
from nescio.evaluation.compare.failure_comparison import compare_failures as compare_failures
from nescio.evaluation.compare.ood_inputs import Absent as Absent
from nescio.evaluation.compare.ood_inputs import AdversarialNoise as AdversarialNoise
from nescio.evaluation.compare.ood_inputs import AdversarialSamples as AdversarialSamples
from nescio.evaluation.compare.predictor_comparison import Comparison as Comparison
from nescio.evaluation.leave_classes_out import LeftOut as LeftOut
from nescio.evaluation.leave_classes_out import leave_classes_out as leave_classes_out
