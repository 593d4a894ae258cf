"""Findings for people: text for the terminal, one self-contained page with plots."""

from nescio.report.audit_page import audit_page as audit_page
from nescio.report.audit_text import audit_text as audit_text
