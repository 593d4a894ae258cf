"""Recipes that learn from a few labels and many unlabeled inputs."""

from nescio import losses
from nescio.core import RAMP, Head
from nescio.core.registry import recipes
from nescio.training.recipe import Recipe, decayed


@recipes.register
def virtual_adversarial(
    head: Head | None = None,
    *,
    radius: float = 0.05,
    weight: float = 1.0,
    entropy: float = 0.0,
    weight_decay: float = 0.0,
    members: int = 1,
) -> Recipe:
    """A network smoothed by virtual adversarial training, also around unlabeled inputs.

    head: how outputs are read; None: class logits.
    radius: how far the worst input may be, in ranges of the features.
    weight: weight of the divergence between the answers.
    entropy: weight of the entropy of the answers.
    weight_decay: factor on the sum of squares of the weights in the loss.
    members: number of networks.
    """
    base = losses.nll(head)
    loss = losses.virtual_adversarial(base, radius=radius, weight=weight, entropy=entropy)
    return Recipe(loss=decayed(loss, weight_decay), members=members)


@recipes.register
def pi_model(
    head: Head | None = None,
    *,
    weight: float = 100.0,
    ramp: float = RAMP,
    dropout: float = 0.5,
    weight_decay: float = 0.0,
    members: int = 1,
) -> Recipe:
    """A network that answers alike in two passes over unlabeled inputs (Pi-model).

    head: how outputs are read; None: class logits.
    weight: weight of the distance, the mean over inputs and classes.
    ramp: share of the training in which the weight grows, from 0 in the first epoch.
    dropout: dropout rate of the network, which makes passes differ, as augmentations do; 0 leaves
      the network as it is.
    weight_decay: factor on the sum of squares of the weights in the loss.
    members: number of networks.
    """
    loss = losses.pi_model(losses.nll(head), weight=weight, ramp=ramp)
    return Recipe(loss=decayed(loss, weight_decay), members=members, dropout=dropout)


@recipes.register
def temporal_ensembling(
    head: Head | None = None,
    *,
    weight: float = 30.0,
    ramp: float = RAMP,
    momentum: float = 0.6,
    dropout: float = 0.5,
    weight_decay: float = 0.0,
    members: int = 1,
) -> Recipe:
    """A network that answers like its own average over earlier epochs, on unlabeled inputs.

    head: how outputs are read; None: class logits.
    weight: weight of the distance, the mean over inputs and classes.
    ramp: share of the training in which the weight grows, from 0 in the first epoch.
    momentum: weight of the earlier answers in the average, in [0, 1).
    dropout: dropout rate of the network, which makes passes differ, as augmentations do; 0 leaves
      the network as it is.
    weight_decay: factor on the sum of squares of the weights in the loss.
    members: number of networks.
    """
    options = {"weight": weight, "ramp": ramp, "momentum": momentum}
    loss = losses.temporal_ensembling(losses.nll(head), **options)
    return Recipe(loss=decayed(loss, weight_decay), members=members, dropout=dropout)


@recipes.register
def mean_teacher(
    head: Head | None = None,
    *,
    weight: float = 100.0,
    ramp: float = RAMP,
    decay: float = 0.999,
    early_decay: float = 0.99,
    dropout: float = 0.5,
    weight_decay: float = 0.0,
    members: int = 1,
) -> Recipe:
    """A network that answers like the average of its weights, on unlabeled inputs; it is saved.

    head: how outputs are read; None: class logits.
    weight: weight of the distance, the mean over inputs and classes.
    ramp: share of the training in which the weight grows, from 0 in the first epoch.
    decay: decay of the moving average of the weights.
    early_decay: decay during the ramp.
    dropout: dropout rate of the network, which makes passes differ, as augmentations do; 0 leaves
      the network as it is.
    weight_decay: factor on the sum of squares of the weights in the loss.
    members: number of networks.
    """
    options = {"weight": weight, "ramp": ramp, "decay": decay, "early_decay": early_decay}
    loss = losses.mean_teacher(losses.nll(head), **options)
    return Recipe(loss=decayed(loss, weight_decay), members=members, dropout=dropout)


@recipes.register
def transformation_consistency(
    head: Head | None = None,
    *,
    weight: float = 1.0,
    passes: int = 4,
    exclusivity: float = 0.0,
    dropout: float = 0.5,
    weight_decay: float = 0.0,
    members: int = 1,
) -> Recipe:
    """A network that answers alike in several passes over transformed unlabeled inputs.

    head: how outputs are read; None: class logits.
    weight: weight of the squared distances between the passes.
    passes: number of passes, 2 or more.
    exclusivity: weight of the mutual exclusivity of the classes.
    dropout: dropout rate of the network, which makes passes differ, as augmentations do; 0 leaves
      the network as it is.
    weight_decay: factor on the sum of squares of the weights in the loss.
    members: number of networks.
    """
    options = {"weight": weight, "exclusivity": exclusivity}
    loss = losses.transformation_consistency(losses.nll(head), passes=passes, **options)
    return Recipe(loss=decayed(loss, weight_decay), members=members, dropout=dropout)
