"""What a network gives for data: layers, logits, labels, inputs, from one forward pass."""

from nescio.detectors.observe.network import Scorer as Scorer
from nescio.detectors.observe.network import scorer as scorer
from nescio.detectors.observe.observe import observe as observe
