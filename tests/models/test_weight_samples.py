"""Networks drawn from a distribution over weights: what a draw is, what it depends on, files."""

from dataclasses import replace

import pytest
import torch
from click.testing import CliRunner
from torch import nn
from torch.nn import functional as F

import nescio
from nescio import heads, losses, measures, models, nets
from nescio.cli.main import main
from nescio.core import NescioError, generator, seeded
from nescio.models import weight_samples
from nescio.nets.mlp import VariationalLinear

X = torch.randn(9, 3, generator=torch.Generator().manual_seed(0))


def model(members=1, **options):
    with seeded(0):
        each = [nets.bayesian_mlp(3, 2, widths=(4,), spread=0.3, **options) for _ in range(members)]
    return models.ensemble(each)


def test_members_are_ordinary_networks_with_drawn_weights():
    one = model()
    drawn = weight_samples(one, passes=3, seed=5)
    assert drawn.members == 3
    for t in range(3):
        net = drawn.member(t)
        assert [type(layer) for layer in net] == [nn.Linear, nn.ReLU, nn.Linear]
        for layer in ("0", "2"):
            for part in ("weight", "bias"):
                mean = one.tensors[f"{layer}.{part}_mean"][0]
                rho = one.tensors[f"{layer}.{part}_rho"][0]
                source = generator(5, "draw", t, f"{layer}.{part}")
                truth = mean + F.softplus(rho) * torch.randn(mean.shape, generator=source)
                torch.testing.assert_close(net.state_dict()[f"{layer}.{part}"], truth)
        torch.testing.assert_close(drawn(X).logits[t], net(X))


def test_draws_know_the_data_that_the_model_was_trained_on():
    seen = torch.tensor([1, 5, 9])
    assert weight_samples(replace(model(), seen=seen), passes=2).seen is seen


def test_a_draw_depends_on_the_seed_and_the_pass_alone():
    one = model()
    many = weight_samples(one, passes=6, seed=1)(X).logits
    assert torch.equal(weight_samples(one, passes=6, seed=1)(X).logits, many)
    torch.testing.assert_close(weight_samples(one, passes=2, seed=1)(X).logits, many[:2])
    other = weight_samples(one, passes=6, seed=2)(X).logits
    assert not torch.isclose(other, many).all(-1).any()
    assert len(many[:, 0, 0].unique()) == 6


def test_each_of_several_networks_gives_its_passes():
    both = model(members=2)
    logits = weight_samples(both, passes=4)(X).logits
    assert logits.shape == (8, 9, 2)
    for index in range(2):
        alone = weight_samples(models.plain(both.member(index)), passes=4)(X).logits
        torch.testing.assert_close(logits[4 * index : 4 * index + 4], alone)


def test_the_batch_size_does_not_matter():
    drawn = weight_samples(model(), passes=5)
    torch.testing.assert_close(drawn(X, batch_size=2).logits, drawn(X).logits)


@pytest.mark.parametrize("count", [20_000])
def test_the_moments_are_those_of_the_weights(count):
    """Of a single layer the outputs are normal: mean x m + b, variance x^2 s^2 + t^2."""
    with seeded(0):
        layer = VariationalLinear(3, 2, spread=0.3)
    logits = weight_samples(models.plain(nn.Sequential(layer)), passes=count)(X).logits
    variance = X.square() @ F.softplus(layer.weight_rho).square().T
    variance = variance + F.softplus(layer.bias_rho).square()
    gap = (logits.mean(0) - layer.eval()(X)).abs()
    assert (gap < 5 * (variance / count).sqrt()).all()
    assert ((logits.var(0) / variance - 1).abs() < 5 * (2 / count) ** 0.5).all()


def test_what_is_not_variational_is_kept():
    net = nets.standardized(
        nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nets.bayesian_mlp(4, 2, widths=())), 3 + X
    )
    drawn = weight_samples(models.plain(net), passes=3)
    assert isinstance(drawn.member(1)[1][2][0], nn.Linear)
    assert torch.equal(drawn.member(2)[0].mean, net[0].mean)
    assert torch.equal(drawn.member(2)[1][0].weight, net[1][0].weight)


def test_the_model_itself_stays_as_it_is():
    one = model()
    before = one(X).logits
    weight_samples(one, passes=3)(X)
    assert torch.equal(one(X).logits, before)
    assert isinstance(one.net[0], VariationalLinear)


def test_regression_and_dropout_in_the_network():
    with seeded(0):
        net = nets.bayesian_mlp(3, 4, widths=(5,), dropout=0.3)
    one = models.plain(net, head=heads.gaussian())
    prediction = weight_samples(one, passes=50)(X)
    assert prediction.mean.shape == (50, 9, 2)
    assert (prediction.epistemic > 0).all()


@pytest.mark.parametrize("standardize", [False, True])
def test_drawn_networks_can_be_saved_by_themselves(tmp_path, standardize):
    y = (X[:, 0] > 0).long()
    one = nescio.train(
        lambda: nets.bayesian_mlp(3, 2, widths=(4,), activation="tanh", dropout=0.1),
        (X, y),
        loss=losses.elbo(losses.nll()),
        standardize=standardize,
        epochs=2,
    )
    drawn = weight_samples(one, passes=3)
    drawn.save(tmp_path)
    assert torch.equal(nescio.load(tmp_path)(X).logits, drawn(X).logits)
    one.save(tmp_path)
    assert torch.equal(nescio.load(tmp_path)(X).logits, one(X).logits)


def test_a_trained_recipe_is_loaded_as_it_was(tmp_path):
    words = ["train", "bayes_by_backprop", "--data", "half_moons", "--run", str(tmp_path / "r")]
    result = CliRunner().invoke(main, [*words, "--epochs", "3", "-o", "passes=7"])
    assert result.exit_code == 0, result.output
    assert "7 member(s)" in result.output
    moons = nescio.data.half_moons()
    loaded = nescio.load(tmp_path / "r")
    x = moons.test[0]
    truth = weight_samples(nescio.load(tmp_path / "r" / "model.safetensors"), passes=7, seed=0)
    assert loaded(x).members == 7
    assert torch.equal(loaded(x).logits, truth(x).logits)
    assert measures.mutual_information(loaded(x)).max() > 0


def test_wrong_calls_are_said_to_be_wrong():
    with pytest.raises(NescioError, match="passes must be a whole number from 1 up, got 0"):
        weight_samples(model(), passes=0)
    with pytest.raises(NescioError, match=r"variational layers, such as nets\.bayesian_mlp"):
        weight_samples(models.plain(nets.mlp(3, 2)))


def accuracy(predictor, part):
    return (predictor(part[0]).labels == part[1]).double().mean().item()


def test_on_half_moons_it_is_as_accurate_as_a_plain_network_and_not_flat():
    """Two networks from two starts, trained in one stack and judged one by one."""
    moons = nescio.data.half_moons(seed=123)
    options = {"batch_size": 64, "learning_rate": 1e-2, "schedule": "cosine", "members": 2}
    widths = (25, 25, 25)
    plain = nescio.train(lambda: nets.mlp(2, 2, widths=widths), moons.train, epochs=60, **options)
    bayes = nescio.train(
        lambda: nets.bayesian_mlp(2, 2, widths=widths, spread=0.02),
        moons.train,
        loss=losses.elbo(losses.nll()),
        epochs=150,
        **options,
    )
    side = torch.linspace(-4, 4, 41)
    grid = torch.cartesian_prod(side, side)
    for index in range(2):
        drawn = weight_samples(models.plain(bayes.member(index)), passes=100)
        best = accuracy(models.plain(plain.member(index)), moons.validation)
        assert best > 0.98
        assert accuracy(drawn, moons.validation) >= best - 0.01
        everywhere = measures.mutual_information(drawn(grid))
        on_data = measures.mutual_information(drawn(moons.validation[0]))
        assert everywhere.max() > 0.1
        assert everywhere.mean() > 2 * on_data.mean()
