"""The renderings of a comparison, from numbers that are known."""

import pytest
from rich.cells import cell_len

from nescio.report.predictor_table import comparison_latex, comparison_markdown, comparison_text


def number(value, spread=0.004):
    return {"value": value, "low": value - spread, "high": value + spread}


def measured(mmc, auroc, fpr, samples=10000):
    return {
        "samples": samples,
        "mean_max_confidence": number(mmc),
        "auroc": number(auroc),
        "fpr_at_95_tpr": number(fpr),
    }


@pytest.fixture
def result():
    test = {"samples": 10000, "error": number(0.0051, 0.001), "mean_max_confidence": number(0.991)}
    plain = {
        "test": test,
        "Fashion": measured(0.654, 0.972, 0.121),
        "samples, misclassified": measured(0.999, 0.358, 0.992, 873),
    }
    acet = {
        "test": test,
        "Fashion": measured(0.239, 0.994, 0.005),
        "samples, misclassified": {"samples": 0},
    }
    energy = {
        "test": {"samples": 10000},
        "Fashion": {key: v for key, v in measured(1, 0.9, 0.5).items() if key[0] != "m"},
        "samples, misclassified": {"samples": 0, "skipped": "it has no label"},
    }
    return {
        "data": "test",
        "level": 0.95,
        "resamples": 1000,
        "sets": {
            "test": {"description": ""},
            "Fashion": {"description": ""},
            "samples, misclassified": {"description": ""},
            "LSUN": {"absent": "nescio data download lsun_classroom"},
        },
        "predictors": {
            "plain": {"detector": False, "rows": plain},
            "ACET": {"detector": False, "rows": acet},
            "energy": {"detector": True, "rows": energy},
        },
        "published": {
            "test": {"plain": {"error": 0.0074}},
            "LSUN": {"plain": {"mean_max_confidence": 0.738, "fpr_at_95_tpr": 0.667}},
        },
    }


def test_the_text_has_a_row_a_data_set_and_predictors_side_by_side(result):
    lines = comparison_text(result, width=100).splitlines()
    assert lines[0].split() == ["plain", "ACET"]
    assert lines[1].split("  ")[-1].strip() == "error 0.51 % (0.41-0.61)"
    assert lines[2].split() == ["published", "0.74", "%"]
    assert lines[3].split() == [*["MMC", "AUROC", "FPR95"] * 2]
    at = next(i for i, line in enumerate(lines) if line.startswith("Fashion"))
    assert " ".join(lines[at].split()) == "Fashion (10,000) 0.654 0.972 0.121 0.239 0.994 0.005"
    assert lines[at + 1].split() == [
        "0.650-0.658", "0.968-0.976", "0.117-0.125", "0.235-0.243", "0.990-0.998", "0.001-0.009",
    ]  # fmt: skip
    below = lines.index("", at)
    assert lines[below + 1].split() == ["energy"]


def test_the_text_keeps_to_the_width_it_is_given(result):
    for width in (60, 100, 140, 200):
        text = comparison_text(result, width=width)
        assert max(map(cell_len, text.splitlines())) <= width
    assert comparison_text(result, width=200).splitlines()[0].split() == [
        "plain", "ACET", "energy",
    ]  # fmt: skip


def test_numbers_of_a_column_end_at_one_place(result):
    lines = comparison_text(result, width=60).splitlines()
    ends = {
        len(line) for line in lines[: lines.index("")] if line.startswith(("Fashion", "  publ"))
    }
    assert len(ends) == 1


def test_published_numbers_stand_below_a_row_that_was_not_measured(result):
    lines = comparison_text(result, width=60).splitlines()
    at = next(i for i, line in enumerate(lines) if line.startswith("LSUN"))
    assert lines[at].split() == ["LSUN", "-", "-", "-"]
    assert lines[at + 1].split() == ["published", "0.738", "-", "0.667"]
    text = " ".join(comparison_text(result).split())
    assert "LSUN was not measured: nescio data download lsun_classroom" in text
    assert "samples, misclassified: energy left out: it has no label" in text


def test_the_counts_of_predictors_are_told_apart_where_they_differ(result):
    rows = comparison_markdown(result).splitlines()
    assert any(row.startswith("| samples, misclassified (873; 0; -) |") for row in rows)


def test_the_markdown_table_has_a_cell_for_each_column(result):
    text = comparison_markdown(result)
    table = [line for line in text.splitlines() if line.startswith("|")]
    assert {line.count("|") for line in table} == {11}
    assert table[0].startswith("| data | plain MMC | plain AUROC | plain FPR95 | ACET MMC |")
    assert "0.972 (0.968–0.976)" in table[3]
    assert text.startswith("- plain: error 0.51 % (0.41–0.61), published 0.74 %\n- ACET: error")
    assert "energy: error" not in text
    assert "In brackets: 95 % bootstrap intervals of 1,000 resamples." in text


def test_the_latex_table_has_a_cell_for_each_column(result):
    lines = comparison_latex(result).splitlines()
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


def test_latex_without_intervals_has_the_bare_numbers(result):
    text = comparison_latex(result, intervals=False)
    assert "Fashion (10,000) & 0.654 & 0.972 & 0.121 & 0.239" in text
    assert "bootstrap" not in text
    assert "scriptsize" not in text


def test_a_result_without_intervals_says_nothing_of_them(result):
    result["resamples"] = 0
    for part in result["predictors"].values():
        for cell in part["rows"].values():
            for value in cell.values():
                if isinstance(value, dict):
                    value.update(low=None, high=None)
    for text in (comparison_text(result), comparison_markdown(result), comparison_latex(result)):
        assert "bootstrap" not in text
        assert "0.972" in text
        assert "0.968" not in text


def test_names_cannot_break_a_table(result):
    result["predictors"] = {r"50 % & a_b|\x": result["predictors"]["plain"]}
    result["sets"] = {"test": {}, "[1] * <b>\x1b[31m": {"absent": "no"}}
    result["published"] = {}
    text, markdown, latex = (
        render(result) for render in (comparison_text, comparison_markdown, comparison_latex)
    )
    assert "\x1b" not in text + markdown + latex
    assert "[1] * <b>?[31m" in text
    table = [line for line in markdown.splitlines() if line.startswith("|")]
    assert {line.replace("\\|", "").count("|") for line in table} == {5}
    assert "[1] * &lt;b>?[31m" in markdown
    assert r"{50 \% \& a\_b|\textbackslash{}x}" in latex
    assert "\n{[}1] {*} <b>?{[}31m & -- & -- & -- " in latex


def test_wide_characters_keep_the_columns_straight(result):
    result["sets"]["手書き文字"] = {"absent": "no"}
    lines = comparison_text(result, width=60).splitlines()
    wide = next(line for line in lines if line.startswith("手書き"))
    plain = next(line for line in lines if line.startswith("Fashion"))
    assert cell_len(wide) == cell_len(plain)
