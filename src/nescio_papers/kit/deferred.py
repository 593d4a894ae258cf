"""Functions by their address: parts are listed without loading what they run."""

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import Any


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
