"""Findings for people: text for the terminal, one self-contained page with plots."""

from nescio.report.audit_page import audit_page as audit_page
from nescio.report.audit_text import audit_text as audit_text
from nescio.report.audit_text import command_text as command_text
from nescio.report.audit_text import verdict_text as verdict_text
from nescio.report.card_words import card_text as card_text
from nescio.report.card_words import checks_text as checks_text
from nescio.report.diff_page import diff_page as diff_page
from nescio.report.diff_words import diff_markdown as diff_markdown
from nescio.report.diff_words import diff_text as diff_text
from nescio.report.guard_words import guard_usage as guard_usage
from nescio.report.model_card import model_card as model_card
from nescio.report.notebook import audit_html as audit_html
from nescio.report.notebook import cut_grid as cut_grid
from nescio.report.notebook import decisions_html as decisions_html
from nescio.report.notebook import guard_html as guard_html
from nescio.report.notebook import model_html as model_html
from nescio.report.notebook import monitor_html as monitor_html
from nescio.report.notebook import prediction_html as prediction_html
from nescio.report.notebook import risk_html as risk_html
from nescio.report.verdict_files import junit_xml as junit_xml
from nescio.report.verdict_files import summary_markdown as summary_markdown
from nescio.report.verdict_words import default_limit as default_limit
from nescio.report.verdict_words import limit_of as limit_of
from nescio.report.verdict_words import number_of as number_of
from nescio.report.verdict_words import verdict_paragraph as verdict_paragraph
from nescio.report.written_tests import tests_of as tests_of
