"""Watching a stream: drift of its scores and errors among its answers, at all times."""

from nescio.monitoring.accuracy_estimate import AccuracyEstimate as AccuracyEstimate
from nescio.monitoring.accuracy_estimate import estimated_accuracy as estimated_accuracy
from nescio.monitoring.label_budget import LabelBudget as LabelBudget
from nescio.monitoring.label_budget import label_budget as label_budget
from nescio.monitoring.label_budget import propensities as propensities
from nescio.monitoring.monitor import Merged as Merged
from nescio.monitoring.monitor import Monitor as Monitor
from nescio.monitoring.monitor import merge as merge
from nescio.monitoring.monitor import monitor as monitor
from nescio.monitoring.risk_bound import MergedRisk as MergedRisk
from nescio.monitoring.risk_bound import RiskMonitor as RiskMonitor
from nescio.monitoring.risk_bound import merge_risks as merge_risks
from nescio.monitoring.risk_bound import risk_monitor as risk_monitor
