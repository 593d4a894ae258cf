"""The page is whole, escaped, complete, small, and asks for nothing from outside."""

import base64
import hashlib
import json
import re
import subprocess
import sys
from dataclasses import replace
from functools import cache
from html.parser import HTMLParser

import pytest

from nescio.evaluation import verdict_of
from nescio.report import audit_page, limit_of, number_of
from nescio.report.audit_report import report_of
from nescio.report.audit_section import Drawing, Section
from nescio.report.html_table import html
from nescio.report.page_content import _left_out
from nescio.report.page_figures import ShownFigure, shown_figure
from nescio.report.render import Grid

MOST = 5_000_000  # bytes of a page
VOID = {"meta", "br", "hr", "img", "input", "link"}


class Reader(HTMLParser):
    """Collects text, attributes and ids; fails on tags that do not match."""

    def __init__(self, page):
        super().__init__()
        self.open, self.tags, self.attributes, self.words, self.scripts = [], [], [], [], []
        self.feed(page)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += attrs
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += attrs

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open and self.open[-1] == "script":
            self.scripts.append(data)
        elif self.open and self.open[-1] != "style":
            self.words.append(data)


@cache
def _page(kind, draft):
    return audit_page(kind(json.loads(draft)).typed)


def page_of(draft):
    """The page of findings; those of the fixtures are made once."""
    return _page(type(draft), json.dumps(draft))


def test_the_reader_sees_tags_that_do_not_match():
    with pytest.raises(AssertionError):
        Reader("<p><b>no</p></b>")
    with pytest.raises(AssertionError):
        Reader("<p>open")


def test_every_number_is_there(result):
    words = " ".join("".join(Reader(page_of(result)).words).split())
    for number in "90.0 88.7 0.123 0.045 6.7 98.1 87.6 61.3 99.7 30.1".split():  # noqa: SIM905
        assert number in words
    for cell in ("0.912 / 0.234", "0.104 / 0.234", "0.951 / 0.234"):
        assert cell in words
    assert "Samples: 100 test, 50 noise." in words
    assert "Seed: 7." in words
    assert "Made by nescio 9.8.7." in words
    assert "Command: nescio audit 'a b'" in words
    assert "mutual informationTotal minus data uncertainty" in words


def test_names_are_escaped(result):
    ood = result["predictors"]["plain"]["ood"]
    ood["<script>alert(1)</script>"] = ood.pop("noise")
    page = page_of(result)
    reader = Reader(page)
    assert reader.tags.count("script") == 1
    assert "alert" not in reader.scripts[0]
    assert "b" not in reader.tags
    assert "&lt;b&gt;net&lt;/b&gt;" in page
    assert "<b>net</b>" in "".join(reader.words)


def test_nothing_is_asked_for_from_ood(result):
    page = page_of(result)
    reader = Reader(page)
    links = [v for k, v in reader.attributes if k in ("src", "href", "xlink:href", "action")]
    assert all(link.startswith("#") for link in links)
    assert not {"link", "img", "iframe"} & set(reader.tags)
    assert not re.search(r"url\((?!#)|@import", page)


def test_only_its_own_script_may_run(result):
    reader = Reader(page_of(result))
    (script,) = reader.scripts
    policy = next(value for key, value in reader.attributes if value and "default-src" in value)
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert f"script-src 'sha256-{digest}'" in policy
    assert "default-src 'none'" in policy
    assert not [key for key, _ in reader.attributes if key.startswith("on")]


def test_ids_are_unique_and_links_lead_somewhere(result):
    attributes = Reader(page_of(result)).attributes
    ids = [value for key, value in attributes if key == "id"]
    assert len(ids) == len(set(ids))
    links = {value[1:] for key, value in attributes if key in ("href", "xlink:href")}
    assert links <= set(ids)


def test_missing_numbers_are_dashes(gaps):
    words = "".join(Reader(page_of(gaps)).words)
    assert not re.search(r"\bnan\b|\bNone\b", words)
    assert "–" in words


def test_one_predictor_without_ood_sets(smallest):
    words = "".join(Reader(page_of(smallest)).words)
    assert "nescio audit of plain: 100 test samples, 4 classes" in words
    assert "Telling OOD data" not in words


def test_a_cell_is_shaded_by_its_side_of_chance(result):
    page = page_of(result)
    assert re.search(r'<td class="below" style="--shade: 0.79"[^>]*>0.104 / 0.234', page)
    assert re.search(r'<td class="above" style="--shade: 0.82"[^>]*>0.912 / 0.234', page)


def test_the_same_result_gives_the_same_bytes(result):
    assert page_of(result) == audit_page(result.typed)


def test_eight_predictors_with_awkward_names(result):
    found = result["predictors"]["plain"]
    names = ["_a", "$x$", "中文", "a" * 80, 'id="p"', "--", "\\frac", "{{ 7 * 7 }}"]
    page = audit_page(type(result)({**result, "predictors": dict.fromkeys(names, found)}).typed)
    words = "".join(Reader(page).words)
    assert all(name in words for name in names)
    assert "49 " not in words


def test_plots_are_loaded_only_when_drawn():
    code = "import sys, nescio, nescio.report; assert 'matplotlib' not in sys.modules"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


def test_the_attack_is_explained_where_there_is_one(attacked):
    words = "".join(Reader(page_of(attacked)).words)
    assert words.count("adversarial noise (radius 0.3, 50 steps)") >= 3  # two tables, the footer
    assert "Adversarial noise is noise, moved to where the predictor is most confident" in words
    assert "no adversarial noise. a Closed has no method answer(x)" in words
    assert "200 adversarial noise (radius 0.3, 50 steps)" in words


def test_no_attack_no_word_about_it(result):
    assert "dversarial" not in "".join(Reader(page_of(result)).words)


def test_the_verdict_and_findings_come_first(trusted):
    page = page_of(trusted)
    verdict = verdict_of(trusted.typed)
    words = " ".join("".join(Reader(page).words).split()).replace("\N{NO-BREAK SPACE}", " ")
    assert words.index(verdict.words.partition(": ")[2][1:]) < words.index("Contents")
    for one in verdict.shown:
        assert words.index(one.meaning) < words.index("Contents")
    first = page.index('<li class="finding">')
    assert page.index("<h1>") < first < page.index('class="contents"') < page.index('id="in-words"')
    assert page.count('<li class="finding">') == len(verdict.findings)


def test_a_finding_says_word_number_interval_limit_and_where(trusted):
    one = verdict_of(trusted.typed).shown[0]
    page = page_of(trusted).replace("\N{NO-BREAK SPACE}", " ")
    finding = page[page.index('<li class="finding">') :].partition("</li>")[0]
    assert f"{one.status.capitalize()}</span>" in finding
    number, _, ends = number_of(one).partition(" (")
    assert f'<span class="number">{number}</span>' in finding
    assert ends in finding
    assert f"limit: {limit_of(one)}" in finding
    assert f'href="#{one.section.replace(" ", "-")}"' in finding


def test_contents_have_the_verdict_of_each_section(trusted):
    page = page_of(trusted)
    contents = page[page.index('<nav class="contents"') :].partition("</nav>")[0]
    worst = {}
    for one in verdict_of(trusted.typed).findings:  # the worst first
        worst.setdefault(one.section, one.status)
    assert len(worst) > 3
    for section, status in worst.items():
        link = re.search(rf'href="#{section.replace(" ", "-")}">(.*?)</a>', contents)
        assert link is None or f": {status}<" in link[1]
    for anchor in re.findall(r'<section id="([^"]+)"', page):
        assert f'href="#{anchor}"' in contents


def test_every_figure_has_a_table_of_its_data(trusted):
    figures = re.findall(r"<figure>.*?</figure>", page_of(trusted), flags=re.DOTALL)
    assert len(figures) == 6
    for figure in figures:
        assert "<svg" in figure
        assert "<details>" in figure
        assert "<table>" in figure


def test_every_number_says_what_it_is_and_what_it_rests_on(result):
    page = page_of(result)
    assert 'title="plain, accuracy, 100 test samples">90.0</td>' in page
    assert 'title="noise, plain, 50 samples">61.3</td>' in page
    assert "From 100 test samples." in page
    assert '<abbr title="expected calibration error' in page


AWKWARD = {
    "markup": "<img src=x onerror=alert(1)>",
    "quotes": '"\'` onmouseover=alert(1) x="',
    "line break": "one\ntwo\r\nthree",
    "turned around": "abc\u202edef\u2066ghi",
    "end of a script": "</script><script>alert(1)</script>",
    "end of a style": "</style><b>bold</b>",
    "template": "{{ 7 * 7 }}{% raw %}",
    "nul": "a\x00b",
}


def test_names_never_become_markup(trusted):
    plain, other = trusted["predictors"].values()
    names = list(AWKWARD.values())
    plain["ood"] |= dict.fromkeys(names, plain["ood"]["noise"])
    plain["confidence_histograms"] |= {name: [1, 2, 3, 4] for name in names}
    trusted["predictors"] = {names[0]: plain, **dict.fromkeys(names[1:], other)}
    trusted["sets"] |= dict.fromkeys(names, 50)
    trusted["guard"] |= {"predictor": names[0], "file": names[1]}
    trusted["guard"]["ood"] |= dict.fromkeys(names, trusted["guard"]["ood"]["letters"])
    trusted["command"] = names
    page = audit_page(trusted.typed)
    reader = Reader(page)
    assert reader.tags.count("script") == 1
    assert not {"img", "b", "raw"} & set(reader.tags)
    assert not [key for key, _ in reader.attributes if key.startswith("on")]
    assert not re.search("[\u202a-\u202e\u2066-\u2069\x00]", page)
    assert AWKWARD["template"] in "".join(reader.words)
    assert AWKWARD["markup"] in "".join(reader.words)


def test_a_figure_that_fails_is_shown_in_its_place():
    figure = shown_figure(Drawing(draw=lambda: 1 / 0, caption="A figure."))
    assert (figure.title, figure.svg) == ("This figure could not be drawn", "")
    assert figure.why == "division by zero"


def test_a_page_stays_below_its_limit_and_says_what_it_leaves_out(trusted, monkeypatch):
    big = ShownFigure(title="Big", caption="", svg="<svg></svg>" + " " * MOST)
    monkeypatch.setattr("nescio.report.page_content.shown_figure", lambda drawing: big)
    page = audit_page(trusted.typed)
    assert len(page.encode()) <= MOST
    assert "Left out, so that the page stays small: 6 figures." in page


def test_long_tables_are_cut_and_say_so():
    rows = [(f"class {k}", [str(k)]) for k in range(10_000)]
    text = html(Grid(corner="class", head=["accuracy"], rows=rows), rows=300)
    assert text.count("<tr>") == 301
    assert "The first 300 of 10,000 rows; audit.json has them all." in text


def test_ten_thousand_classes_fit_on_a_page(trusted, monkeypatch):
    names = [f"<b>class</b> {k} \u202e {'x' * 80}" for k in range(10_000)]
    table = Grid(corner="class", head=["accuracy"], rows=[(name, ["90.0"]) for name in names])
    report = report_of(trusted.typed)
    many = replace(report, sections=[*report.sections, Section(name="many", tables=[table] * 3)])
    monkeypatch.setattr("nescio.report.page_content.report_of", lambda found: many)
    none = ShownFigure(title="none", caption="")
    monkeypatch.setattr("nescio.report.page_content.shown_figure", lambda drawing: none)
    page = audit_page(trusted.typed)
    assert len(page.encode()) < 1_000_000
    assert page.count("The first 300 of 10,000 rows; audit.json has them all.") == 3
    assert "<b>class" not in page
    assert "\u202e" not in page


def test_parts_that_were_not_run_for_one_reason_stand_together():
    left = _left_out({"noise": "no inputs", "guard": "too few", "attack": "no inputs"})
    assert left == [("noise, attack", "no inputs"), ("guard", "too few")]
