"""Findings for people: text for the terminal, one self-contained page with plots."""

from nescio.report.audit_page import audit_page as audit_page
from nescio.report.audit_text import audit_text as audit_text
from nescio.report.verdict_words import limit_of as limit_of
from nescio.report.verdict_words import number_of as number_of
from nescio.report.verdict_words import verdict_paragraph as verdict_paragraph
