"""Comparisons that are kept for the data they were made with."""

import torch

import nescio
from nescio import nets
from nescio.evaluation.compare import Absent
from nescio_papers.robust_deep_learning.networks import compared

X, Y = torch.rand(40, 3), torch.arange(40) % 2


def test_a_set_that_has_come_since_is_compared(tmp_path):
    model = nescio.train(lambda: nets.mlp(3, 2, widths=(4,)), (X, Y), epochs=1, progress=False)
    other, made = torch.rand(20, 3) + 2, []

    def table(rows):
        def make():
            made.append(rows)
            return nescio.compare(model, (X, Y), rows, resamples=0, progress=False)

        return compared(tmp_path / "kept", model, "sizes", rows, make)

    first = {"there": other, "new": Absent("not at hand")}
    table(first)
    table(first)
    assert len(made) == 1
    found = table({**first, "new": other + 1})
    assert len(made) == 2
    assert [one.name for one in found.sets if one.absent] == []
