"""Held-out data in two parts: one fits, the other measures; and whether they are scaled alike."""

from dataclasses import dataclass

import torch
from torch import Tensor

from nescio.core import NescioError, as_batch, generator, hash_inputs
from nescio.evaluation.audit.findings import RangeFindings
from nescio.guards.watching import learn_range
from nescio.training import Pair

SAMPLES = 1 << 14  # inputs at a time


@dataclass(frozen=True, eq=False)
class Held:
    """The validation data and the test data; without the former, two halves of the latter."""

    fitting: Pair  # fits temperatures, and the guard
    test: Pair  # of which `rows` measure
    rows: Tensor  # (n,) of the test samples
    halved: bool  # whether both are test samples

    @property
    def measured(self) -> Pair:
        """The samples that fitted nothing."""
        x, y = self.test
        return (x, y) if len(self.rows) == len(x) else (x[self.rows], y[self.rows])

    @property
    def others(self) -> Tensor:
        """The test samples that measure nothing, by index: where halved, those that fit."""
        rest = torch.ones(len(self.test[0]), dtype=torch.bool)
        rest[self.rows] = False
        return rest.nonzero()[:, 0]

    @property
    def left_out(self) -> int:
        """Test samples that are validation samples too: they neither fit nor measure."""
        return 0 if self.halved else len(self.test[0]) - len(self.rows)

    @property
    def words(self) -> str:
        """Which samples fit, and which measure."""
        count, total = len(self.fitting[0]), len(self.test[0])
        if self.halved:
            return f"fitted on {count:,} of the {total:,} test samples, measured on the others"
        said = f"fitted on the {count:,} validation samples, measured on the "
        if not self.left_out:
            return f"{said}{total:,} test samples"
        rest = f"{len(self.rows):,} of the {total:,} test samples that are not among them"
        return f"{said}{rest} ({self.left_out:,} left out)"


def hold(test: Pair, validation: Pair | None, *, seed: int) -> Held:
    """Validation data fit; where there are none, a half of the test data, drawn at random.

    Test samples whose inputs are among the validation data measure nothing. An input that the test
    data hold twice tells no sample from another: a table of few values repeats, and it stays.
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
            "measured on others; give other samples, or leave validation out: the test data are "
            "then halved"
        )
    return Held(validation, test, (~both).nonzero()[:, 0], False)


@torch.no_grad()
def out_of_range(x: Tensor, known: Tensor) -> RangeFindings:
    """How many test inputs hold numbers outside the range of the training inputs, and where.

    The range is that of the guard: with some room, of each feature of a table, of all pixels.
    features: of a table, those that are outside in some input, the most frequent first.
    """
    allowed = learn_range(known)
    ood, often = 0, torch.zeros(x[0].numel(), dtype=torch.long)
    for part in x.split(SAMPLES):
        flat = as_batch(part).flatten(1).double()
        off = (flat < allowed.low.to(flat.device)) | (flat > allowed.high.to(flat.device))
        ood += int(off.any(1).sum())
        often += off.sum(0).cpu()
    order = often.argsort(descending=True, stable=True)
    features = order[: int((often > 0).sum())].tolist() if x.ndim == 2 else []
    return RangeFindings(ood=ood, samples=len(x), features=tuple(features))
