"""The guard: a decision for every input, answer, unsure or outside, with a promise."""

from nescio.guards.decide import Guard as Guard
from nescio.guards.decisions import DECISIONS as DECISIONS
from nescio.guards.decisions import RULES as RULES
from nescio.guards.decisions import Decisions as Decisions
from nescio.guards.guard import guard as guard
from nescio.guards.guard_file import about as about
from nescio.guards.selective_rule import Coverage as Coverage
from nescio.guards.selective_rule import coverages as coverages
from nescio.guards.selective_rule import largest_coverage as largest_coverage
from nescio.guards.selective_rule import upper_bound as upper_bound
