"""The words and tables of each section of an audit, by its name: a file for each."""

from nescio.report.sections.answers_words import answers_words as answers_words
from nescio.report.sections.cases_words import cases_words as cases_words
from nescio.report.sections.duplicates_words import duplicates_words as duplicates_words
from nescio.report.sections.groups_words import groups_words as groups_words
from nescio.report.sections.guarantee_words import planner_words as planner_words
from nescio.report.sections.guarantee_words import shift_budget_words as shift_budget_words
from nescio.report.sections.influence_section_words import influence_words as influence_words
from nescio.report.sections.label_errors_words import label_errors_words as label_errors_words
from nescio.report.sections.provenance_words import provenance_words as provenance_words
from nescio.report.sections.remedy_words import interval_remedy_words as interval_remedy_words
from nescio.report.sections.remedy_words import remedy_words as remedy_words
from nescio.report.sections.section_words import registered as registered
from nescio.report.sections.section_words import words_of as words_of
from nescio.report.sections.slices_words import slices_words as slices_words
from nescio.report.sections.stability_words import stability_words as stability_words
from nescio.report.sections.threshold_words import threshold_words as threshold_words
