"""One evaluation of a search: hyper-parameters drawn by Optuna, a network, its validation score."""

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from nescio import losses, nets
from nescio.core import NescioError, derive, one_thread, unknown
from nescio.data import half_moons
from nescio.evaluation.answers import quality, see
from nescio.models import Predictor, mc_dropout, plain, weight_samples
from nescio.training.train import train

if TYPE_CHECKING:
    from optuna.trial import Trial

PLAIN, DROPOUT, BAYES = "plain", "mc_dropout", "bayes_by_backprop"
MIXTURE, RELEASED = "bayes_mixture", "bayes_released"
MODELS = (PLAIN, DROPOUT, BAYES, MIXTURE, RELEASED)
TRAIN, VALIDATION = 500, 250  # points
PASSES = 50
MOONS = 123  # the seed of the paper's points
RESULTS = ("nll", "accuracy", "information", "epochs", "error")
Parameters = Mapping[str, Any]
Record = dict[str, Any]  # trial, parameters, results, seconds


# What the authors' code searched for Bayes-by-backprop beside table 2: a prior of two normal
# distributions (share of the first, spreads), the mean and rho of the weights at the start, and the
# weight of the divergence.
PUBLISHED_PRIOR: Mapping[str, tuple[float, float]] = {
    "share": (0.1, 0.9),
    "prior_spread": (math.exp(-0.8), math.exp(-0.1)),
    "narrow": (math.exp(-0.8), math.exp(-0.1)),
    "mean": (-0.6, 0.6),
    "rho": (-8.0, -2.0),
}
BETA, RAMP = (0.1, 2.5), 0.4  # a weight that grows to beta over the first 40 % of the training
START = 0.1  # deviation of means and rhos at the start


@dataclass(frozen=True)
class Ranges:
    """Table 2 of Ulmer and Cinà (2021); for the spreads of Bayes-by-backprop they name none."""

    layers: tuple[int, int] = (1, 5)
    widths: tuple[int, ...] = (15, 20, 25)  # of each layer by itself
    learning_rate: tuple[float, float] = (1e-4, 0.1)  # log-uniform
    dropout: tuple[float, float] = (0.0, 0.5)  # uniform
    spread: tuple[float, float] = (1e-3, 0.3)  # log-uniform, of the weights at the start
    prior_spread: tuple[float, float] = (0.1, 10.0)  # log-uniform

    def __post_init__(self) -> None:
        for name, values in asdict(self).items():
            least = 0.0 if name == "dropout" else 1e-12
            if not values or min(values) < least or values[0] > values[-1]:
                raise NescioError(f"the range of {name} must be positive and rise, got {values}")


@dataclass(frozen=True)
class Task:
    """What a worker needs to evaluate one trial."""

    model: str
    number: int
    parameters: Parameters
    seed: int
    epochs: int


def draw(model: str, ranges: Ranges, *, trials: int, seed: int) -> list[Parameters]:
    """The hyper-parameters of the first `trials` trials; trial k is the same however many."""
    if model not in MODELS:
        raise NescioError(unknown("model", model, MODELS))
    try:
        import optuna
    except ImportError as error:
        raise NescioError("a search needs Optuna: pip install nescio[search]") from error
    before = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    try:
        sampler = optuna.samplers.RandomSampler(seed=derive(seed, "search", model) % 2**32)
        study = optuna.create_study(sampler=sampler)
        return [_suggest(study.ask(), model, ranges) for _ in range(trials)]
    finally:
        optuna.logging.set_verbosity(before)


def _suggest(trial: "Trial", model: str, ranges: Ranges) -> Parameters:
    layers = trial.suggest_int("layers", *ranges.layers)
    widths = [trial.suggest_categorical(f"width {i}", ranges.widths) for i in range(layers)]
    rate = trial.suggest_float("learning_rate", *ranges.learning_rate, log=True)
    result = {"widths": widths, "learning_rate": rate}
    if model != BAYES:
        result |= {"dropout": trial.suggest_float("dropout", *ranges.dropout)}
    if model in (MIXTURE, RELEASED):
        result |= {n: trial.suggest_float(n, *r) for n, r in PUBLISHED_PRIOR.items()}
    if model == RELEASED:  # a weight that is not annealed is 1 there
        anneal = trial.suggest_categorical("anneal", (True, False))
        beta = trial.suggest_float("beta", *BETA)
        result |= {"anneal": anneal, "beta": beta if anneal else 1.0}
    if model != BAYES:
        return result
    spreads = {"spread": ranges.spread, "prior_spread": ranges.prior_spread}
    return result | {n: trial.suggest_float(n, *r, log=True) for n, r in spreads.items()}


def evaluate(task: Task) -> Record:
    """Train and score one trial; a training that breaks down is a record with its error."""
    start, result = time.monotonic(), Record(dict.fromkeys(RESULTS))
    options: dict[str, Any] = {"seed": task.seed, "epochs": task.epochs}
    try:
        result |= scores(task.model, task.parameters, starts=[task.number], **options)[0]
    except NescioError as error:
        result["error"] = str(error)
    seconds = round(time.monotonic() - start, 3)
    return {"trial": task.number, "parameters": task.parameters, **result, "seconds": seconds}


def scores(
    model: str,
    parameters: Parameters,
    *,
    starts: Sequence[int],
    seed: int,
    epochs: int,
    points: tuple[Tensor, Tensor] | None = None,
) -> list[Record]:
    """NLL and accuracy on the validation part or other points, and epochs trained, for each start.

    `information` is the largest mutual information in the plane of the paper's figures, in nats.
    """
    moons = half_moons(seed=MOONS, train=TRAIN, validation=VALIDATION, test=0)
    assert moons.validation is not None
    trained = train(
        _factory(model, parameters),
        moons.train,
        loss=objective(model, parameters),
        members=starts,
        epochs=epochs,
        batch_size=64,
        learning_rate=parameters["learning_rate"],
        validation=moons.validation,
        patience=5,
        seed=seed,
        progress=False,
    )
    assert trained.history is not None
    results = []
    for index, ran in enumerate(trained.history.stopped):
        predictor = _predictor(model, trained.member(index))
        with one_thread():
            results.append({**_numbers(predictor, *(points or moons.validation)), "epochs": ran})
    return results


def objective(model: str, parameters: Parameters) -> losses.Loss:
    """The likelihood, and for Bayes-by-backprop the divergence from its prior.

    The released code adds the whole divergence to the mean loss of a batch, so it weighs as many
    times too much as there are training points.
    """
    likelihood = losses.nll()
    if model in (PLAIN, DROPOUT):
        return likelihood
    prior = {n: parameters[n] for n in ("prior_spread", "narrow", "share") if n in parameters}
    if model != RELEASED:
        return losses.elbo(likelihood, **prior)
    ramp = RAMP if parameters["anneal"] else 0.0
    return losses.elbo(likelihood, **prior, weight=TRAIN * parameters["beta"], ramp=ramp)


def _numbers(predictor: Predictor, x: Tensor, y: Tensor) -> Record:
    numbers = quality(see(predictor, x), y)
    plane = torch.cartesian_prod(torch.arange(-3.5, 4.6, 0.25), torch.arange(-3.0, 3.6, 0.25))
    information = float(see(predictor, plane).scores["mutual_information"].max())
    return {"nll": numbers["nll"], "accuracy": numbers["accuracy"], "information": information}


def _factory(model: str, parameters: Parameters) -> Callable[[], nn.Module]:
    widths = tuple(parameters["widths"])
    if model in (MIXTURE, RELEASED):
        return lambda: _as_published(widths, parameters)
    if model == BAYES:
        return lambda: nets.bayesian_mlp(2, 2, widths=widths, spread=parameters["spread"])
    return lambda: nets.mlp(2, 2, widths=widths, dropout=parameters["dropout"])


def _as_published(widths: tuple[int, ...], parameters: Parameters) -> nn.Module:
    """A Bayesian network with the initial means and rhos of the authors' code."""
    net = nets.bayesian_mlp(2, 2, widths=widths, dropout=parameters["dropout"])
    with torch.no_grad():
        for name, value in net.named_parameters():
            value.normal_(parameters["rho" if name.endswith("_rho") else "mean"], START)
    return net


def _predictor(model: str, net: nn.Module) -> Predictor:
    if model == DROPOUT:
        return mc_dropout(net, passes=PASSES)
    if model != PLAIN:
        return weight_samples(plain(net), passes=PASSES)
    return plain(net)
