"""The guard of label maps against simulation: `python -m benchmarks.risk_control`.

Images with dependent pixels are drawn again and again: each has its own share of errors, and its
score ranks them more or less well. Of every draw, n images calibrate a threshold and one is new.
The first table has the mean loss of the new images, which conformal risk control bounds; the second
the share of calibration sets whose expected loss, on 10,000 other images, exceeds the risk, which
`confidence` bounds. It also shows that the share of wrong ones among the answers is not bounded.
"""

import numpy as np
from numpy.typing import NDArray

from nescio.conformal import control_risk

SHAPE, DRAWS, RISKS, SIZES = (6, 8), 2000, (0.05, 0.1), (19, 40, 100)
CONFIDENCE, SETS, MANY = 0.9, 400, 10_000
Floats = NDArray[np.float64]


def images(rng: np.random.Generator, count: int) -> tuple[Floats, NDArray[np.bool_]]:
    """Scores and errors `(count, *SHAPE)`; pixels of an image depend on each other."""
    level = rng.beta(0.6, 3, (count, 1, 1))
    quality = rng.random((count, 1, 1))
    chance = rng.random((count, *SHAPE))
    wrong = chance < level
    score = quality * (level - chance) + rng.normal(0, 0.3, chance.shape) * (1.2 - quality)
    return 1 / (1 + np.exp(-3 * score)), wrong


def loss(score: Floats, wrong: NDArray[np.bool_], threshold: float) -> Floats:
    """The share of each image's pixels that are answered and wrong."""
    found: Floats = ((score < threshold) & wrong).mean((1, 2))
    return found


def main() -> None:
    """Both tables."""
    rng = np.random.default_rng(0)
    print("risk  images   mean loss of new images   standard error   wrong among the answered")
    for risk in RISKS:
        for size in SIZES:
            losses, among = [], []
            for _ in range(DRAWS):
                score, wrong = images(rng, size + 1)
                found = control_risk(score[:-1], wrong[:-1], risk=risk)
                losses.append(float(loss(score[-1:], wrong[-1:], found.threshold)[0]))
                answered = score[-1] < found.threshold
                among.append(float(wrong[-1][answered].mean()) if answered.any() else 0.0)
            error = np.std(losses) / DRAWS**0.5
            print(
                f"{risk:4g}  {size:6} {np.mean(losses):25.4f} {error:16.4f} {np.mean(among):26.4f}"
            )
    others = images(np.random.default_rng(1), MANY)
    print(f"\nrisk  images   sets above the risk (at most {1 - CONFIDENCE:.2g})")
    for risk in RISKS:
        for size in (60, 150):
            above = 0
            for _ in range(SETS):
                found = control_risk(*images(rng, size), risk=risk, confidence=CONFIDENCE)
                above += bool(loss(*others, found.threshold).mean() > risk)
            print(f"{risk:4g}  {size:6} {above / SETS:20.4f}")


if __name__ == "__main__":
    main()
