"""The audit of a regression: its sections and what they find."""

from nescio.evaluation.regression.interval_remedies import interval_remedies as interval_remedies
from nescio.evaluation.regression.regression_findings import BASELINE as BASELINE
from nescio.evaluation.regression.regression_findings import OWN_INTERVALS as OWN_INTERVALS
from nescio.evaluation.regression.regression_findings import IntervalQuality as IntervalQuality
from nescio.evaluation.regression.regression_findings import (
    RegressionFindings as RegressionFindings,
)
from nescio.evaluation.regression.regression_findings import (
    RegressionGuardFindings as RegressionGuardFindings,
)
from nescio.evaluation.regression.regression_findings import RegressionQuality as RegressionQuality
from nescio.evaluation.regression.regression_findings import RegressorFindings as RegressorFindings
from nescio.evaluation.regression.regression_findings import SpreadOnSet as SpreadOnSet
from nescio.evaluation.regression.regression_findings import SpreadRays as SpreadRays
