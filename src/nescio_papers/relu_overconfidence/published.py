"""Tables 1 and 2 of Hein, Andriushchenko and Bitterwolf (2019), as printed."""

from collections.abc import Mapping
from dataclasses import dataclass

METHODS = ("plain", "CEDA", "ACET")  # the columns of table 1
TRAINING_IMAGES = {"MNIST": 60_000, "SVHN": 73_257, "CIFAR-10": 50_000, "CIFAR-100": 50_000}
NOISE, ADVERSARIAL_NOISE, ADVERSARIAL_SAMPLES = "Noise", "Adv. Noise", "Adv. Samples"
Cell = tuple[float, float | None, float | None]  # MMC, AUROC, FPR at 95 % TPR


@dataclass(frozen=True)
class Table1:
    """One block of table 1: test errors in per cent, and a row for each data set."""

    errors: Mapping[str, float]  # by method
    rows: Mapping[
        str, Mapping[str, Cell]
    ]  # by row, then method; the first row is the in-distribution data


@dataclass(frozen=True)
class Table2:
    """One column of table 2."""

    alpha: float  # the median factor for 99.9 % confidence
    overconfident: float  # per cent above 95 % after the return into the box
    beyond: bool = False  # alpha is a lower bound: "> 10^6"


def _cells(*numbers: float | None) -> dict[str, Cell]:
    """Nine numbers of a row, or three for the in-distribution data."""
    if len(numbers) == len(METHODS):
        return {name: (mmc, None, None) for name, mmc in zip(METHODS, numbers, strict=True)}  # type: ignore[misc]
    threes = zip(numbers[::3], numbers[1::3], numbers[2::3], strict=True)
    return dict(zip(METHODS, threes, strict=True))  # type: ignore[arg-type]


def _block(errors: tuple[float, ...], rows: dict[str, tuple[float | None, ...]]) -> Table1:
    by_method = dict(zip(METHODS, errors, strict=True))
    return Table1(by_method, {name: _cells(*numbers) for name, numbers in rows.items()})


TABLE_1: Mapping[str, Table1] = {
    "MNIST": _block(
        (0.51, 0.74, 0.66),
        {
            "MNIST": (0.991, 0.987, 0.986),
            "FMNIST": (0.654, 0.972, 0.121, 0.373, 0.994, 0.027, 0.239, 0.998, 0.003),
            "EMNIST": (0.821, 0.883, 0.374, 0.787, 0.895, 0.358, 0.752, 0.912, 0.313),
            "grayCIFAR-10": (0.492, 0.996, 0.003, 0.105, 1.000, 0.000, 0.101, 1.000, 0.000),
            NOISE: (0.463, 0.998, 0.000, 0.100, 1.000, 0.000, 0.100, 1.000, 0.000),
            ADVERSARIAL_NOISE: (1.000, 0.031, 1.000, 0.102, 0.998, 0.002, 0.162, 0.992, 0.042),
            ADVERSARIAL_SAMPLES: (0.999, 0.358, 0.992, 0.987, 0.549, 0.953, 0.854, 0.692, 0.782),
        },
    ),
    "SVHN": _block(
        (3.53, 3.50, 3.52),
        {
            "SVHN": (0.980, 0.977, 0.978),
            "CIFAR-10": (0.732, 0.938, 0.348, 0.551, 0.960, 0.209, 0.435, 0.973, 0.140),
            "CIFAR-100": (0.730, 0.935, 0.350, 0.527, 0.959, 0.205, 0.414, 0.971, 0.139),
            "LSUN CR": (0.722, 0.945, 0.324, 0.364, 0.984, 0.084, 0.148, 0.997, 0.012),
            "Imagenet-": (0.725, 0.939, 0.340, 0.574, 0.955, 0.232, 0.368, 0.977, 0.113),
            NOISE: (0.720, 0.943, 0.325, 0.100, 1.000, 0.000, 0.100, 1.000, 0.000),
            ADVERSARIAL_NOISE: (1.000, 0.004, 1.000, 0.946, 0.062, 0.940, 0.101, 1.000, 0.000),
            ADVERSARIAL_SAMPLES: (1.000, 0.004, 1.000, 0.995, 0.009, 0.994, 0.369, 0.778, 0.279),
        },
    ),
    "CIFAR-10": _block(
        (8.87, 8.87, 8.44),
        {
            "CIFAR-10": (0.949, 0.946, 0.948),
            "SVHN": (0.800, 0.850, 0.783, 0.327, 0.978, 0.146, 0.263, 0.981, 0.118),
            "CIFAR-100": (0.764, 0.856, 0.715, 0.761, 0.850, 0.720, 0.764, 0.852, 0.711),
            "LSUN CR": (0.738, 0.872, 0.667, 0.735, 0.864, 0.680, 0.745, 0.858, 0.677),
            "Imagenet-": (0.757, 0.858, 0.698, 0.749, 0.853, 0.704, 0.744, 0.859, 0.678),
            NOISE: (0.825, 0.827, 0.818, 0.100, 1.000, 0.000, 0.100, 1.000, 0.000),
            ADVERSARIAL_NOISE: (1.000, 0.035, 1.000, 0.985, 0.032, 0.983, 0.112, 0.999, 0.008),
            ADVERSARIAL_SAMPLES: (1.000, 0.034, 1.000, 1.000, 0.014, 1.000, 0.633, 0.512, 0.590),
        },
    ),
    "CIFAR-100": _block(
        (31.97, 32.74, 32.24),
        {
            "CIFAR-100": (0.751, 0.734, 0.728),
            "SVHN": (0.570, 0.710, 0.865, 0.290, 0.874, 0.410, 0.234, 0.912, 0.345),
            "CIFAR-10": (0.560, 0.718, 0.856, 0.547, 0.711, 0.855, 0.530, 0.720, 0.860),
            "LSUN CR": (0.592, 0.690, 0.887, 0.581, 0.678, 0.887, 0.554, 0.698, 0.881),
            "Imagenet-": (0.531, 0.744, 0.827, 0.504, 0.749, 0.808, 0.492, 0.752, 0.819),
            NOISE: (0.614, 0.672, 0.928, 0.010, 1.000, 0.000, 0.010, 1.000, 0.000),
            ADVERSARIAL_NOISE: (1.000, 0.000, 1.000, 0.985, 0.015, 0.985, 0.013, 0.998, 0.003),
            ADVERSARIAL_SAMPLES: (0.999, 0.010, 1.000, 0.999, 0.012, 1.000, 0.863, 0.267, 0.975),
        },
    ),
}

TABLE_2: Mapping[str, Mapping[str, Table2]] = {  # CEDA is named in the text but has no column
    "MNIST": {"plain": Table2(1.5, 98.7), "ACET": Table2(1e6, 0.0, beyond=True)},
    "SVHN": {"plain": Table2(28.1, 99.9), "ACET": Table2(49.8, 50.2)},
    "CIFAR-10": {"plain": Table2(8.1, 99.9), "ACET": Table2(45.3, 3.4)},
    "CIFAR-100": {"plain": Table2(9.9, 99.8), "ACET": Table2(9.9, 0.0)},
}
