"""The sentences say what the numbers say."""

import pytest

from nescio.report import audit_page, audit_words
from nescio.report.audit_words import compared, headline, verdict
from nescio.report.render import percent


def test_a_predictor_that_is_surer_far_away_is_told_so(result):
    plain, other = verdict(result.typed)
    assert plain == (
        "plain: right on 90.0 % of the test data, 98.1 % mean confidence; 61.3 % confidence on "
        "noise; 99.7 % confidence on inputs scaled by 100. On the test data its mean confidence is "
        "8.1 percentage points above its accuracy. To it, inputs scaled by 100 look more certain "
        "than its own data; its best measure reaches an AUROC of 0.10 there (0.5 is chance)."
    )
    assert other == (
        "<b>net</b>: right on 88.7 % (-1.3) of the test data, 87.6 % (-10.5) mean confidence; "
        "30.1 % (-69.6) confidence on inputs scaled by 100."
    )
    assert compared(result.typed) == "In brackets, the difference from plain in percentage points:"


def test_a_predictor_that_is_never_too_sure_is_told_so(result):
    del result["predictors"]["plain"]
    (words,) = verdict(result.typed)
    assert words.endswith("Every OOD set looks less certain to it than its own data.")
    assert (
        "percentage points" not in words
    )  # 1.1 points are within two standard errors of 100 samples
    assert compared(result.typed) == ""


def test_the_others_have_a_line_each(result):
    other = result["predictors"]["<b>net</b>"]
    result["predictors"] |= {f"again {k}": other for k in range(3)}
    first, *lines = verdict(result.typed)
    assert len(first) > 2 * max(map(len, lines))
    page = audit_page(result.typed)
    assert page.count("percentage points above its accuracy") == 1
    assert page.count("(-69.6) confidence on inputs scaled by 100") == 4


def test_several_places_are_listed_in_one_sentence(result):
    ood = result["predictors"]["plain"]["ood"]
    ood["noise"]["mean_max_confidence"] = 0.99
    assert (
        "To it, noise and inputs scaled by 100 look more certain than its own data; "
        "its best measure reaches an AUROC of 0.91 and 0.10 there"
    ) in verdict(result.typed)[0]


def test_many_ood_sets_are_cut_to_the_surest(result):
    found = result["predictors"]["plain"]
    part = found["ood"]["noise"]
    found["ood"] = {f"set {k}": {**part, "mean_max_confidence": k / 10} for k in range(9)}
    words = verdict(result.typed)[0]
    assert "80.0 % confidence on set 8; 70.0 % confidence on set 7" in words
    assert "no more confident on 5 other OOD sets" in words
    assert "set 4" not in words


def test_missing_numbers_have_words(gaps):
    words = verdict(gaps.typed)[0]
    assert words.startswith("plain: right on an unknown share of the test data")
    assert "nan" not in " ".join([headline(gaps.typed), *verdict(gaps.typed)]).lower()


def test_without_ood_sets_the_sentence_ends_early(smallest):
    assert "mean confidence. On the test data" in verdict(smallest.typed)[0]
    assert headline(smallest.typed) == (
        "At 100 times the test inputs, the predictor is more confident than on the test data."
    )


@pytest.mark.parametrize(
    ("share", "words"),
    [
        (1.0, "100 %"),
        (0.99999, "over 99.9 %"),
        (0.9994, "99.9 %"),
        (0.0, "0 %"),
        (0.0001, "under 0.1 %"),
    ],
)
def test_what_rounds_to_all_is_not_called_all(share, words):
    assert percent(share) == words


def test_the_titles_count_the_predictors(result):
    assert audit_words.far_confidence(result.typed) == (
        "At 100 times the test inputs, 1 of 2 predictors is more confident than on the test data"
    )
    assert audit_words.far_separation(result.typed) == (
        "At 100 times the test inputs, 2 of 4 curves end below chance; "
        "the best ends at an AUROC of 0.95"
    )
    assert audit_words.high_confidence(result.typed) == (
        "Up to 50 % of an OOD set gets a confidence of 75 % or more"
    )
    assert audit_words.calibration(result.typed) == (
        "On the test data, 1 of 2 predictors is more confident than accurate; "
        "the largest ECE is 6.7 %"
    )


def test_no_ray_no_claim_about_it(result):
    for found in result["predictors"].values():
        del found["scaling"]
    assert headline(result.typed) == "No predictor was followed away from the data."


def test_a_measure_that_is_constant_for_everyone_is_not_plotted(result):
    for found in result["predictors"].values():
        found["scaling"]["auroc"]["mutual_information"] = [0.5, 0.5, 0.5]
    assert audit_words.telling_measures(result.typed) == ["predictive_entropy"]


def test_the_attack_has_a_sentence_of_its_own(attacked):
    plain, other = verdict(attacked.typed)
    assert plain.endswith(
        "An attack (radius 0.3, 50 steps) finds inputs near noise on which its mean confidence is "
        "over 99.9 %; its best measure reaches an AUROC of 0.02 there."
    )
    assert "To it, inputs scaled by 100 look more certain" in plain  # and is in no other list
    assert "sure on adversarial" not in plain
    assert "attack" not in other


def test_the_headline_counts_those_that_an_attack_makes_surer(attacked):
    assert headline(attacked.typed).endswith(
        "On adversarial noise, the predictor is more confident than on the test data."
    )


def test_an_attack_without_a_number_is_not_mentioned(attacked):
    part = attacked["predictors"]["plain"]["ood"]["adversarial noise (radius 0.3, 50 steps)"]
    part["mean_max_confidence"] = None
    assert "attack" not in verdict(attacked.typed)[0]
