"""Calibration: from a predictor and calibration data to a predictor."""

from nescio.calibration.calibrated import Calibrated as Calibrated
from nescio.calibration.calibrated import map_of as map_of
from nescio.calibration.calibrated import scaled as scaled
from nescio.calibration.dirichlet import dirichlet as dirichlet
from nescio.calibration.histogram import histogram as histogram
from nescio.calibration.isotonic import isotonic as isotonic
from nescio.calibration.map import Map as Map
from nescio.calibration.map import fit as fit
from nescio.calibration.matrix import matrix as matrix
from nescio.calibration.platt import fit_platt as fit_platt
from nescio.calibration.platt import platt as platt
from nescio.calibration.temperature import fit_temperature as fit_temperature
from nescio.calibration.temperature import temperature as temperature
from nescio.calibration.vector import vector as vector
