"""What was audited: digests of weights and data, and on what it ran."""

from nescio.evaluation import AuditFindings, Provenance
from nescio.report.audit_section import Section
from nescio.report.render import Grid
from nescio.report.sections.section_words import words_of


@words_of("provenance")
def provenance_words(value: Provenance, _: AuditFindings) -> Section:
    """Digests as a table, the versions below."""
    weights = [
        (f"weights of {name}" + (f", {index}" if len(digests) > 1 else ""), [digest])
        for name, digests in value.weights.items()
        for index, digest in enumerate(digests)
    ]
    data = [(name, [digest]) for name, digest in value.data.items()]
    versions = ", ".join(f"{name} {version}" for name, version in value.versions.items())
    return Section(
        tables=[Grid(corner="contents", head=["SHA-256"], rows=[*weights, *data])],
        note=f"Computed with {versions} on {value.machine}, {value.threads} threads. A safety card "
        "(nescio card) holds these digests, and nescio verify computes everything again.",
    )
