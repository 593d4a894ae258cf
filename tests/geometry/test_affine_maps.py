"""The piece around a point: against the network, exact fractions and activation patterns."""

import copy
from fractions import Fraction
from itertools import pairwise

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from nescio import models, nets
from nescio.core import NescioError
from nescio.geometry import affine_maps
from nescio.geometry.affine_maps import affine, monotone


def draw(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def randomized(net, seed=0):
    with torch.no_grad():
        for i, value in enumerate(net.parameters()):
            scale = value[0].numel() ** 0.5 if value.ndim > 1 else 1.0
            value.copy_(draw(*value.shape, seed=100 * seed + i) / scale)
    return net


def conv_net(seed=0, activation=None):
    return randomized(
        nn.Sequential(
            nn.Conv2d(1, 3, 3),
            activation or nn.LeakyReLU(0.1),
            nn.MaxPool2d(2),
            nn.Conv2d(3, 4, 2),
            nn.Hardtanh(),
            nn.Flatten(),
            nn.Linear(16, 3),
        ),
        seed,
    )


def at(piece, x):
    return torch.einsum("...ncd,nd->...nc", piece.V, x.flatten(1)) + piece.a


def pattern(net, x):
    """The side of every bend and the winner of every window, `(N, ...)`."""
    found = []
    for layer in net:
        if isinstance(layer, (nn.ReLU, nn.LeakyReLU)):
            found.append((x > 0).flatten(1).long())
        if isinstance(layer, nn.Hardtanh):
            found += [(x > -1).flatten(1).long(), (x > 1).flatten(1).long()]
        if isinstance(layer, nn.MaxPool2d):
            found.append(nn.functional.max_pool2d(x, 2, return_indices=True)[1].flatten(1))
        x = layer(x)
    return torch.cat(found, 1)


# -- the map


def test_it_unpacks_as_the_map_and_the_offset():
    net = randomized(nets.mlp(3, 4, widths=(7, 5)).double())
    x = draw(11, 3)
    V, a = affine(net, x)
    assert V.shape == (11, 4, 3)
    assert a.shape == (11, 4)
    assert V.dtype == a.dtype == torch.float64
    torch.testing.assert_close(at(affine(net, x), x), net(x).detach(), rtol=1e-13, atol=1e-13)


def test_the_map_is_the_product_of_the_masked_weights():
    """V = W_3 S_2 W_2 S_1 W_1: each mask stands beside its own weights."""
    net = randomized(nets.mlp(3, 4, widths=(7, 5)).double())
    for x in draw(5, 3):
        V, a = torch.eye(3, dtype=torch.float64), torch.zeros(3, dtype=torch.float64)
        for layer in net:
            if isinstance(layer, nn.Linear):
                V, a = layer.weight @ V, layer.weight @ a + layer.bias
            else:
                on = (V @ x + a > 0).double()
                V, a = on[:, None] * V, on * a
        found = affine(net, x)
        torch.testing.assert_close(found.V[0], V.detach(), rtol=1e-13, atol=1e-13)
        torch.testing.assert_close(found.a[0], a.detach(), rtol=1e-13, atol=1e-13)


def test_features_of_images_are_flattened_in_their_order():
    net, x = conv_net().double(), draw(4, 1, 8, 8)
    piece = affine(net, x)
    assert piece.V.shape == (4, 3, 64)
    torch.testing.assert_close(at(piece, x), net(x).detach(), rtol=1e-12, atol=1e-12)
    moved = x.clone()
    moved[:, 0, 2, 5] += 1e-7
    rise = (net(moved) - net(x)).detach() / 1e-7
    torch.testing.assert_close(piece.V[..., 2 * 8 + 5], rise, rtol=1e-5, atol=1e-7)


def test_the_offset_does_not_come_from_a_difference():
    """V x is 1e12 here; a difference with the logits would leave four digits of a."""
    net = nn.Linear(1, 1).double()
    with torch.no_grad():
        net.weight.fill_(1 / 3)
        net.bias.fill_(0.1)
    assert affine(net, [[3e12]]).a.item() == 0.1


def test_a_model_has_an_axis_of_members():
    members = [randomized(nets.mlp(3, 2, widths=(6,)).double(), seed) for seed in range(3)]
    model = models.ensemble(members)
    x = draw(5, 3)
    piece = affine(model, x, half_spaces=True)
    assert piece.V.shape == (3, 5, 2, 3)
    assert piece.normals.shape == (3, 5, 6, 3)
    torch.testing.assert_close(at(piece, x), model.outputs(x), rtol=1e-13, atol=1e-13)
    for i, net in enumerate(members):
        alone = affine(net, x, half_spaces=True)
        assert torch.equal(piece.V[i], alone.V)
        assert torch.equal(piece.normals[i], alone.normals)


def test_blocks_of_points_give_the_same(monkeypatch):
    net, x = conv_net(), draw(9, 1, 8, 8)
    whole = affine(net, x, half_spaces=True)
    monkeypatch.setattr(affine_maps, "BYTES", 1 << 13)
    monkeypatch.setattr(affine_maps, "WHOLE", 1 << 17)
    parts = affine(net, x, half_spaces=True)
    for name in ("V", "a", "normals", "offsets"):
        torch.testing.assert_close(
            getattr(parts, name), getattr(whole, name), rtol=1e-14, atol=1e-14
        )
    assert torch.equal(monotone(net, x).zero_entries, (whole.V == 0).sum((1, 2)))


# -- points on faces


def test_a_point_on_a_face_gets_one_whole_piece():
    """relu(x) - relu(-x) is x; a sign of 0 would make it 0 at the origin."""

    class Odd(nn.Module):
        def forward(self, x):
            return torch.cat([torch.relu(x) - torch.relu(-x), torch.relu(x)], 1)

    for way, slope in (([2.0], 1.0), ([-0.5], 0.0)):
        piece = affine(Odd(), [[0.0]], direction=way, half_spaces=True)
        assert piece.V[0, :, 0].tolist() == [1.0, slope]
        sign = 1.0 if slope else -1.0
        assert piece.normals[0, :, 0].tolist() == [sign] * 3
        assert piece.offsets[0].tolist() == [0.0] * 3
    assert affine(Odd(), [[0.0]]).V[0, 0, 0] == 1.0


def test_the_direction_chooses_among_the_pieces_at_a_corner():
    class Corner(nn.Module):
        def forward(self, x):
            return torch.maximum(x[:, :1], x[:, 1:]).abs()

    sides = {(2.0, 1.0): (1, 0), (1.0, 2.0): (0, 1), (-2.0, -1.0): (0, -1), (-1.0, -2.0): (-1, 0)}
    for way, slopes in sides.items():
        assert affine(Corner(), [[0.0, 0.0]], direction=way).V[0, 0].tolist() == list(slopes)


def by_fractions(weights, x, way):
    """V, a and the half-spaces of an integer ReLU network at x + a little of way, exactly."""
    size = len(x)
    V = [[Fraction(i == j) for j in range(size)] for i in range(size)]
    a = [Fraction(0)] * size
    faces = []
    for layer, (W, b) in enumerate(weights):
        rows = range(len(W))
        V, a = (
            [[sum(W[i][k] * V[k][j] for k in range(len(V))) for j in range(size)] for i in rows],
            [sum(W[i][k] * a[k] for k in range(len(a))) + b[i] for i in rows],
        )
        if layer + 1 == len(weights):
            return V, a, faces
        for i in rows:
            value = sum(v * z for v, z in zip(V[i], x, strict=True)) + a[i]
            growth = sum(v * Fraction(d) for v, d in zip(V[i], way, strict=True))
            on = value > 0 or (value == 0 and growth > 0)
            sign = 1 if on else -1
            faces.append([sign * v for v in V[i]] + [sign * a[i]])
            V[i], a[i] = ([v * on for v in V[i]], a[i] * on)
    raise AssertionError


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10**6))
def test_small_whole_numbers_are_exact_also_on_faces(seed):
    source = torch.Generator().manual_seed(seed)
    sizes = [2, *torch.randint(2, 6, (2,), generator=source).tolist(), 2]
    whole = [
        tuple(torch.randint(-2, 3, shape, generator=source) for shape in ((n, m), (n,)))
        for m, n in pairwise(sizes)
    ]
    net = nn.Sequential()
    for W, b in whole:
        layer = nn.Linear(*reversed(W.shape)).double()
        layer.load_state_dict({"weight": W, "bias": b})
        net.extend([layer, nn.ReLU()])
    x = torch.randint(-2, 3, (4, 2), generator=source)
    way = [0.75, -1.3125]
    piece = affine(net[:-1], x.double(), direction=way, half_spaces=True)
    for i, sample in enumerate(x.tolist()):
        V, a, faces = by_fractions([(W.tolist(), b.tolist()) for W, b in whole], sample, way)
        assert piece.V[i].tolist() == V
        assert piece.a[i].tolist() == a
        found = torch.cat([piece.normals[i], piece.offsets[i][:, None]], 1)
        assert found.tolist() == faces


# -- half-spaces


@pytest.mark.parametrize("activation", [nn.LeakyReLU(0.1), nn.ReLU()])
@pytest.mark.parametrize("seed", range(3))
def test_half_spaces_hold_exactly_where_the_pattern_is_the_same(seed, activation):
    """Under ReLU two dead members of a window are equal: then any winner will do."""
    net = conv_net(seed, activation).double()
    x = draw(5, 1, 8, 8, seed=seed)
    piece = affine(net, x, half_spaces=True)
    own = torch.einsum("nud,nd->nu", piece.normals, x.flatten(1)) + piece.offsets
    equal = (piece.normals == 0).all(2) & (piece.offsets == 0)
    assert (own[~equal] > 0).all()
    assert equal.any() == isinstance(activation, nn.ReLU)
    inside = 0
    for size in (1e-3, 1e-2, 3e-2, 0.1, 0.3):
        z = x[:, None] + size * draw(5, 200, 1, 8, 8, seed=seed + 7)
        values = torch.einsum("nud,nzd->nzu", piece.normals, z.flatten(2))
        held = (values + piece.offsets[:, None] >= 0).all(-1)
        same = torch.stack(
            [(pattern(net, z[i]) == pattern(net, x[i : i + 1])).all(1) for i in range(5)]
        )
        assert torch.equal(held, same)
        inside += int(held.sum())
    assert 0 < inside < 5000


def test_the_map_holds_up_to_the_nearest_face_and_not_beyond():
    net = randomized(nets.mlp(2, 2, widths=(8, 8)).double(), 3)
    x = draw(20, 2, seed=1)
    piece = affine(net, x, half_spaces=True)
    height = torch.einsum("nud,nd->nu", piece.normals, x) + piece.offsets
    norm = piece.normals.norm(dim=2)
    distance, face = torch.where(norm > 0, height / norm, torch.inf).min(1)
    way = -piece.normals[range(20), face] / norm[range(20), face][:, None]
    for factor, right in ((0.999, True), (1.1, False)):
        z = x + factor * distance[:, None] * way
        truth = net(z).detach()
        close = (at(piece, z) - truth).abs().amax(1) < 1e-12
        assert close.all() if right else (~close).sum() >= 15  # a face may border a dead unit


def test_constant_units_give_rows_that_always_hold():
    net = nn.Sequential(nn.Linear(2, 2), nn.ReLU(), nn.Linear(2, 1)).double()
    with torch.no_grad():
        net[0].weight.zero_()
        net[0].bias.copy_(torch.tensor([1.0, -2.0]))
    piece = affine(net, draw(3, 2), half_spaces=True)
    assert (piece.normals == 0).all()
    assert piece.offsets.tolist() == [[1.0, 2.0]] * 3
    assert (piece.V == 0).all()


def test_a_network_without_bends_has_no_faces():
    piece = affine(nn.Linear(3, 2), draw(4, 3), half_spaces=True)
    assert piece.normals.shape == (4, 0, 3)
    assert piece.offsets.shape == (4, 0)


def test_results_that_are_too_large_are_refused_with_their_size(monkeypatch):
    net = nets.mlp(10, 2, widths=(100,))
    x = torch.zeros(1000, 10)
    monkeypatch.setattr(affine_maps, "LIMIT", 4 << 20)
    affine(net, x)
    with pytest.raises(
        NescioError, match="100 half-spaces per point would take .* more than .*fewer"
    ):
        affine(net, x, half_spaces=True)


# -- zero entries


def test_zero_entries_come_from_dead_paths_alone():
    net = nn.Sequential(nn.Linear(2, 2), nn.ReLU(), nn.Linear(2, 2)).double()
    with torch.no_grad():
        net[0].weight.copy_(torch.eye(2))
        net[0].bias.zero_()
        net[2].weight.copy_(torch.tensor([[1.0, 2.0], [1e-30, -1.0]]))
    found = monotone(net, [[1.0, 1.0], [-1.0, 1.0], [1.0, -1.0], [-1.0, -1.0]])
    assert found.zero_entries.tolist() == [0, 2, 2, 4]
    assert found.monotone.tolist() == [True, False, False, False]
    assert found.share == 0.75


def test_the_share_is_that_of_all_points_of_all_members():
    members = [randomized(nets.mlp(2, 9, widths=(5, 5)).double(), seed) for seed in range(4)]
    x = 5 * draw(200, 2)
    found = monotone(models.ensemble(members), x)
    V = affine(models.ensemble(members), x).V
    zero = (V == 0).flatten(2).any(2)
    assert torch.equal(found.monotone, ~zero)
    assert found.share == pytest.approx(float(zero.double().mean()))
    assert 0 < found.share < 1


def test_a_strictly_monotone_piece_moves_every_logit():
    net = randomized(nets.mlp(2, 3, widths=(6,)).double(), 1)
    x = draw(50, 2)
    found = monotone(net, x)
    step = torch.tensor([1e-7, 0.0], dtype=torch.float64)
    moved = ((net(x + step) - net(x)).detach() != 0).all(1)
    assert moved[found.monotone].all()


# -- errors


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda net: affine(net, torch.zeros(2, 3), direction=[1.0, 2.0]), "shape of one point"),
        (lambda net: affine(net, torch.zeros(2, 4)), "do not pass"),
        (lambda net: affine(net, torch.full((2, 3), torch.nan)), "NaN"),
        (lambda net: affine(net, torch.zeros(0, 3)), "x must have shape"),
        (lambda net: affine(net, torch.zeros(2, 3, dtype=torch.uint8)), "x / 255"),
        (lambda net: affine("net", torch.zeros(2, 3)), "a str shows no networks"),
        (lambda net: monotone(nn.Sequential(net, nn.Tanh()), torch.zeros(2, 3)), "'1' .Tanh."),
    ],
)
def test_wrong_arguments(call, message):
    with pytest.raises(NescioError, match=message):
        call(nets.mlp(3, 2, widths=(4,)))


def test_members_of_other_architectures_have_no_half_spaces_together():
    mixed = models.ensemble([nets.mlp(3, 2, widths=(4,)), nets.mlp(3, 2, widths=(5,))])
    assert affine(mixed, torch.zeros(2, 3)).V.shape == (2, 2, 2, 3)
    with pytest.raises(NescioError, match="call affine on each network"):
        affine(mixed, torch.zeros(2, 3), half_spaces=True)


def test_the_network_is_not_changed():
    net = conv_net().train()
    before = copy.deepcopy(net.state_dict())
    affine(net, torch.randn(2, 1, 8, 8), half_spaces=True)
    assert net.training
    assert all(torch.equal(v, before[k]) for k, v in net.state_dict().items())
