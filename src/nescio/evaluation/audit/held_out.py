"""Held-out data in two parts: one fits, the other measures, and no case does both."""

from dataclasses import dataclass

import torch
from torch import Tensor

from nescio.core import NescioError, generator
from nescio.detectors.activations import hash_inputs
from nescio.training.loop import Pair


@dataclass(frozen=True, eq=False)
class Held:
    """The validation data and the test data; without the former, two halves of the latter."""

    fitting: Pair  # fits temperatures, and the guard
    test: Pair  # of which `places` measure
    places: Tensor  # (n,) of the test samples
    halved: bool  # whether both are test samples

    @property
    def measured(self) -> Pair:
        """The samples that fitted nothing."""
        x, y = self.test
        return (x, y) if len(self.places) == len(x) else (x[self.places], y[self.places])

    @property
    def left_out(self) -> int:
        """Test samples that are validation samples too: they neither fit nor measure."""
        return 0 if self.halved else len(self.test[0]) - len(self.places)

    @property
    def words(self) -> str:
        """Which samples fit, and which measure."""
        count, total = len(self.fitting[0]), len(self.test[0])
        if self.halved:
            return f"fitted on {count:,} of the {total:,} test samples, measured on the others"
        said = f"fitted on the {count:,} validation samples, measured on the "
        if not self.left_out:
            return f"{said}{total:,} test samples"
        rest = f"{len(self.places):,} of the {total:,} test samples that are not among them"
        return f"{said}{rest} ({self.left_out:,} left out)"


def hold(test: Pair, validation: Pair | None, *, seed: int) -> Held:
    """Validation data fit; where there are none, a half of the test data, drawn at random.

    Test samples whose inputs are among the validation data measure nothing. An input that the test
    data hold twice tells no case from another: a table of few values repeats itself, and it stays.
    """
    x, y = test
    if validation is None:
        order = torch.randperm(len(x), generator=generator(seed, "halves"))
        first, second = (part.sort().values for part in order.tensor_split(2))
        return Held((x[second], y[second]), test, first, True)
    own = hash_inputs(x)
    _, kind, count = own.unique(return_inverse=True, return_counts=True)
    both = torch.isin(own, hash_inputs(validation[0])) & (count[kind] == 1)
    if both.all():
        raise NescioError(
            "all test samples are among the validation samples: what is fitted on them must be "
            "measured on others; give other cases, or leave validation out: the test data are "
            "then halved"
        )
    return Held(validation, test, (~both).nonzero()[:, 0], False)
