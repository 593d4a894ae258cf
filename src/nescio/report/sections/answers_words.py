"""Which answers to single samples an audit stores, for `nescio diff`."""

from nescio.evaluation import AuditFindings, StoredAnswers
from nescio.report.audit_section import Section
from nescio.report.sections.section_words import words_of


@words_of("answers")
def answers_words(value: StoredAnswers, _: AuditFindings) -> Section:
    """How many samples are stored."""
    test, ood = value.test, sum(one.samples for one in value.ood.values())
    others = f" and {ood:,} OOD samples" if ood else ""
    return Section(
        note=f"audit.json holds what the first predictor and the guard say about {test.samples:,} "
        f"of {test.total:,} test samples{others}, each known by a hash. With them, nescio diff "
        "compares this audit with another one sample by sample.",
    )
