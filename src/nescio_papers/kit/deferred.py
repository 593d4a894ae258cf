"""Functions by their address: parts are listed without loading what they run."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from nescio.core import one_thread
from nescio_papers.kit.experiment import Part


@dataclass(frozen=True)
class Deferred:
    """A function that is imported when it is called.

    module: dotted name of its module.
    name: its name there.
    """

    module: str
    name: str

    @property
    def function(self) -> Callable[..., Any]:
        """The function itself."""
        found: Callable[..., Any] = getattr(import_module(self.module), self.name)
        return found

    def __call__(self, *inputs: Any) -> Any:
        """What the function returns."""
        return self.function(*inputs)


def deferred(paper: str, address: str) -> Deferred:
    """The function of a paper at an address such as "ood:run", imported when it is called.

    paper: dotted name of the paper's paper.py, its `__name__`.
    address: name of a module beside paper.py, a colon, and the name of the function.
    """
    module, _, name = address.partition(":")
    return Deferred(f"{paper.rpartition('.')[0]}.{module}", name)


def deferred_parts(
    paper: str,
    parts: Mapping[str, tuple[str, str]],
    judges: Mapping[str, str],
    *,
    reads: Mapping[str, tuple[str, ...]] | None = None,
    single_thread: bool = False,
) -> tuple[Part, ...]:
    """The parts of a paper by the addresses of their functions.

    paper: dotted name of the paper's paper.py, its `__name__`.
    parts: by name, the title of a part and the address of what it runs.
    judges: by name, the address of what judges its numbers; a part may have none.
    reads: by name, the parts whose networks it reads.
    single_thread: whether the parts run in one thread, which is faster for small networks.
    """

    def part(name: str, title: str, run: str) -> Part:
        work: Callable[..., Any] = deferred(paper, run)
        judge = deferred(paper, judges[name]) if name in judges else None
        return Part(
            name,
            title,
            one_thread()(work) if single_thread else work,
            judge,
            (reads or {}).get(name, ()),
        )

    return tuple(part(name, *row) for name, row in parts.items())
