"""The claims of a card: which numbers, in which digits, and what differs."""

from nescio.evaluation.card.claims import canonical, leaves, printed, shown, unequal, whole

AUDIT = {
    "nescio": "0.1",
    "command": ["nescio", "audit"],
    "status": "pass",
    "samples": 1234567,
    "predictors": {"a": {"accuracy": 0.123456789, "curve": list(range(20)), "pair": [0.5, 1]}},
    "guard": {"file": "x/guard.safetensors", "holds": True, "risk": None},
    "sections": {"provenance": {"threads": 2, "machine": "x", "seconds": 1.5}},
}


def test_numbers_are_printed_in_six_digits_and_curves_left_out():
    assert printed(AUDIT) == {
        "samples": "1234567",
        "predictors/a/accuracy": "0.123457",
        "predictors/a/pair/0": "0.5",
        "predictors/a/pair/1": "1",
    }
    assert shown(1e-9 / 3) == "3.33333e-10"


def test_everything_but_paths_machines_and_times_is_a_leaf():
    found = leaves(AUDIT)
    assert len(found) == 1 + 1 + 1 + 20 + 2 + 2
    assert found["status"] == "pass"
    assert not any(name.startswith(("command", "nescio", "guard/file")) for name in found)


def test_the_last_bit_changes_the_digest_and_the_last_printed_digit_the_claims():
    near = {**AUDIT, "predictors": {"a": {**AUDIT["predictors"]["a"], "accuracy": 0.1234567890001}}}
    far = {**AUDIT, "predictors": {"a": {**AUDIT["predictors"]["a"], "accuracy": 0.123458}}}
    assert whole(near) != whole(AUDIT)
    assert not unequal(printed(AUDIT), printed(near))
    (one,) = unequal(printed(AUDIT), printed(far))
    assert (one.name, one.claimed, one.found) == ("predictors/a/accuracy", "0.123457", "0.123458")


def test_a_number_that_only_one_side_has_differs():
    assert {(one.claimed, one.found) for one in unequal({"a": "1"}, {"b": "2"})} == {
        ("1", None),
        (None, "2"),
    }


def test_the_one_form_does_not_depend_on_the_order_of_keys():
    assert (
        canonical({"b": 1, "a": "ü"}) == canonical({"a": "ü", "b": 1}) == b'{"a":"\\u00fc","b":1}'
    )
