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
from nescio.applications.active_learning.compared import compared as compared
from nescio.applications.active_learning.core_set import core_set as core_set
from nescio.applications.active_learning.curves import Band as Band
from nescio.applications.active_learning.curves import Curves as Curves
from nescio.applications.active_learning.curves import LabelsTo as LabelsTo
from nescio.applications.active_learning.guarantee_planning import GuaranteePlan as GuaranteePlan
from nescio.applications.active_learning.guarantee_planning import plan_guarantee as plan_guarantee
from nescio.applications.active_learning.label_studio import StudioAnnotation as StudioAnnotation
from nescio.applications.active_learning.label_studio import (
    label_studio_config as label_studio_config,
)
from nescio.applications.active_learning.label_studio import (
    label_studio_tasks as label_studio_tasks,
)
from nescio.applications.active_learning.label_studio import (
    read_annotations as read_annotations,
)
from nescio.applications.active_learning.label_studio import (
    read_label_studio as read_label_studio,
)
from nescio.applications.active_learning.pick import pick as pick
from nescio.applications.active_learning.planning import LabelPlan as LabelPlan
from nescio.applications.active_learning.planning import plan as plan
from nescio.applications.active_learning.pool import Pool as Pool
from nescio.applications.active_learning.questions import Answered as Answered
from nescio.applications.active_learning.questions import LabelQuestion as LabelQuestion
from nescio.applications.active_learning.questions import read_answers as read_answers
from nescio.applications.active_learning.questions import write_questions as write_questions
from nescio.applications.active_learning.simulate import simulate as simulate
from nescio.applications.active_learning.thumbnails import data_url as data_url
from nescio.applications.active_learning.thumbnails import thumbnail as thumbnail
