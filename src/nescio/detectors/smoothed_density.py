"""A smoothed density of the columns of a table: their product, or a tree (Chow and Liu, 1968)."""

import math
from typing import Literal

import torch
from torch import Tensor

from nescio.core import Inputs, NescioError, only_tensor
from nescio.core.registry import detectors
from nescio.data import Columns
from nescio.detectors.activations import Activations, View
from nescio.detectors.detector import Detector, State, fitted, scores
from nescio.detectors.gower import Layout, as_layout, column_parts, flat_inputs, marked

CELL = 0.25  # of a kernel's width: values this near share one
BLOCK = 1 << 22  # kernels evaluated at a time
ROWS = 1 << 13  # scored, or counted, at a time
CODES = 1 << 13  # of all columns together, for a tree: the counts of all pairs are in memory


@detectors.register
def smoothed_density(
    train: Activations,
    *,
    columns: Columns | None = None,
    structure: Literal["product", "tree"] = "product",
    bandwidth: float = 1.0,
    smoothing: float = 1.0,
    bins: int = 8,
) -> Detector:
    """Minus the log of a density: kernels for numbers, smoothed counts for levels.

    Numbers (ordinal: the index of the level) have Gaussian kernels of Silverman's width, times
    `bandwidth`; values within a quarter of it share one. Levels, missing and unseen have
    a share (n + smoothing) / (N + smoothing * K): what never occurred is rare, not impossible.

    train: activations of the training data, observed with inputs=True.
    columns: how inputs are encoded; None: as the network says, or every number is continuous.
    structure: "product" takes columns as independent. "tree" lets each depend on one other, by the
      largest mutual information that outweighs its number of parameters (BIC); numbers are cut at
      quantiles into `bins` for that, and keep their kernels within a bin.
    bandwidth: factor on the width of the kernels.
    smoothing: count that is added to that of each level.
    bins: number of bins of a number.
    """
    if structure not in ("product", "tree"):
        raise NescioError(f'structure must be "product" or "tree", got {structure!r}')
    if not (bandwidth > 0 and smoothing > 0 and isinstance(bins, int) and bins > 1):
        raise NescioError(
            "bandwidth and smoothing must be positive and bins a whole number from 2 up, got "
            f"{bandwidth}, {smoothing}, {bins}"
        )
    layout = as_layout(columns, train)
    state: dict[str, Tensor] = {}
    for index, (kind, own, flags) in enumerate(column_parts(train.inputs, layout)):
        if kind == "categorical":
            state[f"shares.{index}"] = _shares(marked(own, flags).sum(0), smoothing)
        else:
            state |= _kernels(index, own[:, 0], flags, bandwidth, smoothing, bins)
    if structure == "tree":
        state |= _tree(train.inputs, layout, state, smoothing)
    return fitted("smoothed_density", train, {"columns": layout}, [state] * train.members)


@scores.named("smoothed_density")
def score(view: View, state: State, *, columns: Layout) -> Tensor:
    logs = [_log_density(x, state, columns) for x in flat_inputs(view.inputs).split(ROWS)]
    return -torch.cat(logs).to(view.logits.dtype)


def _log_density(x: Tensor, state: State, layout: Layout) -> Tensor:
    total = torch.zeros(len(x), dtype=torch.float64, device=x.device)
    for index, (kind, own, flags) in enumerate(column_parts(x, layout)):
        shares = state[f"shares.{index}"]
        if kind == "categorical":
            total = total + shares[marked(own, flags).argmax(1)]
            continue
        there = 1 - flags.sum(1, keepdim=True)
        log = _log_kernel(own[:, 0], state, index)
        states = shares[torch.cat([there, flags], 1).argmax(1)]
        total = total + states + torch.where(there[:, 0] > 0, log, 0.0)
    if "parents" in state:
        codes = _codes(x, layout, state)
        for index, parent in enumerate(state["parents"].tolist()):
            if parent >= 0:
                total = total + state[f"gain.{index}"][codes[:, parent], codes[:, index]]
    return total


def _shares(counts: Tensor, smoothing: float) -> Tensor:
    return (counts + smoothing).log() - (counts.sum() + smoothing * len(counts)).log()


def _kernels(
    index: int, values: Tensor, flags: Tensor, bandwidth: float, smoothing: float, bins: int
) -> State:
    """Centers, log weights and width of the kernels of a column, and the inner edges of bins."""
    there = flags.sum(1) == 0
    known = values[there].sort().values
    counts = torch.cat([there.sum()[None].to(flags), flags.sum(0)])
    if not len(known):  # nothing was ever known: one kernel at 0, in the column's own unit
        known = values.new_zeros(1)
    width = bandwidth * _silverman(known)
    cells = (known / (CELL * width)).floor()  # of an even grid: a value far off stays alone
    _, inverse, sizes = cells.unique_consecutive(return_inverse=True, return_counts=True)
    sums = known.new_zeros(len(sizes)).index_add_(0, inverse, known)
    shares = torch.linspace(0, 1, bins + 1, dtype=known.dtype, device=known.device)[1:-1]
    return {
        f"shares.{index}": _shares(counts, smoothing),
        f"centers.{index}": sums / sizes,
        f"weights.{index}": (sizes.to(known) / len(known)).log(),
        f"width.{index}": width,
        f"edges.{index}": _quantile(known, shares).unique(),
    }


def _silverman(known: Tensor) -> Tensor:
    """0.9 of the smaller of deviation and quartile distance / 1.34, by the fifth root of n."""
    deviation = known.std(correction=0)
    low, high = _quantile(known, known.new_tensor([0.25, 0.75]))
    spread = deviation if high == low else torch.minimum(deviation, (high - low) / 1.34)
    spread = torch.where(spread > 0, spread, 1.0)  # a constant: in the column's own unit
    return 0.9 * spread * math.pow(len(known), -0.2)


def _quantile(known: Tensor, shares: Tensor) -> Tensor:
    """Quantiles of sorted values, between neighbors (torch.quantile stops at 16 million)."""
    at = shares * (len(known) - 1)
    low = at.floor().long()
    return torch.lerp(known[low], known[(low + 1).clamp_max(len(known) - 1)], at - low)


def _log_kernel(values: Tensor, state: State, index: int) -> Tensor:
    centers, width, weights = (state[f"{name}.{index}"] for name in ("centers", "width", "weights"))
    parts = values.split(max(1, BLOCK // len(centers)))
    logs = [(weights - ((v[:, None] - centers) / width).square() / 2).logsumexp(1) for v in parts]
    return torch.cat(logs) - (width * math.sqrt(2 * math.pi)).log()


def _tree(inputs: Inputs | None, layout: Layout, state: State, smoothing: float) -> State:
    """The parent of each column (-1: none), and by how much it changes the log density."""
    inputs = only_tensor(inputs, "smoothed_density")
    logs = [_log_codes(index, state) for index in range(len(layout))]
    sizes = [len(log) for log in logs]
    if sum(sizes) > CODES:
        raise NescioError(
            f"a tree counts all pairs of levels, {sum(sizes)} of them with bins and flags, more "
            f"than {CODES}; merge rare levels or leave columns out"
        )
    counts = _pair_counts(inputs, layout, state, sizes)  # (all codes, all codes)
    parents = _spanning(_gains(counts, sizes))
    tree = {"parents": torch.tensor(parents)}
    for index, parent in enumerate(parents):
        if parent >= 0:
            both = counts.split(sizes)[parent].split(sizes, 1)[index]
            prior = smoothing * sizes[index]
            conditional = (both + prior * logs[index].exp()) / (both.sum(1, keepdim=True) + prior)
            tree[f"gain.{index}"] = conditional.log() - logs[index]
    return tree


def _log_codes(index: int, state: State) -> Tensor:
    """Log shares of the codes of a column by its own density: bins or levels, then flags."""
    shares = state[f"shares.{index}"]
    if f"edges.{index}" not in state:
        return shares
    edges = state[f"edges.{index}"]
    far = (edges[:, None] - state[f"centers.{index}"]) / state[f"width.{index}"]
    below = torch.special.ndtr(far) @ state[f"weights.{index}"].exp()
    ends = torch.cat([below.new_zeros(1), below, below.new_ones(1)])
    masses = ends.diff().clamp_min(torch.finfo(ends.dtype).tiny)
    return torch.cat([shares[:1] + masses.log(), shares[1:]])


def _codes(x: Tensor, layout: Layout, state: State) -> Tensor:
    """The bin, level or flag of each column, `(N, D)` int64."""
    codes = []
    for index, (kind, own, flags) in enumerate(column_parts(x, layout)):
        if kind == "categorical":
            codes.append(marked(own, flags).argmax(1))
            continue
        edges = state[f"edges.{index}"]
        code = torch.searchsorted(edges, own[:, 0].contiguous(), right=True)
        for flag in range(flags.shape[1]):
            code = torch.where(flags[:, flag] > 0, len(edges) + 1 + flag, code)
        codes.append(code)
    return torch.stack(codes, 1)


def _pair_counts(inputs: Tensor, layout: Layout, state: State, sizes: list[int]) -> Tensor:
    starts = torch.tensor([0, *sizes[:-1]], device=inputs.device).cumsum(0)
    total = torch.zeros(sum(sizes), sum(sizes), dtype=torch.float64, device=inputs.device)
    for x in inputs.split(ROWS):
        marks = torch.zeros(len(x), sum(sizes), device=inputs.device)
        marks.scatter_(1, _codes(x, layout, state) + starts, 1.0)
        total += (marks.mT @ marks).double()  # whole numbers: exact in float32
    return total


def _gains(counts: Tensor, sizes: list[int]) -> Tensor:
    """Mutual information of two columns less its cost by BIC, in nats a row, `(D, D)`."""
    rows = counts[: sizes[0], : sizes[0]].sum()
    single = counts.diagonal()
    expected = single[:, None] * single / rows
    parts = torch.where(counts > 0, counts / rows * (counts / expected).log(), 0.0)
    used = (single > 0).to(counts)
    information = torch.stack([p.sum(1) for p in parts.split(sizes, 1)], 1)
    information = torch.stack([p.sum(0) for p in information.split(sizes)])
    free = torch.stack([p.sum() for p in used.split(sizes)]) - 1
    return information - free[:, None] * free * rows.log() / (2 * rows)


def _spanning(gains: Tensor) -> list[int]:
    """Parents in the forest of largest gain (Prim); only gains above 0 count."""
    parents = [-1] * len(gains)
    best, via = [-math.inf] * len(gains), [-1] * len(gains)
    left = set(range(len(gains)))
    while left:
        index = max(left, key=lambda one: (best[one], -one))
        parents[index] = via[index] if best[index] > 0 else -1
        left.remove(index)
        for other in left:
            gain = float(gains[index, other])
            if gain > best[other]:
                best[other], via[other] = gain, index
    return parents
