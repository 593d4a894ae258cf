"""AUROC, AUPR and FPR95 of ten million float32 scores, and the calibration error of as many.

Half of the scores are inside, half outside, all between 0 and 1: torchmetrics squashes others
unasked. Each side's numbers hold its seconds, its results, and by how many times the size of the
scores its memory grew.
"""

from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

from benchmarks.peers import Guest, guest, part_of
from benchmarks.timing import Benchmark, Numbers, Side, seconds, use_threads

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Floats = NDArray[np.float32]

SCORES, SAMPLES, BINS, FEW = 10_000_000, 10_000_000, 15, 200_000
LIGHTNING = Guest("", "", "lightning_utilities", "lightning-utilities")  # torchmetrics imports it

BENCHMARKS = (
    Benchmark(
        __name__,
        f"AUROC, AUPR and FPR95 of {SCORES:,} scores",
        peers=(
            Side("scikit-learn", "scikit_learn_ranking", "sklearn"),
            Guest("torchmetrics", "torchmetrics_ranking", "torchmetrics", "torchmetrics"),
            Guest("pytorch-ood", "pytorch_ood_ranking", "pytorch_ood", "pytorch-ood"),
        ),
        ours="nescio_ranking",
        quick={"scores": 20_000},
        checks=("ranking_agreement",),
        note="`growth` in the JSON file is the growth of memory over the size of the scores. The "
        "check is on 200,000 scores rounded to three digits: the largest difference from nescio. "
        "pytorch-ood takes AUPR by the trapezoidal rule, so that one differs.",
    ),
    Benchmark(
        __name__,
        f"calibration error of {SAMPLES:,} samples, {BINS} bins",
        peers=(
            Guest("torchmetrics", "torchmetrics_ece", "torchmetrics", "torchmetrics"),
            Guest("netcal", "netcal_ece", "netcal", "netcal"),
        ),
        ours="nescio_ece",
        quick={"samples": 20_000},
        checks=("ece_agreement",),
        note="The check is on 200,000 samples: differences from a sum over the bins in float64. "
        "torchmetrics adds up in float32.",
    ),
)


def nescio_ranking(scores: int = SCORES) -> Numbers:
    from nescio import metrics

    def measure(in_dist: "Floats", ood: "Floats") -> Numbers:
        ranking = metrics.rank(in_dist, ood)
        return {"auroc": ranking.auroc, "aupr": ranking.aupr, "fpr95": ranking.fpr_at_tpr(0.95)}

    return _timed(measure, _scores(scores), repeats=5)


def scikit_learn_ranking(scores: int = SCORES) -> Numbers:
    return _timed(_scikit_learn(), _labeled(scores))


def torchmetrics_ranking(scores: int = SCORES) -> Numbers:
    return _timed(_torchmetrics(), _labeled(scores))


def pytorch_ood_ranking(scores: int = SCORES) -> Numbers:
    return _timed(_pytorch_ood(), _labeled(scores))


def ranking_agreement() -> Numbers:
    """The largest difference of each peer's three numbers from ours, with many ties."""
    from nescio import metrics

    in_dist, ood = (side.round(3) for side in _scores(FEW))
    ranking = metrics.rank(in_dist, ood)
    ours = {"auroc": ranking.auroc, "aupr": ranking.aupr, "fpr95": ranking.fpr_at_tpr(0.95)}
    truth, values = _labeled(FEW)
    found = {
        "scikit-learn": _scikit_learn()(truth, values.round(3)),
        "torchmetrics": _torchmetrics()(truth, values.round(3)),
        "pytorch-ood": _pytorch_ood()(truth, values.round(3)),
    }
    area = found["pytorch-ood"].pop("aupr")
    apart = {
        name: max(abs(value - ours[key]) for key, value in numbers.items())
        for name, numbers in found.items()
    }
    return {**apart, "pytorch-ood AUPR": abs(area - ours["aupr"])}


def nescio_ece(samples: int = SAMPLES) -> Numbers:
    from nescio import metrics

    return _timed(
        lambda sure, right: {"ece": metrics.ece(sure, right, bins=BINS)},
        _samples(samples),
        repeats=5,
    )


def torchmetrics_ece(samples: int = SAMPLES) -> Numbers:
    return _timed(_torchmetrics_ece(), _samples(samples))


def netcal_ece(samples: int = SAMPLES) -> Numbers:
    return _timed(_netcal_ece(), _samples(samples))


def ece_agreement() -> Numbers:
    """Differences from the mean gap, bin by bin in float64."""
    import numpy as np

    from nescio import metrics

    sure, right = _samples(FEW)
    edges = (np.arange(BINS + 1) / BINS).astype(np.float32)
    place = np.clip(np.searchsorted(edges, sure) - 1, 0, BINS - 1)
    gap = sure.astype(np.float64) - right
    exact = sum(abs(float(gap[place == m].sum())) for m in range(BINS)) / FEW
    return {
        "nescio": abs(metrics.ece(sure, right, bins=BINS) - exact),
        "torchmetrics": abs(_torchmetrics_ece()(sure, right)["ece"] - exact),
        "netcal": abs(_netcal_ece()(sure, right)["ece"] - exact),
    }


def _scikit_learn() -> Callable[..., Numbers]:
    from sklearn.metrics import average_precision_score, roc_auc_score, roc_curve

    def measure(truth: Any, values: Any) -> Numbers:
        false, true, _ = roc_curve(truth, values, drop_intermediate=False)
        return {
            "auroc": float(roc_auc_score(truth, values)),
            "aupr": float(average_precision_score(truth, values)),
            "fpr95": float(false[(true >= 0.95).argmax()]),
        }

    return measure


def _torchmetrics() -> Callable[..., Numbers]:
    import torch

    assert LIGHTNING.installed
    theirs = guest("torchmetrics.functional.classification")

    def measure(truth: Any, values: Any) -> Numbers:
        target, score = torch.from_numpy(truth), torch.from_numpy(values)
        false, true, _ = theirs.binary_roc(score, target)
        return {
            "auroc": theirs.binary_auroc(score, target).item(),
            "aupr": theirs.binary_average_precision(score, target).item(),
            "fpr95": false[(true >= 0.95).int().argmax()].item(),
        }

    return measure


def _pytorch_ood() -> Callable[..., Numbers]:
    import torch

    theirs = part_of("pytorch_ood", "metrics.ood")
    collect = part_of("pytorch_ood", "metrics.base").MetricCollection

    def measure(truth: Any, values: Any) -> Numbers:
        all_three = collect([theirs.AUROC(), theirs.AUPR("ood"), theirs.FPRAtTPR(0.95)])
        all_three.update(scores=torch.from_numpy(values), labels=-torch.from_numpy(truth))
        found = all_three.compute()
        return {
            "auroc": found["AUROC"],
            "aupr": found["AUPR-OUT"],
            "fpr95": found["FPR95TPR"],
        }

    return measure


def _torchmetrics_ece() -> Callable[..., Numbers]:
    import torch

    assert LIGHTNING.installed
    theirs = guest("torchmetrics.functional.classification").binary_calibration_error

    def measure(sure: Any, right: Any) -> Numbers:
        found = theirs(torch.from_numpy(sure), torch.from_numpy(right).int(), n_bins=BINS)
        return {"ece": found.item()}

    return measure


def _netcal_ece() -> Callable[..., Numbers]:
    theirs = guest("netcal.metrics").ECE(BINS)

    def measure(sure: Any, right: Any) -> Numbers:
        return {"ece": float(theirs.measure(sure, right.astype(int)))}

    return measure


def _timed(measure: Callable[..., Numbers], inputs: tuple[Any, ...], repeats: int = 1) -> Numbers:
    """Seconds, results, and the growth of memory over the size of the scores."""
    use_threads()
    measure(*(part[:: max(1, len(part) // 1000)] for part in inputs))
    found: list[Numbers] = []
    size = sum(part.nbytes for part in inputs if part.dtype.kind == "f")
    Path("/proc/self/clear_refs").write_text("5")  # the peak so far is forgotten
    before = _peak()
    times = [seconds(lambda: found.append(measure(*inputs)))]
    growth = (_peak() - before) / size
    times += [seconds(lambda: measure(*inputs)) for _ in range(repeats - 1)]
    return {"warm": median(times), "growth": growth, **found[0]}


def _peak() -> int:
    """The most bytes that this process has held since the peak was forgotten."""
    return 1024 * int(Path("/proc/self/status").read_text().partition("VmHWM:")[2].split()[0])


def _scores(count: int) -> "tuple[Floats, Floats]":
    """Inside and outside scores, half each."""
    import numpy as np

    sides = []
    for shift in (0, 1):
        rng = np.random.default_rng(shift)
        side = rng.standard_normal(count // 2, dtype=np.float32)
        side += np.float32(shift)
        sides.append((1 / (1 + np.exp(-side))).astype(np.float32, copy=False))
    return sides[0], sides[1]


def _labeled(count: int) -> "tuple[NDArray[np.int64], Floats]":
    """The truth and the scores of both sides."""
    import numpy as np

    in_dist, ood = _scores(count)
    truth = np.repeat([0, 1], [len(in_dist), len(ood)])
    return truth, np.concatenate([in_dist, ood])


def _samples(count: int) -> "tuple[Floats, NDArray[np.bool_]]":
    """Confidences, and truths that are a little less likely."""
    import numpy as np

    rng = np.random.default_rng(0)
    sure = (1 - rng.random(count, dtype=np.float32) ** 2 / 2).astype(np.float32, copy=False)
    return sure, rng.random(count, dtype=np.float32) < sure**2
