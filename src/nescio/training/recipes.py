"""Named methods as combinations: a loss, a number of members, and where members come from."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor

from nescio import losses
from nescio.attacks import Ascent
from nescio.core import Head, NescioError, fixed_variance
from nescio.core.registry import predictors, recipes
from nescio.data import OODSource
from nescio.data.ranges import Units, near, noise, units_of
from nescio.losses.loss import in_units
from nescio.models import Predictor
from nescio.models.model import Model

Source = OODSource | Callable[[Tensor], OODSource]  # an OOD source, or one made of the inputs
BEYOND = 0.5  # of its range that noise goes past each end of a feature
FAR = 1e6  # ranges: where the ball alone bounds an attack


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """What a named method trains, and how it predicts."""

    loss: losses.Loss | Callable[[Tensor], losses.Loss]  # or a function of the training inputs
    members: int = 1
    dropout: float = 0.0  # of the network
    net: str | None = None  # the network it needs; None: any
    sampler: str | None = None  # the predictor that draws members from the model, if any
    sampling: dict[str, Any] = field(default_factory=dict)  # its options

    def loss_for(self, x: Tensor) -> losses.Loss:
        """The loss for training inputs `(N, ...)`: some make their noise of them."""
        return self.loss if isinstance(self.loss, losses.Loss) else self.loss(x)

    def predictor(self, model: Model) -> Predictor:
        """The predictor of a model that was trained with this recipe."""
        if self.sampler is None:
            return model
        drawn: Predictor = predictors[self.sampler](model, **self.sampling)
        return drawn


@recipes.register
def single(head: Head | None = None, *, weight_decay: float = 0.0) -> Recipe:
    """One network, maximum likelihood."""
    return Recipe(loss=_decayed(losses.nll(head), weight_decay))


@recipes.register
def dropout(
    head: Head | None = None, *, dropout: float = 0.2, passes: int = 100, weight_decay: float = 0.0
) -> Recipe:
    """One network with dropout, sampled at prediction (MC dropout)."""
    sampling = {"passes": passes, "seed": 0}
    loss = _decayed(losses.nll(head), weight_decay)
    return Recipe(loss=loss, dropout=dropout, sampler="mc_dropout", sampling=sampling)


@recipes.register
def deep_ensemble(
    head: Head | None = None, *, members: int = 5, weight_decay: float = 0.0
) -> Recipe:
    """Networks from different starts and batch orders, averaged."""
    return Recipe(loss=_decayed(losses.nll(head), weight_decay), members=members)


@recipes.register
def adversarial_ensemble(
    head: Head | None = None, *, members: int = 5, share: float = 0.01, weight_decay: float = 0.0
) -> Recipe:
    """A deep ensemble with fast-gradient-sign adversarial training."""
    loss = losses.adversarial(losses.nll(head), share=share)
    return Recipe(loss=_decayed(loss, weight_decay), members=members)


@recipes.register
def virtual_adversarial_ensemble(
    head: Head | None = None,
    *,
    members: int = 5,
    radius: float = 0.05,
    weight: float = 1.0,
    weight_decay: float = 0.0,
) -> Recipe:
    """A deep ensemble smoothed by virtual adversarial training, which reads no labels."""
    loss = losses.virtual_adversarial(losses.nll(head), radius=radius, weight=weight)
    return Recipe(loss=_decayed(loss, weight_decay), members=members)


@recipes.register
def bayes_by_backprop(
    head: Head | None = None, *, passes: int = 100, prior_spread: float = 1.0
) -> Recipe:
    """A distribution over every weight, drawn from at prediction."""
    loss = losses.elbo(losses.nll(head), prior_spread=prior_spread)
    sampling = {"passes": passes, "seed": 0}
    return Recipe(loss=loss, net="bayesian_mlp", sampler="weight_samples", sampling=sampling)


@recipes.register
def anchored_ensemble(
    head: Head | None = None,
    *,
    members: int = 10,
    prior_variance: float | None = None,
    noise: float | None = None,
) -> Recipe:
    """Networks that stay near their own draws from the prior.

    With `noise`, the variance of the targets, the base is the squared error of a mean (regression).
    """
    if noise is not None:
        if head is None or head.task != "regression":
            raise NescioError("noise is the variance of regression targets; classes have none")
        head = fixed_variance(variance=noise)
    base = losses.nll(head)
    return Recipe(loss=losses.anchored(base, prior_variance=prior_variance), members=members)


@recipes.register
def evidential_regression(
    head: Head | None = None,
    *,
    weight: float = 0.01,
    weight_decay: float = 0.0,
    members: int = 1,
) -> Recipe:
    """One network that predicts a Student t density and its evidence; for a regression.

    weight: of the errors times the evidence, in the loss. Standardize the targets.
    """
    if head is not None and head.task != "regression":
        raise NescioError("evidential_regression is for targets; for classes there is `evidential`")
    own = head if head is not None and head.name == "normal_inverse_gamma" else None
    loss = losses.evidential_regression(own, weight=weight)
    return Recipe(loss=_decayed(loss, weight_decay), members=members)


@recipes.register
def ceda(
    head: Head | None = None,
    *,
    ood: Source | None = None,
    weight: float = 1.0,
    weight_decay: float = 0.0,
    members: int = 1,
) -> Recipe:
    """A network that learns to be unsure on noise (CEDA).

    ood: other inputs to be unsure on; by default the papers' noise, or, for vectors, uniform
    noise round the data and features from different samples.
    """

    def loss(x: Tensor, units: Units) -> losses.Loss:
        return losses.ceda(losses.nll(head), _ood(ood, x, units), weight=weight)

    return Recipe(loss=_of_inputs(loss, weight_decay), members=members)


@recipes.register
def acet(
    head: Head | None = None,
    *,
    ood: Source | None = None,
    weight: float = 1.0,
    radius: float | None = None,
    steps: int = 0,
    keep: bool = True,
    free: float | None = None,
    ramp: float | None = None,
    weight_decay: float = 0.0,
    members: int = 1,
) -> Recipe:
    """A network with low confidence around noise, at its most confident points (ACET).

    ood: as in `ceda`; images must lie in the range of the training images.
    radius: of the attack, as a share of the range; 0.3 for images, 0.05 for vectors. It goes on
    from epoch to epoch, by a step of free * radius (0.5) that the training pass gives, and by
    `steps` steps, of radius / steps each; the radius grows over the first part `ramp` (0.3) of
    the training. The paper's attack starts again each time: steps=40, keep=0.
    """

    def loss(x: Tensor, units: Units) -> losses.Loss:
        reach = near(radius, x)
        past = BEYOND if ood is None else FAR  # nobody knows the range of other vectors
        low, high = (0.0, 1.0) if x.ndim == 4 else (-past, 1 + past)
        size = reach / max(steps, 1) or None
        attack = Ascent(radius=reach, steps=steps, step=size, best=not keep, low=low, high=high)
        return losses.acet(
            losses.nll(head),
            _ood(ood, x, units),
            weight=weight,
            attack=attack,
            keep=keep,
            free=0.5 * keep if free is None else free,
            ramp=0.3 * keep if ramp is None else ramp,
        )

    return Recipe(loss=_of_inputs(loss, weight_decay), members=members)


@recipes.register
def outlier_exposure(
    head: Head | None = None,
    *,
    ood: Source | None = None,
    weight: float = 0.5,
    weight_decay: float = 0.0,
    members: int = 1,
) -> Recipe:
    """A network that learns to be unsure on outliers, another data set (outlier exposure)."""
    if ood is None:
        raise NescioError(
            "outlier_exposure needs outliers: ood=fashion_mnist, a data set or a file, or "
            "ood=patches, made of the training images"
        )

    def loss(x: Tensor, units: Units) -> losses.Loss:
        return losses.outlier_exposure(losses.nll(head), _ood(ood, x, units), weight=weight)

    return Recipe(loss=_of_inputs(loss, weight_decay), members=members)


@recipes.register
def adversarial_training(
    head: Head | None = None,
    *,
    radius: float | None = None,
    steps: int = 10,
    clean: float = 0.0,
    weight_decay: float = 0.0,
    members: int = 1,
) -> Recipe:
    """A network trained on inputs that an attack on the label has moved.

    radius: as a share of the range; 0.3 for images, 0.05 for vectors. clean: share of samples that
    stay as they are.
    """

    def loss(x: Tensor, _: Units) -> losses.Loss:
        attack = Ascent(radius=near(radius, x), steps=steps, best=False)
        return losses.adversarial_training(losses.nll(head), attack=attack, clean=clean)

    return Recipe(loss=_of_inputs(loss, weight_decay), members=members)


def _of_inputs(
    loss: Callable[[Tensor, Units], losses.Loss], strength: float
) -> Callable[[Tensor], losses.Loss]:
    """A loss made of the training inputs, in their units, with weight decay."""

    def of(x: Tensor) -> losses.Loss:
        units = units_of(x)
        return _decayed(in_units(units, loss(x, units)), strength)

    return of


def _ood(source: Source | None, x: Tensor, units: Units) -> OODSource:
    """The OOD source of a recipe, in the units of the training inputs."""
    if source is None:
        return noise(x, seed=0, beyond=BEYOND, shuffled=True)
    # A function gets the inputs in these units, and what it makes of them is in them too.
    ood = units.ood(source) if isinstance(source, OODSource) else source(units.shares(x))
    if ood.shape != x.shape[1:]:
        raise NescioError(
            f"the OOD set {ood.name!r} has inputs of shape {ood.shape}, the training inputs "
            f"{tuple(x.shape[1:])}; images are changed by data.gray, color, crop and pad, on the "
            "command line by NAME:gray:crop=28"
        )
    return ood


def _decayed(base: losses.Loss, strength: float) -> losses.Loss:
    return losses.weight_decay(base, strength=strength) if strength else base
