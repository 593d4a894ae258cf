"""Influence: what a training sample does to a loss, a logit or a confidence."""

from nescio.applications.influence.fitted import Fitted as Fitted
from nescio.applications.influence.fitted import Refit as Refit
from nescio.applications.influence.fitted import fit as fit
from nescio.applications.influence.influence import Influence as Influence
from nescio.applications.influence.influence import influence as influence
