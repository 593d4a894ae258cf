"""Has the data changed? Tests of one batch against another, with p-values that hold."""

from nescio.metrics import adjust as adjust
from nescio.monitoring.shift.by_column import ColumnShift as ColumnShift
from nescio.monitoring.shift.by_column import ColumnShifts as ColumnShifts
from nescio.monitoring.shift.by_column import by_column as by_column
from nescio.monitoring.shift.two_sample import Shift as Shift
from nescio.monitoring.shift.two_sample import classifier_two_sample as classifier_two_sample
from nescio.monitoring.shift.two_sample import mmd as mmd
