"""What an audit finds on held-out data and off it: calibration, errors, the guard, shifts."""

from nescio.evaluation.audit.cases_section import Cases as Cases
from nescio.evaluation.audit.duplicates_section import repeated_samples as repeated_samples
from nescio.evaluation.audit.findings import Findings as Findings
from nescio.evaluation.audit.groups_section import GroupFindings as GroupFindings
from nescio.evaluation.audit.guard_section import Guarded as Guarded
from nescio.evaluation.audit.guard_section import guarded as guarded
from nescio.evaluation.audit.held_out import Held as Held
from nescio.evaluation.audit.held_out import hold as hold
from nescio.evaluation.audit.held_out_section import calibration as calibration
from nescio.evaluation.audit.held_out_section import failure as failure
from nescio.evaluation.audit.influence_section import errors_explained as errors_explained
from nescio.evaluation.audit.label_errors_section import likely_label_errors as likely_label_errors
from nescio.evaluation.audit.ood_section import shifted as shifted
from nescio.evaluation.audit.planner_section import planner_section as planner_section
from nescio.evaluation.audit.provenance import Provenance as Provenance
from nescio.evaluation.audit.remedies_section import remedies_section as remedies_section
from nescio.evaluation.audit.sections import Material as Material
from nescio.evaluation.audit.sections import section as section
from nescio.evaluation.audit.shift_budget_section import (
    shift_budget_section as shift_budget_section,
)
from nescio.evaluation.audit.slices_section import SliceFindings as SliceFindings
from nescio.evaluation.audit.stability_section import how_stable as how_stable
from nescio.evaluation.audit.stored_answers import StoredAnswers as StoredAnswers
from nescio.evaluation.audit.thresholds_section import thresholds_section as thresholds_section
