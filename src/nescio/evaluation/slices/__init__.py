"""Where a network is wrong or overconfident: slices that are found, and tested on other samples."""

from nescio.evaluation.slices.by_group import GroupRow as GroupRow
from nescio.evaluation.slices.by_group import GroupTable as GroupTable
from nescio.evaluation.slices.by_group import by_group as by_group
from nescio.evaluation.slices.condition import Condition as Condition
from nescio.evaluation.slices.find_slices import Slice as Slice
from nescio.evaluation.slices.find_slices import Slices as Slices
from nescio.evaluation.slices.find_slices import find_slices as find_slices
from nescio.evaluation.slices.readable_inputs import describe_inputs as describe_inputs
