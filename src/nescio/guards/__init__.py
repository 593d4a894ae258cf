"""The guard: for every input it answers, or abstains as unsure or OOD, with a guarantee."""

from nescio.guards.decide import Guard as Guard
from nescio.guards.decisions import DECISIONS as DECISIONS
from nescio.guards.decisions import RULES as RULES
from nescio.guards.decisions import Decisions as Decisions
from nescio.guards.decisions import no_answers as no_answers
from nescio.guards.file_parts import weights_digest as weights_digest
from nescio.guards.guard import guard as guard
from nescio.guards.guard_file import about as about
from nescio.guards.guard_file import described as described
from nescio.guards.label_guards import LabelGuards as LabelGuards
from nescio.guards.label_guards import guard_labels as guard_labels
from nescio.guards.largest_coverage import Coverage as Coverage
from nescio.guards.largest_coverage import check_shares as check_shares
from nescio.guards.largest_coverage import first_rank as first_rank
from nescio.guards.largest_coverage import largest_coverage as largest_coverage
from nescio.guards.largest_coverage import upper_bound as upper_bound
from nescio.guards.map_decisions import MapDecisions as MapDecisions
from nescio.guards.map_guard import MapGuard as MapGuard
from nescio.guards.regression_decisions import RegressionDecisions as RegressionDecisions
from nescio.guards.regression_guard import RegressionGuard as RegressionGuard
from nescio.guards.splitting import fewest_samples as fewest_samples
from nescio.guards.threshold_steps import Thresholds as Thresholds
from nescio.guards.threshold_steps import ThresholdStep as ThresholdStep
from nescio.guards.threshold_steps import threshold_steps as threshold_steps
from nescio.guards.total_variation import ShiftBudget as ShiftBudget
from nescio.guards.total_variation import shift_budget as shift_budget
