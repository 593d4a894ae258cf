"""One thread a worker, as the suite runs two workers on two cores; each test starts from a seed.

Without the seed, a test that draws weights or points from the global generators tries other values
on each run, and a brute-force oracle with a grid is wrong for a few of them.
"""

import numpy as np
import pytest
import torch

torch.set_num_threads(1)


@pytest.fixture(autouse=True)
def seeded() -> None:
    torch.manual_seed(0)
    np.random.seed(0)  # noqa: NPY002 (what a careless test would draw from)
