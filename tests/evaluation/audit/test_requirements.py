"""Limits as a user writes them."""

from pathlib import Path

import pytest

from nescio import NescioError
from nescio.evaluation.audit.requirements import requirement, requirements


@pytest.mark.parametrize(
    ("text", "name", "data", "value", "strict"),
    [
        ("ece<0.05", "ece", None, 0.05, True),
        (" coverage >= 90 % ", "coverage", None, 0.9, False),
        ("certain-far-away<=1", "certain_far_away", None, 1.0, False),
        ("abstained[letters]>0.9", "abstained", "letters", 0.9, True),
        ("abstained[a<b]]>0.9", "abstained", "a<b]", 0.9, True),
        ("nll<1e-2", "nll", None, 0.01, True),
    ],
)
def test_a_text_is_a_limit(text, name, data, value, strict):
    found = requirement(text)
    one = found.limit
    assert (one.name, found.data, one.attention, one.fail) == (name, data, value, value)
    assert one.strict is strict
    assert one.required == text.strip()


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("ece", "expected a limit such as"),
        ("ece=0.05", "expected a limit such as"),
        ("", "expected a limit such as"),
        ("ece<small", "expected a number after the sign"),
        ("ece<", "expected a number after the sign"),
        ("ece<nan", "expected a number after the sign"),
        ("ece>0.05", "of ece lower is better"),
        ("exe<0.05", "unknown number 'exe'; did you mean 'ece'"),
    ],
)
def test_what_is_no_limit_says_so(text, why):
    with pytest.raises(NescioError, match=why):
        requirement(text)


def test_files_and_mappings_and_texts(tmp_path: Path) -> None:
    file = tmp_path / "limits.toml"
    file.write_text('ece = "< 0.05"\n[abstained]\nletters = ">0.9"\nnoise = [">0.5"]\n')
    assert requirements([file, "accuracy>0.9"]) == (
        "ece< 0.05",
        "abstained[letters]>0.9",
        "abstained[noise]>0.5",
        "accuracy>0.9",
    )
    assert requirements(str(file)) == requirements(file)
    assert requirements({"ece": "<0.05"}) == requirements("ece<0.05") == ("ece<0.05",)
    assert requirements(None) == ()
    project = tmp_path / "pyproject.toml"
    project.write_text('[tool.nescio.limits]\nece = "<0.05"\n')
    assert requirements(project) == ("ece<0.05",)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("ece = <", "is not a TOML file"),
        ("", "holds no limits"),
        ("[tool.other]\na = 1", "has no table"),
        ("ece = 0.05", "expected a limit such as"),
        ('limits = "ece"', "holds no limits"),
    ],
)
def test_a_file_without_limits_says_so(tmp_path: Path, text, why) -> None:
    file = tmp_path / "limits.toml"
    file.write_text(text)
    with pytest.raises(NescioError, match=why):
        requirements(file)


def test_a_file_that_is_not_there_and_another_kind_of_value(tmp_path: Path) -> None:
    with pytest.raises(NescioError, match="cannot be read"):
        requirements(tmp_path / "none.toml")
    with pytest.raises(NescioError, match="expected limits such as"):
        requirements(3)
