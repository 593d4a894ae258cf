"""A few rays worth looking at."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from nescio.models.model import Model
from nescio_papers.relu_overconfidence.alphas import measured
from nescio_papers.relu_overconfidence.measuring import Found
from nescio_papers.relu_overconfidence.searches import by_bisection
from nescio_papers.relu_overconfidence.worlds import CONV, MLP, members, wide


@dataclass(frozen=True, eq=False)
class Example:
    """One ray of one network, with what was found on it."""

    title: str
    model: Model  # float64
    x: Tensor
    exact: float
    bisected: float
    radius: float
    misled: bool = False  # the bisection is not at the first crossing


def chosen(result: Sequence[Found]) -> list[Example]:
    """A usual and a late ray, one where the bisection is wrong, one that never gets there."""
    conv, plain = ([f for f in result if f.name == name][-1] for name in (CONV, MLP))
    return [
        _by_rank(conv, 0.5),
        _by_rank(conv, 0.95),
        _by_rank(plain, 0.5),
        _misled(result) or _by_rank(plain, 0.25),
        _never(result) or _by_rank(plain, 0.95),
    ]


def _by_rank(result: Found, q: float) -> Example:
    exact = result.each[0].exact
    index = int(exact.argsort()[round(q * (len(exact) - 1))])
    return _example(result, 0, result.noise[index], f"{100 * q:.0f} % quantile")


def _misled(result: Sequence[Found]) -> Example | None:
    """The ray on which a bisection is furthest from the first crossing."""
    best: tuple[float, Found, int, Tensor] | None = None
    for one in result:
        for way, searches in one.searches.items():
            for member, search in enumerate(searches):
                ratio = torch.where(search.bisected.isinf(), 1.0, search.bisected / search.exact)
                ratio = torch.where(search.bisection_wrong, ratio, 0.0)
                index = int(ratio.argmax())
                if ratio[index] > (best[0] if best else 0.0):
                    best = (float(ratio[index]), one, member, one.ways[way][index])
    return None if best is None else _example(*best[1:], "bisection misled", misled=True)


def _never(result: Sequence[Found]) -> Example | None:
    for one in result:
        for member, alphas in enumerate(one.each):
            for index in alphas.exact.isinf().nonzero()[:1, 0].tolist():
                title = f"never: {alphas.reason[index]}"
                return _example(one, member, one.noise[index], title)
    return None


def _example(result: Found, member: int, x: Tensor, title: str, *, misled: bool = False) -> Example:
    model = wide(members(result.world.models[result.name], [member]))
    alphas = measured(model, x[None])
    bisected = by_bisection(model, x[None].double())
    return Example(
        title=f"{title}\n{result.name}, {result.world.name}",
        model=model,
        x=x.double(),
        exact=float(alphas.exact),
        bisected=float(bisected),
        radius=float(alphas.radius),
        misled=misled,
    )
