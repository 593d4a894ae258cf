"""An audit from its audit.json: `nescio.load("nescio-audit/audit.json")`."""

from dataclasses import replace

from nescio.core import DamagedError, NewerError, Saved, from_json
from nescio.evaluation.audit.audit import Audit
from nescio.evaluation.audit.findings import Findings
from nescio.evaluation.audit.sections import read_sections
from nescio.evaluation.regression.regression_findings import RegressionFindings

VERSION_READ = 1  # of the format, the newest that is read


def read_audit(saved: Saved) -> Audit:
    """The audit of a file that was read, `saved`; the guard is in another file."""
    said, where = saved.manifest, str(saved.path)
    if int(said["format_version"]) > VERSION_READ:
        raise NewerError(
            f"{where} has version {said['format_version']} of the format, this nescio reads up to "
            f"{VERSION_READ}; upgrade nescio to read it"
        )
    if not said["predictors"]:
        raise DamagedError(f"{where} names no predictor; audit again, or give another file")
    first = next(iter(said["predictors"].values()))
    kind: type[Findings | RegressionFindings] = (
        Findings if "classes" in first else RegressionFindings
    )
    found = from_json(kind, said, where)
    judged = {one["section"] for one in said["findings"]}
    sections, unread = read_sections(said.get("sections", {}), where, judged)
    not_run = {**found.not_run, **unread}
    return Audit(replace(found, sections=sections, not_run=not_run))
