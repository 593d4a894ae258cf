"""Numbers that say how good scores and probabilities are."""

from nescio.metrics.binning import Reliability as Reliability
from nescio.metrics.binning import ece as ece
from nescio.metrics.binning import reliability as reliability
from nescio.metrics.classification import accuracy as accuracy
from nescio.metrics.classification import brier as brier
from nescio.metrics.classification import mean_max_confidence as mean_max_confidence
from nescio.metrics.classification import nll as nll
from nescio.metrics.delong import delong_covariance as delong_covariance
from nescio.metrics.delong import delong_interval as delong_interval
from nescio.metrics.intervals import Interval as Interval
from nescio.metrics.intervals import bootstrap_mean as bootstrap_mean
from nescio.metrics.intervals import bootstrap_ranking as bootstrap_ranking
from nescio.metrics.paired import Difference as Difference
from nescio.metrics.paired import against_best as against_best
from nescio.metrics.paired import bootstrap_test as bootstrap_test
from nescio.metrics.paired import delong_test as delong_test
from nescio.metrics.paired import holm as holm
from nescio.metrics.ranking import Ranking as Ranking
from nescio.metrics.ranking import aupr as aupr
from nescio.metrics.ranking import auroc as auroc
from nescio.metrics.ranking import autc as autc
from nescio.metrics.ranking import detection_error as detection_error
from nescio.metrics.ranking import fpr_at_tpr as fpr_at_tpr
from nescio.metrics.ranking import rank as rank
from nescio.metrics.sketching import Sketch as Sketch
from nescio.metrics.sketching import sketch as sketch
