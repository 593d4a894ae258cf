"""How predictors, prediction sets and guards hold up as inputs move away from the data."""

from nescio.shifting.confident import Confident as Confident
from nescio.shifting.confident import accuracy_above as accuracy_above
from nescio.shifting.entropies import Entropies as Entropies
from nescio.shifting.entropies import entropies as entropies
from nescio.shifting.strengths import Along as Along
from nescio.shifting.strengths import along as along
