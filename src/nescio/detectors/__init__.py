"""Detectors: activations of networks to scores, larger = further out. One file each."""

from nescio.detectors.detector import Detector as Detector
from nescio.detectors.detector import load as load
from nescio.detectors.gower import gower as gower
from nescio.detectors.msp import msp as msp
from nescio.detectors.smoothed_density import smoothed_density as smoothed_density
