"""Active learning: which samples of a pool to label next, and what labels buy."""

from nescio.applications.active_learning.batchbald import batchbald as batchbald
from nescio.applications.active_learning.by_uncertainty import bald as bald
from nescio.applications.active_learning.by_uncertainty import entropy as entropy
from nescio.applications.active_learning.by_uncertainty import least_confidence as least_confidence
from nescio.applications.active_learning.by_uncertainty import margin as margin
from nescio.applications.active_learning.by_uncertainty import mean_std as mean_std
from nescio.applications.active_learning.by_uncertainty import random as random
from nescio.applications.active_learning.by_uncertainty import variation_ratio as variation_ratio
from nescio.applications.active_learning.candidates import Acquisition as Acquisition
from nescio.applications.active_learning.candidates import Candidates as Candidates
from nescio.applications.active_learning.candidates import because as because
from nescio.applications.active_learning.choose import choose as choose
from nescio.applications.active_learning.chosen import Chosen as Chosen
from nescio.applications.active_learning.core_set import core_set as core_set
from nescio.applications.active_learning.pick import pick as pick
