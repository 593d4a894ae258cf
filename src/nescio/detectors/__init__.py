"""Detectors: activations of networks to scores, larger = further out."""

from nescio.detectors.ash import ash as ash
from nescio.detectors.combined import combined as combined
from nescio.detectors.detector import Detector as Detector
from nescio.detectors.dice import dice as dice
from nescio.detectors.gaussian_mixture import gaussian_mixture as gaussian_mixture
from nescio.detectors.gower import gower as gower
from nescio.detectors.kl_matching import kl_matching as kl_matching
from nescio.detectors.knn import knn as knn
from nescio.detectors.mahalanobis import mahalanobis as mahalanobis
from nescio.detectors.mahalanobis import relative_mahalanobis as relative_mahalanobis
from nescio.detectors.measured import measured as measured
from nescio.detectors.odin import odin as odin
from nescio.detectors.openmax import openmax as openmax
from nescio.detectors.react import react as react
from nescio.detectors.she import she as she
from nescio.detectors.simple import energy as energy
from nescio.detectors.simple import entropy as entropy
from nescio.detectors.simple import generalized_entropy as generalized_entropy
from nescio.detectors.simple import max_logit as max_logit
from nescio.detectors.simple import msp as msp
from nescio.detectors.smoothed_density import smoothed_density as smoothed_density
from nescio.detectors.trust_score import trust_score as trust_score
from nescio.detectors.tuned_odin import tuned_odin as tuned_odin
from nescio.detectors.vim import vim as vim
