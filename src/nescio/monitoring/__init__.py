"""Watching a stream of scores for drift, with few false alarms however long it runs."""

from nescio.monitoring.martingale import Monitor as Monitor
from nescio.monitoring.martingale import load as load
from nescio.monitoring.martingale import monitor as monitor
from nescio.monitoring.merging import Merged as Merged
from nescio.monitoring.merging import merge as merge
