"""Has the data changed? Tests of one batch against another, with p-values that hold."""

from nescio.shifts.by_column import ColumnShift as ColumnShift
from nescio.shifts.by_column import ColumnShifts as ColumnShifts
from nescio.shifts.by_column import by_column as by_column
from nescio.shifts.classifier_two_sample import classifier_two_sample as classifier_two_sample
from nescio.shifts.correction import adjust as adjust
from nescio.shifts.mmd import mmd as mmd
from nescio.shifts.shift import Shift as Shift
