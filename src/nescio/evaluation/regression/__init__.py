"""The audit of a regression: its sections and what they find."""

from nescio.evaluation.regression.regression_findings import (
    RegressionFindings as RegressionFindings,
)
