"""How good is it: audits, comparisons, curves under shift."""

from nescio.evaluation import under_shift as under_shift
from nescio.evaluation.audit.audit import Audit as Audit
from nescio.evaluation.audit.audit import audit as audit
from nescio.evaluation.compare import Comparison as Comparison
from nescio.evaluation.compare import DetectorComparison as DetectorComparison
from nescio.evaluation.compare import FailureComparison as FailureComparison
from nescio.evaluation.compare import compare as compare
from nescio.evaluation.compare import compare_detectors as compare_detectors
from nescio.evaluation.compare import compare_failures as compare_failures
from nescio.evaluation.leave_classes_out import LeftOut as LeftOut
from nescio.evaluation.leave_classes_out import leave_classes_out as leave_classes_out
