"""Which answers are wrong? Failure scores on one network, five times: the lecture's practical."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, stdev
from typing import Any

import torch
from torch import Tensor, nn

from nescio import detectors, losses, models, nets
from nescio.calibration import fit_temperature
from nescio.core import Categorical, Classification, NescioError, measures
from nescio.detectors import Detector
from nescio.detectors.activations import Activations
from nescio.detectors.failure import (
    CrossFit,
    confidnet,
    cross_fit,
    log_odds_against,
    recommended,
    true_class_probability,
)
from nescio.detectors.observe import observe
from nescio.evaluation import Comparison, compare
from nescio.evaluation.compare import Absent
from nescio.evaluation.compare.errors_task import BASELINE, NAMES
from nescio.models.model import Model
from nescio.report.comparison_tables import THOUSANDTHS
from nescio.report.render import METRICS
from nescio.training.train import train
from nescio_papers.kit import photographs
from nescio_papers.kit.budgets import full_and_quick, size
from nescio_papers.kit.experiment import Findings, Settings, absent, joined, not_judged
from nescio_papers.kit.images import InData, all_images
from nescio_papers.kit.nested import rows_of
from nescio_papers.kit.stores import folder_of, slug
from nescio_papers.kit.summary import table
from nescio_papers.robust_deep_learning import failure_verdicts
from nescio_papers.robust_deep_learning.failure_picture import ORACLE, true_class_figure
from nescio_papers.robust_deep_learning.failure_verdicts import (
    COOLED,
    ENSEMBLE,
    MC,
    RECOMMENDED,
    TRUST,
)
from nescio_papers.robust_deep_learning.networks import weights_digest

PART = "failure"
DROPOUT = 0.3  # of the authors' network for MNIST
HEAD_RATE, TUNING_RATE = 1e-4, 1e-5  # of ConfidNet; ten times these and the head is sure of all
PUBLISHED, STAGE_ONE = "ConfidNet, as published", "ConfidNet, stage one"
CROSSED, RESIDUAL = "ConfidNet, cross-fitted", "ConfidNet, residual on the log-odds"
PLAIN = "recommended, no folds"
SHOWN = (BASELINE, RECOMMENDED, TRUST, ENSEMBLE, MC, RESIDUAL, CROSSED, PUBLISHED)
Numbers = Mapping[str, Any]
Sizes = Mapping[str, int]  # by data set


def _of(mnist: int, cifar_10: int) -> Sizes:
    return {"MNIST": mnist, "CIFAR-10": cifar_10}


@dataclass(frozen=True)
class Budget:
    """The sizes of a run."""

    train: Sizes = size(_of(60_000, 20_000), quick=_of(600, 100))
    test: int = size(10_000, quick=200)
    seeds: Sizes = size(_of(5, 3), quick=_of(2, 2))
    epochs: Sizes = size(_of(10, 20), quick=_of(15, 1))
    width: int = size(400, quick=32)  # of the network for MNIST
    folds: int = size(3, quick=2)
    heads: tuple[int, ...] = size((400, 400, 400, 400), quick=(16, 16))
    head_epochs: int = size(5, quick=1)
    tuning_epochs: int = size(1, quick=1)
    passes: int = size(50, quick=5)
    resamples: int = size(300, quick=20)


FULL, QUICK = full_and_quick(Budget)


@dataclass(frozen=True)
class Block:
    """A data set and the network for it."""

    name: str
    data: str
    net: Callable[[InData, Budget], Callable[[], nn.Module]]
    words: str
    training: Mapping[str, Any]  # options of `nescio.train`
    folder: str


def _mlp(in_dist: InData, sizes: Budget) -> Callable[[], nn.Module]:
    return lambda: nets.mlp(in_dist.shape, in_dist.classes, widths=(sizes.width,), dropout=DROPOUT)


def _residual(in_dist: InData, sizes: Budget) -> Callable[[], nn.Module]:
    del sizes
    return lambda: photographs.residual_network(in_dist.shape, in_dist.classes, dropout=DROPOUT)


BLOCKS = {
    "MNIST": Block(
        name="MNIST",
        data="mnist",
        net=_mlp,
        words="a plain network with one hidden layer",
        training={"schedule": "cosine"},
        folder="mnist",
    ),
    "CIFAR-10": Block(
        name="CIFAR-10",
        data="cifar10",
        net=_residual,
        words="ResNet-20 with dropout before its last layer",
        training={**photographs.OPTIONS, "loss": photographs.decayed(losses.nll())},
        folder="cifar-10-resnet-20",
    ),
}


def budget(settings: Settings) -> Budget:
    """The sizes of this run."""
    return QUICK if settings.quick else FULL


def run(settings: Settings) -> Findings:
    """A table and pictures for each data set that is at hand."""
    blocks = {name: _findings(settings, block) for name, block in BLOCKS.items()}
    return joined(blocks, _introduction(budget(settings)))


def _findings(settings: Settings, block: Block) -> Findings:
    in_dist = images(block, budget(settings))
    if isinstance(in_dist, Absent):
        return absent(block.name, in_dist.why)
    try:
        tables = block_tables(settings, block, in_dist)
    except NescioError as error:
        if not settings.quick:  # there networks may be all wrong, or all right
            raise
        return not_judged(block.name, error)
    numbers = _numbers(tables)
    figures, captions = _pictures(block.name, tables[0])
    return Findings(
        numbers=numbers,
        figures=figures,
        captions=captions,
        comparisons=failure_verdicts.comparisons(block.name, numbers),
        text="\n\n".join([f"### {block.name}, {block.words}", *_texts(numbers)]),
    )


def images(block: Block, sizes: Budget) -> InData | Absent:
    """The training and test images of a block, or what is missing."""
    return all_images(block.data, train=sizes.train[block.name], test=sizes.test)


def networks_of(settings: Settings, block: Block, in_dist: InData) -> tuple[Model, CrossFit]:
    """The networks, one per seed, and their fold networks; trained once and stored."""
    run = folder_of(settings, PART) / block.folder / "folds"
    options = _training(settings, block, in_dist)
    crossed = cross_fit(data=in_dist.train, folds=budget(settings).folds, run=run, **options)
    return judged_networks(settings, block, in_dist), crossed


def judged_networks(settings: Settings, block: Block, in_dist: InData) -> Model:
    """The networks whose errors are predicted, one per seed; trained once and stored."""
    run = folder_of(settings, PART) / block.folder / "network"
    return train(data=in_dist.train, run=run, **_training(settings, block, in_dist))


def _training(settings: Settings, block: Block, in_dist: InData) -> dict[str, Any]:
    sizes = budget(settings)
    return {
        "make_net": block.net(in_dist, sizes),
        "members": sizes.seeds[block.name],
        "epochs": sizes.epochs[block.name],
        "batch_size": 128,
        "seed": settings.seed,
        "checkpoint_seconds": 60,
        "progress": False,
        **block.training,
    }


def block_tables(settings: Settings, block: Block, in_dist: InData) -> list[Comparison]:
    """A comparison for each seed, kept with what it was made from."""
    sizes, folder = budget(settings), folder_of(settings, PART) / block.folder
    model, crossed = networks_of(settings, block, in_dist)
    results = []
    for member in range(model.members):
        where = folder / f"seed-{member}"
        mark = [weights_digest(model), *map(weights_digest, crossed.models), str(sizes)]
        try:
            kept = Comparison.load(where)
            if kept.about.key != mark:
                raise NescioError("of other networks")
        except NescioError:
            kept = _compared(settings, block, in_dist, model, crossed.member(member), member)
            kept = kept.with_about(key=mark)
            kept.save(where, pictures=False)
        results.append(kept)
    return results


def _compared(
    settings: Settings,
    block: Block,
    in_dist: InData,
    model: Model,
    crossed: CrossFit,
    member: int,
) -> Comparison:
    """All scores on one of the networks."""
    sizes, net = budget(settings), model.member(member)
    seen = observe(net, in_dist.train, inputs=True, progress=False)
    test = observe(net, in_dist.test, inputs=True, progress=False)
    held = Activations(logits=crossed.logits(), labels=crossed.y)
    scores: dict[str, Detector | Tensor] = {
        **_sampled(settings, in_dist, model, net, test),
        **_heads(settings, block, seen, test, crossed, net, member),
        **_distances(seen, test, crossed),
        COOLED: detectors.msp(temperature=fit_temperature(Categorical(held.logits), crossed.y)),
        ORACLE: -true_class_probability(Categorical(test.logits), test.known().long()),
    }
    return compare(
        None,
        test,
        task="errors",
        scores=scores,
        validation=held,
        name=block.name,
        resamples=sizes.resamples,
        seed=settings.seed,
    )


def _sampled(
    settings: Settings, in_dist: InData, model: Model, net: nn.Module, test: Activations
) -> dict[str, Tensor]:
    """MC dropout and the ensemble: their confidence in the network's answer, and their entropy."""
    answers = test.logits[0].argmax(-1)
    sampled = models.mc_dropout(net, passes=budget(settings).passes, seed=settings.seed)
    results: dict[str, Tensor] = {}
    for name, predictor in ((MC, sampled), (ENSEMBLE, model)):
        parts = [(predictor(x), own) for x, own in _chunks(in_dist.test[0], answers)]
        results[name] = torch.cat([log_odds_against(_classes(p), own) for p, own in parts])
        results[f"{name}: entropy"] = torch.cat(
            [measures.predictive_entropy(_classes(p)) for p, _ in parts]
        )
    return results


def _chunks(x: Tensor, answers: Tensor) -> Any:
    return zip(x.split(1000), answers.split(1000), strict=True)


def _classes(prediction: Any) -> Classification:
    assert isinstance(prediction, Classification)
    return prediction


def _heads(
    settings: Settings,
    block: Block,
    seen: Activations,
    test: Activations,
    crossed: CrossFit,
    net: nn.Module,
    member: int,
) -> dict[str, Tensor]:
    """ConfidNet in all its forms."""
    sizes = budget(settings)
    folder = folder_of(settings, PART) / block.folder / f"seed-{member}"
    options: dict[str, Any] = {
        "widths": sizes.heads,
        "epochs": sizes.head_epochs,
        "tuning_epochs": sizes.tuning_epochs,
        "learning_rate": HEAD_RATE,
        "tuning_rate": TUNING_RATE,
        "seed": settings.seed + member,
        "progress": False,
    }
    forms: dict[str, dict[str, Any]] = {
        STAGE_ONE: {},
        PUBLISHED: {"tuned": net},
        CROSSED: {"crossed": crossed},
        RESIDUAL: {"crossed": crossed, "residual": True},
    }
    return {
        name: confidnet(
            seen,
            run=folder / slug(STAGE_ONE if name == PUBLISHED else name),
            **options,
            **form,
        )(test)
        for name, form in forms.items()
    }


def _distances(seen: Activations, test: Activations, crossed: CrossFit) -> dict[str, Tensor]:
    """The trust score, and its two combinations with the log-odds from one search."""
    odds = detectors.msp()(test).double()
    near = detectors.trust_score(seen, normalize=True)(test).double()

    def weighted(detector: Detector) -> Tensor:
        first, second, level = detector.states[0]["weights"].unbind()
        result: Tensor = first * odds + second * near + level
        return result

    return {
        TRUST: detectors.trust_score(seen)(test),
        PLAIN: weighted(recommended(seen)),
        RECOMMENDED: weighted(recommended(seen, crossed=crossed)),
    }


def _numbers(tables: Sequence[Comparison]) -> dict[str, Any]:
    return {
        "seeds": len(tables),
        "error": [(one.about.errors or 0) / one.about.samples for one in tables],
        "temperature": [one.about.temperature for one in tables],
        "sure_errors": {
            when: fmean(float((t.confidence[when][t.wrong] >= 0.9).mean()) for t in tables)
            for when in ("before", "after")
        },
        "scores": {name: _score(tables, name) for name in tables[0].subjects},
    }


def _score(tables: Sequence[Comparison], name: str) -> dict[str, Any]:
    """Means over seeds, and the gains in AP of errors over the maximum probability."""
    parts = [rows_of(one, name)[one.about.data] for one in tables]
    outcome: dict[str, Any] = {
        "metrics": {key: _mean([part[key]["value"] for part in parts]) for key in NAMES},
        "ap_error": [part["ap_error"] for part in parts],
    }
    if name != BASELINE:
        outcome["gains"] = [part["ap_error_difference"] for part in parts]
    return outcome


def _mean(values: Sequence[float]) -> dict[str, float | None]:
    return {"value": fmean(values), "deviation": stdev(values) if len(values) > 1 else None}


def _introduction(sizes: Budget) -> str:
    counts = " and ".join(f"{seeds} networks for {name}" for name, seeds in sizes.seeds.items())
    return (
        f"{counts}; every score is judged by the errors of the same network. Means over the "
        "networks, ± their standard deviation; in per cent, AURC in thousandths. Gains are in AP "
        "of errors over the maximum probability (as log-odds), with the interval of "
        f"{sizes.resamples} paired resamples of the test images. MC dropout and the ensemble: "
        "the log-odds against the network's answer in their mean, or the entropy of that. "
        "Recommended: the log-odds and the log trust score; without folds both have the same "
        f"spread. {sizes.folds} fold networks a seed give the cross-fitted probabilities, the "
        "weights of the recommended score, and the temperature. ConfidNet has heads of "
        f"{len(sizes.heads)} layers of {sizes.heads[0]}, {sizes.head_epochs} epochs at a rate of "
        f"{HEAD_RATE:g}, and as published {sizes.tuning_epochs} more with the encoder at "
        f"{TUNING_RATE:g}; no epoch is chosen by validation errors: the part "
        "[`confidnet`](confidnet.md) does that. For CIFAR-10 the networks are trained like the "
        "plain network of the second paper's table 1, but with dropout and for "
        f"{sizes.epochs['CIFAR-10']} epochs."
    )


def _texts(part: Numbers) -> list[str]:
    order = sorted(
        part["scores"],
        key=lambda n: part["scores"][n]["metrics"]["ap_error"]["value"],
        reverse=True,
    )
    errors = ", ".join(f"{100 * one:.2f} %" for one in part["error"])
    rows = [
        [name, *(_said(part["scores"][name]["metrics"][key], key) for key in NAMES)]
        for name in order
    ]
    gains = [
        [name, *_gains(part["scores"][name]["gains"])]
        for name in order
        if "gains" in part["scores"][name]
    ]
    seeds = [f"network {i}" for i in range(part["seeds"])]
    return [
        f"Test error {errors}.",
        table(["", *(METRICS[key] for key in NAMES)], rows),
        "Gain in AP of errors over the maximum probability, in points:",
        table(["", "mean", "networks won", *seeds], gains),
    ]


def _said(number: Numbers, key: str) -> str:
    scale, digits = (1000, 2) if key in THOUSANDTHS else (100, 2 if key == "ap_success" else 1)
    spread_ = number["deviation"]
    text = f"{scale * number['value']:.{digits}f}"
    return text if spread_ is None else f"{text} ± {scale * spread_:.{digits}f}"


def _gains(parts: Sequence[Numbers]) -> list[str]:
    won = sum(part["value"] > 0 for part in parts)
    cells = [
        f"{100 * p['value']:+.1f} ({100 * p['low']:+.1f} to {100 * p['high']:+.1f})" for p in parts
    ]
    return [f"{100 * fmean(p['value'] for p in parts):+.1f}", f"{won} of {len(parts)}", *cells]


def _pictures(name: str, result: Comparison) -> tuple[dict[str, Any], dict[str, str]]:
    one = slug(name)
    figures = {
        f"failure-{one}-precision-recall.png": result.precision_recall(SHOWN),
        f"failure-{one}-risk-coverage.png": result.risk_coverage(SHOWN),
        f"failure-{one}-histograms.png": result.histograms(),
        f"failure-{one}-true-class.png": true_class_figure(result),
    }
    said = (
        f"Precision and recall of the errors of the first network on {name}.",
        "The share of errors among the most confident answers, against how many are answered.",
        "Temperature moves right and wrong answers alike: they overlap as before.",
        f"Maximum and true class probability of successes and errors of the first network on "
        f"{name}: the first overlap, the second are apart but for the range from 1/10 to 1/2.",
    )
    return figures, dict(zip(figures, said, strict=True))
