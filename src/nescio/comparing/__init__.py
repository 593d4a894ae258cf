"""Predictors and detectors on data they do not know, in one table."""

from nescio.comparing.comparison import Comparison as Comparison
from nescio.comparing.measuring import compare as compare
from nescio.comparing.probes import Absent as Absent
from nescio.comparing.probes import AdversarialNoise as AdversarialNoise
from nescio.comparing.probes import AdversarialSamples as AdversarialSamples
