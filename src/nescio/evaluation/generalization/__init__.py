"""How well networks fit labels that say nothing: random labels, Rademacher complexity."""

from nescio.evaluation.generalization.rademacher import Rademacher as Rademacher
from nescio.evaluation.generalization.rademacher import linear_rademacher as linear_rademacher
from nescio.evaluation.generalization.rademacher import rademacher as rademacher
from nescio.evaluation.generalization.rademacher import random_signs as random_signs
from nescio.evaluation.generalization.random_labels import RandomLabels as RandomLabels
from nescio.evaluation.generalization.random_labels import fit_random_labels as fit_random_labels
from nescio.evaluation.generalization.random_labels import noisy_labels as noisy_labels
