"""Adversarial house numbers and stickers: the verdicts turn with their numbers."""

import pytest

from nescio_papers.kit import exactly
from nescio_papers.robust_deep_learning import stability_adversarial, stability_patch


def near(value, half=0.02):
    return {"value": value, "low": value - half, "high": value + half}


def attacked(share, gain, *, accuracy=0.9, median=0.008):
    return {
        "accuracy": accuracy,
        "median_change": {"linf": near(median, 0.001) if median else dict.fromkeys(near(0))},
        "flipped_within": {"8/255": near(share)},
        "images": 40,
        "misled_within_8_255": 30,
        "more_confident": gain,
    }


def verdicts(claims):
    return [claim.verdict for claim in claims]


def test_small_changes_and_confidence():
    judge = stability_adversarial.claims
    assert verdicts(judge(attacked(0.9, near(0.1)))) == ["holds", "holds"]
    assert verdicts(judge(attacked(0.1, near(-0.1)))) == ["does not hold", "does not hold"]
    assert verdicts(judge(attacked(0.5, near(0.0)))) == ["open", "open"]
    assert verdicts(judge(attacked(0.9, None)))[1] == "open"  # no image was misled
    blind = judge(attacked(0.9, near(0.1), accuracy=0.2))
    assert verdicts(blind) == ["not reached here"] * 2
    said = judge(attacked(0.9, near(0.1)))[0].measured
    assert "half of them flip by 2 levels (1.8 to 2.3)" in said
    assert "fewer than half" in judge(attacked(0.3, near(0.1), median=None))[0].measured
    assert judge({"absent": "no data"}) == []


def stickers(*shares, gray=0.02, still=0.2):
    def made(share):
        return {"share": near(share), "gray": near(gray)}

    return {"stickers": {str(k): {"views": made(share), "one_view": made(still)}
                         for k, share in enumerate(shares)}}  # fmt: skip


@pytest.mark.parametrize(
    ("numbers", "expected"),
    [
        (stickers(0.7, 0.72, 0.74), ["holds", "holds"]),
        (stickers(0.3, 0.31, 0.32, still=0.4), ["holds in part", "does not hold"]),
        (stickers(0.01, 0.02, 0.03, gray=0.3), ["does not hold", "does not hold"]),
        (stickers(0.2, 0.5, 0.8, still=0.5), ["open", "open"]),
    ],
)
def test_stickers_are_judged_over_digits(numbers, expected):
    assert verdicts(stability_patch.claims(numbers)) == expected
    failed = [exactly("accuracy", 0.2, why="made up", above=0.7)]
    assert verdicts(stability_patch.claims(numbers, failed)) == ["not reached here"] * 2
