"""One temperature for 20,000 x 1,000 logits by the likelihood of held-out labels.

Logits are float32, as networks give them; netcal takes probabilities, in float64 (in float32 it
returns a temperature of 1 without a word). Labels are drawn at a temperature of about 2.5. What a
side found is compared with the root of the derivative in float64, found apart.
"""

import sys
from collections.abc import Callable
from statistics import median
from types import ModuleType
from typing import TYPE_CHECKING, Any

from benchmarks.peers import Guest, guest, part_of
from benchmarks.timing import Benchmark, Numbers, seconds, use_threads

if TYPE_CHECKING:
    from torch import Tensor

SAMPLES, CLASSES, TRUTH = 20_000, 1_000, 2.5
NEEDED = (  # what netcal imports
    Guest("", "", "pyro", "pyro-ppl"),
    Guest("", "", "pyroapi", "pyro-api"),
    Guest("", "", "opt_einsum", "opt_einsum"),
)

BENCHMARK = Benchmark(
    __name__,
    f"temperature of {SAMPLES:,} x {CLASSES:,} logits",
    peers=(
        Guest("netcal, float64", "netcal_side", "netcal", "netcal"),
        Guest(
            "torch-uncertainty", "torch_uncertainty_side", "torch_uncertainty", "torch-uncertainty"
        ),
        Guest("pytorch-ood", "pytorch_ood_side", "pytorch_ood", "pytorch-ood"),
    ),
    quick={"samples": 500, "classes": 20},
    checks=("optimum",),
    note="The check is the distance of nescio's temperature from the best one; `off` in the JSON "
    "file is that of each side.",
)


def nescio_side(samples: int = SAMPLES, classes: int = CLASSES) -> Numbers:
    from nescio import calibration

    return _timed(
        lambda z, y: calibration.fit("temperature", z, y).temperature, samples, classes, repeats=5
    )


def netcal_side(samples: int = SAMPLES, classes: int = CLASSES) -> Numbers:
    import torch

    assert all(need.installed for need in NEEDED)
    silent = ModuleType("torch.utils.tensorboard")  # it only logs
    silent.SummaryWriter = object  # type: ignore[attr-defined]
    sys.modules.setdefault(silent.__name__, silent)
    scaling = guest("netcal.scaling").TemperatureScaling

    def fit(probs: Any, labels: Any) -> float:
        theirs = scaling()
        theirs.fit(probs, labels)
        return 1 / float(theirs.temperature[0])

    def prepared(z: "Tensor", y: "Tensor") -> tuple[Any, Any]:
        return z.to(torch.float64).softmax(-1).numpy(), y.numpy()

    return _timed(fit, samples, classes, prepare=prepared)


def torch_uncertainty_side(samples: int = SAMPLES, classes: int = CLASSES) -> Numbers:
    from torch.utils.data import DataLoader, TensorDataset

    package = "torch_uncertainty"
    abstract = part_of(package, "post_processing.abstract")
    sys.modules[f"{package}.post_processing"].PostProcessing = abstract.PostProcessing  # type: ignore[attr-defined]
    scaler = part_of(package, "post_processing.calibration.temperature_scaler").TemperatureScaler

    def fit(z: "Tensor", y: "Tensor") -> float:
        theirs = scaler()
        theirs.fit(DataLoader(TensorDataset(z, y), batch_size=1000), progress=False)
        return float(theirs.temperature[0])

    return _timed(fit, samples, classes)


def pytorch_ood_side(samples: int = SAMPLES, classes: int = CLASSES) -> Numbers:
    scaling = part_of("pytorch_ood", "detector.tscaling").TemperatureScaling
    return _timed(lambda z, y: float(scaling(None).fit_logits(z, y).t), samples, classes)


def optimum() -> Numbers:
    """How far nescio's temperature is from the best, on a tenth of the samples."""
    from nescio import calibration

    z, y = _problem(SAMPLES // 10, CLASSES)
    found = calibration.fit("temperature", z, y).temperature
    return {"nescio": abs(found - _best(z, y))}


def _timed(
    fit: Callable[[Any, Any], float],
    samples: int,
    classes: int,
    *,
    prepare: Callable[..., tuple[Any, Any]] = lambda z, y: (z, y),
    repeats: int = 1,
) -> Numbers:
    """Seconds, the temperature, and its distance from the best one."""
    use_threads()
    z, y = _problem(samples, classes)
    fit(*prepare(*_problem(200, 5)))  # what is loaded at the first call
    data, found = prepare(z, y), []
    times = [seconds(lambda: found.append(fit(*data))) for _ in range(repeats)]
    return {"warm": median(times), "temperature": found[0], "off": abs(found[0] - _best(z, y))}


def _problem(samples: int, classes: int) -> "tuple[Tensor, Tensor]":
    """Logits, and labels that follow them at another temperature."""
    import torch

    rng = torch.Generator().manual_seed(0)
    z = 6 * torch.randn(samples, classes, generator=rng)
    y = torch.multinomial((z / TRUTH).softmax(-1), 1, generator=rng)[:, 0]
    return z, y


def _best(z: "Tensor", y: "Tensor") -> float:
    """Where the derivative of the likelihood is 0, by Brent's method in float64."""
    from scipy.optimize import brentq

    rows = list(zip(z.split(1000), y.split(1000), strict=True))

    def slope(inverse: float) -> float:
        total = 0.0
        for part, labels in rows:
            wide = part.double()
            mean = ((inverse * wide).softmax(-1) * wide).sum(-1)
            total += (mean - wide.gather(1, labels[:, None])[:, 0]).sum().item()
        return total / len(z)

    return 1 / float(brentq(slope, 0.1, 2.0, xtol=1e-12))
