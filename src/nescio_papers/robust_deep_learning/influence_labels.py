"""Finding wrong labels: MNIST with 5 % flipped ones, ranked by several scores.

cleanlab ranks by the probability of the given label, or by how far the largest other one is above
it, from networks that did not see the sample. Its formulas are computed here;
`benchmarks/label_errors.py` compares them with the package.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from nescio import metrics, nets
from nescio.applications.influence import self_influence
from nescio.core import generator, to_json
from nescio.detectors.failure.recommended import CrossFit, cross_fit
from nescio.detectors.trust_score import trust_score
from nescio.evaluation import label_scores
from nescio.evaluation.compare import Absent
from nescio.metrics import Difference
from nescio_papers.kit import (
    Claim,
    Findings,
    InData,
    Settings,
    absent,
    all_images,
    folder_of,
    full_and_quick,
    size,
    table,
)
from nescio_papers.robust_deep_learning.influence_pictures import suspects_figure
from nescio_papers.robust_deep_learning.influence_retraining import PART
from nescio_papers.robust_deep_learning.stored_facts import between

SOURCE = "label errors, Koh and Liang (2017), section 5.4"
FIGURE = "influence-labels.png"
FLIPPED = 0.05  # share of the labels
CONFIDENCE, MARGIN = "cleanlab: self-confidence", "cleanlab: normalized margin"
RECOMMENDED, TRUST = (
    "recommended failure score of the given label",
    "trust score of the given label",
)
INFLUENCE = "self-influence, last layer"
THEIRS = (CONFIDENCE, MARGIN)


@dataclass(frozen=True)
class Budget:
    """The sizes of a run."""

    train: int = size(6000, quick=300)  # images
    epochs: int = size(6, quick=2)
    folds: int = size(5, quick=2)


FULL, QUICK = full_and_quick(Budget)


@dataclass(frozen=True, eq=False, kw_only=True)
class Judged:
    """Images with labels of which some are flipped, and networks that judge them out of fold."""

    images: InData
    wrong: Tensor  # (N,) whose label is flipped
    crossed: CrossFit

    @property
    def given(self) -> Tensor:
        """The labels that are judged, `(N,)`."""
        return self.crossed.y


def findings(settings: Settings) -> Findings:
    """AUROC of flipped labels by every score, less that of cleanlab's best, paired."""
    found = judged_images(settings)
    if isinstance(found, Absent):
        return absent("MNIST", found.why)
    scores = cleanlab_scores(found.crossed.logits()[0], found.given) | own_scores(found.crossed)
    return _found(found, scores)


def judged_images(settings: Settings) -> Judged | Absent:
    """MNIST with flipped labels and its fold networks, trained once and kept."""
    sizes = QUICK if settings.quick else FULL
    images = all_images("mnist", train=sizes.train, test=1)
    if isinstance(images, Absent):
        return images
    given, wrong = flipped(images.train[1], settings.seed)
    return Judged(images=images, wrong=wrong, crossed=_crossed(settings, images, given, sizes))


def flipped(labels: Tensor, seed: int) -> tuple[Tensor, Tensor]:
    """Labels of which a share is another class, drawn evenly, and which those are, `(N,)`."""
    draws = generator(seed, "flipped labels")
    chosen = torch.randperm(len(labels), generator=draws)[: round(FLIPPED * len(labels))]
    wrong = torch.zeros(len(labels), dtype=torch.bool)
    wrong[chosen] = True
    shift = torch.randint(1, 10, (len(labels),), generator=draws)
    return torch.where(wrong, (labels + shift) % 10, labels), wrong


def _crossed(settings: Settings, images: InData, given: Tensor, sizes: Budget) -> CrossFit:
    """Networks of all samples but one fold each, trained with the flipped labels."""
    return cross_fit(
        lambda: nets.small_cnn(images.shape, images.classes),
        (images.train[0], given),
        folds=sizes.folds,
        epochs=sizes.epochs,
        learning_rate=2e-3,
        schedule="cosine",
        seed=settings.seed,
        run=folder_of(settings, PART) / "labels",
        checkpoint_seconds=60,
        progress=False,
    )


def cleanlab_scores(logits: Tensor, given: Tensor) -> dict[str, Tensor]:
    """One less cleanlab's label quality: larger is more suspect. logits: `(N, C)` out of fold."""
    probs, own = logits.double().softmax(-1), given[:, None]
    confidence = probs.gather(1, own)[:, 0]
    other = probs.scatter(1, own, -torch.inf).amax(1)
    return {CONFIDENCE: 1 - confidence, MARGIN: 1 - (confidence - other + 1) / 2}


def own_scores(crossed: CrossFit) -> dict[str, Tensor]:
    """By the trust score, the recommended failure score and self-influence, of given labels."""
    given, logits = crossed.y, crossed.logits()[0].double()
    trust = torch.zeros(len(given), dtype=torch.float64)
    lever = torch.zeros_like(trust)
    for k, (rest, fold) in enumerate(crossed.observed()):
        own = (crossed.fold == k).nonzero()[:, 0]
        said = F.one_hot(given[own], logits.shape[1]).double()[None]  # as if it were the answer
        bank = trust_score(rest, alpha=2 * FLIPPED, normalize=True)
        trust[own] = bank(replace(fold, logits=said)).double().flatten()
        lever[own] = self_influence(crossed.models[k], (crossed.x[own], given[own]))
    both = label_scores(logits, given, trust)
    return {RECOMMENDED: both, TRUST: trust, INFLUENCE: lever}


def _found(found: Judged, scores: Mapping[str, Tensor]) -> Findings:
    given, wrong = found.given, found.wrong
    pairs = {name: (score[~wrong], score[wrong]) for name, score in scores.items()}
    areas = {name: metrics.delong_interval(*pair, logit=True) for name, pair in pairs.items()}
    best = max(THEIRS, key=lambda name: areas[name].value)
    gaps = {
        name: metrics.delong_test(pair, pairs[best])
        for name, pair in pairs.items()
        if name not in THEIRS
    }
    suspects = scores[RECOMMENDED].argsort(descending=True)
    return Findings(
        numbers={
            "images": len(given),
            "flipped": int(wrong.sum()),
            "auroc": to_json(areas),
            "cleanlab": best,
            "less_cleanlab": to_json(gaps),
            "wrong_among_first": float(wrong[suspects[: int(wrong.sum())]].double().mean()),
        },
        figures={FIGURE: suspects_figure(found.images.train, given, wrong, suspects)},
        captions={
            FIGURE: "The images with the most suspect labels by the recommended failure score of "
            "the given label; framed where the label was not flipped."
        },
        text=_page(len(given), areas, gaps, best),
    )


def judge(numbers: Mapping[str, Any]) -> list[Claim]:
    """The claim by stored numbers."""
    gaps, areas, best = numbers["less_cleanlab"], numbers["auroc"], numbers["cleanlab"]
    said = (
        f"{name} {areas[name]['value']:.5f}, {gap['value']:+.5f} ({gap['low']:+.5f} to "
        f"{gap['high']:+.5f})"
        for name, gap in gaps.items()
    )
    chosen = max((RECOMMENDED, INFLUENCE), key=lambda name: areas[name]["value"])
    return [
        Claim(
            source=SOURCE,
            sentence="Self-influence, or the recommended failure score, finds wrong labels at "
            "least as well as cleanlab's ranking on the same probabilities.",
            facts=[
                between(
                    f"AUROC of {FLIPPED:.0%} flipped labels of MNIST by {chosen}, less that by "
                    f"{best}, paired",
                    gaps[chosen],
                    above=0,
                )
            ],
            note=f"{best} {areas[best]['value']:.5f}; {'; '.join(said)}",
        )
    ]


def _page(samples: int, areas: Mapping[str, Any], gaps: Mapping[str, Difference], best: str) -> str:
    rows = [
        [name, f"{area.value:.5f} ({area.low:.5f} to {area.high:.5f})",
         f"{gaps[name].value:+.5f} ({gaps[name].low:+.5f} to {gaps[name].high:+.5f})"
         if name in gaps else "–"]
        for name, area in areas.items()
    ]  # fmt: skip
    return "\n\n".join(
        [
            f"Wrong labels: {samples:,} training images of MNIST, of which {FLIPPED:.0%} have "
            "another label, drawn evenly. All scores come from the same five networks, each "
            "trained without a fifth of the images, which it then judges. cleanlab's two scores "
            "are computed by its formulas. The failure score is the log-odds against the given "
            "label plus its trust score, at equal spread; the trust score leaves out the "
            f"{2 * FLIPPED:.0%} of each class that are farthest from the others, twice the share "
            "that was flipped, which one has to guess elsewhere; self-influence is that of the "
            "last layer, fitted again on features of the network that did not see these images.",
            table(["score", "AUROC", f"less {best}"], rows),
        ]
    )
