"""Active learning: which samples of a pool to label next, and what labels buy."""

from nescio.applications.active_learning.curves import Curves as Curves
from nescio.applications.active_learning.pool import Pool as Pool
from nescio.applications.active_learning.simulate import simulate as simulate
