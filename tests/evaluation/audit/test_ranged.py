"""Test inputs against the range of the training inputs."""

import torch

from nescio.evaluation.audit.findings import RangeFindings
from nescio.evaluation.audit.held_out import out_of_range


def test_a_table_scaled_otherwise_is_ood_in_its_features() -> None:
    train = torch.rand(100, 4, generator=torch.Generator().manual_seed(0))
    raw = train[:50].clone()
    raw[:, 2] += 7
    raw[:20, 0] -= 9
    found = out_of_range(raw, train)
    assert found == RangeFindings(ood=50, samples=50, features=(2, 0))
    assert out_of_range(train, train) == RangeFindings(ood=0, samples=100, features=())


def test_images_have_one_range_and_bytes_are_shares() -> None:
    train = torch.arange(256, dtype=torch.uint8).repeat(3).view(3, 1, 16, 16)
    images = torch.rand(5, 1, 16, 16, generator=torch.Generator().manual_seed(0))
    assert out_of_range(images, train).ood == 0
    images[1, 0, 3, 3] = 200.0
    assert out_of_range(images, train) == RangeFindings(ood=1, samples=5, features=())
