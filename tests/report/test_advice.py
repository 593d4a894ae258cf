"""What to do: each sentence says what the numbers say."""

import pytest

from nescio.report import audit_page, audit_text
from nescio.report.audit_words import advice, range_warning


def test_temperature_score_and_risk(trusted):
    curve = {"coverage": [0.1, 0.5, 0.6, 1.0], "risk": [0.0, 0.01, 0.04, 0.1]}
    trusted["predictors"]["plain"]["failure"]["curves"]["recommended score"] = curve
    assert advice(trusted.typed)[1:] == [
        "The recommended score finds errors better than the log-odds, gain in AP of errors +10.0 "
        "(+9.5 to +10.5): keep it.",
        "Answering the most confident 50 % leaves 1 % errors, 60 % leaves 5 %; answering all "
        "leaves 10.0 % (measured, not guaranteed).",
    ]


@pytest.mark.parametrize(
    ("after", "words"), [(0.3, "Use a temperature of 1.75"), (0.4, "Leave the temperature at 1")]
)
def test_a_temperature_is_advised_where_it_helps(trusted, after, words):
    trusted["predictors"]["plain"]["calibration"]["after"]["nll"] = after
    found = advice(trusted.typed)[0]
    assert found.startswith(words)
    assert "calibration error 4.2 % before, 1.2 % after" in found


def test_a_temperature_that_makes_the_calibration_error_worse_says_so(trusted):
    part = trusted["predictors"]["plain"]["calibration"]
    part["after"]["nll"] = 0.3
    part["before"]["ece"]["value"] = 0.01
    found = advice(trusted.typed)[0]
    assert "improves the likelihood" in found
    assert "makes the calibration error worse (calibration error 1.0 % before, 1.2 % aft" in found


@pytest.mark.parametrize(
    ("gain", "words"),
    [
        ((-0.077, -0.113, -0.041), "The log-odds find errors better here than the recommended"),
        ((0.01, -0.02, 0.04), "is not shown to find errors better than the log-odds"),
    ],
)
def test_a_score_that_is_no_better_is_said(trusted, gain, words):
    scores = trusted["predictors"]["plain"]["failure"]["scores"]
    own = dict(zip(("value", "low", "high"), gain, strict=True))
    scores["recommended score"]["gain"]["ap_error"] = own
    assert words in advice(trusted.typed)[1]
    assert "`--failure msp`" in advice(trusted.typed)[1]
    assert words in " ".join(audit_text(trusted.typed).split())
    assert "<code>--failure msp</code>" in audit_page(trusted.typed)


def test_nothing_measured_nothing_advised(result):
    assert advice(result.typed) == []
    assert "What to do" not in audit_text(result.typed)


@pytest.mark.parametrize(
    ("features", "words"),
    [
        ([3], " (feature 3, counted from 0)"),
        ([3, 7, 1, 0, 9, 8], " (features 3, 7, 1, 0 and 2 more, counted from 0)"),
        ([], ""),
    ],
)
def test_inputs_out_of_range_are_said_first(trusted, features, words):
    trusted["range"] = {"ood": 3651, "samples": 3696, "features": features}
    said = (
        "3,651 of 3,696 test samples hold numbers outside the range of the training "
        f"data{words}: are they scaled alike?"
    )
    assert range_warning(trusted.typed) == said
    assert said in " ".join(audit_text(trusted.typed).split())
    assert said in audit_page(trusted.typed)
    assert len(advice(trusted.typed)) == 1


def test_some_inputs_out_of_range_are_no_matter(trusted):
    trusted["range"] = {"ood": 1848, "samples": 3696, "features": [1]}
    assert range_warning(trusted.typed) == ""
