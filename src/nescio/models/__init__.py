"""Predictors: where members come from."""

from nescio.models.mc_dropout import MCDropout as MCDropout
from nescio.models.mc_dropout import mc_dropout as mc_dropout
from nescio.models.model import Made as Made
from nescio.models.model import Member as Member
from nescio.models.model import Model as Model
from nescio.models.model import check_weights as check_weights
from nescio.models.model import describe as describe
from nescio.models.model import encoding_of as encoding_of
from nescio.models.model import innermost as innermost
from nescio.models.model import networks as networks
from nescio.models.model import rebuilt as rebuilt
from nescio.models.model import saved_head as saved_head
from nescio.models.model import takes_tokens as takes_tokens
from nescio.models.out_of_fold import out_of_fold as out_of_fold
from nescio.models.predictor import Predictor as Predictor
from nescio.models.predictor import as_head as as_head
from nescio.models.predictor import ensemble as ensemble
from nescio.models.predictor import has_labels as has_labels
from nescio.models.predictor import is_regression as is_regression
from nescio.models.predictor import plain as plain
from nescio.models.predictor import same_head as same_head
from nescio.models.predictor import task_of as task_of
from nescio.models.predictor import with_head as with_head
from nescio.models.uncertainty_maps import UncertaintyMaps as UncertaintyMaps
from nescio.models.uncertainty_maps import uncertainty_maps as uncertainty_maps
from nescio.models.weight_samples import weight_samples as weight_samples
