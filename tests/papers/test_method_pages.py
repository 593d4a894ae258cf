"""Tables of the method pages have the numbers of the published results."""

import json
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest

DOCS = Path(__file__).parents[2] / "docs"
STRICT = "letters without O, I, S, Z"


def numbers_of(paper: str, part: str) -> Any:
    return json.loads((DOCS / paper / "results.json").read_text())["parts"][part]["numbers"]


def short(value: float, digits: int = 3) -> str:
    """As tables have it: `.175`, and `1.000`."""
    return f"{value:.{digits}f}".removeprefix("0" if value < 1 else "")


def row(name: str, cells: list[str]) -> str:
    return f"| {name} | {' | '.join(cells)} |"


def table_1() -> list[str]:
    """Mean confidences of the three networks, and their test errors."""
    rows, errors = [], []
    for block, what, data in (
        ("mnist", "here", "FMNIST"),
        ("mnist", "here, the same attack", "Adv. Noise"),
        ("mnist", "here, strong judge", "Adv. Noise, strong judge"),
        ("cifar10", "here (ResNet-20), the same attack", "Adv. Noise"),
        ("cifar10", "here, strong judge", "Adv. Noise, strong judge"),
        ("cifar10", "here", "SVHN"),
        ("svhn", "here (ResNet-20), the same attack", "Adv. Noise"),
        ("svhn", "here, strong judge", "Adv. Noise, strong judge"),
    ):
        found = numbers_of("relu-overconfidence", f"table-1-{block}")["predictors"]
        each = [
            found[one]["rows"][data]["mean_max_confidence"] for one in ("plain", "CEDA", "ACET")
        ]
        rows.append(row(what, [short(one["value"]) for one in each]))
    found = numbers_of("relu-overconfidence", "table-1-mnist")["predictors"]
    for one, said in (("plain", ".51"), ("CEDA", ".74"), ("ACET", ".66")):
        errors.append(f"{said} / {short(100 * found[one]['rows']['MNIST']['error']['value'], 2)} %")
    return [*rows, " | ".join(errors)]


def detectors(*names: str) -> list[str]:
    found = numbers_of("robust-deep-learning", "detectors")["MNIST"]["detectors"]
    sets = (STRICT, "Fashion-MNIST", "gray CIFAR-10", "noise")
    return [
        " | ".join(short(found[name]["rows"][one]["auroc"]["value"]) for one in sets)
        for name in names
    ]


def shift() -> list[str]:
    found = numbers_of("robust-deep-learning", "shift")
    curves = found["curves"]["rotation"]["subjects"]
    rows = []
    for name, subject, metric in (
        ("accuracy, one network", "M = 1", "accuracy"),
        ("ECE, one network", "M = 1", "ece"),
        ("ECE, temperature", "M = 1, temperature", "ece"),
        ("ECE, ten networks", "M = 10", "ece"),
        ("ECE, MC dropout", "MC dropout", "ece"),
        ("covered by adaptive sets", "M = 1: adaptive sets", "covered"),
        ("guard: answered", "guard", "answered"),
        ("guard: errors among answers", "guard", "risk"),
    ):
        curve = curves[subject][metric]
        rows.append(row(name, [f"{100 * curve[strength]:.1f} %" for strength in (0, 2, 3)]))
    above = found["ood"]["Fashion-MNIST"]["accuracy_above_0.9"]
    one, ten = (f"{100 * above[name]:.1f} %" for name in ("M = 1", "M = 10"))
    return [*rows, f"{one} for one network and {ten} for ten"]


def dropout() -> list[str]:
    one = numbers_of("robust-deep-learning", "mc-dropout")["errors"][
        "dropout before the last layer"
    ]
    errors = [fmean(one["usual"]), *(fmean(r[t - 1] for r in one["sampled"]) for t in (1, 10, 50))]
    return [
        f"mean of {len(one['usual'])} trainings",
        f"| {' | '.join(f'{100 * error:.2f}' for error in errors)} |",
    ]


COMBINED = "combined: knn, and mahalanobis of the first layer"


@pytest.mark.parametrize(
    ("page", "rows"),
    [
        ("noise-training", table_1()),
        ("detection", detectors("msp", "odin", "knn", COMBINED)),
        ("detectors", detectors("msp", "knn", COMBINED, "mahalanobis")),
        ("under-shift", shift()),
        ("mc-dropout", dropout()),
    ],
)
def test_the_numbers_are_those_of_the_results(page, rows):
    text = (DOCS / "methods" / f"{page}.md").read_text()
    assert [one for one in rows if one not in text] == []
