"""Part `stability`: stickers to print that make house numbers be read as another digit."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from matplotlib.figure import Figure

from nescio import attacks
from nescio.attacks import Patch, Views
from nescio.core import Floats, digest, from_json, kept, to_json
from nescio.evaluation import PatchSuccess, patch_success
from nescio.evaluation.compare import Absent
from nescio.metrics import bootstrap_mean
from nescio.models.model import Model
from nescio.report.plots.adversarial_plot import patch_images
from nescio.report.plots.look import COLORS, panels, per_cent, with_look
from nescio_papers.kit import (
    Claim,
    Fact,
    Findings,
    InData,
    Settings,
    absent,
    folder_of,
    full_and_quick,
    size,
    table,
)
from nescio_papers.robust_deep_learning.networks import weights_digest
from nescio_papers.robust_deep_learning.stability_adversarial import PART, house_numbers, interval
from nescio_papers.robust_deep_learning.stored_facts import between

SOURCE = "lecture, Adversarial attacks in the real world, on Evtimov et al. (2017)"
PICTURE, SHARES = "stability-patch.png", "stability-patch-shares.png"
GLUED = Views(angle=10, scale=(0.9, 1.1), shift=0.05, brightness=0.2)  # of the whole image
ONE = Views(angle=0, scale=(1, 1), shift=0, brightness=0)
STICKERS: dict[str, Any] = {"size": 0.9, "mask": "bars", "position": (0.5, 0.5)}


@dataclass(frozen=True)
class Budget:
    """The sizes of a run."""

    targets: int = size(10, quick=2)
    steps: int = size(150, quick=3)
    sides: Sequence[float] = size((0.2, 0.3, 0.4), quick=(0.3,))  # of a patch anywhere


FULL, QUICK = full_and_quick(Budget)


def patched(settings: Settings) -> Findings:
    """Stickers for each target digit, made for views and for one view; patches anywhere."""
    made = house_numbers(settings)
    if isinstance(made, Absent):
        return absent("SVHN", made.why)
    images, model = made
    sizes = QUICK if settings.quick else FULL
    rows, patches = {}, {}
    for target in _targets(images, model)[: sizes.targets]:
        own = _patch(settings, images, model, f"target-{target}", target=target, views=GLUED)
        still = _patch(settings, images, model, f"still-{target}", target=target, views=ONE)
        rows[target] = (
            _success(settings, images, model, f"target-{target}", own, GLUED),
            _success(settings, images, model, f"still-{target}", still, GLUED),
        )
        patches[target] = own
    loose = {side: _anywhere(settings, images, model, side) for side in sizes.sides}
    best = max(rows, key=lambda target: rows[target][0].share.value)
    return Findings(
        numbers={
            "stickers": {
                str(t): {"views": to_json(a), "one_view": to_json(b)} for t, (a, b) in rows.items()
            },
            "anywhere": {f"{side:g}": to_json(one) for side, one in loose.items()},
        },
        figures={
            PICTURE: _picture(settings, patches[best], model, images, rows[best][0]),
            SHARES: _bars(rows),
        },
        captions={
            PICTURE: "Stickers to print; house numbers without them, and with them in views that "
            "they were not made from.",
            SHARES: "Each test image in one fresh view, turned, scaled, moved and in another "
            "light; bars are exact 95 % intervals.",
        },
        text=_page(rows, loose),
    )


def _targets(images: InData, model: Model) -> list[int]:
    """The digits that some image which is read correctly does not show."""
    x, y = images.test
    prediction: Any = model(x)
    right = y[prediction.labels == y]
    return [digit for digit in range(images.classes) if bool((right != digit).any())]


def _patch(settings: Settings, images: InData, model: Model, name: str, **how: Any) -> Patch:
    """Stickers, made once; their pixels are kept."""
    sizes = QUICK if settings.quick else FULL

    def make() -> Patch:
        options = {**STICKERS, **how, "steps": sizes.steps, "seed": settings.seed}
        return attacks.patch(model, *images.train, **options)

    weights = weights_digest(model)
    key = {"network": weights, "steps": sizes.steps, "seed": settings.seed, "how": str(how)}
    path = folder_of(settings, PART) / f"patch-{name}.json"
    there = kept(path, key, lambda: _stored(make()))
    pixels = torch.tensor(there["pixels"]).view(*there["shape"])
    mask = torch.tensor(there["mask"]).view(*there["shape"][1:])
    place: dict[str, Any] = {key: how.get(key, STICKERS.get(key)) for key in ("position", "target")}
    return Patch(pixels=pixels, mask=mask, views=how["views"], **place)


def _stored(patch: Patch) -> dict[str, Any]:
    shape, pixels = list(patch.pixels.shape), patch.pixels.flatten().tolist()
    return {"shape": shape, "pixels": pixels, "mask": patch.mask.flatten().tolist()}


def _success(
    settings: Settings, images: InData, model: Model, name: str, patch: Patch, views: Views
) -> PatchSuccess:
    """The shares in fresh views, counted once and kept."""
    how: dict[str, Any] = {"views": views, "seed": settings.seed + 1}
    key = {"network": weights_digest(model), "patch": digest(patch.pixels), "how": str(how)}
    key |= {"images": str(len(images.test[0]))}
    there = kept(
        folder_of(settings, PART) / f"success-{name}.json",
        key,
        lambda: to_json(patch_success(patch, model, images.test, **how)),
    )
    return from_json(PatchSuccess, {"target": None, **there})


def _anywhere(settings: Settings, images: InData, model: Model, side: float) -> PatchSuccess:
    """A round patch that may be anywhere and should mislead to any other digit."""
    how = {"size": side, "mask": "circle", "position": None, "target": None, "views": Views()}
    own = _patch(settings, images, model, f"anywhere-{side:g}", **how)
    return _success(settings, images, model, f"anywhere-{side:g}", own, Views())


Rows = Mapping[int, tuple[PatchSuccess, PatchSuccess]]  # by target: made for views, for one view


def claims(numbers: Mapping[str, Any], learned: Sequence[Fact] = ()) -> list[Claim]:
    """Are house numbers read as the wanted digit, and do views help? The digits are drawn again.

    numbers: those of the patches.
    learned: what the network must have learned.
    """
    if "absent" in numbers:
        return []
    rows = numbers["stickers"]
    own, gray, still = (
        np.array([row[made][what]["value"] for row in rows.values()])
        for made, what in (("views", "share"), ("views", "gray"), ("one_view", "share"))
    )
    best = max(rows, key=lambda target: float(rows[target]["views"]["share"]["value"]))
    return [
        Claim(
            source=SOURCE,
            sentence="Attacks work in the real world: stickers make a sign be read as another, in "
            "views that they were not made from.",
            facts=[
                between(f"share of fresh views read as the wanted digit, mean over {len(rows)} "
                        "digits,", _mean(own), above=0.5, form=".1%"),
                between("less that of gray bars", _mean(own - gray), above=0, form="+.1%"),
            ],
            needs=learned,
            note=f"views are simulated: turned, scaled, moved and lit; the best ones, for {best}, "
            f"in {rows[best]['views']['share']['value']:.1%}",
        ),
        Claim(
            source="stability, what is asked here, on Athalye et al. (2018)",
            sentence="A patch that is made for many views works better in new ones than one for "
            "one view.",
            facts=[
                between("share misled in fresh views, made for random views less made for one "
                        "view,", _mean(own - still), above=0, form="+.1%")
            ],
            needs=learned,
            note="paired by digit",
        ),
    ]  # fmt: skip


def _mean(values: Floats) -> dict[str, float]:
    return vars(bootstrap_mean(values))


def _page(rows: Rows, loose: Mapping[float, PatchSuccess]) -> str:
    stickers = [
        [str(target), *(interval(one) for one in (own.share, still.share, own.gray))]
        for target, (own, still) in rows.items()
    ]
    anywhere = [
        [f"{side:g}", interval(one.share), interval(one.gray)] for side, one in loose.items()
    ]
    return "\n\n".join(
        [
            "**A patch to print.** There are no stop signs among the data at hand; house numbers "
            "are signs on walls, too. Two bars, above and below the number, are printed in 256 "
            "levels and glued on; the whole image is then turned by up to 10 degrees, scaled by "
            "0.9 to 1.1, moved by up to 5 % of its sides and lit by 0.8 to 1.2. The pixels are "
            "raised by gradient steps on the mean log-probability of the wanted digit, over "
            "training images in random views. Images count that the network reads correctly and "
            "that show another digit; each is tested in one fresh view.",
            table(["wanted digit", "made for views", "made for one view", "gray"], stickers),
            "A round patch that may be anywhere, turned by up to 20 degrees and scaled by 0.8 to "
            "1.25, and should mislead to any other digit, by its diameter as a share of the side:",
            table(["diameter", "misled", "by a gray patch"], anywhere),
        ]
    )


def _picture(
    settings: Settings, patch: Patch, model: Model, images: InData, success: PatchSuccess
) -> Figure:
    x, y = images.test
    prediction: Any = model(x[:100])
    counts = (prediction.labels == y[:100]) & (y[:100] != patch.target)
    figure: Figure = patch_images(
        patch, model, x[:100][counts], success=success, seed=settings.seed + 1
    )
    return figure


@with_look
def _bars(rows: Rows) -> Figure:
    """Shares by target: made for views, made for one view, gray."""
    title = "House numbers read as the wanted digit, in fresh views"
    figure, (axis,) = panels(1, height=3.4, title=title)
    groups = {
        "made for random views": [own.share for own, _ in rows.values()],
        "made for one view": [still.share for _, still in rows.values()],
        "gray": [own.gray for own, _ in rows.values()],
    }
    for k, (name, shares) in enumerate(groups.items()):
        places = [i + 0.27 * (k - 1) for i in range(len(rows))]
        ends = [[s.value - s.low for s in shares], [s.high - s.value for s in shares]]
        color = "#bbbbbb" if name == "gray" else COLORS[k]
        axis.bar(places, [s.value for s in shares], 0.25, yerr=ends, capsize=2, color=color,
                 label=name)  # fmt: skip
    axis.set_xticks(range(len(rows)), [str(target) for target in rows])
    axis.set(xlabel="wanted digit", ylim=(0, 1.02))
    axis.legend(ncols=3, loc="upper center", fontsize=9)
    per_cent(axis.yaxis)
    return figure
