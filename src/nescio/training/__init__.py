"""One training loop for networks, ensembles and samplers."""

from nescio.training.plan import Pair as Pair
from nescio.training.recipe import Recipe as Recipe
from nescio.training.recipe import Source as Source
from nescio.training.stepper import Stepper as Stepper
from nescio.training.stepper import stepper as stepper
from nescio.training.train import train as train
