"""What a network gives for data: layers, logits, labels, inputs, from one forward pass."""

from nescio.detectors.observe.observe import observe as observe
from nescio.detectors.scorer import Scorer as Scorer
from nescio.detectors.scorer import scorer as scorer
