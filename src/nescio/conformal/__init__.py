"""Prediction sets and intervals with a guarantee for finite samples: split conformal prediction."""

from nescio.conformal.coverage import Coverage as Coverage
from nescio.conformal.coverage import IntervalCoverage as IntervalCoverage
from nescio.conformal.coverage import binomial_interval as binomial_interval
from nescio.conformal.coverage import coverage as coverage
from nescio.conformal.coverage import interval_coverage as interval_coverage
from nescio.conformal.label_sets import label_sets as label_sets
from nescio.conformal.narrowest import narrowest as narrowest
from nescio.conformal.prediction_intervals import Intervals as Intervals
from nescio.conformal.prediction_intervals import normalized as normalized
from nescio.conformal.prediction_intervals import quantile as quantile
from nescio.conformal.prediction_intervals import residual as residual
from nescio.conformal.prediction_intervals import spread as spread
from nescio.conformal.risk_control import RiskControl as RiskControl
from nescio.conformal.risk_control import control_risk as control_risk
from nescio.conformal.risk_control import fewest_images as fewest_images
from nescio.conformal.score_limits import check_groups as check_groups
from nescio.conformal.score_limits import coverage_law as coverage_law
from nescio.conformal.score_limits import needed as needed
from nescio.conformal.score_limits import p_values as p_values
from nescio.conformal.sets import Sets as Sets
from nescio.conformal.sets import adaptive as adaptive
from nescio.conformal.sets import regularized_adaptive as regularized_adaptive
from nescio.conformal.sets import threshold as threshold
from nescio.metrics import benjamini_hochberg as benjamini_hochberg
