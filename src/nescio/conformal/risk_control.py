"""Which pixels to answer so that the share of wrong answered pixels of an image is bounded.

An image's loss at a threshold t is the number of its pixels that are answered (score below t) and
wrong, over the number of its labeled pixels. It rises with t and is continuous from the left, from
0 where nothing is answered; images are exchangeable although their pixels are not. So conformal
risk control applies (Angelopoulos et al., 2024): the largest t with

    (n * mean loss of n images + 1) / (n + 1) <= risk

has an expected loss of at most `risk` on a further image. With a confidence, the mean loss of t
must be so small that a test by Hoeffding's and Bentkus' inequalities rejects a larger expectation
(Bates et al., 2021). Both are a limit of the mean loss, and t is the largest threshold within it.

The share of wrong ones *among the answered* pixels is another matter: answering one more pixel
that is right makes it smaller, so it does not rise with t, and neither theorem bounds it.
"""

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from nescio.conformal.score_limits import needed
from nescio.core import Counts, Floats, NescioError, Numbers, numbers
from nescio.metrics.aligned import counted_samples

TOLERANCE = 1e-4  # of a score: rounding moves it by less
HALVINGS = 60  # of the interval that holds the largest mean loss


@dataclass(frozen=True, kw_only=True)
class RiskControl:
    """A threshold of pixels' scores, and what the calibration images say about it.

    threshold: a pixel is answered where its score is below this; infinite: all finite scores are.
    risk: largest share of an image's labeled pixels that may be answered and wrong.
    confidence: probability that the bound holds; None: the bound is about the expectation.
    images: number n of calibration images with labels.
    mean_loss: mean loss of these at the threshold.
    limit: the largest mean loss that the bound allows.
    coverage: mean share of the labeled pixels of an image that are answered.
    error: mean loss where all pixels are answered.
    """

    threshold: float
    risk: float
    confidence: float | None
    images: int
    mean_loss: float
    limit: float
    coverage: float
    error: float


def control_risk(
    score: Numbers,
    wrong: Numbers,
    *,
    risk: float,
    confidence: float | None = None,
    ignore_index: int | None = None,
) -> RiskControl:
    """The largest threshold of scores with a bounded share of wrong answered pixels per image.

    >>> rng = np.random.default_rng(0)
    >>> score = rng.random((50, 8, 8))
    >>> found = control_risk(score, rng.random(score.shape) < 0.3 * score, risk=0.05)
    >>> found.images, 0 < found.threshold < 1, found.mean_loss <= found.limit < 0.05
    (50, True, True)

    score: failure score of each pixel of calibration images that tuned nothing, `(N, *axes)`; a
      larger score is less confident.
    wrong: whether the answer to each pixel is wrong, of the same shape.
    risk: largest expected loss of a further image: its share of labeled pixels that are answered
      and wrong.
    confidence: probability over calibration images that the expected loss is at most `risk`; None:
      the bound is an average over calibration images, too.
    ignore_index: what `wrong` holds where there is no label, as `nescio.metrics.mark_ignored`
      writes it; images without any label are left out. None: all pixels count.
    """
    scores, errors, image, sizes = _labeled(score, wrong, ignore_index)
    limit = largest_mean(len(sizes), risk, confidence)
    weight = 1 / (sizes * len(sizes))  # of a pixel in the mean loss
    order = np.argsort(scores[errors], kind="stable")
    values, own = scores[errors][order], weight[image[errors][order]]
    over = np.flatnonzero(own.cumsum() > limit * (1 - 1e-12))
    found = float(values[over[0]]) if len(over) else math.inf  # of equal ones, the first
    threshold = found - TOLERANCE * abs(found) if math.isfinite(found) else found
    answered = scores < threshold
    return RiskControl(
        threshold=threshold,
        risk=risk,
        confidence=confidence,
        images=len(sizes),
        mean_loss=float(weight[image[answered & errors]].sum()),
        limit=limit,
        coverage=float(weight[image[answered]].sum()),
        error=float(own.sum()),
    )


def _labeled(
    score: Numbers, wrong: Numbers, ignore_index: int | None
) -> tuple[Floats, NDArray[np.bool_], Counts, Floats]:
    """Scores, errors and images `(n,)` of the labeled pixels, and how many each image has."""
    marks = numbers("wrong", wrong, axes=None)
    if marks.ndim < 2:
        raise NescioError(
            f"`wrong` has shape {marks.shape}; expected one entry for each pixel or step of an "
            "image, (N, H, W); for one answer per sample there is nescio.guards.largest_coverage"
        )
    kept, errors = counted_samples(("score", "wrong"), score, marks, ignore_index)
    each = np.repeat(np.arange(len(marks)), marks[0].size).reshape(marks.shape)
    image, _ = counted_samples(("image", "wrong"), each, marks, ignore_index)
    if not ((errors == 0) | (errors == 1)).all():
        raise NescioError("`wrong` must be true or false (1 or 0), or the ignore index")
    if np.isnan(kept).any():
        raise NescioError(f"{int(np.isnan(kept).sum())} scores are NaN; leave those images out")
    _, image, sizes = np.unique(image, return_inverse=True, return_counts=True)
    return kept.astype(np.float64), errors.astype(bool), image, sizes.astype(np.float64)


def fewest_images(risk: float, confidence: float | None = None) -> int:
    """The smallest number of images with which something can be answered at all.

    >>> fewest_images(0.05), fewest_images(0.05, 0.95)
    (19, 59)

    risk: largest expected loss of a further image.
    confidence: probability that the bound holds; None: the bound is about the expectation.
    """
    _check(risk, confidence)
    if confidence is None:
        return needed(risk)
    return math.ceil(math.log(1 - confidence) / math.log(1 - risk))


def largest_mean(images: int, risk: float, confidence: float | None = None) -> float:
    """The largest mean loss of n images that shows the risk; too few images are refused."""
    least = fewest_images(risk, confidence)
    if images < least:
        sure = "" if confidence is None else f" with a confidence of {confidence:g}"
        raise NescioError(
            f"{images} labeled images are too few for risk={risk:g}{sure}: it takes {least} even "
            "if no answer is wrong; give more calibration images, or a larger risk"
        )
    if confidence is None:
        exact = Fraction(str(float(risk))) * (images + 1) - 1
        return max(0.0, float(exact / images))
    low, high = 0.0, risk
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        below = p_value(middle, images, risk) <= 1 - confidence
        low, high = (middle, high) if below else (low, middle)
    return low


def p_value(mean: float, images: int, risk: float) -> float:
    """Of an expected loss above `risk`, by the mean of n losses from 0 to 1; rises with the mean.

    The smaller of Hoeffding's exp(-n KL(mean || risk)) and Bentkus' e P(Bin(n, risk) <= n mean).
    """
    from scipy.special import rel_entr
    from scipy.stats import binom

    mean = min(mean, risk)
    divergence = float(rel_entr(mean, risk) + rel_entr(1 - mean, 1 - risk))
    tail = float(binom.cdf(math.ceil(images * mean), images, risk))
    return min(1.0, math.exp(-images * divergence), math.e * tail)


def _check(risk: float, confidence: float | None) -> None:
    for name, value in {"risk": risk, "confidence": confidence}.items():
        if value is not None and (isinstance(value, bool) or not 0 < value < 1):
            raise NescioError(f"{name} must lie between 0 and 1, got {value!r}")
