"""Part `stability`: how small a change of a house number flips its answer, and its confidence."""

from collections.abc import Mapping
from dataclasses import dataclass
from math import isfinite
from typing import Any

from matplotlib.figure import Figure

from nescio.core import from_json, kept, to_json
from nescio.evaluation import (
    AdversarialExample,
    SmallestChanges,
    adversarial_examples,
    smallest_changes,
)
from nescio.evaluation.compare import Absent
from nescio.metrics import Interval, bootstrap_mean
from nescio.models.model import Model
from nescio.report.plots.adversarial_plot import adversarial_images
from nescio.report.plots.look import line, panels, per_cent, with_look
from nescio_papers.kit import (
    Claim,
    Fact,
    Findings,
    InData,
    Settings,
    absent,
    all_images,
    exactly,
    folder_of,
    full_and_quick,
    percent,
    size,
    table,
)
from nescio_papers.robust_deep_learning.networks import accuracy, trained, weights_digest
from nescio_papers.robust_deep_learning.stored_facts import between, number

PART = "stability"
SOURCE = "lecture, Deep learning and stability: adversarial examples"
PICTURE, CURVES = "stability-adversarial.png", "stability-changes.png"
LEVELS = (0.5, 1, 2, 3, 4, 6, 8)  # of 255
STATED = 8 / 255  # the radius of the claims
LEARNED = 0.7  # accuracy
AS_SURE = 0.01  # of confidence: what is no less
SHOWN = 6


@dataclass(frozen=True)
class Sizes:
    """The sizes of a run."""

    train: int = size(10_000, quick=300)
    test: int = size(8_000, quick=100)
    epochs: int = size(30, quick=2)
    changed: int = size(300, quick=6)  # images whose smallest changes are looked for
    steps: int = size(20, quick=4)


FULL, QUICK = full_and_quick(Sizes)


def house_numbers(settings: Settings) -> tuple[InData, Model] | Absent:
    """SVHN, real photographs of house numbers, and a small convolutional network trained on it."""
    sizes = QUICK if settings.quick else FULL
    images = all_images("svhn", train=sizes.train, test=sizes.test)
    if isinstance(images, Absent):
        return images
    return images, trained(settings, PART, "svhn", images, epochs=sizes.epochs)


def adversarial(settings: Settings) -> Findings:
    """The smallest changes, examples as pictures, and the confidence in wrong answers."""
    made = house_numbers(settings)
    if isinstance(made, Absent):
        return absent("SVHN", made.why)
    images, model = made
    sizes = QUICK if settings.quick else FULL
    changes = _changes(settings, sizes, images, model)
    examples = _examples(settings, sizes, images, model)
    surer = [one.wrong_confidence - one.confidence for one in examples]
    gain = bootstrap_mean(surer, seed=settings.seed) if surer else None
    numbers: dict[str, Any] = {
        "accuracy": accuracy(model, images),
        "median_change": {norm: to_json(one.median) for norm, one in changes.items()},
        "flipped_within": {f"{k:g}/255": to_json(changes["linf"].within(k / 255)) for k in LEVELS},
        "images": len(changes["linf"].size),
        "misled_within_8_255": len(examples),
        "more_confident": to_json(gain),
    }
    figures = {CURVES: _curves(changes["linf"])}
    captions = {CURVES: "House numbers of SVHN; bars are exact 95 % intervals."}
    shown = adversarial_examples(model, images.test, count=SHOWN, **_attack(settings, sizes))
    if shown:
        numbers["examples"] = to_json(shown)
        figures[PICTURE] = adversarial_images(shown)
        captions[PICTURE] = (
            "House numbers with the answer and its confidence; a change of at most 8 / 255, "
            "magnified; and what the network answers then."
        )
    return Findings(
        numbers=numbers,
        figures=figures,
        captions=captions,
        text=_page(numbers, changes),
    )


def _attack(settings: Settings, sizes: Sizes) -> dict[str, Any]:
    return {"radius": STATED, "steps": 2 * sizes.steps, "seed": settings.seed}


def _examples(
    settings: Settings, sizes: Sizes, images: InData, model: Model
) -> list[AdversarialExample]:
    """Confidently wrong answers within the stated radius, found once and kept."""
    how = {"count": sizes.changed, **_attack(settings, sizes)}
    key = {"network": weights_digest(model), "images": len(images.test[0]), **how}
    path = folder_of(settings, PART) / "examples.json"
    there = kept(path, key, lambda: to_json(adversarial_examples(model, images.test, **how)))
    return [from_json(AdversarialExample, one) for one in there]


def _changes(
    settings: Settings, sizes: Sizes, images: InData, model: Model
) -> dict[str, SmallestChanges]:
    """Smallest changes in two norms, computed once and kept."""
    found = {}
    for norm in ("linf", "l2"):
        how: dict[str, Any] = {"samples": sizes.changed, "steps": sizes.steps}
        how |= {"norm": norm, "seed": settings.seed}

        def make(how: dict[str, Any] = how) -> Any:
            return to_json(smallest_changes(model, images.test, **how))

        key = {"network": weights_digest(model), "images": len(images.test[0]), **how}
        there = kept(folder_of(settings, PART) / f"changes-{norm}.json", key, make)
        found[norm] = from_json(SmallestChanges, there)
    return found


def claims(numbers: Mapping[str, Any]) -> list[Claim]:
    """Do small changes flip answers, and how large is the confidence then?"""
    if "absent" in numbers:
        return []
    median = {key: number(one) for key, one in numbers["median_change"]["linf"].items()}
    half = "fewer than half of them flip at all"
    if isfinite(median["value"]):
        half = "half of them flip by {value:.2g} levels ({low:.2g} to {high:.2g})".format(
            **{key: 255 * one for key, one in median.items()}
        )
    return [
        Claim(
            source=SOURCE,
            sentence="The decision function of deep models is not always stable: small changes of "
            "the input flip it.",
            facts=[
                between(
                    "share of house numbers, read correctly, that a change of at most 8 of 255 "
                    "levels flips,",
                    numbers["flipped_within"]["8/255"],
                    above=0.5,
                    form=".1%",
                )
            ],
            needs=[learned(numbers)],
            note=f"{numbers['images']} images; {half}",
        ),
        Claim(
            source="stability, what is asked here",
            sentence="The network is no less confident in the wrong answers than in the correct "
            "ones.",
            facts=[
                between(
                    "confidence in the wrong answer less that in the right one before,",
                    numbers["more_confident"],
                    above=-AS_SURE,
                    form="+.1%",
                )
            ],
            needs=[learned(numbers)],
            note=f"{numbers['misled_within_8_255']} images that a change within 8 / 255 misleads",
        ),
    ]


def learned(numbers: Mapping[str, Any]) -> Fact:
    """Whether the network reads house numbers at all."""
    return exactly(
        "accuracy of the network",
        numbers["accuracy"],
        why="the network of this run, counted on all its test images",
        above=LEARNED,
        form=".1%",
    )


def interval(share: Interval) -> str:
    """A share with its interval."""
    return f"{percent(share.value)} ({percent(share.low)} to {percent(share.high)})"


def _page(numbers: Mapping[str, Any], changes: Mapping[str, SmallestChanges]) -> str:
    rows = [[f"{k:g} / 255", interval(changes["linf"].within(k / 255))] for k in LEVELS]
    far = changes["l2"].median
    return "\n\n".join(
        [
            "**Adversarial examples.** A small convolutional network reads house numbers of SVHN, "
            f"{percent(numbers['accuracy'])} of the test images correctly. For "
            f"{numbers['images']} of these the smallest change is looked for that flips the "
            "answer: by gradient attacks whose radius is bisected for each image, then back along "
            "the straight line. In the l2 norm half of them need at most "
            f"{far.value:.2g} ({far.low:.2g} to {far.high:.2g}), where one pixel from black to "
            "white is 1.",
            table(["largest change of a value", "flipped"], rows),
        ]
    )


@with_look
def _curves(changes: SmallestChanges) -> Figure:
    """The share that is flipped against the size of the change."""
    figure, (axis,) = panels(1, height=3.4, title="How small a change flips a house number")
    shares = [changes.within(level / 255) for level in LEVELS]
    ends = [[s.value - s.low for s in shares], [s.high - s.value for s in shares]]
    axis.errorbar(LEVELS, [s.value for s in shares], yerr=ends, capsize=3, **line(0))
    axis.set(xlabel="largest change of a value, of 255 levels", ylabel="answers flipped")
    axis.set(ylim=(0, 1.02), xlim=(0, None))
    per_cent(axis.yaxis)
    return figure
