"""Gradients through dead units: the same values, a slope by hand, and where attacks are blind."""

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from nescio import NescioError, models, nets
from nescio.attacks import adversarial_noise, confidence, label_loss, leaking, pgd

SLOPE = 0.2


class Called(nn.Module):
    """ReLU as a function, a method and in place."""

    def __init__(self, relu):
        super().__init__()
        self.first, self.last, self.relu = nn.Linear(4, 9), nn.Linear(9, 3), relu

    def forward(self, x):
        return self.last(self.relu(self.first(x)))


KINDS = {
    "layer": lambda: nn.Sequential(nn.Linear(4, 9), nn.ReLU(), nn.Linear(9, 3)),
    "in place": lambda: nn.Sequential(nn.Linear(4, 9), nn.ReLU(inplace=True), nn.Linear(9, 3)),
    "functional": lambda: Called(F.relu),
    "torch": lambda: Called(torch.relu),
    "method": lambda: Called(lambda h: h.relu()),
    "method in place": lambda: Called(lambda h: h.relu_()),
}


@pytest.mark.parametrize("kind", KINDS)
def test_values_stay_and_gradients_leak_by_the_factor(kind):
    net = KINDS[kind]()
    first, last = [m for m in net.modules() if isinstance(m, nn.Linear)]
    x, y = torch.rand(7, 4), torch.arange(7) % 3
    leaf = x.clone().requires_grad_()
    plain, leaky = label_loss(net), leaking(label_loss(net), slope=SLOPE)
    value = leaky(leaf, y)
    assert torch.equal(value, plain(x, y))
    (slope,) = torch.autograd.grad(value.sum(), leaf)
    hidden = first(x)
    logits = last(hidden.relu()).detach().requires_grad_()
    odds = (
        logits.scatter(1, y[:, None], -torch.inf).logsumexp(1) - logits.gather(1, y[:, None])[:, 0]
    )
    (rise,) = torch.autograd.grad(odds.sum(), logits)
    through = (rise @ last.weight) * torch.where(hidden > 0, 1.0, SLOPE)
    torch.testing.assert_close(slope, through @ first.weight)


def test_only_a_relu_in_place_writes_what_it_reads():
    """The numbers before a ReLU, as a residual network reads them, are left alone, or written."""

    def beside(x, relu):
        hidden = 2 * x
        relu(hidden)
        return hidden.sum(1)

    x = torch.tensor([[-1.0, 2.0]])
    for relu, value in ((torch.relu, 2), (torch.Tensor.relu, 2), (F.relu, 2), (torch.relu_, 4)):
        assert leaking(lambda x, relu=relu: beside(x, relu))(x).item() == value


def dead(net):
    """The last hidden layer never fires."""
    linear = [m for m in net.modules() if isinstance(m, nn.Linear)]
    with torch.no_grad():
        linear[-2].weight.mul_(0.01)
        linear[-2].bias.fill_(-0.05)
    return net


@pytest.mark.parametrize(
    "make",
    [
        lambda: nets.small_cnn((1, 28, 28), 10),
        lambda: nets.lenet((1, 28, 28), 10),
        lambda: nn.Sequential(nn.Flatten(), nets.mlp(784, 10)),
    ],
    ids=["small_cnn", "lenet", "mlp"],
)
def test_an_attack_on_a_dead_network_is_blind_until_its_gradients_leak(make):
    net, x = dead(make()), torch.rand(3, 1, 28, 28)
    objective = confidence(net)
    blind = pgd(objective, x, radius=0.3, steps=2, start="input")
    assert blind.blind.all()
    assert torch.equal(blind.x, x)
    seeing = pgd(leaking(objective), x, radius=0.3, steps=4, start="input", best=False)
    assert not seeing.blind.any()
    assert (seeing.x != x).flatten(1).any(1).all()


def test_a_leaking_attack_finds_what_lies_behind_a_dead_region():
    """Below 0.6 nothing fires; above, one class gains fast. Only leaking gradients lead there."""
    net = nn.Sequential(nn.Linear(1, 1), nn.ReLU(), nn.Linear(1, 2))
    with torch.no_grad():
        net[0].weight.fill_(1.0)
        net[0].bias.fill_(-0.6)
        net[2].weight.copy_(torch.tensor([[50.0], [0.0]]))
        net[2].bias.zero_()
    x = torch.full((4, 1), 0.4)
    plain = adversarial_noise(net, x, radius=0.3, steps=20, step=0.05, start="input")
    assert torch.equal(plain.value, torch.zeros(4))
    assert plain.blind.all()
    leaky = pgd(leaking(confidence(net)), x, radius=0.3, steps=20, start="input")
    torch.testing.assert_close(leaky.value, torch.full((4,), 5.0), rtol=1e-4, atol=0)
    torch.testing.assert_close(leaky.x, torch.full((4, 1), 0.7))


def test_only_inputs_without_any_gradient_are_blind():
    def half(x):
        return (x[:, 0] - 0.5).relu()

    x = torch.tensor([[0.3, 0.2], [0.8, 0.2], [0.1, 0.9]])
    assert pgd(half, x, radius=0.05, batch_size=2).blind.tolist() == [True, False, True]
    mask = torch.tensor([0, 1])  # the gradient is in the other feature
    assert pgd(half, x, radius=0.05, mask=mask).blind.tolist() == [True] * 3


def test_other_predictors_leak_too():
    net = dead(nn.Sequential(nn.Linear(4, 6), nn.ReLU(), nn.Dropout(0.2), nn.Linear(6, 3)))
    x = torch.rand(5, 4)
    for source in (models.mc_dropout(net, passes=4), models.ensemble([net, net, net])):
        assert pgd(confidence(source), x, radius=0.1, steps=2).blind.all()
        assert not pgd(leaking(confidence(source)), x, radius=0.1, steps=2).blind.any()


def test_what_is_called_with_labels_is_still_known():
    with pytest.raises(NescioError, match="give y where it needs targets"):
        pgd(leaking(label_loss(KINDS["layer"]())), torch.rand(3, 4), radius=0.1)


@pytest.mark.parametrize("slope", [0.0, -0.1, 1.5])
def test_a_slope_is_a_share(slope):
    with pytest.raises(NescioError, match="slope must be above 0 and at most 1"):
        leaking(confidence(KINDS["layer"]()), slope=slope)
