"""OOD data of a comparison: inputs, an OOD source, or what an attack makes of either."""

from collections.abc import Callable, Hashable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, TypeAlias

import torch
from torch import Tensor

from nescio.attacks import (
    Ascent,
    Attacked,
    adversarial_noise,
    adversarial_samples,
    crossing_step,
    pgd,
)
from nescio.core import Bundle, Inputs, NescioError, as_batch, as_inputs, is_whole, only_tensor
from nescio.data import Columns, OODSource, door
from nescio.data.ood.source import digest

Detector: TypeAlias = Callable[[Tensor], Any]  # inputs -> (N,) scores, larger = further out
SAMPLES = 2048  # inputs at a time
ADVICE = 'give the attack the range of valid inputs: options={"low": ..., "high": ...}'


@dataclass(frozen=True, eq=False)
class AdversarialNoise:
    """The most confident inputs near those of an OOD source (Hein et al., 2019, section 5).

    For each predictor: projected gradient ascent on the log-odds of the most probable class; for a
    detector, descent on its score. The defaults are the paper's test attack.

    ood: the OOD source.
    count: number of inputs.
    radius: how far an input may move, in the largest change of a feature; None: in the whole box.
    steps: number of gradient steps.
    step: length of a step, 2 * radius / steps at least; None: 2.5 * radius / steps.
    restarts: number of starts, of which the best counts.
    seed: seed of the random draws.
    options: other options of `nescio.attacks.pgd`.
    """

    ood: OODSource
    count: int = 1000
    radius: float | None = 0.3
    steps: int = 200
    step: float | None = 0.0075
    restarts: int = 1
    seed: int = 0
    options: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not isinstance(self.ood, OODSource):
            kind = type(self.ood).__name__
            raise NescioError(
                f"AdversarialNoise takes an OOD source from nescio.data.ood, got a {kind}"
            )
        _check_count(self.count)

    @property
    def length(self) -> float | None:
        """The length of a step, such that `steps` of them cross the ball."""
        return crossing_step(self.radius, self.steps, self.step)

    @property
    def description(self) -> str:
        """The set in words, with all its options."""
        near = f"{self.count} of {self.ood.description}"
        return f"adversarial noise ({_options(self)}) near {near}"

    def near(self, predictor: object) -> Attacked:
        """The most confident inputs for a `predictor`."""
        return adversarial_noise(predictor, self._start(), **_pgd(self))

    def near_detector(self, detector: Detector) -> Attacked:
        """The inputs of the lowest score for a `detector`."""
        options = _pgd(self)
        if self.radius is None:
            options["step"] = None
        return pgd(lambda x: -detector(x), self._start(), **options)

    def _start(self) -> Tensor:
        x = self.ood.take(self.count)
        _check_box(self, x, f"inputs of {self.ood.name!r}")
        return x


@dataclass(frozen=True, eq=False)
class AdversarialSamples:
    """Inputs near the data that a predictor gets wrong, by ascent on the odds against the label.

    The defaults are the paper's for MNIST; elsewhere it takes radius 0.1 and step 0.0025.

    A comparison has two rows of it: all, and "..., misclassified", which is the paper's row. There,
    those still classified correctly are dropped: those whose most probable class is the label, with
    a probability of at least 1.01 / C. The rest of a uniform answer is by chance.

    count: number of inputs, taken at even distances over the in-distribution data; None: all.
    radius: how far an input may move, in the largest change of a feature; None: in the whole box.
    steps: number of gradient steps.
    step: length of a step, 2 * radius / steps at least; None: 2.5 * radius / steps.
    restarts: number of starts, of which the best counts.
    seed: seed of the random draws.
    options: other options of `nescio.attacks.pgd`.
    """

    count: int | None = None
    radius: float | None = 0.3
    steps: int = 80
    step: float | None = 0.0075
    restarts: int = 1
    seed: int = 0
    options: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.count is not None:
            _check_count(self.count)

    @property
    def length(self) -> float | None:
        """The length of a step, such that `steps` of them cross the ball."""
        return crossing_step(self.radius, self.steps, self.step)

    @property
    def description(self) -> str:
        """The set in words, with all its options."""
        near = "all" if self.count is None else self.count
        return f"adversarial samples ({_options(self)}) near {near} of the in-distribution data"

    def chosen(self, samples: int) -> Tensor:
        """Indices of the inputs in the in-distribution data.

        samples: number of in-distribution samples.
        """
        count = samples if self.count is None else self.count
        if count > samples:
            raise NescioError(f"{count} adversarial samples of {samples} inputs; lower `count`")
        return torch.arange(count) * samples // count

    def check(self, x: Tensor) -> None:
        """Refuse in-distribution data `x` that cannot be attacked, before anything is measured."""
        _check_box(self, x[self.chosen(len(x)).to(x.device)], "in-distribution data")

    def near(self, predictor: object, x: Tensor, y: Tensor) -> Attacked:
        """The inputs for a `predictor`, near `x` with labels `y`."""
        return adversarial_samples(predictor, as_batch(x), y, **_pgd(self))


@dataclass(frozen=True)
class Absent:
    """A row that cannot be measured, and why: it keeps its place beside published numbers.

    why: the reason, in words.
    """

    why: str


Probe: TypeAlias = Tensor | tuple[OODSource, int] | AdversarialNoise | AdversarialSamples | Absent


def as_probe(
    name: str, given: object, shape: tuple[int, ...], columns: Columns | None = None
) -> Probe:
    """What a user gave as OOD data, checked against the shape of one in-distribution input.

    columns: how the networks encode tables. Labels are left out.
    """
    if isinstance(given, (Absent, AdversarialSamples)):
        return given
    if isinstance(given, AdversarialNoise):
        _check_ood(name, given.ood, given.count, shape)
        return given
    if isinstance(given, OODSource):
        if given.size is None:
            raise NescioError(
                f"OOD data {name!r} are endless; say how many inputs to take: (source, 10000)"
            )
        return as_probe(name, (given, given.size), shape)
    if isinstance(given, tuple) and len(given) == 2 and isinstance(given[0], OODSource):
        _check_count(given[1])
        _check_ood(name, *given, shape)
        return given
    try:
        read, _ = door.read(given, labels=False, columns=columns)
        inputs = as_inputs(only_tensor(read, "this task"), keep_bytes=True)
    except NescioError as error:
        raise NescioError(f"OOD data {name!r}: {error}") from error
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


def check_distinct(contents: Mapping[str, Hashable]) -> None:
    """Refuse OOD data that are there under two names: a mean would count them twice."""
    first: dict[Hashable, str] = {}
    for name, content in contents.items():
        if first.setdefault(content, name) != name:
            raise NescioError(
                f"OOD data {first[content]!r} and {name!r} are the same inputs, which would count "
                "twice; give them under one name"
            )


def content_of(hashes: Tensor) -> Hashable:
    """Equal for equal inputs in any order; of the hashes of N inputs."""
    return tuple(hashes.sort().values.tolist())


def pieces(inputs: Inputs | tuple[OODSource, int]) -> Iterator[Any]:
    """Inputs as a predictor reads them, some at a time."""
    if isinstance(inputs, Bundle):
        yield from inputs.split(SAMPLES)
        return
    if isinstance(inputs, Tensor):
        yield from (as_batch(piece) for piece in inputs.split(SAMPLES))
        return
    ood, count = inputs
    for start in range(0, count, SAMPLES):
        yield ood.take(min(SAMPLES, count - start), start=start)


def _pgd(attack: AdversarialNoise | AdversarialSamples) -> dict[str, Any]:
    own = {"radius": attack.radius, "steps": attack.steps, "step": attack.length}
    return {**own, "restarts": attack.restarts, "seed": attack.seed, **attack.options}


def _check_box(attack: AdversarialNoise | AdversarialSamples, x: Tensor, what: str) -> None:
    known = {part.name for part in fields(Ascent)}
    ascent = Ascent(**{name: value for name, value in _pgd(attack).items() if name in known})
    ascent.check(x, what=what, advice=ADVICE)


def _options(attack: AdversarialNoise | AdversarialSamples) -> str:
    return ", ".join(f"{name}={value}" for name, value in _pgd(attack).items())


def _check_ood(name: str, ood: OODSource, count: int, shape: tuple[int, ...]) -> None:
    if ood.size is not None and count > ood.size:
        raise NescioError(
            f"OOD data {name!r} hold {ood.size} inputs, {count} were asked for; lower the count"
        )
    _check_shape(name, tuple(ood.shape), shape)


def _check_shape(name: str, found: tuple[int, ...], shape: tuple[int, ...]) -> None:
    if found != shape:
        raise NescioError(
            f"OOD data {name!r} have shape {found} per sample, the in-distribution data {shape}; "
            "crop, pad or convert them first"
        )


def _check_count(count: object) -> None:
    if not is_whole(count, 1):
        raise NescioError(f"the number of inputs must be a whole number from 1 up, got {count!r}")
