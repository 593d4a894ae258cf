"""Held-out data in two parts: one fits, the other measures, and no case does both."""

from dataclasses import dataclass

import torch
from torch import Tensor

from nescio.activations import hash_inputs
from nescio.errors import NescioError
from nescio.loop import Pair
from nescio.randomness import generator


@dataclass(frozen=True, eq=False)
class Held:
    """The validation data and the test data; without the former, two halves of the latter."""

    fitting: Pair  # fits temperatures, and the guard
    test: Pair  # of which `places` measure
    places: Tensor  # (n,) of the test cases
    halved: bool  # whether both are test cases

    @property
    def measured(self) -> Pair:
        """The cases that fitted nothing."""
        x, y = self.test
        return (x[self.places], y[self.places]) if self.halved else (x, y)

    @property
    def words(self) -> str:
        """Which cases fit, and which measure."""
        count, total = len(self.fitting[0]), len(self.test[0])
        if self.halved:
            return f"fitted on {count:,} of the {total:,} test cases, measured on the others"
        return f"fitted on the {count:,} validation cases, measured on the {total:,} test cases"


def hold(test: Pair, validation: Pair | None, *, seed: int) -> Held:
    """Validation data fit; where there are none, a half of the test data, drawn at random."""
    x, y = test
    if validation is None:
        order = torch.randperm(len(x), generator=generator(seed, "halves"))
        first, second = (part.sort().values for part in order.tensor_split(2))
        return Held((x[second], y[second]), test, first, True)
    if torch.isin(hash_inputs(validation[0]), hash_inputs(x)).all():
        raise NescioError(
            "all validation cases are among the test cases: what is fitted on them must be "
            "measured on others; give other cases, or leave validation out: the test data are "
            "then halved"
        )
    return Held(validation, test, torch.arange(len(x)), False)
