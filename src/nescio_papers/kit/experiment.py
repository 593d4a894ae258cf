"""What an experiment is: named parts, each from settings to findings; running them is shared.

A new paper is a new file beside this one, not new machinery.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nescio.core import Engine, LocalEngine
from nescio_papers.kit.claims import Claim

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What the caller may choose; two runs with the same settings give the same numbers.

    quick: whether to run a small version that takes minutes.
    seed: seed of the random draws.
    bits: whether entropies are in bits instead of nats.
    folder: folder of the run: a long part keeps unfinished work in folder / its name.
    engine: where independent work runs; None: in processes of this machine, or in this one.
    """

    quick: bool = False
    seed: int = 0
    bits: bool = False
    folder: Path | None = None
    engine: Engine | None = None

    def engine_of(self, workers: int) -> Engine:
        """Where independent work runs; without an engine, in `workers` processes."""
        return self.engine or LocalEngine(workers)

    @property
    def base(self) -> float:
        """The base of the logarithm for entropies."""
        return 2.0 if self.bits else 2.718281828459045

    @property
    def unit(self) -> str:
        """The name of the unit of entropies."""
        return "bits" if self.bits else "nats"


@dataclass(frozen=True)
class Comparison:
    """A published number beside ours.

    what: what the number is, in words.
    published: the published number; None: there is none.
    ours: our number.
    note: a remark.
    """

    what: str
    published: float | None
    ours: float
    note: str = field(default="", kw_only=True)


@dataclass(frozen=True, kw_only=True)
class Findings:
    """What a part found: numbers, figures by file name, comparisons, claims, and some words.

    numbers: numbers by name, in JSON.
    figures: figures by file name.
    captions: captions by the name of the figure.
    comparisons: published numbers beside ours.
    claims: sentences of the source, and whether they hold.
    text: words in Markdown.
    skipped: what could not be run, by name, with why and what to do about it.
    empty: whether nothing could be run.
    """

    numbers: Mapping[str, Any] = field(default_factory=dict)
    figures: Mapping[str, "Figure"] = field(default_factory=dict)
    captions: Mapping[str, str] = field(default_factory=dict)
    comparisons: Sequence[Comparison] = ()
    claims: Sequence[Claim] = ()
    text: str = ""
    skipped: Mapping[str, str] = field(default_factory=dict)
    empty: bool = False


def joined(parts: Mapping[str, Findings], introduction: str = "") -> Findings:
    """Several findings as one: numbers by name, everything else one after the other."""
    every = list(parts.values())
    return Findings(
        numbers={name: part.numbers for name, part in parts.items()},
        figures={name: figure for part in every for name, figure in part.figures.items()},
        captions={name: text for part in every for name, text in part.captions.items()},
        comparisons=[row for part in every for row in part.comparisons],
        claims=[claim for part in every for claim in part.claims],
        text="\n\n".join(filter(None, [introduction, *(part.text for part in every)])),
        skipped={name: why for part in every for name, why in part.skipped.items()},
        empty=bool(every) and all(part.empty for part in every),
    )


def absent(name: str, why: str) -> Findings:
    """Findings on data that are not at hand: what is missing."""
    return Findings(
        numbers={"absent": why},
        text=f"{name} is not at hand: {why}.",
        skipped={name: why},
        empty=True,
    )


def not_judged(name: str, why: object) -> Findings:
    """Findings of a quick run whose networks learned too little to be judged."""
    return Findings(numbers={"absent": str(why)}, text=f"{name} was not judged: {why}.")


@dataclass(frozen=True)
class Part:
    """A piece of an experiment that can be run, and resumed, by itself.

    name: name of the part.
    title: its title.
    run: function from settings to findings.
    judge: function from the numbers of the findings, as JSON has them, to claims; None: the claims
      are in the findings. It is asked whenever a summary is written, so that the verdicts on
      numbers measured long ago follow the rules of today.
    reads: names of parts whose networks it reads; it trains those that are not there.
    """

    name: str
    title: str
    run: Callable[[Settings], Findings]
    judge: Callable[[Mapping[str, Any]], Sequence[Claim]] | None = None
    reads: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Experiment:
    """A paper's figures and tables as a list of parts.

    name: name of the experiment, as `nescio reproduce` takes it.
    title: title of the paper.
    source: the paper, and the part of it that is reproduced.
    needs: data and extras that it needs.
    parts: the parts.
    unpublished: names of parts that measure what nobody published numbers of; their pages say so.
    """

    name: str
    title: str
    source: str
    needs: str
    parts: tuple[Part, ...]
    unpublished: tuple[str, ...] = ()
