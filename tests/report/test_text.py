"""The text has every number, fits its width, and shows names as they are."""

import pytest

from nescio.report import audit_text

NUMBERS = "90.0 88.7 0.123 0.045 6.7 98.1 87.6 61.3 99.7 30.1".split()  # noqa: SIM905


@pytest.mark.parametrize("width", [80, 100])
def test_every_number_is_there_and_the_lines_fit(result, width):
    text = audit_text(result.typed, width=width)
    assert set(NUMBERS) <= set(text.split())
    for cell in ("0.912 / 0.234", "0.104 / 0.234", "0.951 / 0.234"):
        assert cell in text
    assert max(map(len, text.splitlines())) <= width


def test_a_row_holds_the_numbers_of_its_predictor(result):
    lines = audit_text(result.typed).splitlines()
    row = next(line for line in lines if line.startswith("plain  "))
    assert row.split() == ["plain", "90.0", "98.1", "6.7", "0.123", "0.045"]
    row = next(line for line in lines if line.startswith("noise  "))
    assert row.split() == ["noise", "61.3", "61.3"]
    row = next(line for line in lines if line.startswith("scaled x 100  "))
    assert row.split()[3:] == ["99.7", "30.1"]
    row = next(line for line in lines if line.startswith("mutual information"))
    assert row.split() == ["mutual", "information", "0.912", "/", "0.234", "0.912", "/", "0.234"]


def test_names_are_neither_markup_nor_control_codes(result):
    result["predictors"]["[red]x[/red]\x1b[2J"] = result["predictors"].pop("plain")
    text = audit_text(result.typed, styled=False)
    assert "[red]x[/red]?[2J" in text
    assert "\x1b" not in text


def test_missing_numbers_are_dashes(gaps):
    text = audit_text(gaps.typed)
    assert "nan" not in text.lower()
    assert "None" not in text
    row = next(line for line in text.splitlines() if line.startswith("plain  "))
    assert row.split() == ["plain", "-", "-", "-", "-", "-"]
    row = next(line for line in text.splitlines() if line.startswith("noise  "))
    assert row.split() == ["noise", "-", "-"]


def test_one_predictor_without_ood_sets(smallest):
    text = audit_text(smallest.typed)
    assert "98.1" in text
    assert "AUROC / FPR95" not in text


def test_columns_that_do_not_fit_go_to_a_table_below(result):
    found = result["predictors"].pop("plain")
    part = found["ood"].pop("noise")
    for k in range(1, 9):
        ood = {"noise": {**part, "mean_max_confidence": k / 1000}}
        result["predictors"][f"photographer {k}"] = {**found, "ood": ood}
    text = audit_text(result.typed, width=80)
    assert max(map(len, text.splitlines())) <= 80
    assert {f"0.{k}" for k in range(1, 9)} <= set(text.split())
    assert sum(line.startswith("data ") for line in text.splitlines()) > 1


def test_styles_are_only_there_when_asked_for(result):
    assert "\x1b[" in audit_text(result.typed, styled=True)
    assert "\x1b[" not in audit_text(result.typed, styled=False)


def test_the_same_result_gives_the_same_text(result):
    assert audit_text(result.typed) == audit_text(result.typed)


def test_the_attack_is_a_column_a_table_and_a_note(attacked, result):
    text = audit_text(attacked.typed)
    row = next(line for line in text.splitlines() if line.startswith("adversarial noise ("))
    assert row.split()[-2:] == ["100.0", "-"]
    assert "from the test data: adversarial noise (radius 0.3, 50 steps)" in text
    assert "0.021 / 0.987" in text
    words = " ".join(text.split())
    assert "A longer attack may find more confident ones." in words
    assert "<b>net</b>: no adversarial noise. a Closed has no method answer(x)" in words
    assert "plain: the attack could not move 12 % of its inputs" in words


def test_without_an_attack_there_is_no_note(result):
    assert "longer attack" not in audit_text(result.typed)
