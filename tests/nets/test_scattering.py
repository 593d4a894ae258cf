"""Scattering: against direct sums in numpy, and what it guarantees."""

import numpy as np
import pytest
import torch
from torch import nn

import nescio
from nescio import models, nets
from nescio.core import NescioError
from nescio.geometry import local_lipschitz, product_bound, sampled_lipschitz
from nescio.nets.scattering import Scattering, energies, filters


def draw(*shape, seed=0):
    return torch.rand(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def direct(image, kernel):
    """A convolution around a torus as a sum over all shifts."""
    found = np.zeros(image.shape, complex)
    for (row, column), weight in np.ndenumerate(kernel):
        found += weight * np.roll(image, (row, column), (0, 1))
    return found


def test_the_coefficients_are_those_of_direct_convolutions():
    front = Scattering(7, 6, scales=2, orientations=3).double()
    image = draw(7, 6).numpy()
    padded = np.zeros((16, 16))
    padded[4:11, 4:10] = image
    kernels = [np.fft.ifft2(one) for one in front.high.numpy()]
    low = np.fft.ifft2(front.low.numpy())
    firsts = [abs(direct(padded, kernel)) for kernel in kernels]
    seconds = [abs(direct(first, kernel)) for first in firsts[:3] for kernel in kernels[3:]]
    expected = [direct(one, low).real[4:12:4, 4:12:4] for one in (padded, *firsts, *seconds)]
    found = front(torch.from_numpy(image)[None, None])[0]
    assert found.shape == (front.paths, 2, 2) == (1 + 6 + 9, 2, 2)
    np.testing.assert_allclose(found.numpy(), np.stack(expected), atol=1e-9)


@pytest.mark.parametrize(("size", "scales", "orientations"), [((36, 36), 2, 8), ((40, 24), 3, 4)])
def test_the_filters_are_a_tight_frame_of_wavelets(size, scales, orientations):
    low, high = filters(size, scales, orientations)
    np.testing.assert_allclose(energies(low, high), 1.0, atol=1e-12)
    assert low[0, 0] == 1
    assert (high[:, 0, 0] == 0).all()  # the mean of a wavelet
    image = torch.fft.fft2(draw(*size))
    parts = torch.fft.ifft2(torch.cat([low[None], high]) * image)
    assert parts.abs().square().sum() == pytest.approx(float(draw(*size).square().sum()))


def test_wavelets_look_their_way():
    """A wave along rows excites the wavelets of that direction, and the one across the others."""
    front = Scattering(32, 32, scales=2, orientations=4).double()
    at = torch.arange(32, dtype=torch.float64)
    across = torch.cos(0.75 * torch.pi * at).expand(32, 32)
    first = front(torch.stack([across, across.T])[:, None])[:, 1:5].square().sum((2, 3))
    assert first[0].argmax() == 0
    assert first[1].argmax() == 2


def test_energy_is_conserved_and_no_two_images_get_further_apart():
    front = Scattering(12, 12, scales=2, orientations=4).double()
    assert front.expansion < 0.6
    for seed in range(5):
        x, y = draw(2, 1, 2, 12, 12, seed=seed) - 0.5
        apart = (front(x) - front(y)).norm() / (x - y).norm()
        near = (front(x) - front(x + 1e-3 * y)).norm() / (1e-3 * y).norm()
        assert max(apart, near) <= front.expansion
    assert front(x).norm() <= x.norm() * front.expansion


def test_moving_an_image_changes_little_less_with_more_scales_and_within_the_bound():
    x = torch.zeros(1, 1, 32, 32, dtype=torch.float64)
    x[..., 10:20, 10:20] = draw(10, 10)
    found = []
    for scales in (1, 2, 3):
        front = Scattering(32, 32, scales=scales, orientations=4).double()
        moves = [((0, 2), 2), ((3, 0), 3), ((3, 4), 5)]
        changes = [float((front(x.roll(move, (-2, -1))) - front(x)).norm()) for move, _ in moves]
        for change, (_, length) in zip(changes, moves, strict=True):
            assert change <= front.shift_bound(length) * float(x.norm())
        found.append(changes[0] / float(front(x).norm()))
    assert found[0] > found[1] > found[2]
    assert front.shift_bound(0.5) == pytest.approx(0.5 * front.shift_bound(1.0), rel=0.02)
    assert front.shift_bound(2) < Scattering(32, 32, scales=2, orientations=4).shift_bound(2) / 3


def test_averages_at_few_pixels_are_bounded_by_their_operator():
    front = Scattering(12, 12, scales=2, orientations=2).double()
    squares = front.low.square().unflatten(1, (4, -1)).sum(1).unflatten(0, (4, -1)).sum(0)
    matrix = torch.kron(front.down, front.across)
    assert torch.linalg.matrix_norm(matrix, 2) <= squares.max().sqrt() / 4
    assert front.expansion == pytest.approx(3**0.5 * float(squares.max().sqrt()) / 4, rel=1e-6)


def test_the_network_trains_saves_and_is_bounded(tmp_path):
    x, y = draw(40, 1, 8, 8).float(), torch.arange(40) % 2
    x[y == 1, :, :, ::2] = 0
    model = nescio.train(
        lambda: nets.scattering((1, 8, 8), 2, orientations=4, hidden=6),
        (x, y),
        epochs=20,
        batch_size=8,
        members=2,
    )
    assert (model(x).probs.argmax(-1) == y).float().mean() > 0.9
    model.save(tmp_path / "model")
    again = nescio.load(tmp_path / "model")
    assert torch.allclose(again(x).probs, model(x).probs)
    bound = product_bound(model, x).bound
    assert (sampled_lipschitz(model, x, draws=50).bound <= bound).all()
    with pytest.raises(NescioError, match="bounded in the norm .l2. only"):
        product_bound(model, x, norm="linf")
    with pytest.raises(NescioError, match="a scattering transform is not piecewise affine"):
        local_lipschitz(model, x)


def test_colors_are_filtered_apart_and_affine_layers_are_multiplied_out():
    net = nets.scattering((3, 9, 10), 4, orientations=2).eval()
    assert net(draw(2, 3, 9, 10).float()).shape == (2, 4)
    assert net[0](draw(1, 3, 9, 10).float()).shape == (1, 3 * net[0].paths, 3, 3)
    net[1].running_var.copy_(draw(len(net[1].running_var)) + 0.01)
    weight = net[3].weight.detach().double().unflatten(1, (-1, 9))
    scale = (net[1].running_var.double() + net[1].eps).rsqrt()
    exact = torch.linalg.matrix_norm((weight * scale[:, None]).flatten(1), 2)
    bound = product_bound(net, torch.zeros(1, 3, 9, 10))
    assert float(bound) == pytest.approx(float(exact) * net[0].expansion, rel=1e-6)


def test_wrong_sizes_are_refused():
    with pytest.raises(NescioError, match="sizes must be positive"):
        nets.scattering((1, 8, 8), 2, scales=0)
    with pytest.raises(NescioError, match="reads images of 8x8 pixels"):
        nets.scattering((1, 8, 8), 2)(torch.zeros(1, 1, 12, 8))
    assert isinstance(models.plain(nets.scattering((1, 7, 5), 2)).member(0), nn.Module)
