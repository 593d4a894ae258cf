"""Verdicts on the tables of UCI, from numbers of the overview."""

from nescio_papers.uci.judging_tables import overview_claims


def gap(mean, half, other=1.0):
    return {"mean": mean, "half_width_95": half, "MC dropout": other}


def test_verdicts_follow_from_the_numbers_of_the_overview():
    numbers = {
        "distances": {
            "a": {"rmse": -1.0, "nll_moments": 0.5},
            "b": {"rmse": 2.0, "nll_moments": 0},
        },
        "longer": {
            "a": {"gain": 0.2, "standard_error": 0.01},
            "b": {"gain": -0.2, "standard_error": 0.01, "half_width_95": 0.02},
        },
        "against MC dropout": {
            "nll": {"a": gap(-0.3, 0.1), "b": gap(0.01, 0.005)},
            "rmse": {"a": gap(-0.3, 0.1), "b": gap(0.1, 0.05)},
        },
    }
    published, longer, nll, rmse = overview_claims(numbers)
    assert [fact.verdict for fact in published.facts] == ["open", "holds"]  # 2 + 1.96 is above 3
    assert longer.verdict == "holds in part"
    assert nll.verdict == "holds"
    assert rmse.verdict == "holds"  # worse on b, by 5 to 15 %
    numbers["against MC dropout"]["rmse"]["b"] = gap(0.4, 0.1)
    assert overview_claims(numbers)[-1].verdict == "holds in part"  # not slightly


def test_old_numbers_are_judged_as_far_as_they_go():
    old = {
        "distances": {"a": {"rmse": -1.0, "nll_moments": -0.5}},
        "longer": {"a": {"gain": 0.2, "standard_error": 0.01}},
    }
    assert [claim.verdict for claim in overview_claims(old)] == ["holds", "does not hold"]
    assert overview_claims({}) == []
