"""Part `confidnet`: ConfidNet trained until it finds validation errors no better.

As published: a tenth of the training images validates, the head learns the true class
probability of the others (stage one), then the encoder learns with it (stage two); of each stage
the epoch with the best average precision of validation errors is taken.
"""

from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from nescio import metrics, nets
from nescio.core import Categorical, NescioError, as_batch, generator, kept, measures
from nescio.detectors.failure import true_class_probability
from nescio.evaluation.compare import Absent
from nescio.models.model import Model
from nescio.training.train import train
from nescio_papers.kit import (
    Comparison,
    Findings,
    InData,
    Settings,
    absent,
    all_images,
    folder_of,
    joined,
    not_judged,
)
from nescio_papers.kit.budgets import full_and_quick, size
from nescio_papers.kit.stores import slug
from nescio_papers.robust_deep_learning import failure
from nescio_papers.robust_deep_learning.calibrating import held_out, network_of
from nescio_papers.robust_deep_learning.confidnet_words import (
    FIGURE,
    ONE,
    PUBLISHED,
    RISING,
    TWO,
    plateau_figure,
    plateau_text,
    rise,
)
from nescio_papers.robust_deep_learning.networks import weights_digest
from nescio_papers.robust_deep_learning.sets import PHOTOGRAPHS, budget

PART = "confidnet"
BATCH = 128
PIECE = 2000  # inputs at a time, where nothing is learned


@dataclass(frozen=True, kw_only=True)
class Budget:
    """The sizes of a run."""

    epochs: int = size(10, quick=3)  # of the network for digits
    heads: tuple[int, ...] = size((400, 400, 400, 400), quick=(16, 16))
    most: int = size(200, quick=2)  # epochs of stage one at most
    patience: int = size(20, quick=1)
    most_tuned: int = size(30, quick=1)  # epochs of stage two at most
    patience_tuned: int = size(6, quick=1)
    resamples: int = size(1000, quick=20)


FULL, QUICK = full_and_quick(Budget)


@dataclass(frozen=True, kw_only=True, eq=False)
class Samples:
    """What a network says of some images, and whether it is right."""

    x: Tensor
    features: Tensor
    logits: Tensor
    labels: Tensor

    @property
    def wrong(self) -> Tensor:
        """Which answers are wrong."""
        return self.logits.argmax(-1) != self.labels

    @property
    def target(self) -> Tensor:
        """The true class probability, `(N, 1)`."""
        return true_class_probability(Categorical(self.logits[None]), self.labels).float()[:, None]

    @property
    def baseline(self) -> Tensor:
        """The maximum probability, as a failure score."""
        return measures.log_odds(Categorical(self.logits[None].double()))


def run(settings: Settings) -> Findings:
    """ConfidNet on each data set at hand, with curves of both stages."""
    sizes = QUICK if settings.quick else FULL
    blocks = {name: _findings(settings, sizes, block) for name, block in failure.BLOCKS.items()}
    whole = joined(blocks)
    found = {name: one for name, one in whole.numbers.items() if "stages" in one}
    figures = {FIGURE: plateau_figure(found)} if found else {}
    return Findings(
        numbers=whole.numbers,
        figures=figures,
        captions={FIGURE: "Average precision of errors after each epoch of ConfidNet's two stages; "
                  "the marked epoch is taken. Dotted: the maximum probability."},
        comparisons=[row for name, one in found.items() for row in _comparisons(name, one)],
        text="\n\n".join([plateau_text(found, sizes.patience), whole.text]).strip(),
        skipped=whole.skipped,
        empty=whole.empty,
    )  # fmt: skip


def _findings(settings: Settings, sizes: Budget, block: failure.Block) -> Findings:
    images = budget(settings)  # as in the part `calibration`, whose network for photographs it is
    in_dist = all_images(block.data, train=images.train, test=images.test)
    if isinstance(in_dist, Absent):
        return absent(block.name, in_dist.why)
    model = _network(settings, sizes, block, in_dist)
    path = folder_of(settings, PART) / f"{slug(block.name)}.json"
    key = {"weights": weights_digest(model), "sizes": str(sizes), "seed": settings.seed}
    try:
        found = kept(path, key, lambda: _measured(settings, sizes, model, in_dist))
    except NescioError as error:
        if not settings.quick:  # there a network may be right, or wrong, everywhere
            raise
        return not_judged(block.name, error)
    return Findings(numbers=found)


def _network(settings: Settings, sizes: Budget, block: failure.Block, in_dist: InData) -> Model:
    """That of `calibration` for photographs, of `failure` for digits, without a tenth of them."""
    shown, _ = held_out(in_dist)
    if block.name in PHOTOGRAPHS:
        return network_of(settings, block.name, shown)
    return train(
        block.net(in_dist, failure.budget(settings)),
        shown.train,
        epochs=sizes.epochs,
        batch_size=BATCH,
        schedule="cosine",
        seed=settings.seed,
        run=folder_of(settings, PART) / slug(block.name),
        checkpoint_seconds=60,
        progress=False,
    )


def _measured(settings: Settings, sizes: Budget, model: Model, in_dist: InData) -> dict[str, Any]:
    """Both stages, and the test images scored by the epochs that were taken."""
    shown, held = held_out(in_dist)
    encoder, last = split(model.member(0))
    learn, validate, test = (
        observed(encoder, last, part) for part in (shown.train, held, in_dist.test)
    )
    torch.manual_seed(settings.seed)
    head = nets.mlp(learn.features.shape[1], 1, widths=sizes.heads)
    first = to_a_plateau(
        head,
        (learn.features, learn.target),
        lambda net: (
            precision(net, validate.features, validate), precision(net, test.features, test)
        ),
        rate=failure.HEAD_RATE, most=sizes.most, patience=sizes.patience, seed=settings.seed,
    )  # fmt: skip
    whole = nn.Sequential(*deepcopy(encoder), first.net)
    second = to_a_plateau(
        whole,
        (learn.x, learn.target),
        lambda net: (precision(net, validate.x, validate), precision(net, test.x, test)),
        rate=failure.TUNING_RATE, most=sizes.most_tuned, patience=sizes.patience_tuned,
        seed=settings.seed,
    )  # fmt: skip
    scores = {ONE: _scores(first.net, test.features), TWO: _scores(second.net, test.x)}
    tests = {
        name: metrics.selective_test(
            one, test.baseline, test.wrong, of=("ap_error", "auroc"), resamples=sizes.resamples,
            seed=settings.seed,
        )
        for name, one in scores.items()
    }  # fmt: skip
    return {
        "error": float(test.wrong.double().mean()),
        "errors": {"training": int(learn.wrong.sum()), "validation": int(validate.wrong.sum())},
        "maximum probability": {
            name: metrics.ap_error(part.baseline, part.wrong)
            for name, part in (("validation", validate), ("test", test))
        },
        "stages": {name: one.numbers() for name, one in ((ONE, first), (TWO, second))},
        "gains": {name: vars(one["ap_error"]) for name, one in tests.items()},
        "auroc gains": {name: vars(one["auroc"]) for name, one in tests.items()},
    }


def split(net: nn.Module) -> tuple[nn.Sequential, nn.Module]:
    """The layers before the last one, without dropout, and the last one."""
    layers = list(net.children())
    return nn.Sequential(*(one for one in layers[:-1] if not isinstance(one, nn.Dropout))), layers[
        -1
    ]


def observed(encoder: nn.Module, last: nn.Module, part: tuple[Tensor, Tensor]) -> Samples:
    """Features and logits of images."""
    x, y = as_batch(part[0]), part[1].long()
    with torch.no_grad():
        features = torch.cat([encoder(piece) for piece in x.split(PIECE)])
        logits = last(features)
    return Samples(x=x, features=features, logits=logits, labels=y)


@dataclass(frozen=True, kw_only=True, eq=False)
class Learned:
    """A network with the weights of its best epoch, and the precisions of every epoch."""

    net: nn.Module
    precisions: list[tuple[float, float]]  # on validation and test errors
    best: int  # epoch, from 1 on
    patience: int

    @property
    def plateau(self) -> bool:
        """Whether it ended at a plateau."""
        return at_a_plateau(self.precisions, self.best, self.patience)

    def numbers(self) -> dict[str, Any]:
        """As plain numbers, for JSON."""
        return {
            "validation": [one for one, _ in self.precisions],
            "test": [one for _, one in self.precisions],
            "best": self.best,
            "epochs": len(self.precisions),
            "plateau": self.plateau,
        }


def to_a_plateau(
    net: nn.Module,
    data: tuple[Tensor, Tensor],
    judged: Callable[[nn.Module], tuple[float, float]],
    *,
    rate: float,
    most: int,
    patience: int,
    seed: int,
) -> Learned:
    """Learn a probability by squared error up to a plateau, for `most` epochs at most."""
    x, target = data
    optimizer = torch.optim.Adam(net.parameters(), lr=rate)
    draws = generator(seed, "confidnet")
    precisions: list[tuple[float, float]] = []
    best, weights = 0, deepcopy(net.state_dict())
    while len(precisions) < most and not at_a_plateau(precisions, best, patience):
        for rows in torch.randperm(len(x), generator=draws).split(BATCH):
            loss = (net(x[rows]).sigmoid() - target[rows]).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        precisions.append(judged(net))
        if not best or precisions[-1][0] > precisions[best - 1][0]:
            best, weights = len(precisions), deepcopy(net.state_dict())
    net.load_state_dict(weights)
    return Learned(net=net, precisions=precisions, best=best, patience=patience)


def at_a_plateau(precisions: Sequence[tuple[float, float]], best: int, patience: int) -> bool:
    """Whether `patience` epochs were not better than the best one, and their mean does not rise."""
    rising = rise([validation for validation, _ in precisions]) >= RISING
    return len(precisions) - best >= patience and not rising


def precision(net: nn.Module, x: Tensor, part: Samples) -> float:
    """Average precision of the errors by the network's probability."""
    return metrics.ap_error(_scores(net, x), part.wrong)


def _scores(net: nn.Module, x: Tensor) -> Tensor:
    with torch.no_grad():
        return -torch.cat([net(piece)[:, 0] for piece in x.split(PIECE)]).double()


def _comparisons(name: str, found: Mapping[str, Any]) -> list[Comparison]:
    """Average precisions of errors beside those of Corbière et al."""
    ours = {
        "maximum probability": found["maximum probability"]["test"],
        "ConfidNet": found["stages"][TWO]["test"][found["stages"][TWO]["best"] - 1],
    }
    said, note = PUBLISHED[name]
    return [
        Comparison(f"{name}, {score}: AP of errors, %", said[score], 100 * value, note=note)
        for score, value in ours.items()
    ]
