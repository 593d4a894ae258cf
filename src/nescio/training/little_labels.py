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

    radius: in ranges of the features. entropy: the weight of the entropy of its answers.
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

    weight: of the distance; it grows over the first share `ramp` of the training. dropout: makes
    the passes differ, as augmentations do; 0 leaves the network as it is.
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

    weight, ramp, dropout: as in `pi_model`. momentum: of the average of the answers.
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

    weight, ramp, dropout: as in `pi_model`. decay: of the average, early_decay: during the ramp.
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

    exclusivity: the weight of the mutual exclusivity of classes. dropout: as in `pi_model`.
    """
    options = {"weight": weight, "exclusivity": exclusivity}
    loss = losses.transformation_consistency(losses.nll(head), passes=passes, **options)
    return Recipe(loss=decayed(loss, weight_decay), members=members, dropout=dropout)
