"""The training samples that the most confident errors rest on, in words."""

from nescio.evaluation import AuditFindings, Explanation, remark
from nescio.report.audit_section import Section
from nescio.report.sections.section_words import words_of

NOTE = (
    "A training sample is harmful to a test sample if its loss would fall without it, helpful if "
    "it would rise. Harmful samples with a wrong label are the first thing to look for."
)


@words_of("influence")
def influence_words(value: Explanation, found: AuditFindings) -> Section:  # noqa: ARG001
    """A remark for each error."""
    remarks = [remark(one, value.on) for one in value.samples]
    if value.skipped is not None:
        remarks = [("not explained", value.skipped)]
    return Section(note=f"{NOTE} {value.examined}", remarks=remarks)
