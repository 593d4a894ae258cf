"""What a network gives for data: layers, logits, labels, inputs, from one forward pass."""

from nescio.observing.observation import observe as observe
from nescio.observing.scoring import Scorer as Scorer
from nescio.observing.scoring import scorer as scorer
