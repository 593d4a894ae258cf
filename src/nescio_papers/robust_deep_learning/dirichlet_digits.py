"""Dirichlet networks on MNIST: accuracy, and OOD sets that were shown and that were not."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor, nn

from nescio import metrics, nets
from nescio.core import Classification, measures, to_json
from nescio.core.registry import recipes
from nescio.evaluation.compare import Absent
from nescio.models.model import Model
from nescio_papers.kit import Findings, InData, Sample, Settings, absent, sample, slug
from nescio_papers.robust_deep_learning.dirichlet_matrix import drawn
from nescio_papers.robust_deep_learning.dirichlet_verdicts import (
    CONFIDENCE,
    NOTHING,
    POSTERIOR,
    PRECISION,
    SHARED,
    SOFTMAX,
    Accuracies,
    page,
    published,
)
from nescio_papers.robust_deep_learning.networks import RATE, trained
from nescio_papers.robust_deep_learning.sets import (
    BLOCKS,
    FASHION,
    KANA,
    NOISE,
    STRICT,
    budget,
    in_data,
    ood_data,
    shown_data,
)

FIGURE = "dirichlet-exposure.png"
BLOCK = BLOCKS["MNIST"]
SETS = (KANA, STRICT, FASHION, NOISE)
SCORES: dict[str, Callable[[Any], Tensor]] = {  # larger is further out
    CONFIDENCE: measures.log_odds,
    SHARED: measures.mutual_information,
    PRECISION: measures.negative_log_precision,
}


@dataclass(frozen=True, kw_only=True)
class Method:
    """A recipe without OOD inputs, the one with them, and the scores of its predictions."""

    plain: str
    exposed: str | None = None
    options: Mapping[str, Any] = field(default_factory=dict)  # of both
    make: Callable[[InData], nn.Module] | None = None  # its network; by default small_cnn
    rate: float = RATE  # of learning
    scores: tuple[str, ...] = tuple(SCORES)
    chosen: str = SHARED  # the score of the matrix


def _posterior(in_dist: InData) -> nn.Module:
    made: nn.Module = nets.posterior_network(in_dist.shape, in_dist.classes)
    return made


METHODS = {
    SOFTMAX: Method(
        plain="single", exposed="outlier_exposure", scores=(CONFIDENCE,), chosen=CONFIDENCE
    ),
    "Dirichlet": Method(plain="dirichlet", exposed="dirichlet_ood"),
    "evidential": Method(
        plain="evidential",
        exposed="evidential_ood",
        options={"form": "cross_entropy"},
    ),
    POSTERIOR: Method(plain="posterior_network", make=_posterior, rate=1e-2, chosen=PRECISION),
}
Scored = Mapping[str, Mapping[str, Tensor]]  # score -> data set -> values
Table = dict[str, dict[str, Scored]]  # method -> what was shown -> scores


def findings(settings: Settings) -> Findings:
    """Networks that were shown nothing, or one OOD set, and what they say about all."""
    in_dist = in_data(BLOCK, budget(settings))
    if isinstance(in_dist, Absent):
        return absent("MNIST", in_dist.why)
    tested = {n: x for n, x in ood_data(BLOCK, in_dist, budget(settings), settings.seed).items()
              if n in SETS}  # fmt: skip
    missing = {name: x.why for name, x in tested.items() if isinstance(x, Absent)}
    there = {name: _inputs(x) for name, x in tested.items() if name not in missing}
    right: dict[str, dict[str, list[float]]] = {}
    scores: Table = {}
    for name, method in METHODS.items():
        for shown in (NOTHING, *there) if method.exposed else (NOTHING,):
            model = _trained(settings, in_dist, method, shown)
            right.setdefault(name, {})[shown] = _accuracies(model, in_dist)
            scores.setdefault(name, {})[shown] = _scored(model, method, in_dist, there)
    return _found(right, scores, missing)


def _trained(settings: Settings, in_dist: InData, method: Method, shown: str) -> Model:
    sizes = budget(settings)
    name, options, members = method.plain, {**method.options}, sizes.seeds
    if shown != NOTHING:
        assert method.exposed
        ood = shown_data(BLOCK, shown, in_dist, sizes, settings.seed)
        name, options, members = method.exposed, {**options, "ood": ood}, 1
    loss = recipes[name](**options).loss_for(in_dist.train[0])
    epochs = sizes.exposed_epochs["MNIST"]
    file = f"mnist--{slug(name)}--{slug(shown)}"
    return trained(
        settings, "dirichlet", file, in_dist, epochs=epochs, members=members, loss=loss,
        make=method.make, rate=method.rate,
    )  # fmt: skip


def _inputs(given: Any) -> Tensor:
    """Images, or as many of a source as are asked for."""
    if isinstance(given, tuple):
        source, count = given
        made: Tensor = source.take(count)
        return made
    images: Tensor = given
    return images


def _accuracies(model: Model, in_dist: InData) -> list[float]:
    x, y = in_dist.test
    prediction: Any = model(x)
    return [
        float((prediction.choose([i]).labels == y).double().mean())
        for i in range(prediction.members)
    ]


def _scored(model: Model, method: Method, in_dist: InData, there: Mapping[str, Tensor]) -> Scored:
    """The scores of the first network for the test images and every OOD set."""
    predictions = {
        name: _first(model, x) for name, x in {BLOCK.name: in_dist.test[0], **there}.items()
    }
    return {
        score: {name: SCORES[score](own) for name, own in predictions.items()}
        for score in method.scores
    }


def _first(model: Model, x: Tensor) -> Classification:
    prediction: Any = model(x)
    own: Classification = prediction.choose([0])
    return own


def _pair(scored: Scored, score: str, name: str) -> tuple[Tensor, Tensor]:
    return scored[score][BLOCK.name], scored[score][name]


def area(scored: Scored, score: str, name: str) -> dict[str, float]:
    """AUROC of a set with its interval, and AUPR with the test images as the positive class."""
    pair = _pair(scored, score, name)
    found = metrics.delong_interval(*pair, logit=True)
    return {
        "value": found.value,
        "low": found.low,
        "high": found.high,
        "aupr_in_dist": metrics.aupr(*pair, positive="in_dist"),
    }


def _found(right: Accuracies, scores: Table, missing: Mapping[str, str]) -> Findings:
    areas = {
        name: {
            shown: {score: {one: area(scored, score, one) for one in values if one != BLOCK.name}
                    for score, values in scored.items()}
            for shown, scored in rows.items()
        }
        for name, rows in scores.items()
    }  # fmt: skip
    others = {name: method.chosen for name, method in METHODS.items() if name != SOFTMAX}
    gaps = {name: accuracy_gaps(right, name) for name in others}
    apart = {name: auroc_gaps(scores, name) for name in others}
    matrices = {
        name: {shown: part[METHODS[name].chosen] for shown, part in rows.items()}
        for name, rows in areas.items()
    }
    return Findings(
        numbers={
            "accuracy": right,
            "areas": areas,
            "accuracy_less_softmax": {n: {k: v.numbers() for k, v in g.items()}
                                      for n, g in gaps.items()},
            "auroc_less_softmax": to_json(apart),
            "spread_less_own": to_json({name: own_gaps(scores, name) for name in others}),
            "missing": missing,
        },
        figures={FIGURE: drawn(matrices, {n: m.chosen for n, m in METHODS.items()})},
        captions={
            FIGURE: "AUROC on MNIST: a row is what the network was shown, a column what it was "
            "tested on; framed where both are of one source."
        },
        comparisons=published(right, areas),
        text=page(right, areas, missing),
        skipped=missing,
    )  # fmt: skip


def accuracy_gaps(right: Accuracies, name: str) -> dict[str, Sample]:
    """Accuracies less those of softmax networks that were shown the same: without and with OOD."""
    own, plain = right[name], right[SOFTMAX]
    seeds = zip(own[NOTHING], plain[NOTHING], strict=True)
    gaps = {"without": sample(a - b for a, b in seeds)}
    shown = [one for one in own if one != NOTHING]
    if shown:
        gaps["with"] = sample(own[one][0] - plain[one][0] for one in shown)
    return gaps


def own_gaps(scores: Table, name: str) -> dict[str, metrics.Difference]:
    """AUROC of a network's spread less that of its own maximum probability, by paired tests."""
    scored, score = scores[name][NOTHING], METHODS[name].chosen
    return {
        one: metrics.delong_test(_pair(scored, score, one), _pair(scored, CONFIDENCE, one))
        for one in scored[score]
        if one != BLOCK.name
    }


def auroc_gaps(scores: Table, name: str) -> dict[str, dict[str, metrics.Difference]]:
    """AUROC less that of softmax networks that were shown the same, by paired tests."""
    score = METHODS[name].chosen
    return {
        shown: {
            one: metrics.delong_test(
                _pair(scored, score, one), _pair(scores[SOFTMAX][shown], CONFIDENCE, one)
            )
            for one in scored[score]
            if one != BLOCK.name
        }
        for shown, scored in scores[name].items()
    }
