"""Losses: `(forward, batch, rng) -> (M,)`, composable: `adversarial(nll())`."""

from nescio.losses.acet import acet as acet
from nescio.losses.adversarial import adversarial as adversarial
from nescio.losses.adversarial import adversarial_training as adversarial_training
from nescio.losses.adversarial import virtual_adversarial as virtual_adversarial
from nescio.losses.batch import Batch as Batch
from nescio.losses.ceda import ceda as ceda
from nescio.losses.ceda import outlier_exposure as outlier_exposure
from nescio.losses.class_weighted import balanced_weights as balanced_weights
from nescio.losses.class_weighted import class_weighted as class_weighted
from nescio.losses.consistency import mean_teacher as mean_teacher
from nescio.losses.consistency import pi_model as pi_model
from nescio.losses.consistency import (
    transformation_consistency as transformation_consistency,
)
from nescio.losses.described import from_description as from_description
from nescio.losses.evidential import evidential as evidential
from nescio.losses.evidential_regression import (
    evidential_regression as evidential_regression,
)
from nescio.losses.extra_output import learned_confidence as learned_confidence
from nescio.losses.extra_output import reject_class as reject_class
from nescio.losses.loss import Loss as Loss
from nescio.losses.loss import Step as Step
from nescio.losses.loss import absolute_error as absolute_error
from nescio.losses.loss import as_loss as as_loss
from nescio.losses.loss import brier as brier
from nescio.losses.loss import nll as nll
from nescio.losses.loss import plus as plus
from nescio.losses.loss import pointwise as pointwise
from nescio.losses.loss import squared_error as squared_error
from nescio.losses.penalties import anchored as anchored
from nescio.losses.penalties import elbo as elbo
from nescio.losses.penalties import weight_decay as weight_decay
from nescio.losses.prior_networks import belief_matching as belief_matching
from nescio.losses.prior_networks import dirichlet_elbo as dirichlet_elbo
from nescio.losses.prior_networks import forward_kl as forward_kl
from nescio.losses.prior_networks import prior_exposure as prior_exposure
from nescio.losses.prior_networks import reverse_kl as reverse_kl
from nescio.losses.smooth_hinge import smooth_hinge as smooth_hinge
from nescio.losses.temporal_ensembling import temporal_ensembling as temporal_ensembling
from nescio.losses.with_ood import Form as Form
