"""Watching a stream of scores for drift, with few false alarms however long it runs."""

from nescio.monitoring.monitor import Merged as Merged
from nescio.monitoring.monitor import Monitor as Monitor
from nescio.monitoring.monitor import merge as merge
from nescio.monitoring.monitor import monitor as monitor
