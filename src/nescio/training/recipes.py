"""Named methods as combinations: a loss, a number of members, and where members come from."""

from torch import Tensor

from nescio import losses
from nescio.attacks import Ascent
from nescio.core import Head, NescioError, fixed_variance, heads
from nescio.core.registry import recipes
from nescio.data.ranges import Units, near
from nescio.training.little_labels import mean_teacher as mean_teacher
from nescio.training.little_labels import pi_model as pi_model
from nescio.training.little_labels import temporal_ensembling as temporal_ensembling
from nescio.training.little_labels import (
    transformation_consistency as transformation_consistency,
)
from nescio.training.little_labels import virtual_adversarial as virtual_adversarial
from nescio.training.recipe import (
    BEYOND,
    Recipe,
    Source,
    concentrations,
    decayed,
    of_inputs,
    ood_of,
)

FAR = 1e6  # ranges: where the ball alone bounds an attack


@recipes.register
def single(head: Head | None = None, *, weight_decay: float = 0.0) -> Recipe:
    """One network, maximum likelihood."""
    return Recipe(loss=decayed(losses.nll(head), weight_decay))


@recipes.register
def dropout(
    head: Head | None = None, *, dropout: float = 0.2, passes: int = 100, weight_decay: float = 0.0
) -> Recipe:
    """One network with dropout, sampled at prediction (MC dropout)."""
    sampling = {"passes": passes, "seed": 0}
    loss = decayed(losses.nll(head), weight_decay)
    return Recipe(loss=loss, dropout=dropout, sampler="mc_dropout", sampling=sampling)


@recipes.register
def deep_ensemble(
    head: Head | None = None, *, members: int = 5, weight_decay: float = 0.0
) -> Recipe:
    """Networks from different starts and batch orders, averaged."""
    return Recipe(loss=decayed(losses.nll(head), weight_decay), members=members)


@recipes.register
def adversarial_ensemble(
    head: Head | None = None, *, members: int = 5, share: float = 0.01, weight_decay: float = 0.0
) -> Recipe:
    """A deep ensemble with fast-gradient-sign adversarial training."""
    loss = losses.adversarial(losses.nll(head), share=share)
    return Recipe(loss=decayed(loss, weight_decay), members=members)


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
    return Recipe(loss=decayed(loss, weight_decay), members=members)


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
    return Recipe(loss=decayed(loss, weight_decay), members=members)


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
        return losses.ceda(losses.nll(head), ood_of(ood, x, units), weight=weight)

    return Recipe(loss=of_inputs(loss, weight_decay), members=members)


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
            ood_of(ood, x, units),
            weight=weight,
            attack=attack,
            keep=keep,
            free=0.5 * keep if free is None else free,
            ramp=0.3 * keep if ramp is None else ramp,
        )

    return Recipe(loss=of_inputs(loss, weight_decay), members=members)


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
        return losses.outlier_exposure(losses.nll(head), ood_of(ood, x, units), weight=weight)

    return Recipe(loss=of_inputs(loss, weight_decay), members=members)


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

    return Recipe(loss=of_inputs(loss, weight_decay), members=members)


@recipes.register
def dirichlet(
    head: Head | None = None,
    *,
    prior_weight: float = 0.01,
    weight_decay: float = 0.0,
    members: int = 1,
) -> Recipe:
    """A network that answers with a Dirichlet over probabilities (prior network).

    prior_weight: the target concentration of the label is 1 + 1 / prior_weight, of others 1.
    """
    loss = losses.reverse_kl(concentrations(head), prior_weight=prior_weight)
    return Recipe(loss=decayed(loss, weight_decay), members=members)


@recipes.register
def dirichlet_ood(
    head: Head | None = None,
    *,
    ood: Source | None = None,
    prior_weight: float = 0.01,
    ood_weight: float = 1.0,
    weight_decay: float = 0.0,
    members: int = 1,
) -> Recipe:
    """A prior network that learns a flat Dirichlet on noise or on other data.

    ood: as in `ceda`. prior_weight: as in `dirichlet`.
    ood_weight: how much an OOD input counts beside a sample.
    """
    base = losses.reverse_kl(concentrations(head), prior_weight=prior_weight)

    def loss(x: Tensor, units: Units) -> losses.Loss:
        weight = prior_weight * ood_weight
        return losses.prior_exposure(base, ood_of(ood, x, units), weight=weight)

    return Recipe(loss=of_inputs(loss, weight_decay), members=members)


@recipes.register
def evidential(
    head: Head | None = None,
    *,
    form: str = "squared_error",
    weight: float = 1.0,
    annealing: float = 10.0,
    weight_decay: float = 0.0,
    members: int = 1,
) -> Recipe:
    """A network whose outputs are evidence for the classes (evidential classification).

    form: "squared_error" or "cross_entropy". weight: of the penalty of evidence for wrong classes;
    annealing: the epochs in which it grows.
    """
    loss = losses.evidential(concentrations(head), form=form, weight=weight, annealing=annealing)
    return Recipe(loss=decayed(loss, weight_decay), members=members)


@recipes.register
def evidential_ood(
    head: Head | None = None,
    *,
    ood: Source | None = None,
    form: str = "squared_error",
    weight: float = 1.0,
    annealing: float = 10.0,
    ood_weight: float = 0.1,
    weight_decay: float = 0.0,
    members: int = 1,
) -> Recipe:
    """An evidential network that learns to have no evidence on noise or on other data.

    ood: as in `ceda`. form, weight, annealing: as in `evidential`.
    ood_weight: of the divergence from the flat Dirichlet on OOD inputs.
    """
    base = losses.evidential(concentrations(head), form=form, weight=weight, annealing=annealing)

    def loss(x: Tensor, units: Units) -> losses.Loss:
        return losses.prior_exposure(base, ood_of(ood, x, units), weight=ood_weight)

    return Recipe(loss=of_inputs(loss, weight_decay), members=members)


@recipes.register
def posterior_network(
    head: Head | None = None,
    *,
    entropy_weight: float = 1e-5,
    weight_decay: float = 0.0,
    members: int = 1,
) -> Recipe:
    """A network whose evidence is a density in a latent space, so that it ends far away.

    entropy_weight: of the differential entropy of the Dirichlet, which keeps evidence down.
    """
    own = concentrations(head) or heads.dirichlet(activation="exp", floor=1.0)
    loss = losses.dirichlet_elbo(own, prior_weight=entropy_weight)
    return Recipe(loss=decayed(loss, weight_decay), members=members, net="posterior_network")
