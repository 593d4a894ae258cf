"""Two audits side by side: what got worse or better, with tests."""

from nescio.evaluation.diff.audit_diff import AuditDiff as AuditDiff
from nescio.evaluation.diff.audit_diff import diff as diff
from nescio.evaluation.diff.changes import Change as Change
