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
    """One network, maximum likelihood.

    head: how outputs are read; None: class logits.
    weight_decay: factor on the sum of squares of the weights in the loss.
    """
    return Recipe(loss=decayed(losses.nll(head), weight_decay))


@recipes.register
def dropout(
    head: Head | None = None, *, dropout: float = 0.2, passes: int = 100, weight_decay: float = 0.0
) -> Recipe:
    """One network with dropout, sampled at prediction (MC dropout).

    head: how outputs are read; None: class logits.
    dropout: dropout rate of the network.
    passes: number of passes at prediction.
    weight_decay: factor on the sum of squares of the weights in the loss.
    """
    sampling = {"passes": passes, "seed": 0}
    loss = decayed(losses.nll(head), weight_decay)
    return Recipe(loss=loss, dropout=dropout, sampler="mc_dropout", sampling=sampling)


@recipes.register
def deep_ensemble(
    head: Head | None = None, *, members: int = 5, weight_decay: float = 0.0
) -> Recipe:
    """Networks from different starts and batch orders, averaged.

    head: how outputs are read; None: class logits.
    members: number of networks.
    weight_decay: factor on the sum of squares of the weights in the loss.
    """
    return Recipe(loss=decayed(losses.nll(head), weight_decay), members=members)


@recipes.register
def adversarial_ensemble(
    head: Head | None = None, *, members: int = 5, share: float = 0.01, weight_decay: float = 0.0
) -> Recipe:
    """A deep ensemble with fast-gradient-sign adversarial training.

    head: how outputs are read; None: class logits.
    members: number of networks.
    share: radius of the attack on each feature, as a share of its range.
    weight_decay: factor on the sum of squares of the weights in the loss.
    """
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
    """A deep ensemble smoothed by virtual adversarial training, which reads no labels.

    head: how outputs are read; None: class logits.
    members: number of networks.
    radius: how far the worst input may be, in ranges of the features.
    weight: weight of the divergence between the answers.
    weight_decay: factor on the sum of squares of the weights in the loss.
    """
    loss = losses.virtual_adversarial(losses.nll(head), radius=radius, weight=weight)
    return Recipe(loss=decayed(loss, weight_decay), members=members)


@recipes.register
def bayes_by_backprop(
    head: Head | None = None, *, passes: int = 100, prior_spread: float = 1.0
) -> Recipe:
    """A distribution over every weight, drawn from at prediction.

    head: how outputs are read; None: class logits.
    passes: number of draws of the weights at prediction.
    prior_spread: standard deviation of the prior of the weights.
    """
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

    head: how outputs are read; None: class logits.
    members: number of networks.
    prior_variance: variance of the prior of the weights; None: 1 / fan-in for weights and 1 for
      biases.
    noise: variance of the targets of a regression, whose base is then the squared error of a mean;
      None: the base is the likelihood of the head.
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

    Standardize the targets.

    head: how outputs are read; None or another regression: `nescio.heads.normal_inverse_gamma()`.
    weight: weight of the errors times the evidence, in the loss.
    weight_decay: factor on the sum of squares of the weights in the loss.
    members: number of networks.
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

    head: how outputs are read; None: class logits.
    ood: OOD source to be unsure on, or a function of the training inputs that gives one; None: the
      papers' noise, or, for vectors, uniform noise round the data and features from different
      samples.
    weight: weight of the confidence on OOD inputs, in the loss.
    weight_decay: factor on the sum of squares of the weights in the loss.
    members: number of networks.
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
    weight_ramp: float = 0.0,
    form: losses.Form | None = None,
    renew: int | None = None,
    from_data: float | None = None,
    candidates: int = 1,
    finer: float | None = None,
    leaking: float = 0.0,
    share: float = 1.0,
    pool: int | None = None,
    ceda_share: float = 0.0,
    weight_decay: float = 0.0,
    members: int = 1,
) -> Recipe:
    """A network with low confidence around noise, at its most confident points (ACET).

    The attack continues from visit to visit of an input. In networks with BatchNorm it has 8 small
    steps each time, and inputs are renewed; start them from a trained network: --start RUN. In
    others it is a step of free * radius that the training pass gives. Or it has `steps` steps, of
    radius / steps each. The paper's attack starts again each time: steps=40, keep=0.

    head: how outputs are read; None: class logits.
    ood: OOD source to be unsure on, as in `ceda`; images must lie in the range of the training
      images.
    weight: weight of the confidence on OOD inputs, in the loss.
    radius: radius of the attack, as a share of the range; None: 0.3 for images, 0.05 for vectors.
    steps: number of gradient steps of the attack in each training step; 0: chosen by the network.
    keep: whether the attack continues from where it ended at the last visit of an input.
    free: step that the training pass gives, as a share of the radius; None: chosen by the network.
    ramp: share of the training over which the radius grows; None: chosen by the network.
    weight_ramp: share of the training over which the weight grows.
    form: the confidence term, "max" or "uniform"; None: chosen by the network.
    renew: number of visits after which a stored input gives way to another one, 0 for never; None:
      chosen by the network.
    from_data: share of the searches that start at training inputs; None: chosen by the network.
    candidates: number of training inputs of which such a search starts at the one that the network
      misreads most confidently.
    finer: longest step of the attack over the shortest one; None: chosen by the network.
    leaking: share of the training steps whose attack passes gradients through dead ReLUs.
    share: number of attacked inputs per training sample.
    pool: number of attacked inputs that take turns; None: a tenth of the training samples, at most
      3000.
    ceda_share: number of OOD inputs per training sample that are shown beside the attacked ones as
      they are, as `ceda` does.
    weight_decay: factor on the sum of squares of the weights in the loss.
    members: number of networks.
    """

    def loss(x: Tensor, units: Units) -> losses.Loss:
        reach, source = near(radius, x), ood_of(ood, x, units)
        past = BEYOND if ood is None else FAR  # nobody knows the range of other vectors
        low, high = (0.0, 1.0) if x.ndim == 4 else (-past, 1 + past)
        size = reach / max(steps, 1) or None
        attack = Ascent(radius=reach, steps=steps, step=size, best=not keep, low=low, high=high)
        attacked = losses.acet(
            losses.nll(head),
            source,
            weight=weight,
            attack=attack,
            keep=keep,
            free=0.5 * keep if free is None and steps else free,
            ramp=0.3 * keep if ramp is None and steps else ramp,
            weight_ramp=weight_ramp,
            form=form,
            renew=renew,
            from_data=from_data,
            candidates=candidates,
            finer=finer,
            leaking=leaking,
            share=share,
            pool=pool,
        )
        if not ceda_share:
            return attacked
        return losses.ceda(attacked, source, form=form or "uniform", share=ceda_share)

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
    """A network that learns to be unsure on outliers, another data set (outlier exposure).

    head: how outputs are read; None: class logits.
    ood: OOD source of the outliers, or a function of the training inputs that gives one; it is
      needed.
    weight: weight of the cross-entropy to the uniform distribution on outliers, in the loss.
    weight_decay: factor on the sum of squares of the weights in the loss.
    members: number of networks.
    """
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

    head: how outputs are read; None: class logits.
    radius: radius of the attack, as a share of the range; None: 0.3 for images, 0.05 for vectors.
    steps: number of gradient steps of the attack.
    clean: share of the samples that stay as they are.
    weight_decay: factor on the sum of squares of the weights in the loss.
    members: number of networks.
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

    head: how outputs become concentrations; None or class logits: the default of the loss.
    prior_weight: the target concentration of the label is 1 + 1 / prior_weight, of others 1.
    weight_decay: factor on the sum of squares of the weights in the loss.
    members: number of networks.
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

    head: how outputs become concentrations; None or class logits: the default of the loss.
    ood: OOD source to be unsure on, as in `ceda`.
    prior_weight: the target concentration of the label is 1 + 1 / prior_weight, of others 1.
    ood_weight: how much an OOD input counts beside a sample.
    weight_decay: factor on the sum of squares of the weights in the loss.
    members: number of networks.
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

    head: how outputs become concentrations; None or class logits: the default of the loss.
    form: "squared_error" or "cross_entropy".
    weight: weight of the penalty of evidence for wrong classes.
    annealing: number of epochs in which the weight grows from 0.
    weight_decay: factor on the sum of squares of the weights in the loss.
    members: number of networks.
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

    head: how outputs become concentrations; None or class logits: the default of the loss.
    ood: OOD source to be unsure on, as in `ceda`.
    form: "squared_error" or "cross_entropy".
    weight: weight of the penalty of evidence for wrong classes.
    annealing: number of epochs in which the weight grows from 0.
    ood_weight: weight of the divergence from the flat Dirichlet on OOD inputs.
    weight_decay: factor on the sum of squares of the weights in the loss.
    members: number of networks.
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

    head: how outputs become concentrations; None or class logits: exp of the outputs + 1.
    entropy_weight: weight of the differential entropy of the Dirichlet, which keeps evidence down.
    weight_decay: factor on the sum of squares of the weights in the loss.
    members: number of networks.
    """
    own = concentrations(head) or heads.dirichlet(activation="exp", floor=1.0)
    loss = losses.dirichlet_elbo(own, prior_weight=entropy_weight)
    return Recipe(loss=decayed(loss, weight_decay), members=members, net="posterior_network")
