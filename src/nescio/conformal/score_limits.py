"""Exact finite-sample limits of calibration scores, one for every cell, ties randomized on request.

With n calibration scores a new score is accepted up to the ceil((n + 1)(1 - a))-th smallest of
them: the same as a conformal p-value above a. With randomization it is accepted when its smoothed
p-value, (#{above it} + U (#{equal to it} + 1)) / (n + 1), exceeds a, which has probability 1 - a
exactly (Vovk, Gammerman and Shafer, 2005, section 2.2). Only a few scores decide that, and they are
stored.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from nescio.core import (
    Array,
    DamagedError,
    FewSamplesWarning,
    NescioError,
    Numbers,
    Registry,
    Saved,
    as_tensor,
    derive,
    digest,
    hash_inputs,
    numbers,
    readers,
    save_tensors,
    warn,
)

TOLERANCE = 1e-4  # of a score, or of 1 where it is smaller: rounding moves it by less
LARGE = 1e300  # stands for what is infinite
CALIBRATION, CALLS = 101, 102  # streams of a seed: a new sample shares no draw with an old one
MIXING = ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB))

Floats = NDArray[np.float64]
State = Mapping[str, Tensor]  # what was fitted, by name
ASSUMES = (
    "This holds if the calibration samples and the new sample are exchangeable, for example drawn "
    "independently from one distribution, and nothing (network, temperature, options) was fitted "
    "or chosen on the calibration samples. It is an average over calibration draws and samples, "
    "not a guarantee for one sample, and it says nothing under shift."
)


def allowed(samples: int, miscoverage: float) -> int:
    """How many of the largest of n scores lie at or above the limit; 0: there is no limit.

    The share is read as the decimal that was written, so that 0.29 of 100 is 29.
    """
    return int(_exact(miscoverage) * (samples + 1))


def needed(miscoverage: float) -> int:
    """The smallest number of calibration samples that gives a finite limit at a `miscoverage`."""
    return math.ceil(1 / _exact(miscoverage)) - 1


def coverage_law(samples: int, miscoverage: float) -> tuple[int, int]:
    """(a, b): given the calibration samples, coverage follows Beta(a, b) if scores do not tie.

    samples: number of calibration samples.
    miscoverage: share of new samples that may be missed.
    """
    over = allowed(samples, miscoverage)
    return samples + 1 - over, over


def rounding(scores: Tensor) -> Tensor:
    """How far rounding may move scores: a network's last bits depend on the size of the batch."""
    return TOLERANCE * scores.abs().clamp(1.0, LARGE)


def check_miscoverage(miscoverage: float) -> float:
    """The share that may be missed, between 0 and 1."""
    if isinstance(miscoverage, bool) or not 0 < miscoverage < 1:
        raise NescioError(
            f"miscoverage must lie between 0 and 1, got {miscoverage!r}; 0.1 guarantees 90 %"
        )
    return float(miscoverage)


def fit_limits(scores: Floats, cells: NDArray[np.int64], count: int, miscoverage: float) -> State:
    """The limits of `count` cells, from scores (n,) and the cell of each."""
    if count == 1:
        scores = np.sort(scores)
    else:
        order = np.lexsort((scores, cells))
        scores, cells = scores[order], cells[order]
    sizes = np.bincount(cells, minlength=count)
    ends = np.cumsum(sizes)
    over = np.array([allowed(size, miscoverage) for size in sizes.tolist()])
    share = [float(_exact(miscoverage) * (size + 1)) for size in sizes.tolist()]  # of n + 1
    open_ended = over == 0
    at = np.where(open_ended, 0, ends - over)
    below = np.where(open_ended | (over == sizes), 0, ends - over - 1)
    high = np.where(open_ended, np.inf, scores[at])
    low = np.where(open_ended, np.inf, np.where(over == sizes, -np.inf, scores[below]))

    def step(limit: Floats) -> Floats:
        which = scores > limit[cells], scores == limit[cells]
        above, equal = (np.bincount(cells, weights=one, minlength=count) for one in which)
        result: Floats = (share - above) / (equal + 1)
        return result

    steps = np.stack([step(low), share - over, step(high)])
    steps[:, open_ended] = 0.0
    arrays = {"low": low, "high": high, "steps": steps, "sizes": sizes}
    return {name: torch.from_numpy(array) for name, array in arrays.items()}


def calibration_cells(groups: Any, samples: int) -> tuple[Tensor, Tensor]:
    """The cell of each calibration sample, and the groups that the cells stand for; None: one."""
    if groups is None:
        return torch.zeros(samples, dtype=torch.int64), torch.zeros(1, dtype=torch.int64)
    known, cells = check_groups(groups, samples).cpu().unique(return_inverse=True)
    return cells, known


def calibrated(scores: Tensor, cells: Tensor, known: Tensor, options: Mapping[str, Any]) -> State:
    """The limits of all cells; refused where all are infinite, with a warning where some are."""
    count, share, by = len(known) * options.get("targets", 1), options["miscoverage"], options["by"]
    state = dict(fit_limits(scores.numpy(), cells.numpy(), count, share))
    if by == "group":
        state["groups"] = known
    if state["high"].isinf().all() and (state["steps"] == 0).all():
        raise NescioError(
            f"{int(state['sizes'].max())} calibration samples{f' in any {by}' if by else ''} are "
            f"too few for a miscoverage of {share:g}: only the set of everything could guarantee "
            f"it. Give at least {needed(share)} samples{f' for each {by}' if by else ''}, or raise "
            "miscoverage"
        )
    if message := unlimited(state, options):
        warn(message, FewSamplesWarning, stacklevel=5)
    return state


def limits(state: State, cells: Tensor, u: Tensor | None) -> tuple[Tensor, Tensor]:
    """The largest score that is accepted in each of `cells`, and whether that score itself is.

    u: uniform numbers of the shape of `cells`, or None: no randomization.
    """
    high = state["high"].to(cells.device)[cells]
    if u is None:
        return high, torch.ones_like(high, dtype=torch.bool)
    low = state["low"].to(cells.device)[cells]
    first, second, third = state["steps"].to(cells.device)[:, cells]
    closed = ((u > first) & (u <= second)) | (u > torch.maximum(second, third))
    return torch.where((u <= first) | (u <= second), low, high), closed


def keys(inputs: Array, samples: int) -> Tensor:
    """A number for each sample by its row of the inputs, whatever the batch; `(N,)` int64."""
    rows = as_tensor(inputs, "inputs")
    if not rows.ndim or len(rows) != samples:
        raise NescioError(f"inputs have shape {tuple(rows.shape)}, expected {samples} rows")
    return hash_inputs(rows.reshape(samples, -1))


def seed_of(seed: int, *calibration: Tensor) -> int:
    """The seed of the draws of new samples, which depends on the calibration data, too.

    Equal inputs draw alike. By the seed alone they would draw one number for every calibration set,
    which may miss in most of them; so what they draw is uniform over calibration sets.
    """
    return derive(seed, "calibration", digest(*calibration))


def uniforms(seed: int, stream: int, numbered: Tensor) -> Tensor:
    """Uniform numbers in (0, 1], each a function of its own key alone: int64 `(N,)`."""
    bits = numbered.cpu().numpy().view(np.uint64) ^ np.uint64(derive(seed, "conformal", stream))
    for shift, factor in MIXING:  # the end of SplitMix64 (Steele, Lea and Flood, 2014)
        bits = (bits ^ (bits >> np.uint64(shift))) * np.uint64(factor)
    bits ^= bits >> np.uint64(31)
    return torch.from_numpy(1.0 - (bits >> np.uint64(11)) * 2.0**-53)


def cell_numbers(groups: Tensor, known: Tensor) -> Tensor:
    """The index of each group in the sorted `known` ones; an unseen group is refused."""
    known = known.to(groups.device)
    index = torch.searchsorted(known, groups).clamp(max=len(known) - 1)
    unseen = groups[known[index] != groups].unique()
    if len(unseen):
        raise NescioError(
            f"groups {_some(unseen.tolist())} were not among the calibration samples, so nothing "
            f"is known about them; known groups: {_some(known.tolist())}"
        )
    return index


def check_groups(groups: Any, samples: int) -> Tensor:
    """Group numbers as int64, `(N,)`; anything else is refused.

    groups: a whole number per sample, `(N,)`.
    samples: number N of samples.
    """
    try:
        result = as_tensor(groups, "groups")
    except NescioError as error:
        raise NescioError(
            "groups must be whole numbers, one per sample; number words once, as in {'north': 0, "
            "'south': 1}, and use the same numbers for new inputs"
        ) from error
    if result.is_floating_point() or result.is_complex() or tuple(result.shape) != (samples,):
        raise NescioError(
            f"groups must be whole numbers of shape ({samples},), one per sample, got "
            f"{result.dtype} of shape {tuple(result.shape)}"
        )
    return result.long()


def _some(values: list[Any]) -> str:
    return ", ".join(map(str, values[:10])) + (", ..." if len(values) > 10 else "")


def _exact(miscoverage: float) -> Fraction:
    return Fraction(repr(float(miscoverage)))


@dataclass(frozen=True, eq=False)
class Fitted(ABC):
    """A calibrated value that can be saved.

    name: name of the function that calibrated it.
    options: its options, as JSON values.
    state: limits of each cell, in float64, by name.
    """

    name: str
    options: Mapping[str, Any]
    state: State = field(repr=False)

    kind: ClassVar[str]
    known: ClassVar[Registry]  # names

    def __init_subclass__(cls) -> None:
        def read(saved: Saved) -> Fitted:
            return cls.from_manifest(saved.manifest, saved.tensors)

        readers.named(cls.kind)(read)

    @property
    @abstractmethod
    def guarantee(self) -> str:
        """The guarantee in words, with its assumption."""

    def __str__(self) -> str:
        head = f"{type(self).__name__}({self.name}, miscoverage={self.options['miscoverage']:g})"
        return f"{head}\n- {self.guarantee}"

    def group_cells(self, groups: Any, what: str, samples: int, device: torch.device) -> Tensor:
        """The index `(N, 1)` of each sample's group; 0 where none were calibrated.

        groups: group number of each sample, `(N,)`, or None.
        what: word for what was calibrated, for messages.
        samples: number of samples.
        device: device of the result.
        """
        by = self.options["by"]
        if (groups is not None) != (by == "group"):
            wanted = "need groups=, one number per sample" if by == "group" else "take no groups="
            raise NescioError(f"{what} calibrated by {by or 'all samples together'} {wanted}")
        if by != "group":
            return torch.zeros(samples, 1, dtype=torch.int64, device=device)
        numbers = check_groups(groups, samples).to(device)
        return cell_numbers(numbers, self.state["groups"])[:, None]

    def manifest(self) -> dict[str, Any]:
        """All but the tensors, as JSON."""
        about = {"kind": self.kind, "name": self.name, "options": dict(self.options)}
        return {**about, "guarantee": self.guarantee}

    @classmethod
    def from_manifest(cls, manifest: Mapping[str, Any], state: State) -> Self:
        """The value again from `manifest()` and `state`."""
        if manifest.get("kind") != cls.kind:
            raise NescioError(f"expected the manifest of {cls.kind}, got {manifest.get('kind')!r}")
        parts, tensors = {"name", "options"}, {"low", "high", "steps", "sizes"}
        missing = parts - set(manifest) or tensors - set(state)
        if missing or not isinstance(manifest["options"], Mapping):
            lost = ", ".join(sorted(missing)) or "options"
            raise DamagedError(f"damaged {cls.kind}: {lost} missing")
        cls.known[manifest["name"]]
        return cls(manifest["name"], dict(manifest["options"]), dict(state))

    def save(self, path: str | Path) -> Path:
        """Write one safetensors file at `path`, with a manifest inside, and return the path."""
        save_tensors(Path(path), self.state, self.manifest())
        return Path(path)


def in_words(what: str, where: str, fitted: Fitted, *, exact: bool) -> str:
    """The guarantee as sentences: of a `label` in its `set`, or a `target` in its `interval`."""
    options, share = fitted.options, 100 * (1 - fitted.options["miscoverage"])
    bound = "exactly" if exact else "at least"
    each = {"class": ", for each class by itself", "group": ", for each group by itself"}
    first = (
        f"The {where} of a new sample holds its true {what} with probability {bound} {share:.10g} %"
        f"{each.get(options['by'], '')} (calibrated on {options['samples']} samples)."
    )
    return " ".join(filter(None, [first, unlimited(fitted.state, options), ASSUMES]))


def unlimited(state: Mapping[str, Tensor], options: Mapping[str, Any]) -> str:
    """Which classes or groups had too few samples for a limit; nothing where all had enough."""
    least, by = needed(options["miscoverage"]), options["by"]
    sizes = state["sizes"][:: options.get("targets", 1)]  # the same for all targets
    few = (sizes < least).nonzero()[:, 0]
    if not len(few) or by is None:
        return ""
    names = state.get("groups", torch.arange(len(sizes)))
    listed = _some([f"{int(names[index])} ({int(sizes[index])})" for index in few])
    plural, then = {
        "class": ("classes", "these classes are in every set"),
        "group": ("groups", "they get everything"),
    }[by]
    return (
        f"{len(few)} of {len(sizes)} {plural} have fewer than the {least} calibration "
        f"samples needed, so {then}: {listed}."
    )


def p_values(
    calibration_scores: Numbers,
    scores: Numbers,
    *,
    randomize: bool = False,
    seed: int = 0,
    inputs: Array | None = None,
) -> Tensor:
    """(1 + #{calibration >= score}) / (n + 1) of each score, `(N,)`: small is further out.

    A new score that is exchangeable with the n calibration scores has p <= a with probability at
    most a. With `randomize` the probability is a exactly.

    >>> p_values([1.0, 2.0, 3.0], [0.5, 3.0, 9.0]).tolist()
    [1.0, 0.5, 0.25]

    calibration_scores: scores of calibration samples, `(n,)`; a larger score is further out.
    scores: scores of new samples, `(N,)`.
    randomize: whether to break ties at random.
    seed: seed of the random draws; read with `randomize` only.
    inputs: inputs of the network, `(N, ...)`, or sample numbers, needed with `randomize`: each
      sample draws its number by its row, alone or in any batch.
    """
    given = _checked("calibration_scores", calibration_scores)
    known = np.sort(given)
    new = _checked("scores", scores, empty=True)
    at_least = len(known) - np.searchsorted(known, new, side="left")
    if not randomize:
        result: NDArray[np.float64] = (1.0 + at_least) / (len(known) + 1)
    else:
        above = len(known) - np.searchsorted(known, new, side="right")
        if inputs is None:
            raise NescioError(
                "randomized p-values need inputs=, one row per score, by which each sample draws "
                "its number: those of the network, or sample numbers"
            )
        drawing = seed_of(seed, torch.from_numpy(given))
        u = uniforms(drawing, CALLS, keys(inputs, len(new))).numpy()
        result = (above + u * (1 + at_least - above)) / (len(known) + 1)
    device = scores.device if isinstance(scores, Tensor) else "cpu"
    return torch.from_numpy(result).to(device)


def _checked(name: str, values: Numbers, *, empty: bool = False) -> NDArray[np.float64]:
    if empty and isinstance(values, (Tensor, np.ndarray)) and tuple(values.shape) == (0,):
        return np.zeros(0)
    result = numbers(name, values, axes=1).astype(np.float64)
    if lost := int(np.isnan(result).sum()):
        raise NescioError(f"{lost} of {len(result)} {name} are NaN; check the network and inputs")
    return result
