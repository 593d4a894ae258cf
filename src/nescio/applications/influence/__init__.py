"""Influence: what a training sample does to a loss, a logit or a confidence."""

from nescio.applications.influence.cooks_distance import cooks_distance as cooks_distance
from nescio.applications.influence.cooks_distance import leverages as leverages
from nescio.applications.influence.influence import Influence as Influence
from nescio.applications.influence.influence import at_minimum as at_minimum
from nescio.applications.influence.influence import influence as influence
from nescio.applications.influence.minimum import Minimum as Minimum
from nescio.applications.influence.minimum import Refit as Refit
from nescio.applications.influence.minimum import fit as fit
from nescio.applications.influence.perturbation import perturbation as perturbation
from nescio.applications.influence.removal import parameter_change as parameter_change
from nescio.applications.influence.removal import self_influence as self_influence
