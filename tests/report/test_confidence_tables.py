"""The renderings of a comparison, from numbers that are known."""

from dataclasses import replace

import pytest
from rich.cells import cell_len

from nescio.core.results import DataSet, Row
from nescio.evaluation import Comparison
from nescio.evaluation.compare.comparison import About, SubjectAbout
from nescio.report.comparison_tables import comparison_page

KEYS = ("mean_max_confidence", "auroc", "fpr_at_95_tpr")


def row(subject, data, metric, value, spread=0.004, **more):
    ends = {} if spread is None else {"low": value - spread, "high": value + spread}
    return Row(subject=subject, data=data, metric=metric, value=value, **ends, **more)


def measured(subject, data, *numbers, samples=10000):
    yield row(subject, data, "samples", samples, None)
    pairs = zip(KEYS, numbers, strict=True)
    yield from (row(subject, data, key, value) for key, value in pairs if value is not None)


def rows():
    wrong = "samples, misclassified"
    for name, published in (("plain", {"published": 0.0074}), ("ACET", {})):
        yield row(name, "test", "samples", 10000, None)
        yield row(name, "test", "error", 0.0051, 0.001, **published)
        yield row(name, "test", KEYS[0], 0.991)
    yield row("energy", "test", "samples", 10000, None)
    yield from measured("plain", "Fashion", 0.654, 0.972, 0.121)
    yield from measured("ACET", "Fashion", 0.239, 0.994, 0.005)
    yield from measured("energy", "Fashion", None, 0.9, 0.5)
    yield from measured("plain", wrong, 0.999, 0.358, 0.992, samples=873)
    yield row("ACET", wrong, "samples", 0, None)
    yield row("energy", wrong, "samples", 0, None, note="it has no label")
    for metric, value in ((KEYS[0], 0.738), (KEYS[2], 0.667)):
        yield Row(subject="plain", data="LSUN", metric=metric, value=None, published=value)


@pytest.fixture
def found():
    kinds = {"plain": "predictor", "ACET": "predictor", "energy": "function"}
    about = About(
        task="confidence", data="test", samples=10000, level=0.95, resamples=1000, seed=0,
        subjects=tuple(SubjectAbout(name=n, kind=k) for n, k in kinds.items()),
    )  # fmt: skip
    names = ("Fashion", "samples, misclassified")
    sets = (
        DataSet(name="test", kind="test"),
        *(DataSet(name=name) for name in names),
        DataSet(name="LSUN", absent="nescio data download lsun_classroom"),
    )
    return Comparison(tuple(rows()), sets, about)


def text_of(found, width=None):
    return comparison_page(found).text(width)


def test_the_text_has_a_row_a_data_set_and_predictors_side_by_side(found):
    lines = text_of(found, width=100).splitlines()
    assert lines[0].split() == ["plain", "ACET"]
    assert lines[1].split("  ")[-1].strip() == "error 0.51 % (0.41-0.61)"
    assert lines[2].split() == ["published", "0.74", "%"]
    assert lines[3].split() == ["data", *["MMC", "AUROC", "FPR95"] * 2]
    at = next(i for i, line in enumerate(lines) if line.startswith("Fashion"))
    assert " ".join(lines[at].split()) == "Fashion (10,000) 0.654 0.972 0.121 0.239 0.994 0.005"
    assert lines[at + 1].split() == [
        "0.650-0.658", "0.968-0.976", "0.117-0.125", "0.235-0.243", "0.990-0.998", "0.001-0.009",
    ]  # fmt: skip
    below = lines.index("", at)
    assert lines[below + 1].split() == ["energy"]


def test_the_text_keeps_to_the_width_it_is_given(found):
    for width in (60, 100, 140, 200):
        text = text_of(found, width=width)
        assert max(map(cell_len, text.splitlines())) <= width
    assert text_of(found, width=200).splitlines()[0].split() == [
        "plain", "ACET", "energy",
    ]  # fmt: skip


def test_numbers_of_a_column_end_at_one_place(found):
    lines = text_of(found, width=60).splitlines()
    ends = {
        len(line) for line in lines[: lines.index("")] if line.startswith(("Fashion", "  publ"))
    }
    assert len(ends) == 1


def test_published_numbers_stand_below_a_row_that_was_not_measured(found):
    lines = text_of(found, width=60).splitlines()
    at = next(i for i, line in enumerate(lines) if line.startswith("LSUN"))
    assert lines[at].split() == ["LSUN", "-", "-", "-"]
    assert lines[at + 1].split() == ["published", "0.738", "-", "0.667"]
    text = " ".join(text_of(found).split())
    assert "LSUN was not measured: nescio data download lsun_classroom" in text
    assert "samples, misclassified: energy left out: it has no label" in text


def test_the_counts_of_predictors_are_told_apart_where_they_differ(found):
    rows = found.markdown().splitlines()
    assert any(row.startswith("| samples, misclassified (873; 0; -) |") for row in rows)


def test_the_markdown_table_has_a_cell_for_each_column(found):
    text = found.markdown()
    table = [line for line in text.splitlines() if line.startswith("|")]
    assert {line.count("|") for line in table} == {11}
    assert table[0].startswith("| data | plain MMC | plain AUROC | plain FPR95 | ACET MMC |")
    assert "0.972 (0.968–0.976)" in table[3]
    assert text.startswith("- plain: error 0.51 % (0.41-0.61), published 0.74 %\n- ACET: error")
    assert "energy: error" not in text
    assert "95 % bootstrap intervals of 1,000 resamples." in text


def test_the_latex_table_has_a_cell_for_each_column(found):
    lines = found.latex().splitlines()
    body = [line for line in lines if not line.startswith("%")]
    assert body[0] == r"\begin{tabular}{lrrrrrrrrr}"
    assert body[1] == r"\toprule"
    heads = [rf"\multicolumn{{3}}{{c}}{{{name}}}" for name in ("plain", "ACET", "energy")]
    assert body[2] == rf" & {' & '.join(heads)} \\"
    assert body[4] == r"\cmidrule(lr){2-4} \cmidrule(lr){5-7} \cmidrule(lr){8-10}"
    assert body[-2:] == [r"\bottomrule", r"\end{tabular}"]
    rows = body[body.index(r"\midrule") + 1 : -2]
    assert {row.count(" & ") for row in rows} == {9}
    assert all(row.endswith(r" \\") for row in rows)
    assert rows[-1].startswith(r"\quad published & 0.738 & -- & 0.667")
    assert r"0.972 {\scriptsize(0.968--0.976)}" in rows[1]


def test_latex_without_intervals_has_the_bare_numbers(found):
    text = found.latex(intervals=False)
    assert "Fashion (10,000) & 0.654 & 0.972 & 0.121 & 0.239" in text
    assert "bootstrap" not in text
    assert "scriptsize" not in text


def test_a_comparison_without_intervals_says_nothing_of_them(found):
    numbers = tuple(replace(row, low=None, high=None) for row in found.rows)
    bare = replace(found, rows=numbers, about=replace(found.about, resamples=0))
    for text in (str(bare), bare.markdown(), bare.latex()):
        assert "bootstrap" not in text
        assert "0.972" in text
        assert "0.968" not in text


def renamed(found, subject, data):
    about = replace(found.about, subjects=(SubjectAbout(name=subject, kind="predictor"),))
    numbers = tuple(
        replace(row, subject=subject, published=None)
        for row in found.rows
        if row.subject == "plain" and row.data == "test"
    )
    sets = (found.sets[0], DataSet(name=data, absent="no"))
    return Comparison(numbers, sets, about)


def test_names_cannot_break_a_table(found):
    odd = renamed(found, r"50 % & a_b|\x", "[1] * <b>\x1b[31m")
    text, markdown, latex = str(odd), odd.markdown(), odd.latex()
    assert "\x1b" not in text + markdown + latex
    assert "[1] * <b>?[31m" in text
    table = [line for line in markdown.splitlines() if line.startswith("|")]
    assert {line.replace("\\|", "").count("|") for line in table} == {5}
    assert "[1] * &lt;b>?[31m" in markdown
    assert r"{50 \% \& a\_b|\textbackslash{}x}" in latex
    assert "\n{[}1] {*} <b>?{[}31m & -- & -- & -- " in latex


def test_wide_characters_keep_the_columns_straight(found):
    sets = (*found.sets, DataSet(name="手書き文字", absent="no"))
    lines = text_of(replace(found, sets=sets), width=60).splitlines()
    wide = next(line for line in lines if line.startswith("手書き"))
    plain = next(line for line in lines if line.startswith("Fashion"))
    assert cell_len(wide) == cell_len(plain)
