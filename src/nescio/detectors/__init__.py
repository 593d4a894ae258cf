"""Detectors: activations of networks to scores, larger = further out."""

from nescio.detectors.activations import Activations as Activations
from nescio.detectors.class_means import gaussian_mixture as gaussian_mixture
from nescio.detectors.class_means import kl_matching as kl_matching
from nescio.detectors.class_means import openmax as openmax
from nescio.detectors.class_means import she as she
from nescio.detectors.combined import combined as combined
from nescio.detectors.detector import Detector as Detector
from nescio.detectors.gower import gower as gower
from nescio.detectors.knn import knn as knn
from nescio.detectors.last_layer import ash as ash
from nescio.detectors.last_layer import dice as dice
from nescio.detectors.last_layer import react as react
from nescio.detectors.last_layer import vim as vim
from nescio.detectors.mahalanobis import mahalanobis as mahalanobis
from nescio.detectors.mahalanobis import relative_mahalanobis as relative_mahalanobis
from nescio.detectors.neighbors import nearest_rows as nearest_rows
from nescio.detectors.odin import odin as odin
from nescio.detectors.odin import tuned_odin as tuned_odin
from nescio.detectors.simple import energy as energy
from nescio.detectors.simple import entropy as entropy
from nescio.detectors.simple import generalized_entropy as generalized_entropy
from nescio.detectors.simple import max_logit as max_logit
from nescio.detectors.simple import measured as measured
from nescio.detectors.simple import msp as msp
from nescio.detectors.smoothed_density import smoothed_density as smoothed_density
from nescio.detectors.trust_score import trust_score as trust_score
