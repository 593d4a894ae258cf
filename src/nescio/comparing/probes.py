"""Out-data of a comparison: inputs, an out-distribution, or what an attack makes of either."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, TypeAlias

import torch
from torch import Tensor

from nescio.attacks.adversarial_noise import adversarial_noise
from nescio.attacks.adversarial_samples import adversarial_samples
from nescio.attacks.ascent import Ascent
from nescio.attacks.attack import Attacked
from nescio.attacks.pgd import pgd
from nescio.checks import as_batch, as_inputs
from nescio.data.outside import Outside
from nescio.data.outside.source import digest
from nescio.errors import NescioError

Detector: TypeAlias = Callable[[Tensor], Any]  # inputs -> (N,) scores, larger = further out
CASES = 2048  # inputs at a time
ADVICE = 'give the attack the range of valid inputs: options={"low": ..., "high": ...}'


@dataclass(frozen=True, eq=False)
class AdversarialNoise:
    """The surest inputs near `count` of an out-distribution (Hein et al., 2019, section 5).

    For each predictor anew: projected gradient ascent on the log-odds of the most probable class;
    for a detector, descent on its score. The defaults are the paper's test attack.
    """

    outside: Outside
    count: int = 1000
    radius: float | None = 0.3
    steps: int = 200
    step: float | None = 0.0075
    restarts: int = 1
    seed: int = 0
    options: Mapping[str, Any] = field(default_factory=dict)  # others of `attacks.pgd`

    def __post_init__(self) -> None:
        if not isinstance(self.outside, Outside):
            kind = type(self.outside).__name__
            raise NescioError(
                f"AdversarialNoise takes an out-distribution from nescio.data.outside, got a {kind}"
            )
        _check_count(self.count)

    @property
    def description(self) -> str:
        """What tells two such sets apart."""
        near = f"{self.count} of {self.outside.description}"
        return f"adversarial noise ({_options(self)}) near {near}"

    def near(self, predictor: object) -> Attacked:
        """The inputs for a predictor."""
        return adversarial_noise(predictor, self._start(), **_pgd(self))

    def near_detector(self, detector: Detector) -> Attacked:
        """The inputs for a detector: its score is brought down."""
        options = _pgd(self)
        if self.radius is None:
            options["step"] = None
        return pgd(lambda x: -detector(x), self._start(), **options)

    def _start(self) -> Tensor:
        x = self.outside.take(self.count)
        _check_box(self, x, f"inputs of {self.outside.name!r}")
        return x


@dataclass(frozen=True, eq=False)
class AdversarialSamples:
    """Inputs near the in-data that a predictor gets wrong, by ascent on the odds against the label.

    The defaults are the paper's for MNIST; elsewhere it takes radius 0.1 and step 0.0025.
    `count` inputs are taken at even distances over the in-data; None takes all.

    A comparison has two rows of it: all, and "..., misclassified", which is the paper's row.
    There, those still classified correctly are dropped: those whose most probable class is the
    label, with a probability of at least 1.01 / C. The rest of a uniform answer is by chance.
    """

    count: int | None = None
    radius: float | None = 0.3
    steps: int = 80
    step: float | None = 0.0075
    restarts: int = 1
    seed: int = 0
    options: Mapping[str, Any] = field(default_factory=dict)  # others of `attacks.pgd`

    def __post_init__(self) -> None:
        if self.count is not None:
            _check_count(self.count)

    @property
    def description(self) -> str:
        """What tells two such sets apart."""
        near = "all" if self.count is None else self.count
        return f"adversarial samples ({_options(self)}) near {near} of the in-data"

    def chosen(self, cases: int) -> Tensor:
        """Places of the inputs in the in-data."""
        count = cases if self.count is None else self.count
        if count > cases:
            raise NescioError(f"{count} adversarial samples of {cases} inputs; lower `count`")
        return torch.arange(count) * cases // count

    def check(self, x: Tensor) -> None:
        """Refuse in-data that cannot be attacked, before anything is measured."""
        _check_box(self, x[self.chosen(len(x)).to(x.device)], "in-data")

    def near(self, predictor: object, x: Tensor, y: Tensor) -> Attacked:
        """The inputs for a predictor, near `x` with labels `y`."""
        return adversarial_samples(predictor, as_batch(x), y, **_pgd(self))


@dataclass(frozen=True)
class Absent:
    """A row that cannot be measured, and why: it keeps its place beside published numbers."""

    why: str


Probe: TypeAlias = Tensor | tuple[Outside, int] | AdversarialNoise | AdversarialSamples | Absent


def as_probe(name: str, given: object, shape: tuple[int, ...]) -> Probe:
    """What a user gave as out-data, checked against the shape of one input of the in-data."""
    if isinstance(given, (Absent, AdversarialSamples)):
        return given
    if isinstance(given, AdversarialNoise):
        _check_outside(name, given.outside, given.count, shape)
        return given
    if isinstance(given, Outside):
        if given.size is None:
            raise NescioError(
                f"out-data {name!r} are endless; say how many inputs to take: (outside, 10000)"
            )
        return as_probe(name, (given, given.size), shape)
    if isinstance(given, tuple) and len(given) == 2 and isinstance(given[0], Outside):
        _check_count(given[1])
        _check_outside(name, *given, shape)
        return given
    if isinstance(given, tuple):
        raise NescioError(
            f"out-data {name!r} must be inputs without labels, or an out-distribution with a "
            "count: (outside, 10000); got another tuple"
        )
    inputs = as_inputs(given, f"out-data {name!r}", keep_bytes=True)
    _check_shape(name, tuple(inputs.shape[1:]), shape)
    return inputs


def describe(probe: Probe) -> str:
    """Where the inputs come from; equal words, equal inputs."""
    if isinstance(probe, Tensor):
        kind = str(probe.dtype).removeprefix("torch.")
        return f"{len(probe)} given inputs, {kind} {digest(probe.cpu().numpy())}"
    if isinstance(probe, tuple):
        return f"{probe[1]} of {probe[0].description}"
    return probe.why if isinstance(probe, Absent) else probe.description


def pieces(inputs: Tensor | tuple[Outside, int]) -> Iterator[Tensor]:
    """Inputs as floats, some at a time."""
    if isinstance(inputs, Tensor):
        yield from (as_batch(piece) for piece in inputs.split(CASES))
        return
    outside, count = inputs
    for start in range(0, count, CASES):
        yield outside.take(min(CASES, count - start), start=start)


def _pgd(attack: AdversarialNoise | AdversarialSamples) -> dict[str, Any]:
    names = ("radius", "steps", "step", "restarts", "seed")
    return {**{name: getattr(attack, name) for name in names}, **attack.options}


def _check_box(attack: AdversarialNoise | AdversarialSamples, x: Tensor, what: str) -> None:
    known = {part.name for part in fields(Ascent)}
    ascent = Ascent(**{name: value for name, value in _pgd(attack).items() if name in known})
    ascent.check(x, what=what, advice=ADVICE)


def _options(attack: AdversarialNoise | AdversarialSamples) -> str:
    return ", ".join(f"{name}={value}" for name, value in _pgd(attack).items())


def _check_outside(name: str, outside: Outside, count: int, shape: tuple[int, ...]) -> None:
    if outside.size is not None and count > outside.size:
        raise NescioError(
            f"out-data {name!r} hold {outside.size} inputs, {count} were asked for; lower the count"
        )
    _check_shape(name, tuple(outside.shape), shape)


def _check_shape(name: str, found: tuple[int, ...], shape: tuple[int, ...]) -> None:
    if found != shape:
        raise NescioError(
            f"out-data {name!r} have shape {found} a case, the in-data {shape}; crop, pad or "
            "convert them first"
        )


def _check_count(count: object) -> None:
    if isinstance(count, bool) or not isinstance(count, int) or count < 1:
        raise NescioError(f"the number of inputs must be a whole number from 1 up, got {count!r}")
