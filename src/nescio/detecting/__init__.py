"""Detectors and predictors' measures on data that a network does not know, in one table."""

from nescio.detecting.comparison import DetectorComparison as DetectorComparison
from nescio.detecting.left_out import LeftOut as LeftOut
from nescio.detecting.left_out import leave_classes_out as leave_classes_out
from nescio.detecting.measuring import compare_detectors as compare_detectors
