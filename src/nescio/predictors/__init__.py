"""Predictors: where members come from."""

from nescio.predictors.ensemble import ensemble as ensemble
from nescio.predictors.mc_dropout import mc_dropout as mc_dropout
from nescio.predictors.plain import plain as plain
from nescio.predictors.predictor import Predictor as Predictor
from nescio.predictors.predictor import evaluating as evaluating
from nescio.predictors.weight_samples import weight_samples as weight_samples
