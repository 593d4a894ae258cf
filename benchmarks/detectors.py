"""Scores of 200,000 samples, 100 logits and 512 features each, against pytorch-ood and faiss.

A side's numbers hold the seconds, the sum of its scores, and by how much its memory grew.
"""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.features import is_mnist, trained
from benchmarks.peers import Guest, guest, part_of
from benchmarks.timing import Benchmark, Numbers, in_new_process, seconds, use_threads

if TYPE_CHECKING:
    from torch import Tensor

    from nescio import Activations

SAMPLES, CLASSES, FEATURES = 200_000, 100, 512
BANK, QUERIES, NEAREST = 50_000, 20_000, 50
REPEATS = 3
QUICK = {"samples": 4000, "classes": 10, "features": 64}


def _pytorch_ood(function: str) -> Guest:
    return Guest("pytorch-ood", function, "pytorch_ood", "pytorch-ood")


BENCHMARKS = (
    *(
        Benchmark(
            __name__,
            f"{name} of {SAMPLES:,} x {CLASSES} logits",
            peers=(_pytorch_ood(f"{name}_peer"),),
            ours=f"{name}_ours",
            quick={"samples": 4000},
            checks=(f"{name}_agreement",),
        )
        for name in ("msp", "energy", "entropy")
    ),
    Benchmark(
        __name__,
        f"Mahalanobis, {SAMPLES:,} x {FEATURES} features, {CLASSES} classes",
        peers=(_pytorch_ood("mahalanobis_peer"),),
        ours="mahalanobis_ours",
        measures=("fit", "score"),
        quick=QUICK,
        checks=("mahalanobis_agreement",),
        note="pytorch-ood does not divide the covariance by the number of samples, so its scores "
        "shrink as that grows; the check multiplies them by twice the number of samples.",
    ),
    Benchmark(
        __name__,
        f"ViM fit and score, {SAMPLES:,} x {FEATURES} features, {CLASSES} classes",
        peers=(_pytorch_ood("vim_peer"),),
        ours="vim_ours",
        quick=QUICK,
        checks=("vim_agreement", "vim_memory"),
    ),
    Benchmark(
        __name__,
        f"{NEAREST} nearest neighbors, bank {BANK:,} x {FEATURES}, {QUERIES:,} queries, features "
        "of a trained network",
        peers=(
            _pytorch_ood("knn_trained_peer"),
            Guest("faiss, flat index", "knn_trained_faiss", "faiss", "faiss-cpu"),
        ),
        ours="knn_trained_ours",
        quick={"bank": 9000, "queries": 500},
        checks=("knn_trained_agreement",),
        note="An MLP with a last hidden layer of 512, trained on MNIST for two epochs; without the "
        "data (`mnist` 0 in the JSON file) a mixture with a spectrum that decays as theirs. All "
        "sides are exact. Fitting is not in the time; `fit` in the JSON file is that of nescio.",
    ),
    Benchmark(
        __name__,
        f"{NEAREST} nearest neighbors, bank {BANK:,} x {FEATURES}, {QUERIES:,} queries, Gaussian "
        "features",
        peers=(
            _pytorch_ood("knn_peer"),
            Guest("faiss, flat index", "knn_faiss", "faiss", "faiss-cpu"),
        ),
        ours="knn_ours",
        quick={"bank": 4000, "queries": 500, "features": 64},
        checks=("knn_agreement",),
        note="The worst case: without structure every row of the bank must be multiplied in full.",
    ),
)


def msp_ours(samples: int = SAMPLES) -> Numbers:
    return _ours("msp", samples)


def msp_peer(samples: int = SAMPLES) -> Numbers:
    return _peer("softmax", "MaxSoftmax", samples)


def msp_agreement() -> Numbers:
    """Ours are log-odds: back to minus the probability."""
    return _agree(lambda odds: -1 / (1 + odds.double().exp()), "msp", "softmax", "MaxSoftmax")


def energy_ours(samples: int = SAMPLES) -> Numbers:
    return _ours("energy", samples)


def energy_peer(samples: int = SAMPLES) -> Numbers:
    return _peer("energy", "EnergyBased", samples)


def energy_agreement() -> Numbers:
    return _agree(lambda found: found, "energy", "energy", "EnergyBased")


def entropy_ours(samples: int = SAMPLES) -> Numbers:
    return _ours("entropy", samples)


def entropy_peer(samples: int = SAMPLES) -> Numbers:
    return _peer("entropy", "Entropy", samples)


def entropy_agreement() -> Numbers:
    return _agree(lambda found: found, "entropy", "entropy", "Entropy")


def mahalanobis_ours(
    samples: int = SAMPLES, classes: int = CLASSES, features: int = FEATURES
) -> Numbers:
    from nescio.detectors import mahalanobis

    train = _activations(samples, classes, features)
    return _fit_and_score(lambda: mahalanobis(train, shrinkage=0.0), lambda fitted: fitted(train))


def mahalanobis_peer(
    samples: int = SAMPLES, classes: int = CLASSES, features: int = FEATURES
) -> Numbers:
    peer = part_of("pytorch_ood", "detector.mahalanobis").Mahalanobis
    x, y = _features(samples, classes, features)
    return _fit_and_score(
        lambda: peer(None).to("cpu").fit_features(x, y),
        lambda fitted: fitted.predict_features(x),
        repeats=1,
    )


def mahalanobis_agreement() -> Numbers:
    """The largest relative difference, with what the peer leaves out put in."""
    from nescio.detectors import mahalanobis

    train = _activations(4000, 10, 64)
    x, y = _features(4000, 10, 64)
    peer = part_of("pytorch_ood", "detector.mahalanobis").Mahalanobis(None).to("cpu")
    theirs = peer.fit_features(x, y).predict_features(x) * 2 * len(x)
    return {"difference": _apart(mahalanobis(train, shrinkage=0.0)(train), theirs)}


def vim_ours(samples: int = SAMPLES, classes: int = CLASSES, features: int = FEATURES) -> Numbers:
    from nescio.detectors import vim

    train = _activations(samples, classes, features)
    return _timed(lambda: vim(train)(train), repeats=1)


def vim_peer(samples: int = SAMPLES, classes: int = CLASSES, features: int = FEATURES) -> Numbers:
    x, y = _features(samples, classes, features)
    return _timed(lambda: _vim(x, y, classes), repeats=1)


def _vim(x: "Tensor", y: "Tensor", classes: int) -> "Tensor":
    peer = part_of("pytorch_ood", "detector.vim").ViM
    own = peer(None, x.shape[1] // 2, *_last_layer(classes, x.shape[1]))
    return own.fit_features(x, y).predict_features(x)  # type: ignore[no-any-return]


def vim_agreement() -> Numbers:
    from nescio.detectors import vim

    train = _activations(4000, 10, 64)
    return {"difference": _apart(vim(train)(train), _vim(*_features(4000, 10, 64), 10))}


def vim_memory() -> Numbers:
    """Megabytes by which each side's memory grew while it worked."""
    ours = in_new_process(f"{__name__}:vim_ours", {})["growth"]
    theirs = in_new_process(f"{__name__}:vim_peer", {})["growth"]
    return {"nescio MB": ours, "pytorch-ood MB": theirs, "share": ours / theirs}


def knn_ours(bank: int = BANK, queries: int = QUERIES, features: int = FEATURES) -> Numbers:
    return _knn_ours(*_gaussian(bank, queries, features))


def knn_peer(bank: int = BANK, queries: int = QUERIES, features: int = FEATURES) -> Numbers:
    return _knn_peer(*_gaussian(bank, queries, features))


def knn_faiss(bank: int = BANK, queries: int = QUERIES, features: int = FEATURES) -> Numbers:
    return _knn_faiss(*_gaussian(bank, queries, features))


def knn_trained_ours(bank: int = BANK, queries: int = QUERIES) -> Numbers:
    return {**_knn_ours(*trained(bank, queries)), "mnist": float(is_mnist())}


def knn_trained_peer(bank: int = BANK, queries: int = QUERIES) -> Numbers:
    return _knn_peer(*trained(bank, queries))


def knn_trained_faiss(bank: int = BANK, queries: int = QUERIES) -> Numbers:
    return _knn_faiss(*trained(bank, queries))


def _gaussian(bank: int, queries: int, features: int) -> "tuple[Tensor, Tensor]":
    return _features(bank, 1, features)[0], _features(queries, 1, features, seed=1)[0]


def _knn_ours(bank: "Tensor", x: "Tensor") -> Numbers:
    from nescio.detectors import knn

    use_threads()
    train, test = _as_activations(bank), _as_activations(x)
    made: list[Any] = []
    fit = seconds(lambda: made.append(knn(train, k=NEAREST)))
    return {**_timed(lambda: made[0](test), repeats=1), "fit": fit}


def _knn_peer(bank: "Tensor", x: "Tensor") -> Numbers:
    import torch

    use_threads()
    peer = part_of("pytorch_ood", "detector.knn").KNN
    fitted = peer(None, k=NEAREST).fit_features(bank, torch.zeros(len(bank), dtype=torch.long))
    return _timed(lambda: fitted.predict_features(x), repeats=1)


def _knn_faiss(bank: "Tensor", x: "Tensor") -> Numbers:
    search = _faiss(bank)
    return _timed(lambda: search(x), repeats=1)


def _as_activations(features: "Tensor") -> "Activations":
    from nescio import Activations

    return Activations(logits=features[:, :1], features={"last": features})


def _faiss(bank: "Tensor") -> "Callable[[Tensor], Tensor]":
    import torch
    from torch.nn.functional import normalize

    faiss = guest("faiss")
    index = faiss.IndexFlatL2(bank.shape[1])
    index.add(normalize(bank, dim=1).numpy())

    def search(x: "Tensor") -> "Tensor":
        return torch.from_numpy(index.search(normalize(x, dim=1).numpy(), NEAREST)[0][:, -1]).sqrt()

    return search


def knn_agreement() -> Numbers:
    return _knn_agreement(*_gaussian(4000, 500, 64))


def knn_trained_agreement() -> Numbers:
    bank, x = trained(BANK, QUERIES)
    return _knn_agreement(bank[:20_000], x[::20])


def _knn_agreement(bank: "Tensor", x: "Tensor") -> Numbers:
    import torch

    from nescio.detectors import knn

    ours = knn(_as_activations(bank), k=NEAREST)(_as_activations(x))
    peer = part_of("pytorch_ood", "detector.knn").KNN(None, k=NEAREST)
    peer.fit_features(bank, torch.zeros(len(bank), dtype=torch.long))
    return {
        "pytorch-ood": _apart(ours, peer.predict_features(x)),
        "faiss": _apart(ours, _faiss(bank)(x)),
    }


def _ours(name: str, samples: int) -> Numbers:
    from nescio import Activations, detectors

    use_threads()
    given, score = Activations(logits=_logits(samples)), getattr(detectors, name)()
    return _timed(lambda: score(given))


def _peer(module: str, name: str, samples: int) -> Numbers:
    peer = getattr(part_of("pytorch_ood", f"detector.{module}"), name)
    use_threads()
    logits = _logits(samples)
    return _timed(lambda: peer.score(logits))


def _agree(turned: "Callable[[Tensor], Tensor]", ours: str, module: str, peer: str) -> Numbers:
    from nescio import Activations, detectors

    logits = _logits(4000)
    theirs = getattr(part_of("pytorch_ood", f"detector.{module}"), peer).score(logits)
    found = getattr(detectors, ours)()(Activations(logits=logits))
    return {"difference": _apart(turned(found), theirs)}


def _apart(ours: "Tensor", theirs: "Tensor") -> float:
    """The largest difference, relative to the largest score."""
    theirs = theirs.double()
    return float((ours.double() - theirs).abs().max() / theirs.abs().max())


def _fit_and_score(
    fit: Callable[[], Any], score: "Callable[[Any], Tensor]", repeats: int = REPEATS
) -> Numbers:
    fitted: list[Any] = [fit()]
    fitting = min(seconds(lambda: fitted.append(fit())) for _ in range(REPEATS))
    found = _timed(lambda: score(fitted[-1]), repeats)
    return {"fit": fitting, "score": found["warm"], **found}


def _timed(work: "Callable[[], Tensor]", repeats: int = REPEATS) -> Numbers:
    """Seconds once warm (long work counts as warm), the sum of the scores, megabytes of growth."""
    before = _resident("VmRSS")
    _forget_peak()
    first: list[Tensor] = []
    times = [seconds(lambda: first.append(work()))]
    growth = (_resident("VmHWM") - before) / 1024
    if repeats > 1:
        times = [seconds(work) for _ in range(repeats)]
    return {"warm": min(times), "sum": float(first[0].double().sum()), "growth": growth}


def _resident(kind: str) -> int:
    """Kilobytes of this process's memory: VmRSS, held now, or VmHWM, the most it held."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(kind):
            return int(line.split()[1])
    return 0


def _forget_peak() -> None:
    Path("/proc/self/clear_refs").write_text("5")


def _activations(samples: int, classes: int, features: int, seed: int = 0) -> "Activations":
    from nescio import Activations

    x, y = _features(samples, classes, features, seed)
    weight, bias = _last_layer(classes, features)
    logits = x @ weight.T + bias
    return Activations(logits=logits, features={"last": x}, labels=y, weight=weight, bias=bias)


def _features(samples: int, classes: int, features: int, seed: int = 0) -> "tuple[Tensor, Tensor]":
    """Classes of a common shape, in which the later features vary less."""
    import torch

    use_threads()
    torch.manual_seed(0)
    centers = torch.randn(classes, features)
    torch.manual_seed(seed + 1)
    labels = torch.arange(samples) % classes
    noise = torch.randn(samples, features) * torch.linspace(2, 0.2, features)
    return noise.add_(centers[labels]), labels


def _last_layer(classes: int, features: int) -> "tuple[Tensor, Tensor]":
    import torch

    torch.manual_seed(7)
    return torch.randn(classes, features) / features**0.5, torch.randn(classes)


def _logits(samples: int) -> "Tensor":
    import torch

    torch.manual_seed(0)
    return 3 * torch.randn(samples, CLASSES)
