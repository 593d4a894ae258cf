"""What the lecture says of data poisoning, judged, and the words around the numbers."""

from collections.abc import Mapping, Sequence
from typing import Any

from nescio.metrics import Interval
from nescio_papers.kit import Claim, Comparison, exactly, percent, table
from nescio_papers.robust_deep_learning.poisoning_detectors import FALSE_ALARM, TOP
from nescio_papers.robust_deep_learning.stored_facts import ONCE, RECALLED, between, of_count

SOURCE = "lecture, Data poisoning, on Koh and Liang (2017), section 5.2"
EACH = "each by a separate image"
SIMILAR, LEAST = "similar ones, all by one image", "the least confident, all by one image"
PUBLISHED = {EACH: 335 / 591, SIMILAR: 16 / 30}
STATED = 8  # the radius of the claims, of 255
SLIDE = "Dog 97, 98, 98, 99, 98 % to fish 97, 93, 87, 63, 52 %"
Shares = Mapping[str, Mapping[int, Interval]]  # attack -> radius -> share of flipped targets
Rows = Sequence[Mapping[str, Any]]  # targets with class and confidence before and after


def judge(numbers: Mapping[str, Any]) -> list[Claim]:
    """By stored numbers: the slide's claim, the paper's share, and whether anybody notices."""
    if "absent" in numbers:
        return []
    each, least = (numbers["flipped"][name][str(STATED)] for name in (EACH, LEAST))
    rows, noticed = numbers["together"]["targets"], numbers["detection"]
    flipped = [row for row in rows if row["after"][0] != row["before"][0]]
    images = len(noticed["rank_by_self_influence"]["poisoned"])
    return [
        Claim(
            source=SOURCE,
            sentence="A small perturbation to one training example can change multiple test "
            "predictions.",
            facts=[
                exactly(
                    f"of {len(rows)} similar test dogs, those that one training image within "
                    f"{STATED}/255 flips",
                    len(flipped),
                    why="one example shows what can be; these images are counted in full",
                    above=1,
                    form=".0f",
                )
            ],
            note=f"{listed(flipped)}; another one flips {percent(least['value'])} of the "
            f"{len(rows)} that are right with the least confidence",
        ),
        Claim(
            source="Koh and Liang (2017), section 5.2",
            sentence="Perturbing one training image for each test image flips 57 % of them.",
            facts=[
                between(
                    f"share that is flipped within {STATED}/255 (wanted: one half)",
                    each,
                    above=0.5,
                    form=".0%",
                )
            ],
            note=f"57 % {RECALLED}; the head is trained again each time; {ONCE}",
        ),
        Claim(
            source="poisoning, what is asked here",
            sentence="Self-influence and the guard notice the poisoned image.",
            facts=[
                of_count(
                    f"share of {images} poisoned images {what}",
                    round(images * noticed[key]["poisoned"]),
                    images,
                    above=0.9,
                )
                for key, what in (
                    ("share_in_top", f"among the first {percent(TOP)} by self-influence"),
                    ("share_called_ood", f"called OOD at {percent(FALSE_ALARM)} false alarms"),
                )
            ],
            note=noticed_words(noticed),
        ),
    ]


def noticed_words(noticed: Mapping[str, Any]) -> str:
    """Ranks and p-values in a sentence."""
    top, middle = noticed["share_in_top"], noticed["median_rank"]
    called = noticed["share_called_ood"]
    return (
        f"by self-influence {percent(top['poisoned'])} of the poisoned images are among the first "
        f"{percent(TOP)} of {noticed['training_images']} training images, before their change "
        f"{percent(top['clean'])} (median rank {middle['poisoned']:g}, before "
        f"{middle['clean']:g}); a guard of clean images with {percent(FALSE_ALARM)} false alarms "
        f"calls {percent(called['poisoned'])} of them OOD, before their change "
        f"{percent(called['clean'])}, and {percent(called['other_training_images'])} of all "
        "training images"
    )


def interval(share: Interval) -> str:
    """A share with its exact interval."""
    return f"{percent(share.value)} ({percent(share.low)} to {percent(share.high)})"


def listed(rows: Rows) -> str:
    """Confidences before and after of up to five test images."""
    each = (f"{_pair(row['before'])} → {_pair(row['after'])}" for row in rows[:5])
    return ", ".join(each) or "none"


def _pair(answer: Sequence[Any]) -> str:
    return f"{answer[0]} {percent(answer[1])}"


def comparisons(shares: Shares) -> list[Comparison]:
    """The authors' shares beside ours."""
    note = (
        f"{RECALLED}; Inception features of 900 ImageNet dogs and 900 fish, changes below one "
        "level of 255; here a small network, 200 dogs and 200 frogs of CIFAR-10, changes of up to "
        f"{STATED} levels"
    )
    return [
        Comparison(f"flipped test images, {name}, %", 100 * PUBLISHED[name],
                   100 * shares[name][STATED].value, note=note)
        for name in PUBLISHED
    ]  # fmt: skip


def page(setting: Mapping[str, Any], shares: Shares, rows: Rows, noticed: Mapping[str, Any]) -> str:
    """The setting, the table of shares, the confidences, the detectors."""
    cells = [[name, *(interval(share) for share in row.values())] for name, row in shares.items()]
    radii = list(next(iter(shares.values())))
    answers = [[str(row["test_image"]), _pair(row["before"]), _pair(row["after"])] for row in rows]
    return "\n\n".join(
        [
            "A head, logistic regression, tells dogs from frogs of CIFAR-10 by the "
            f"{setting['features']} features of a frozen network, which was trained on the other "
            f"eight classes. It is trained on {setting['training_images']} images to its minimum "
            f"by Newton steps (weight decay {setting['decay']:g} / 2 times the sum of squares) and "
            f"gets {percent(setting['test_accuracy'])} of the test images right. One training "
            "image is changed by steps of the sign of its influence, whole levels of 255 within "
            "the radius, its label stays; the head is trained again after every step, and after "
            "the last.",
            f"The named set: the first {setting['named']} test dogs in the order of the file that "
            "the clean head gets right, each attacked by one of the "
            f"{setting['candidates']} training images whose pixels have the most influence on it. "
            f"Two sets are attacked together by one of {setting['many']} images: the first of "
            f"these dogs with the {setting['together'] - 1} test dogs that are nearest to it in "
            f"features and right too, and the {setting['together']} test dogs that are right with "
            "the least confidence. Of the named set, a test image that is flipped counts at all "
            f"larger radii, and those that are not within {STATED}/255 are not attacked within "
            "less. "
            "Shares with exact intervals (Clopper and Pearson).",
            table(["flipped within", *(f"{radius}/255" for radius in radii)], cells),
            f"The similar test dogs attacked together, within {STATED}/255 (the slide: {SLIDE}):",
            table(["test image", "before", "after"], answers),
            f"Who notices the change: {noticed_words(noticed)}. The guard is that of the clean "
            "head; it was fitted and calibrated on other images of both classes.",
        ]
    )
