"""Where a network is wrong or overconfident: slices that are found, and tested on other samples."""

from nescio.evaluation.slices.condition import Condition as Condition
from nescio.evaluation.slices.find_slices import Slice as Slice
from nescio.evaluation.slices.find_slices import Slices as Slices
from nescio.evaluation.slices.find_slices import find_slices as find_slices
