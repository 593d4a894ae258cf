"""Choose the samples of a pool that are to be labeled next."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from nescio.applications.active_learning.candidates import Acquisition, Candidates
from nescio.applications.active_learning.chosen import Chosen
from nescio.applications.active_learning.pick import as_acquisition, check_size, picked
from nescio.core import Inputs, NescioError, generator, is_whole, quiet
from nescio.data import door
from nescio.detectors import observe
from nescio.guards import DECISIONS, Decisions
from nescio.models import Predictor, encoding_of, innermost, plain, takes_tokens


def choose(
    predictor: nn.Module | Predictor,
    inputs: Any,
    size: int,
    acquisition: str | Acquisition = "bald",
    *,
    labeled: Any = None,
    guard: Any = None,
    candidates: int | None = None,
    classes: Sequence[str] | None = None,
    seed: int = 0,
) -> Chosen:
    """The `size` inputs of a pool whose labels an acquisition wants most.

    predictor: a network, a model, `nescio.models.mc_dropout(net)` or another predictor of classes.
    inputs: the pool, without labels: an array `(N, ...)`, several arrays, tokens or a table.
    size: number of inputs to choose.
    acquisition: a name (`nescio list acquisitions`), with options as in "batchbald,samples=10000",
      or a function of `Candidates`.
    labeled: inputs that have labels already, for `core_set`; None: there are none.
    guard: a guard; inputs that it calls OOD are never chosen. None: all may be.
    candidates: number of inputs of the pool, drawn at random, that are looked at; None: all.
    classes: names of the classes, for the sentences that say why.
    seed: seed of the random draws: of the candidates, and of the choice among equal scores.
    """
    as_acquisition(acquisition)  # a wrong name is said before anything is computed
    reads = {"tokens": takes_tokens(predictor), "columns": encoding_of(predictor)}
    if hasattr(inputs, "__len__") and not len(inputs):
        raise NescioError("the pool is empty: there is no sample left to label")
    pool = _read(inputs, "the inputs of the pool", finite=guard is None, **reads)
    check_size(size, len(pool))
    index = _drawn(len(pool), candidates, seed)
    index, left_out = _without_ood(guard, pool, index, size)
    part = pool if len(index) == len(pool) else pool[index]
    source = plain(predictor) if isinstance(predictor, nn.Module) else predictor
    found = picked(
        Candidates(
            prediction=source(part),  # type: ignore[arg-type]  # checked where it is read
            size=size,
            seed=seed,
            read_features=lambda: _features(predictor, part),
            read_labeled=lambda: (
                None
                if labeled is None
                else _features(predictor, _read(labeled, "labeled inputs", **reads))
            ),
            classes=classes,
        ),
        acquisition,
    )
    return replace(found, index=index.to(found.index.device)[found.index], left_out=left_out)


def _read(inputs: Any, name: str, **reads: Any) -> Inputs:
    found: Inputs = door.as_network_inputs(inputs, name, dtype=None, **reads)
    return found


def _drawn(samples: int, candidates: int | None, seed: int) -> Tensor:
    """The indices that are looked at, ascending."""
    if candidates is None:
        return torch.arange(samples)
    if not is_whole(candidates, 1):
        raise NescioError(f"candidates must be a whole number from 1 up, got {candidates!r}")
    order = torch.randperm(samples, generator=generator(seed, "candidates"))
    return order[:candidates].sort().values


def _without_ood(guard: Any, pool: Inputs, index: Tensor, size: int) -> tuple[Tensor, int]:
    """The indices that the guard does not call OOD, and the number of others."""
    if guard is None:
        check_size(size, len(index))
        return index, 0
    with quiet():  # what it would warn about is left out, and counted
        inside = not_ood(guard, pool[index])
    left_out = int((~inside).sum())
    if size > len(index) - left_out:
        raise NescioError(
            f"the guard calls {left_out} of {len(index)} samples OOD, so there are not {size} to "
            "choose; ask for fewer, raise candidates=, or make a guard with a lower false_alarm"
        )
    return index[inside], left_out


def not_ood(guard: Any, inputs: Inputs) -> Tensor:
    """Whether a guard calls each input in-distribution, `(N,)`."""
    decisions = guard(inputs)
    if not isinstance(decisions, Decisions):
        raise NescioError(
            f"guard= takes a nescio.Guard of classes, got a {type(guard).__name__}; make one with "
            "nescio.guard(net, calibration)"
        )
    return (decisions.decision != DECISIONS.index("ood")).cpu()


def _features(predictor: Any, x: Inputs) -> Tensor:
    """What enters the last linear layer of each network, `(N, M x F)`."""
    layers = observe.observe(innermost(predictor), (x, None), labels=False).features
    return next(iter(layers.values())).movedim(0, 1).flatten(1)
