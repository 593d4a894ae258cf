"""Adversarial house numbers and stickers: the verdicts by hand, and a quick run."""

from nescio.evaluation import PatchSuccess, SmallestChanges
from nescio.metrics import Interval
from nescio_papers.robust_deep_learning import stability_adversarial, stability_patch


def changes(levels):
    count = len(levels)
    return SmallestChanges(
        norm="linf",
        tried=count,
        sample=tuple(range(count)),
        label=(0,) * count,
        flipped_to=tuple(None if k is None else 1 for k in levels),
        confidence=(0.9,) * count,
        size=tuple(None if k is None else k / 255 for k in levels),
    )


def success(share, *, gray=0.02, target=3):
    def near(value):
        return Interval(value, max(value - 0.02, 0), value + 0.02)

    gain = near(share - gray)
    return PatchSuccess(target=target, samples=100, share=near(share), gray=near(gray), gain=gain)


def verdicts(claims):
    return [claim.verdict for claim in claims]


def test_small_changes_and_confidence():
    judge = stability_adversarial._claims
    surer = Interval(0.02, 0.01, 0.03)
    assert verdicts(judge(changes([2.0] * 40), surer, 40)) == ["holds", "holds"]
    assert verdicts(judge(changes([2.0, None] * 20), Interval(0.0, -0.01, 0.01), 20)) == [
        "partly", "partly",
    ]  # fmt: skip
    assert verdicts(judge(changes([None] * 40), None, 0)) == ["fails", "fails"]
    said = judge(changes([2.0] * 40), surer, 40)[0].measured
    assert "half of them by 2 levels (2 to 2)" in said
    assert "fewer than half at all" in judge(changes([None] * 40), None, 0)[0].measured


def test_stickers_are_judged_over_digits():
    judge = stability_patch._claims
    strong = {k: (success(0.7 + k / 100, target=k), success(0.2, target=k)) for k in range(5)}
    assert verdicts(judge(strong)) == ["holds", "holds"]
    weak = {k: (success(0.3, target=k), success(0.3, target=k)) for k in range(5)}
    assert verdicts(judge(weak)) == ["partly", "fails"]
    none = {k: (success(0.02, target=k), success(0.3, target=k)) for k in range(5)}
    assert verdicts(judge(none)) == ["fails", "fails"]
    assert "for 4, in 74 %" in judge(strong)[0].measured
