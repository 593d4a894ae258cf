"""Every kind of input that networks read: tokens, tables, several tensors, loaders, outputs."""

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import nescio
from nescio.applications.influence import fit, influence, perturbation, self_influence
from nescio.core import NescioError

N = 30
DRAWS = torch.Generator().manual_seed(0)
Y = torch.arange(N) % 2


class Tokens(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.out = nn.Embedding(10, 6), nn.Linear(6, 2)

    def forward(self, ids):
        return self.out(self.embed(ids).mean(1))


class Several(nn.Module):
    def __init__(self):
        super().__init__()
        self.left, self.right, self.out = nn.Linear(2, 4), nn.Linear(3, 4), nn.Linear(8, 2)

    def forward(self, left, right):
        return {"logits": self.out(torch.cat([self.left(left), self.right(right)], 1).tanh())}


def check(net, x, few):
    found = influence(net, (x, Y), (few, Y[:2]), weight_decay=0.01)
    assert found.values.shape == (2, N)
    assert found.values.isfinite().all()
    assert found.values.abs().max() > 0
    options = {"parameters": "all", "loss": nescio.losses.nll(), "weight_decay": 0.01, "limit": 10}
    whole = influence(net, (x, Y), (few, Y[:2]), damping=3.0, **options)
    assert whole.values.shape == (2, N)
    by_products = self_influence(net, (x, Y), damping=3.0, solver="cg", **options)
    torch.testing.assert_close(
        by_products, self_influence(net, (x, Y), damping=3.0, **options), rtol=1e-5, atol=1e-8
    )


def test_tokens():
    ids = torch.randint(0, 10, (N, 5), generator=DRAWS)
    check(Tokens(), ids, ids[:2])
    minimum = fit(Tokens(), (ids, Y), weight_decay=0.01)
    with pytest.raises(NescioError, match="tokens and several inputs"):
        perturbation(minimum, (ids[:2], Y[:2]), (ids[:2], Y[:2]))


def test_several_inputs_and_outputs_in_a_dictionary():
    left, right = torch.randn(N, 2, generator=DRAWS), torch.randn(N, 3, generator=DRAWS)
    check(Several(), {"left": left, "right": right}, {"left": left[:2], "right": right[:2]})


def test_tables():
    ages = torch.rand(N, generator=DRAWS).mul(50).numpy()
    table = nescio.data.read_table({"age": ages, "city": ["Oslo", "Rome", "Lima"] * (N // 3)})
    model = nescio.train(lambda width: nn.Linear(width, 2), (table, Y), epochs=3)
    found = influence(model, (table, Y), (table, Y))
    assert found.values.shape == (N, N)
    assert found.values.abs().max() > 0


def test_loaders_are_read_in_order():
    x = torch.randn(N, 3, generator=DRAWS)
    net = nn.Linear(3, 2)
    loader = DataLoader(TensorDataset(x, Y), batch_size=7)
    plain = influence(net, (x, Y), (x[:2], Y[:2]))
    torch.testing.assert_close(influence(net, loader, (x[:2], Y[:2])).values, plain.values)
    with pytest.raises(NescioError, match="shuffle=False"):
        influence(net, DataLoader(TensorDataset(x, Y), shuffle=True), (x[:2], Y[:2]))
    seen = nescio.observe(net, (x, Y))
    torch.testing.assert_close(influence(net, seen, (x[:2], Y[:2])).values, plain.values)


def test_a_network_without_a_last_linear_layer():
    x = torch.randn(N, 3, generator=DRAWS)
    net = nn.Sequential(nn.Linear(3, 2), nn.Tanh())
    with pytest.raises(NescioError, match="use parameters='all'"):
        influence(net, (x, Y), (x[:2], Y[:2]))
