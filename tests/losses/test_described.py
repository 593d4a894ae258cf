"""A description names the loss that it is of, or nothing."""

import pytest

from nescio import heads, losses
from nescio.data.ood import uniform
from nescio.losses import from_description

NAMED = {
    "nll": lambda: losses.nll(),
    "decay": lambda: losses.weight_decay(losses.nll(), strength=0.003),
    "decay of decay": lambda: losses.weight_decay(losses.weight_decay(losses.brier()), strength=1),
    "hinge": lambda: losses.smooth_hinge(heads.binary(), temperature=0.01),
    "regression": lambda: losses.squared_error(heads.gaussian(floor=0.1)),
    "anchored": lambda: losses.anchored(losses.nll()),
}


@pytest.mark.parametrize("name", NAMED)
def test_a_loss_comes_back(name):
    loss = NAMED[name]()
    again = from_description(loss.description)
    assert (again.description, again.decay) == (loss.description, loss.decay)


def test_the_decay_is_known_where_there_are_no_other_terms():
    assert NAMED["nll"]().decay == 0
    assert NAMED["decay of decay"]().decay == pytest.approx(1.0001)
    assert NAMED["anchored"]().decay is None
    assert losses.weight_decay(NAMED["anchored"]()).decay is None


@pytest.mark.parametrize(
    "text",
    [
        losses.ceda(losses.nll(), uniform((3,))).description,
        "nll(categorical()) ignoring 3",
        "module.function",
        "print('x')",
        "categorical()",
        "nll(nothing())",
        "nll(strength=3)",
        "nll(",
    ],
)
def test_what_only_python_can_give_is_not_guessed(text):
    assert from_description(text) is None
