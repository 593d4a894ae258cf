"""Measures: `Prediction -> (*batch,)`, larger where the model is less sure."""

from nescio.measures.aleatoric_variance import aleatoric_variance as aleatoric_variance
from nescio.measures.class_variance import class_variance as class_variance
from nescio.measures.differential_entropy import differential_entropy as differential_entropy
from nescio.measures.epistemic_variance import epistemic_variance as epistemic_variance
from nescio.measures.expected_entropy import expected_entropy as expected_entropy
from nescio.measures.expected_pairwise_kl import expected_pairwise_kl as expected_pairwise_kl
from nescio.measures.least_confidence import least_confidence as least_confidence
from nescio.measures.log_odds import log_odds as log_odds
from nescio.measures.measure import applicable as applicable
from nescio.measures.measure import measure as measure
from nescio.measures.measure import measure_all as measure_all
from nescio.measures.mutual_information import mutual_information as mutual_information
from nescio.measures.predictive_entropy import predictive_entropy as predictive_entropy
from nescio.measures.total_variance import total_variance as total_variance
from nescio.measures.variation_ratio import variation_ratio as variation_ratio
