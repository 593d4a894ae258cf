"""The fast gradient sign: one step to the edge."""

import torch
from torch import nn

from nescio.attacks import fgsm, label_loss


def test_it_is_x_plus_radius_times_the_sign_of_the_gradient():
    net = nn.Sequential(nn.Linear(6, 9), nn.Tanh(), nn.Linear(9, 3))
    x, y = 0.3 + 0.4 * torch.rand(8, 6), torch.randint(3, (8,))
    leaf = x.clone().requires_grad_()
    (slope,) = torch.autograd.grad(nn.functional.cross_entropy(net(leaf), y), leaf)
    found = fgsm(label_loss(net), x, y, radius=0.01)
    torch.testing.assert_close(found.x, x + 0.01 * slope.sign())


def test_the_input_is_kept_where_the_step_lowers_the_objective():
    def narrow(x):
        return -(x - 0.5).abs().sum(1)

    x = torch.tensor([[0.45], [0.1]])
    found = fgsm(narrow, x, radius=0.3)
    torch.testing.assert_close(found.x, torch.tensor([[0.45], [0.4]]))
    assert torch.equal(fgsm(narrow, x, radius=0.0).x, x)


def test_a_step_in_another_norm():
    weight = torch.tensor([3.0, -4.0])
    found = fgsm(lambda x: x @ weight, torch.full((1, 2), 0.5), radius=0.25, norm="l2")
    torch.testing.assert_close(found.x, torch.tensor([[0.65, 0.3]]))
