"""Uncertainty at work: which samples to label, and which training samples an answer rests on."""

from nescio.applications import active_learning as active_learning
from nescio.applications import influence as influence
