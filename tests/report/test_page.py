"""The page is whole, escaped, complete, and asks for nothing from outside."""

import re
import subprocess
import sys
from html.parser import HTMLParser

import pytest

from nescio.report import audit_page

VOID = {"meta", "br", "hr", "img", "input", "link"}


class Reader(HTMLParser):
    """Collects text, attributes and ids; fails on tags that do not match."""

    def __init__(self, page):
        super().__init__()
        self.open, self.tags, self.attributes, self.words = [], [], [], []
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
        if self.open and self.open[-1] != "style":
            self.words.append(data)


def test_the_reader_sees_tags_that_do_not_match():
    with pytest.raises(AssertionError):
        Reader("<p><b>no</p></b>")
    with pytest.raises(AssertionError):
        Reader("<p>open")


def test_every_number_is_there(result):
    words = " ".join("".join(Reader(audit_page(result.typed)).words).split())
    for number in "90.0 88.7 0.123 0.045 6.7 98.1 87.6 61.3 99.7 30.1".split():  # noqa: SIM905
        assert number in words
    for cell in ("0.912 / 0.234", "0.104 / 0.234", "0.951 / 0.234"):
        assert cell in words
    assert "Samples: 100 test, 50 noise." in words
    assert "Seed: 7." in words
    assert "Made by nescio 9.8.7." in words
    assert "Command: nescio audit 'a b'" in words
    assert "mutual_informationTotal minus data uncertainty" in words


def test_names_are_escaped(result):
    ood = result["predictors"]["plain"]["ood"]
    ood["<script>alert(1)</script>"] = ood.pop("noise")
    page = audit_page(result.typed)
    reader = Reader(page)
    assert "b" not in reader.tags
    assert "script" not in reader.tags
    assert "&lt;b&gt;net&lt;/b&gt;" in page
    assert "<b>net</b>" in "".join(reader.words)


def test_nothing_is_asked_for_from_ood(result):
    page = audit_page(result.typed)
    reader = Reader(page)
    links = [v for k, v in reader.attributes if k in ("src", "href", "xlink:href", "action")]
    assert all(link.startswith("#") for link in links)
    assert not {"script", "link", "img", "iframe"} & set(reader.tags)
    assert not re.search(r"url\((?!#)|@import", page)


def test_ids_are_unique_and_links_lead_somewhere(result):
    attributes = Reader(audit_page(result.typed)).attributes
    ids = [value for key, value in attributes if key == "id"]
    assert len(ids) == len(set(ids))
    links = {value[1:] for key, value in attributes if key in ("href", "xlink:href")}
    assert links <= set(ids)


def test_missing_numbers_are_dashes(gaps):
    words = "".join(Reader(audit_page(gaps.typed)).words)
    assert not re.search(r"\bnan\b|\bNone\b", words)
    assert "–" in words


def test_one_predictor_without_ood_sets(smallest):
    words = "".join(Reader(audit_page(smallest.typed)).words)
    assert "An audit of 1 predictor on" in words
    assert "Telling OOD data" not in words


def test_a_cell_is_shaded_by_its_side_of_chance(result):
    page = audit_page(result.typed)
    assert '<td class="below" style="--shade: 0.79">0.104 / 0.234' in page
    assert '<td class="above" style="--shade: 0.82">0.912 / 0.234' in page


def test_the_same_result_gives_the_same_bytes(result):
    assert audit_page(result.typed) == audit_page(result.typed)


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
    words = "".join(Reader(audit_page(attacked.typed)).words)
    assert words.count("adversarial noise (radius 0.3, 50 steps)") >= 3  # two tables, the footer
    assert "Adversarial noise is noise, moved to where the predictor is most confident" in words
    assert "no adversarial noise. a Closed has no method answer(x)" in words
    assert "200 adversarial noise (radius 0.3, 50 steps)" in words


def test_no_attack_no_word_about_it(result):
    assert "dversarial" not in "".join(Reader(audit_page(result.typed)).words)
