"""What an audit finds on held-out data: calibration, errors, the guard, and what a shift does."""

from nescio.evaluation.audit.calibration_section import calibration as calibration
from nescio.evaluation.audit.failure_section import failure as failure
from nescio.evaluation.audit.guard_section import Guarded as Guarded
from nescio.evaluation.audit.guard_section import guarded as guarded
from nescio.evaluation.audit.held_out import Held as Held
from nescio.evaluation.audit.held_out import hold as hold
from nescio.evaluation.audit.shift_section import moved as moved
