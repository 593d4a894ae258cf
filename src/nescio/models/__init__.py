"""Predictors: where members come from."""

from nescio.models.ensemble import ensemble as ensemble
from nescio.models.mc_dropout import mc_dropout as mc_dropout
from nescio.models.members import Member as Member
from nescio.models.members import innermost as innermost
from nescio.models.members import networks as networks
from nescio.models.model import Model as Model
from nescio.models.predictor import Predictor as Predictor
from nescio.models.predictor import plain as plain
from nescio.models.weight_samples import weight_samples as weight_samples
