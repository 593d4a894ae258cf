"""Posterior networks: densities that integrate to 1, and evidence that ends far from the data."""

import math

import pytest
import torch
from torch.func import jacrev, vmap

import nescio
from nescio import nets, recipes
from nescio.core import NescioError, mutual_information
from nescio.nets.posterior_network import RadialFlows


def blobs(count, seed):
    rng, y = torch.Generator().manual_seed(seed), torch.arange(count) % 3
    middle = torch.tensor([[0.0, 2.0], [-1.7, -1.0], [1.7, -1.0]])
    return middle[y] + 0.7 * torch.randn(count, 2, generator=rng), y


def flows(densities, features, count, spread=2.0):
    with torch.random.fork_rng():
        torch.manual_seed(0)
        made = RadialFlows(densities, features, count).double()
        for weight in made.parameters():
            weight.data.normal_(0, spread)
    return made


def test_each_density_integrates_to_one():
    side = torch.linspace(-15, 15, 401, dtype=torch.float64)
    grid = torch.cartesian_prod(side, side)
    total = flows(3, 2, 4, spread=1.0)(grid).exp().sum(0) * (side[1] - side[0]) ** 2
    assert total.tolist() == pytest.approx([1.0] * 3, abs=2e-3)


def test_a_density_is_the_normal_one_times_the_determinant_of_the_flow():
    made, z = flows(1, 3, 1), torch.randn(20, 3, dtype=torch.float64)
    a = torch.nn.functional.softplus(made.width[0, 0])
    b = torch.nn.functional.softplus(made.pull[0, 0]) - a

    def moved(point):
        gap = point - made.center[0, 0]
        return point + b * gap / (a + gap.norm())

    normal = torch.distributions.Normal(0.0, 1.0).log_prob(vmap(moved)(z)).sum(1)
    truth = normal + torch.linalg.slogdet(vmap(jacrev(moved))(z)).logabsdet
    torch.testing.assert_close(made(z)[:, 0], truth, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("density", ["classes", "shared"])
def test_it_learns_the_classes_and_its_evidence_ends_along_every_ray(density):
    train, (x, y) = blobs(300, 0), blobs(600, 1)
    made = {"latent": 2, "flows": 4, "density": density, "widths": (32,)}
    shared = {"epochs": 40, "learning_rate": 0.01, "seed": 0, "progress": False}
    model = nescio.train(
        lambda: nets.posterior_network(2, 3, **made),
        train,
        loss=recipes.posterior_network().loss,
        **shared,
    )
    softmax = nescio.train(lambda: nets.mlp(2, 3, widths=(32,)), train, **shared)
    right = [(one(x).labels == y).float().mean() for one in (model, softmax)]
    assert right[0] > right[1] - 0.02
    angle = 2 * math.pi * torch.arange(64) / 64
    rays = torch.stack([angle.cos(), angle.sin()], 1)
    near = model(x).log_precision
    for distance in (1e2, 1e3, 1e6, 1e20):
        assert model(distance * rays).log_precision.max() < near.max()
    far = model(1e6 * rays)
    torch.testing.assert_close(far.log_precision, torch.full((64,), math.log(3)))  # the prior
    assert mutual_information(far).min() > mutual_information(model(x)).median()


def test_the_prior_network_beside_grows_surer_along_the_same_rays():
    loss = recipes.dirichlet().loss
    model = nescio.train(lambda: nets.mlp(2, 3), blobs(300, 0), loss=loss, epochs=20, seed=0)
    angle = 2 * math.pi * torch.arange(64) / 64
    rays = torch.stack([angle.cos(), angle.sin()], 1)
    precisions = torch.stack([model(t * rays).log_precision for t in (1e2, 1e4, 1e6)])
    assert (precisions.diff(dim=0) > 0).float().mean() > 0.95


def test_it_is_saved_and_counts_scale_the_evidence(tmp_path):
    x, y = blobs(60, 0)
    made = {"latent": 2, "flows": 2, "widths": (8,)}
    loss = recipes.posterior_network().loss
    make = lambda: nets.posterior_network(2, 3, counts=(20,) * 3, **made)  # noqa: E731
    model = nescio.train(make, (x, y), loss=loss, epochs=1)
    model.save(tmp_path / "m")
    again = nescio.load(tmp_path / "m")
    torch.testing.assert_close(again(x).log_alpha, model(x).log_alpha)
    one, two = (nets.posterior_network(2, 3, counts=(c,) * 3, **made).eval() for c in (5, 50))
    two.load_state_dict({**one.state_dict(), "log_counts": two.log_counts})
    torch.testing.assert_close(two(x) - one(x), torch.full((60, 3), math.log(10)))


@pytest.mark.parametrize("shape", [5, (5,), (1, 8, 8)])
@pytest.mark.parametrize("density", ["classes", "shared"])
def test_inputs_of_any_shape(shape, density):
    net = nets.posterior_network(shape, 4, density=density, latent=3)
    batch = torch.randn(7, *((shape,) if isinstance(shape, int) else shape))
    assert net(batch).shape == (7, 4)
    assert net.eval()(1e30 * batch).isfinite().all()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"latent": 0}, "sizes must be positive"),
        ({"density": "each"}, "density must be 'classes' or 'shared', got 'each'"),
        ({"counts": (1.0, 2.0)}, "counts must be 3 positive numbers"),
        ({"counts": (1.0, 0.0, 2.0)}, "counts must be 3 positive numbers"),
    ],
)
def test_bad_options_are_refused(options, said):
    with pytest.raises(NescioError, match=said):
        nets.posterior_network(2, 3, **options)


@pytest.mark.parametrize("density", ["classes", "shared"])
def test_detectors_and_guards_read_its_latent_space(density):
    (x, y), calibration = blobs(300, 0), blobs(300, 1)
    make = lambda: nets.posterior_network(2, 3, latent=2, density=density, widths=(8,))  # noqa: E731
    loss = recipes.posterior_network().loss
    model = nescio.train(make, (x, y), loss=loss, epochs=2, standardize=True, progress=False)
    seen = nescio.observe(model, x, progress=False)
    assert (seen.last, seen.features["norm"].shape) == ("norm", (1, 300, 2))
    made = nescio.guard(model, calibration, train=(x, y), risk=0.9, progress=False)
    assert "norm" in made.detector.layers
    with pytest.warns(nescio.core.RangeWarning):
        assert made(x + 1000).summary()["ood"] == 1
