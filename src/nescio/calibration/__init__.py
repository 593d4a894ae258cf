"""Calibration: from a predictor and held-out data to a predictor."""

from nescio.calibration.platt import fit_platt as fit_platt
from nescio.calibration.platt import platt as platt
from nescio.calibration.scaled import Scaled as Scaled
from nescio.calibration.temperature import fit_temperature as fit_temperature
from nescio.calibration.temperature import temperature as temperature
