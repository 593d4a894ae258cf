"""What an audit finds on held-out data: calibration, errors, the guard, and what a shift does."""

from nescio.audited.calibrating import calibration as calibration
from nescio.audited.failures import failure as failure
from nescio.audited.guarded import Guarded as Guarded
from nescio.audited.guarded import guarded as guarded
from nescio.audited.held import Held as Held
from nescio.audited.held import hold as hold
from nescio.audited.moved import moved as moved
