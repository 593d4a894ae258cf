"""Calibration: from a predictor and calibration data to a predictor."""

from nescio.calibration.by_probability import histogram as histogram
from nescio.calibration.by_probability import isotonic as isotonic
from nescio.calibration.label_maps import LabelMaps as LabelMaps
from nescio.calibration.label_maps import fit_labels as fit_labels
from nescio.calibration.map import Calibrated as Calibrated
from nescio.calibration.map import Map as Map
from nescio.calibration.map import fit as fit
from nescio.calibration.map import map_of as map_of
from nescio.calibration.map import scaled as scaled
from nescio.calibration.temperature import NoTemperatureError as NoTemperatureError
from nescio.calibration.temperature import fit_temperature as fit_temperature
from nescio.calibration.temperature import temperature as temperature
from nescio.calibration.weights import dirichlet as dirichlet
from nescio.calibration.weights import fit_platt as fit_platt
from nescio.calibration.weights import matrix as matrix
from nescio.calibration.weights import platt as platt
from nescio.calibration.weights import vector as vector
