import pytest
import torch
from benchmarks.audit_passes import CLASSES, Count
from torch import nn

import nescio
from nescio.evaluation.audit import cost
from nescio.evaluation.audit.cost import Draws, Job, multiplications
from nescio.models import plain

SIZE = 8


class Counted(nn.Module):
    """A small convolutional network that counts the images it sees."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.inner = nn.Sequential(
            nn.Conv2d(1, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(4 * 36, CLASSES)
        )
        self.count = Count()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.count.images += len(x)
        return self.inner(x)


def samples(number: int = 900) -> tuple[torch.Tensor, torch.Tensor]:
    draw = torch.Generator().manual_seed(1)
    x = torch.rand(number, 1, SIZE, SIZE, generator=draw)
    return x, Counted()(x).argmax(1)


def test_multiplications_of_a_sample_are_counted() -> None:
    x, _ = samples(2)
    assert multiplications(plain(Counted()), x) == 9 * 4 * 36 + 144 * CLASSES


def test_an_audit_of_a_large_network_takes_at_most_eight_passes(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(cost, "LARGE", 1e6)
    net, data = Counted(), samples()
    found = nescio.audit(net, data, progress=True).findings
    assert net.count.images <= 8 * len(data[0])
    assert found.guard is not None
    assert found.guard.skipped is None
    assert found.cost is not None
    assert found.cost.passes <= 8
    assert found.cost.drawn["scaled"] == 72
    assert {one.name: one.samples for one in found.sets}["scaled x 10000"] == 72
    assert found.guard.ood is not None
    assert all(one.inputs <= 180 for one in found.guard.ood.values())
    said = capsys.readouterr().err
    assert "passes over 900 samples" in said
    assert "seconds" in said
    text = str(nescio.Audit(found))
    assert "scaled inputs 72" in text
    assert "--budget thorough" in text


def test_all_samples_are_read_where_it_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cost, "LARGE", 1e6)
    options = {"alphas": (1.0, 10.0), "attack_steps": 2, "progress": False}
    whole = nescio.audit(Counted(), samples(60), budget="thorough", rays=2, **options).findings
    assert whole.cost is None
    assert {one.samples for one in whole.sets} == {60, cost.ATTACKED}
    some = nescio.audit(Counted(), samples(60), rays=2, **options).findings
    assert some.predictors["network"].test == whole.predictors["network"].test
    assert some.cost is not None
    assert {one.samples for one in some.sets} == {24, 20, 30}


def test_a_small_network_is_audited_whole_whatever_the_machine() -> None:
    x, _ = samples()
    job = Job(
        predictors={"a": plain(Counted())}, x=x, sets=2, alphas=(1.0,) * 17, steps=50, rays=None
    )
    assert job.draws() == Draws()


def test_rays_through_a_deep_network_are_not_followed_to_a_confidence() -> None:
    deep = nn.Sequential(*[layer for _ in range(9) for layer in (nn.Linear(3, 3), nn.ReLU())])
    data = torch.randn(30, 3), torch.arange(30) % 3
    found = nescio.audit(deep, data, attack_steps=0, rays=3, alphas=(1.0, 9.0), progress=False)
    far = found.findings.predictors["network"].far_field
    assert far is not None
    assert far.rays is not None
    assert all(one.factor == {} for one in far.rays.values())
    assert "--budget thorough" in str(found)


def test_a_ray_that_costs_too_much_is_left_out_with_the_reason(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(cost, "LARGE", 1e3)
    monkeypatch.setattr(cost, "RAY_WORK", 1e3)
    found = nescio.audit(Counted(), samples(60), attack_steps=0, alphas=(1.0, 2.0), progress=False)
    assert "multiplications" in found.findings.not_run["far field"]
