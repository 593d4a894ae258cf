"""How good is it: audits, comparisons, curves under shift."""

from nescio.evaluation.audit.audit import Audit as Audit
from nescio.evaluation.audit.audit import audit as audit
from nescio.evaluation.audit.findings import Findings as Findings
from nescio.evaluation.compare import Absent as Absent
from nescio.evaluation.compare import AdversarialNoise as AdversarialNoise
from nescio.evaluation.compare import AdversarialSamples as AdversarialSamples
from nescio.evaluation.compare import Comparison as Comparison
from nescio.evaluation.compare import compare as compare
from nescio.evaluation.label_audit import LabelAudit as LabelAudit
from nescio.evaluation.label_audit import audit_labels as audit_labels
from nescio.evaluation.label_audit import label_quality as label_quality
from nescio.evaluation.leave_classes_out import leave_classes_out as leave_classes_out
from nescio.evaluation.regression import OWN_INTERVALS as OWN_INTERVALS
from nescio.evaluation.regression import IntervalQuality as IntervalQuality
from nescio.evaluation.regression import RegressionFindings as RegressionFindings
from nescio.evaluation.regression import RegressionGuardFindings as RegressionGuardFindings
from nescio.evaluation.regression import RegressionQuality as RegressionQuality
from nescio.evaluation.regression import RegressorFindings as RegressorFindings
from nescio.evaluation.regression import SpreadOnSet as SpreadOnSet
from nescio.evaluation.regression import SpreadRays as SpreadRays
from nescio.evaluation.under_shift import ShiftCurves as ShiftCurves
from nescio.evaluation.under_shift import accuracy_above as accuracy_above
from nescio.evaluation.under_shift import entropies as entropies
from nescio.evaluation.under_shift import under_shift as under_shift
