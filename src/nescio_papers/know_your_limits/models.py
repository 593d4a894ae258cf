"""The models of the half-moons world: trained all seeds at once, with two budgets.

The paper trains for at most 20 epochs, 160 steps, which is too short at its learning rates. So each
model is trained twice: with the paper's budget, and to the end. A model is kept as the stacked
networks it averages, in float64, so that measures have an exact gradient in the inputs.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from nescio import calibration, losses, nets
from nescio.core import Categorical, NescioError, generator
from nescio.data import half_moons
from nescio.models import weight_samples
from nescio.models.model import Model
from nescio.nets.modes import draw_mask
from nescio.training.train import train
from nescio_papers.kit import Settings

Pair = tuple[Tensor, Tensor]
PAPER, END = "paper's budget", "to the end"
BUDGETS = (PAPER, END)
PLAIN, PLATT, DROPOUT = "plain network", "Platt scaling", "MC dropout"
ENSEMBLE, ANCHORED = "ensemble", "anchored ensemble"
BAYES, MIXTURE = "Bayes by backprop", "Bayes by backprop, mixture prior"
SINGLE, MANY = (PLAIN, PLATT), (DROPOUT, ENSEMBLE, ANCHORED, BAYES)
WIDTHS, RATE, RATE_OF_DROPOUT = (25, 25, 25), 0.000538, 0.000526  # table 1 of the paper
P_PLAIN, P_DROPOUT = 0.014552, 0.205046
RATE_OF_BAYES = 1e-2  # the paper names none
# The prior of the authors' code: of two normal distributions, the first with this share.
MIXTURE_PRIOR: dict[str, Any] = {"share": 0.196422, "prior_spread": 0.606531, "narrow": 0.904837}
# Prior variances of Pearce et al. for classification: wide first layer, 1 / width, 5 / width.
PRIOR = {"0.*": 7.5, "9.weight": 0.2, "*.bias": 1.0, "*": 0.04}


@dataclass(frozen=True, eq=False)
class World:
    """The paper's 500 and 250 points, and 2000 fresh ones that nothing was chosen on."""

    train: Pair
    validation: Pair
    fresh: Pair


@dataclass(frozen=True, eq=False)
class Network:
    """Stacked networks with logits `slope * z + intercept`; differentiable in the inputs."""

    model: Model
    slope: float = 1.0
    intercept: tuple[float, ...] = (0.0, 0.0)

    def logits(self, x: Tensor) -> Tensor:
        """Logits `(M, N, C)` of inputs `(N, D)`, or of `(M, N, D)` where each has its own."""
        inputs = x if x.ndim == 3 else x.expand(self.model.members, *x.shape)
        outputs = self.model.architecture(self.model.tensors, inputs)
        return self.slope * outputs + outputs.new_tensor(self.intercept[: outputs.shape[-1]])

    def __call__(self, x: Any) -> Categorical:
        return Categorical(self.logits(torch.as_tensor(x, dtype=torch.float64)))


Models = Mapping[str, tuple[Network, ...]]  # by name, one for each seed


def seeds(settings: Settings) -> int:
    """How many trainings there are of each model."""
    return 2 if settings.quick else 5


def members(settings: Settings) -> int:
    """How many networks an ensemble has."""
    return 5 if settings.quick else 10


def passes(settings: Settings) -> int:
    """How many draws MC dropout and Bayes by backprop average."""
    return 10 if settings.quick else 50


@cache
def world(seed: int) -> World:
    """Half-moons with noise 0.125; seed 0 is the paper's seed 123."""
    drawn = half_moons(seed=123 + seed, train=500, validation=250, test=0)
    fresh = half_moons(seed=100_123 + seed, train=2000, validation=0, test=0)
    assert drawn.validation is not None
    return World(drawn.train, drawn.validation, fresh.train)


@cache
def trained(settings: Settings, budget: str) -> Models:
    """All models of all seeds; the plain network is the first member of the ensemble."""
    count, size, draws = seeds(settings), members(settings), passes(settings)
    plain = fit(_plain, settings, budget, count * size, RATE)
    anchored = losses.anchored(losses.nll(), prior_variance=PRIOR)
    near = fit(_plain, settings, budget, count * size, RATE, anchored)
    dropout = fit(_dropout, settings, budget, count, RATE_OF_DROPOUT)
    normal = fit(_bayes, settings, budget, count, RATE_OF_BAYES, losses.elbo(losses.nll()))
    prior = losses.elbo(losses.nll(), **MIXTURE_PRIOR)
    mixture = fit(_bayes, settings, budget, count, RATE_OF_BAYES, prior)
    groups = [range(size * i, size * (i + 1)) for i in range(count)]
    first = [Network(choose(plain, group[:1])) for group in groups]
    return {
        PLAIN: tuple(first),
        PLATT: tuple(calibrated(net, world(settings.seed).validation) for net in first),
        DROPOUT: tuple(Network(thinned(choose(dropout, [i]), draws)) for i in range(count)),
        ENSEMBLE: tuple(Network(choose(plain, group)) for group in groups),
        ANCHORED: tuple(Network(choose(near, group)) for group in groups),
        BAYES: tuple(
            Network(weight_samples(choose(normal, [i]), passes=draws)) for i in range(count)
        ),
        MIXTURE: tuple(
            Network(weight_samples(choose(mixture, [i]), passes=draws)) for i in range(count)
        ),
    }


@cache
def with_activation(settings: Settings, activation: str) -> tuple[Network, ...]:
    """Plain networks with another activation, trained to the end, one for each seed."""
    if activation == "relu":
        return trained(settings, END)[PLAIN]
    model = fit(lambda: _plain(activation), settings, END, seeds(settings), RATE)
    return tuple(Network(choose(model, [i])) for i in range(model.members))


def _plain(activation: str = "relu") -> nn.Module:
    return nets.mlp(2, 2, widths=WIDTHS, dropout=P_PLAIN, activation=activation)


def _dropout() -> nn.Module:
    return nets.mlp(2, 2, widths=(25,) * 4, dropout=P_DROPOUT)


def _bayes() -> nn.Module:
    return nets.bayesian_mlp(2, 2, widths=WIDTHS, spread=0.02)


def fit(
    make: Callable[[], nn.Module],
    settings: Settings,
    budget: str,
    count: int,
    rate: float,
    loss: losses.Loss | None = None,
) -> Model:
    """Train `count` networks with a budget; in float64 afterwards."""
    data = world(settings.seed)
    how = _budget(settings, budget, rate, loss)
    model = train(
        make,
        data.train,
        validation=data.validation,
        loss=loss,
        members=count,
        batch_size=64,
        seed=settings.seed,
        progress=False,
        **how,
    )
    return model.to(torch.float64)


def _budget(
    settings: Settings, budget: str, rate: float, loss: losses.Loss | None
) -> dict[str, Any]:
    """Epochs, rate and patience; priors pull the whole way, so they get a falling rate."""
    if budget == PAPER:
        return {"epochs": 20, "patience": 5, "learning_rate": rate}
    if loss is None:
        epochs, patience = (80, 10) if settings.quick else (400, 30)
        return {"epochs": epochs, "patience": patience, "learning_rate": rate}
    if rate == RATE_OF_BAYES:
        return {
            "epochs": 20 if settings.quick else 150,
            "learning_rate": rate,
            "schedule": "cosine",
        }
    return {"epochs": 20 if settings.quick else 100, "learning_rate": 0.02, "schedule": "cosine"}


def choose(model: Model, which: Sequence[int]) -> Model:
    """Some of the networks of a model."""
    tensors = {name: tensor[list(which)] for name, tensor in model.tensors.items()}
    return Model(model.net, tensors, model.head)


def thinned(model: Model, draws: int, seed: int = 0) -> Model:
    """MC dropout as ordinary networks: a mask on a layer is a mask on the next layer's weights.

    The masks are those of `predictors.mc_dropout` with the same seed, so the answers agree.
    """
    layers = [(n, m) for n, m in model.net.named_modules() if isinstance(m, nn.Linear)]
    rate = next(m.p for m in model.net.modules() if isinstance(m, nn.Dropout))
    tensors = {name: tensor.repeat_interleave(draws, 0) for name, tensor in model.tensors.items()}
    sources = [generator(seed, "pass", t) for t in range(draws)]
    for name, layer in layers[1:]:
        weight = tensors[f"{name}.weight"]
        masks = [draw_mask((layer.in_features,), rate, source, weight) for source in sources]
        tensors[f"{name}.weight"] = weight * torch.stack(masks).repeat(model.members, 1)[:, None]
    return Model(model.net, tensors, model.head)


def calibrated(network: Network, held_out: Pair) -> Network:
    """Platt scaling on held-out data; with Platt's smoothed targets where all samples are right.

    Where every held-out case is right, plain likelihood has no best slope.
    """
    try:
        result = calibration.platt(network, held_out)
        return Network(network.model, result.slope, result.intercept)
    except NescioError:
        slope, shift = _smoothed_platt(network(held_out[0]), held_out[1])
        return Network(network.model, slope, (0.0, shift))


def _smoothed_platt(prediction: Categorical, labels: Tensor) -> tuple[float, float]:
    """Slope and shift for Platt's targets (n + 1) / (n + 2) and 1 / (n + 2) (Platt, 1999)."""
    from scipy.optimize import minimize

    gap = (prediction.logits[0, :, 1] - prediction.logits[0, :, 0]).numpy()
    positive = labels.numpy() == 1
    high = (positive.sum() + 1) / (positive.sum() + 2)
    low = 1 / ((~positive).sum() + 2)
    target = np.where(positive, high, low)

    def objective(values: Any) -> float:
        z = values[0] * gap + values[1]
        return float(np.mean(np.logaddexp(0, z) - target * z))

    slope, shift = minimize(objective, np.array([1.0, 0.0]), method="BFGS").x
    return float(slope), float(shift)
