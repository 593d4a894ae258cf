"""The guard: a decision for every input, answer, unsure or outside, with a promise."""

from nescio.guarding.building import guard as guard
from nescio.guarding.deciding import Guard as Guard
from nescio.guarding.decisions import DECISIONS as DECISIONS
from nescio.guarding.decisions import RULES as RULES
from nescio.guarding.decisions import Decisions as Decisions
from nescio.guarding.filing import about as about
from nescio.guarding.selective import Coverage as Coverage
from nescio.guarding.selective import coverages as coverages
from nescio.guarding.selective import largest_coverage as largest_coverage
from nescio.guarding.selective import upper_bound as upper_bound
