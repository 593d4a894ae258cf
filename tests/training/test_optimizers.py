"""Adam and SGD on stacked weights against torch.optim, member by member."""

import pytest
import torch

from nescio.core import NescioError
from nescio.training.optimizers import clip_members, optimizer, restored

EXACT = {"rtol": 0, "atol": 1e-12}
SHAPES = ((3, 4, 2), (3, 5))


def start(dtype=torch.float64):
    rng = torch.Generator().manual_seed(0)
    return [torch.randn(*shape, generator=rng, dtype=dtype) for shape in SHAPES]


def slopes(step, contiguous=True):
    """Gradients with the sizes of a real training; not contiguous as products leave them."""
    rng = torch.Generator().manual_seed(step + 1)
    draws = [torch.randn(*shape, generator=rng, dtype=torch.float64) for shape in SHAPES]
    draws[1] *= 10.0 ** (-step % 7)
    if not contiguous:
        draws = [t.transpose(0, -1).contiguous().transpose(0, -1) for t in draws]
        assert not any(t.is_contiguous() for t in draws)
    return draws


def reference(make, steps, rates):
    weights = [w.requires_grad_() for w in start()]
    judge = make(weights)
    for step in range(steps):
        judge.param_groups[0]["lr"] = rates[step]
        for weight, slope in zip(weights, slopes(step), strict=True):
            weight.grad = slope
        judge.step()
    return [w.detach() for w in weights]


RATES = [0.1 / (1 + step % 5) for step in range(50)]


@pytest.mark.parametrize("contiguous", [True, False])
@pytest.mark.parametrize("fused", [True, False])
def test_adam_is_that_of_torch(fused, contiguous):
    weights = start()
    ours = optimizer("adam", weights)
    ours.fused = fused
    for step in range(50):
        ours.update(weights, slopes(step, contiguous), RATES[step])
    expected = reference(lambda w: torch.optim.Adam(w, lr=1.0), 50, RATES)
    for weight, truth in zip(weights, expected, strict=True):
        torch.testing.assert_close(weight, truth, **EXACT)


@pytest.mark.parametrize("contiguous", [True, False])
def test_sgd_is_that_of_torch(contiguous):
    weights = start()
    ours = optimizer("sgd", weights)
    for step in range(50):
        ours.update(weights, slopes(step, contiguous), RATES[step])
    expected = reference(lambda w: torch.optim.SGD(w, lr=1.0, momentum=0.9), 50, RATES)
    for weight, truth in zip(weights, expected, strict=True):
        torch.testing.assert_close(weight, truth, rtol=1e-13, atol=1e-12)


def test_fused_and_plain_adam_agree_in_float32():
    results = []
    for fused in (True, False):
        weights = start(torch.float32)
        ours = optimizer("adam", weights)
        ours.fused = fused
        for step in range(50):
            ours.update(weights, [s.float() for s in slopes(step)], 0.01)
        results.append(weights)
    for one, two in zip(*results, strict=True):
        torch.testing.assert_close(one, two, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", ["adam", "sgd"])
def test_kept_members_go_on_as_if_nothing_had_happened(name):
    whole, some = start(), start()
    one, two = optimizer(name, whole), optimizer(name, some)
    stay = torch.tensor([0, 2])
    for step in range(10):
        one.update(whole, slopes(step), 0.1)
        if step == 4:
            two.keep(stay)
            some = [w[stay] for w in some]
        own = slopes(step) if step < 4 else [s[stay] for s in slopes(step)]
        two.update(some, own, 0.1)
    for weight, part in zip(whole, some, strict=True):
        torch.testing.assert_close(weight[stay], part, **EXACT)


@pytest.mark.parametrize("name", ["adam", "sgd"])
def test_a_restored_optimizer_goes_on_to_the_same_bits(name):
    weights = start()
    ours = optimizer(name, weights)
    for step in range(5):
        ours.update(weights, slopes(step), 0.1)
    saved = {key: tensor.clone() for key, tensor in ours.tensors().items()}
    twin, copies = restored(name, saved, ours.steps), [w.clone() for w in weights]
    for step in range(5, 10):
        ours.update(weights, slopes(step), 0.1)
        twin.update(copies, slopes(step), 0.1)
    assert all(torch.equal(a, b) for a, b in zip(weights, copies, strict=True))


def test_clipping_shortens_each_member_by_its_own_norm():
    parts = slopes(0)
    for part in parts:
        part[0] *= 100
        part[1] *= 1e-3
        part[2] = 0
    clipped = clip_members(parts, 0.5)
    for member in range(3):
        own = [part[member].clone().requires_grad_() for part in parts]
        for tensor in own:
            tensor.grad = tensor.detach().clone()
        torch.nn.utils.clip_grad_norm_(own, 0.5)
        for tensor, ours in zip(own, clipped, strict=True):
            torch.testing.assert_close(ours[member], tensor.grad, rtol=2e-6, atol=0)
    norms = torch.stack([part.flatten(1).square().sum(1) for part in clipped]).sum(0).sqrt()
    assert norms[0].item() == pytest.approx(0.5)
    assert torch.equal(clipped[0][1], parts[0][1])  # short ones are untouched
    assert (clipped[0][2] == 0).all()  # and zero stays zero


def test_unknown_names_are_refused():
    with pytest.raises(
        NescioError, match="unknown optimizer 'adamw'; did you mean 'adam'. Known: adam, lbfgs, sgd"
    ):
        optimizer("adamw", start())
