"""Sequences and regression: the split, and both studies in quick mode where files are there."""

import os

import pytest
import torch

from nescio_papers import Settings
from nescio_papers.know_your_limits import other_inputs as part

there = pytest.mark.skipif(
    not os.environ.get("NESCIO_DATA"), reason="NESCIO_DATA is not set: no files"
)


def test_rows_beyond_lie_furthest_along_one_direction():
    torch.manual_seed(0)
    along = torch.randn(200, 1)
    x = along @ torch.tensor([[3.0, 2.0, 1.0]]) + 0.01 * torch.randn(200, 3)
    train, test, ood = part.beyond(x, 0)
    assert sorted(torch.cat([train, test, ood]).tolist()) == list(range(200))
    assert (len(train), len(test), len(ood)) == (136, 34, 30)
    rest = torch.cat([train, test])
    sign = 1 if along[ood].mean() > 0 else -1
    assert (sign * along[ood]).min() > (sign * along[rest]).max() - 0.05


def test_labels_are_numbered_anew():
    x, y = part._of((torch.arange(6.0)[:, None], torch.tensor([0, 3, 5, 3, 0, 1])), [1, 3])
    assert x[:, 0].tolist() == [1, 3, 5]
    assert y.tolist() == [1, 1, 0]


@there
def test_both_studies(tmp_path):
    found = part.other_inputs(Settings(quick=True, folder=tmp_path))
    spoken = found.numbers["sequences"]
    assert spoken["accuracy"] > 0.6
    for cells in (spoken["auroc"], found.numbers["regression"]["concrete"]["auroc"]):
        assert all(0 <= c["low"] <= c["mean"] <= c["high"] <= 1 for c in cells.values())
    assert {"epistemic variance", "aleatoric variance", "total variance"} <= set(
        found.numbers["regression"]["concrete"]["auroc"]
    )
    for words in ("Gower neighbors", "mutual information", "root mean squared error ood"):
        assert words in found.text


def test_absent_files_are_said(monkeypatch, tmp_path):
    monkeypatch.delenv("NESCIO_DATA", raising=False)
    found = part.other_inputs(Settings(quick=True, folder=tmp_path))
    assert "japanese_vowels is not part of nescio" in found.text
