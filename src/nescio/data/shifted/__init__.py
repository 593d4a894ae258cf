"""Inputs moved away from the data in steps, from strength 0 to 5."""

from nescio.data.shifted.blur import blur as blur
from nescio.data.shifted.brightness import brightness as brightness
from nescio.data.shifted.contrast import contrast as contrast
from nescio.data.shifted.feature_scaling import feature_scaling as feature_scaling
from nescio.data.shifted.gaussian_noise import gaussian_noise as gaussian_noise
from nescio.data.shifted.impulse_noise import impulse_noise as impulse_noise
from nescio.data.shifted.pixelation import pixelation as pixelation
from nescio.data.shifted.rotation import rotation as rotation
from nescio.data.shifted.translation import translation as translation
from nescio.data.shifted.value import MOST as MOST
from nescio.data.shifted.value import Shifted as Shifted
