"""One thread a worker: the suite runs two workers on two cores."""

import torch

torch.set_num_threads(1)
