"""Active learning: which samples of a pool to label next, and what labels buy."""

from nescio.applications.active_learning.guarantee_planning import GuaranteePlan as GuaranteePlan
from nescio.applications.active_learning.guarantee_planning import plan_guarantee as plan_guarantee
from nescio.applications.active_learning.label_studio import (
    label_studio_config as label_studio_config,
)
from nescio.applications.active_learning.label_studio import (
    label_studio_tasks as label_studio_tasks,
)
from nescio.applications.active_learning.label_studio import (
    read_label_studio as read_label_studio,
)
from nescio.applications.active_learning.planning import Plan as Plan
from nescio.applications.active_learning.planning import plan as plan
from nescio.applications.active_learning.questions import Answered as Answered
from nescio.applications.active_learning.questions import Question as Question
from nescio.applications.active_learning.questions import read_answers as read_answers
from nescio.applications.active_learning.questions import write_questions as write_questions
from nescio.applications.active_learning.thumbnails import data_url as data_url
from nescio.applications.active_learning.thumbnails import thumbnail as thumbnail
