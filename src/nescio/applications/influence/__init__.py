"""Influence: what a training sample does to a loss, a logit or a confidence."""

from nescio.applications.influence.influence import Influence as Influence
from nescio.applications.influence.influence import at_minimum as at_minimum
from nescio.applications.influence.influence import influence as influence
from nescio.applications.influence.minimum import Minimum as Minimum
from nescio.applications.influence.minimum import Refit as Refit
from nescio.applications.influence.minimum import fit as fit
