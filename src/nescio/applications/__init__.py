"""Uncertainty at work: samples to label, training samples an answer rests on, exploration."""

from nescio.applications import active_learning as active_learning
from nescio.applications import exploration as exploration
from nescio.applications import influence as influence
