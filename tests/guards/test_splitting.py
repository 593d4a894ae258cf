"""How many calibration samples a guard takes: the number is the first that `split` accepts."""

import pytest

from nescio.core import NescioError
from nescio.guards import fewest_samples
from nescio.guards.splitting import split


@pytest.mark.parametrize("fitting", [False, True])
@pytest.mark.parametrize("false_alarm", [0.003, 0.01, 0.05, 0.1, 0.3])
def test_the_fewest_samples_are_the_first_that_can_be_split(fitting, false_alarm):
    count = fewest_samples(false_alarm, fitting=fitting)
    wish = {"fitting": fitting, "tuning": 0.0, "false_alarm": false_alarm, "seed": 0}
    split(count, **wish)
    with pytest.raises(NescioError, match="too few"):
        split(count - 1, **wish)
