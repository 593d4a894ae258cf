"""The guard of an audit in words: what it answers, what it refuses, what it would take."""

import re

import pytest

from nescio.report import audit_page, audit_text
from nescio.report.audit_tables import guard_section
from nescio.report.guard_words import guard_notes, guard_sentence, guard_usage


def test_the_sentence_people_need(trusted):
    assert guard_sentence(trusted.typed) == (
        "At 1 % false alarms this network can answer 90.0 % of inputs like its test data with at "
        "most 2 % errors (confidence 95 %); of letters it abstains on 61.0 %, of the uniform noise "
        "100 %. Here is the guard: out/guard.safetensors"
    )


def test_it_is_in_the_text_and_early_on_the_page(trusted):
    said = guard_sentence(trusted.typed)
    assert said in " ".join(audit_text(trusted.typed).split())
    page = audit_page(trusted.typed)
    assert page.index("this network can answer") < page.index("predictors is more confident")
    for usage in guard_usage(trusted.typed):
        assert usage.splitlines()[-1].split("#")[0].strip() in page.replace("&#39;", "'")
    assert "Unsure: &lt;few&gt;." in page


def test_samples_that_are_in_both_parts_are_counted(trusted):
    assert "without" not in guard_notes(trusted.typed)[0]
    trusted["guard"]["left_out"] = 1200
    assert guard_notes(trusted.typed)[0].endswith(
        "measured on the test data, without the 1,200 that are validation samples too."
    )


@pytest.mark.parametrize("which", ["risk", "false_alarm"])
def test_a_broken_guarantee_is_said(trusted, which):
    trusted["guard"]["broken"][which] = True
    assert "the test data do not agree with this" in guard_sentence(trusted.typed)


@pytest.mark.parametrize(
    ("halved", "words"),
    [
        (True, "half of the test data, 90 samples, are too few"),
        (False, "90 validation samples are"),
    ],
)
def test_too_few_samples_and_how_many_it_takes(trusted, halved, words):
    about = {"predictor": "plain", "skipped": "x", "samples": 90, "needed": 189, "halved": halved}
    wish = {"false_alarm": 0.01, "risk": 0.02, "confidence": 0.95}
    trusted["guard"] = {**about, **wish}
    said = guard_sentence(trusted.typed)
    assert words in said
    assert said.endswith("It takes at least 189 validation samples or 378 test samples.")
    assert guard_section(trusted.typed) is None
    assert guard_usage(trusted.typed) is None
    assert said in " ".join(audit_text(trusted.typed).split())


def test_another_reason_for_no_guard_is_told(trusted):
    trusted["guard"] |= {"skipped": "it is closed."}
    assert guard_sentence(trusted.typed) == "There is no guard for this network: it is closed."


@pytest.mark.parametrize(
    ("enough", "words"),
    [(900, "It takes about 900 validation samples or more"), (None, "More samples would not help")],
)
def test_a_network_that_cannot_be_shown_to_answer(trusted, enough, words):
    trusted["guard"] |= {"holds": False, "enough": enough}
    said = guard_sentence(trusted.typed)
    assert "1 error among the 220 most confident of 236 samples show at most 2.1 %" in said
    assert words in said
    assert said.endswith("All its guard can say is what is OOD: out/guard.safetensors")


def test_rows_hold_the_shares(trusted):
    assert guard_section(trusted.typed).tables[0].rows == [
        ("test data", ["100", "90.0", "8.0", "2.0"]),
        ("letters", ["50", "39.0", "0.0", "61.0"]),
        ("uniform noise", ["50", "0.0", "0.0", "100.0"]),
        ("scaled x 100", ["50", "0.0", "0.0", "100.0"]),
    ]
    made, wrong, alarms = guard_notes(trusted.typed)
    assert made == "Fitted on the validation data (300 samples), measured on the test data."
    assert wrong.startswith("There 1 of its 90 answers are wrong: 1.0 % (under 0.1 % to 6.0 %)")
    assert alarms.startswith("Of these samples 2.0 % are called OOD (1.0 % to 7.0 %)")


def test_how_to_use_it(trusted):
    python, command = guard_usage(trusted.typed)
    assert "nescio.load('out/guard.safetensors')" in python
    assert command == "nescio score out/guard.safetensors inputs.npz --out decisions.csv"
    trusted["guard"] |= {"own_network": True, "net": "mine:make"}
    python, command = guard_usage(trusted.typed)
    assert "net=net" in python
    assert "--net mine:make" in command


def test_tables_of_calibration_and_errors(trusted):
    lines = [" ".join(line.split()) for line in audit_text(trusted.typed, width=120).splitlines()]
    assert "plain 1 4.2 1.2 to 5.2 2.1 0.321 0.154" in lines
    assert "plain, temperature 1.75 1.2 0.0 to 2.2 0.6 0.321 0.154" in lines
    assert "<b>net</b>: no temperature. no error." in lines
    assert "<b>net</b>: 3 errors in 100 answers: too few." in lines
    words = " ".join(lines)
    assert "50.0 (49.5 to 50.5) +10.0 (+9.5 to +10.5) 50.0 500.00" in words
    page = re.sub(r"\s+", " ", audit_page(trusted.typed))
    for cell in ("1.2 to 5.2", "+10.0 (+9.5 to +10.5)", "turned by 15 degrees a step"):
        assert cell in page
