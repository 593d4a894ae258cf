"""The distance to the k-th nearest training feature (Sun et al., 2022), by an exact search.

The nearest rows b of a query q have the largest values q b - |b|^2 / 2. A value is at most that of
the parts of q and b along some directions, plus the product of the lengths of what is left. So the
k rows with the largest bounds give a floor, and only rows whose bound reaches it can be among the
nearest. Features of networks vary in few directions, and few rows do; a bank of which many rows
would is searched by whole products.
"""

import math
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache

import torch
from torch import Tensor
from torch.nn import functional as F

from nescio.core import NescioError, generator, keep_freed, workers
from nescio.core.registry import detectors
from nescio.detectors.activations import Activations, View
from nescio.detectors.detector import Detector, State, fitted, only_layer, scores
from nescio.detectors.mahalanobis import blocks, precision

ROWS, PIECE = 512, 1 << 16  # queries and rows of the bank at a time, by whole products: 128 MB
FEW, WIDE = 256, 1 << 16  # the same by bounds
GROUP = 16  # numbers of which the largest stands for all in the first search
SMALL = 1 << 13  # rows of a bank from which bounds are tried
SAMPLE = 1 << 14  # rows of the bank that the directions come from
PROBES = 64  # rows of the bank that show how many rows are reached
COLUMNS = (16, 32, 48, 64, 96, 128, 192, 256, 384, 512)  # of bounds: the cheapest is taken
SCAN = 28  # columns in whose time the bounds are searched
PRICE = 100  # rows in whose time one that is reached is fetched, times 4: other queries reach more

Found = tuple[Tensor, Tensor]  # values and indices in the bank
Find = Callable[[Tensor, "Bank", int, Tensor], Found]


@detectors.register
def knn(
    train: Activations,
    *,
    k: int = 50,
    layer: str | None = None,
    normalize: bool = True,
    share: float = 1.0,
    seed: int = 0,
) -> Detector:
    """The Euclidean distance to the k-th nearest training feature.

    The search is exact. A training input finds itself as its nearest neighbor, so its score is
    that of the neighbor k - 1: judge by inputs that are not in the bank.

    layer: none is that before the last linear layer.
    normalize: divide features by their length first, as published.
    share: keep this share of the training features, drawn by `seed`.
    """
    name = train.layer(layer)
    if not 0 < share <= 1:
        raise NescioError(f"share must be in (0, 1], got {share}")
    size = math.ceil(share * train.samples)
    chosen = None
    if share < 1:
        order = torch.randperm(train.samples, generator=generator(seed, "bank"))
        chosen = order[:size].sort().values
    if not 1 <= k <= size:
        raise NescioError(
            f"k must be from 1 to {size}, the number of features in the bank, got {k}"
        )
    states = [_fitted(features, chosen, k, normalize) for features in train.features[name]]
    options = {"k": k, "normalize": normalize, "share": share, "seed": seed}
    return fitted("knn", train, options, states, name)


@scores.named("knn")
def _score(view: View, state: State, *, k: int, normalize: bool, **_: float) -> Tensor:
    bank = as_bank(state)
    rows = only_layer(view).to(bank.rows.dtype)
    rows = F.normalize(rows, dim=1) if normalize else rows
    near = bank.rows[kth_nearest(rows.detach(), bank, k)]
    return torch.linalg.vector_norm(rows - near, dim=1)  # type: ignore[no-any-return]


def _fitted(features: Tensor, chosen: Tensor | None, k: int, normalize: bool) -> dict[str, Tensor]:
    features = features if chosen is None else features[chosen.to(features.device)]
    bank = torch.empty_like(features, dtype=precision(features))
    for part, rows in blocks(features):
        bank[part] = F.normalize(rows, dim=1) if normalize else rows
    return prepared(bank, k)


@dataclass(frozen=True, eq=False, kw_only=True)
class Bank:
    """Rows to search, and what bounds are computed from, where they help."""

    rows: Tensor  # (N, F)
    half: Tensor | None = None  # (N,) -|b|^2 / 2; none: it is the same for all
    turn: Tensor | None = None  # (F, R) directions, float64
    head: Tensor | None = None  # (N, R + 1 or 2) as `_lead` gives it

    def __getitem__(self, part: slice) -> "Bank":
        half, head = (None if rows is None else rows[part] for rows in (self.half, self.head))
        return Bank(rows=self.rows[part], half=half, turn=self.turn, head=head)

    def __len__(self) -> int:
        return len(self.rows)


def as_bank(state: Mapping[str, Tensor]) -> Bank:
    """The bank whose state `prepared` computed."""
    parts = {name: state.get(name) for name in ("half", "turn", "head")}
    return Bank(rows=state["bank"], **parts)


@torch.no_grad()
def prepared(rows: Tensor, k: int) -> dict[str, Tensor]:
    """The state of a bank that is searched for the k-th nearest row."""
    length = torch.linalg.vector_norm(rows, dim=1, dtype=torch.float64)
    state = {"bank": rows}
    if length.min() < (1 - 16 * torch.finfo(rows.dtype).eps) * length.max():
        state["half"] = (length.square() / -2).to(rows.dtype)
    bank = as_bank(state)
    turn = _directions(bank, k) if len(rows) >= max(SMALL, k * GROUP**2) else None
    if turn is not None:
        parts = (bank[start : start + SAMPLE] for start in range(0, len(rows), SAMPLE))
        state |= {"turn": turn, "head": torch.cat([_lead(p.rows, turn, p.half) for p in parts])}
    return state


def _directions(bank: Bank, k: int) -> Tensor | None:
    """As many leading directions as make a search cost least; none: whole products cost less."""
    size, width = bank.rows.shape
    sample = bank.rows[:: -(-size // SAMPLE)]
    every = torch.linalg.eigh((sample.T @ sample).double()).eigenvectors.flip(1)
    probes, some = bank[:: size // PROBES].rows, bank[::GROUP]
    floor = _kth(probes, bank, k, _by_products, ROWS, PIECE)[0][:, None]
    best, least = None, 0.9 * size * width
    for columns in COLUMNS:
        turn = every[:, : columns - (1 if bank.half is None else 2)]
        upper = _lead_of(probes, turn, bank) @ _lead(some.rows, turn, some.half).T
        reached = float((upper >= floor).sum()) / len(probes) * GROUP
        cost = size * (columns + SCAN) + PRICE * width * reached
        if columns <= width and cost < least:
            best, least = turn.contiguous(), cost
    return best


def _lead(rows: Tensor, turn: Tensor, last: Tensor | None) -> Tensor:
    """`(n, R + 1)`: parts along the directions, and no less than the length of the rest; `last`."""
    exact = rows.double()
    along = exact @ turn
    square = exact.square().sum(1) * (1 + 4 * len(turn) * torch.finfo(torch.float64).eps)
    rest = (square - along.square().sum(1)).clamp_min_(0).sqrt_()
    columns = [along, rest[:, None]] + ([] if last is None else [last[:, None].double()])
    return torch.cat(columns, 1).to(rows.dtype)


def _lead_of(queries: Tensor, turn: Tensor, bank: Bank) -> Tensor:
    return _lead(queries, turn, None if bank.half is None else queries.new_ones(len(queries)))


@torch.no_grad()
def kth_nearest(queries: Tensor, bank: Bank, k: int) -> Tensor:
    """Places `(n,)` in the bank of the k-th nearest rows."""
    keep_freed()
    if bank.head is None or queries.device.type != "cpu":
        return _kth(queries, bank, k, _by_products, ROWS, PIECE)[1]
    threads = min(torch.get_num_threads(), -(-len(queries) // FEW))

    def search(own: Tensor) -> Tensor:
        return _kth(own, bank, k, _by_bounds, FEW, WIDE)[1]

    _use_sparse()
    if threads == 1:
        return search(queries)
    with workers(threads) as pool:  # each has queries of its own
        return torch.cat(list(pool.map(search, queries.chunk(threads))))


@cache
def _use_sparse() -> None:
    """Let torch warn for the only time that sparse tensors are in beta, where nobody hears it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.sparse_csr_tensor([0, 0], [], torch.empty(0), (1, 1))


def _kth(queries: Tensor, bank: Bank, k: int, find: Find, few: int, wide: int) -> Found:
    """The k-th largest value of each query and its index, `(n,)` each, a piece at a time."""
    room = queries.new_empty(min(few, len(queries)), _padded(min(wide, len(bank))))
    values, indices = [], []
    for own in queries.split(few):
        pieces = []
        for start in range(0, len(bank), wide):
            piece = bank[start : start + wide]
            value, index = find(own, piece, min(k, len(piece)), room)
            pieces.append((value, index + start))
        value, index = (torch.cat(parts, 1) for parts in zip(*pieces, strict=True))
        value, last = value.topk(k)
        values.append(value[:, -1])
        indices.append(index.gather(1, last[:, -1:])[:, 0])
    return torch.cat(values), torch.cat(indices)


def _by_products(queries: Tensor, bank: Bank, k: int, room: Tensor) -> Found:
    """The k largest values `(n, k)`, and where they are, from all products."""
    near = _products(queries, bank.rows, room)
    if bank.half is not None:
        near[:, : len(bank)] += bank.half
    return _largest(near, k)


def _by_bounds(queries: Tensor, bank: Bank, k: int, room: Tensor) -> Found:
    """The same from all bounds and few products; from all where they would not be few."""
    assert bank.turn is not None
    assert bank.head is not None
    upper = _products(_lead_of(queries, bank.turn, bank), bank.head, room)
    tops = _tops(upper)
    first = _within(upper, _largest(tops, k)[1], k)[1]
    ends = torch.arange(0, first.numel() + 1, k)
    value = _some(queries, bank, ends, first.flatten()).view_as(first)
    floor = value.amin(1) - _roundings(queries, bank)
    upper.scatter_(1, first, -math.inf)  # these have their values
    groups = tops >= floor[:, None]
    if groups.sum() > groups.numel() / 4:
        return _by_products(queries, bank, k, room)
    row, index = _reaching(room, groups, floor)
    if len(row) > upper.numel() / 32:
        return _by_products(queries, bank, k, room)
    counts = row.bincount(minlength=len(queries))
    ends = torch.cat([counts.new_zeros(1), counts.cumsum(0)])
    column = torch.arange(len(row)) - ends[row]
    more = queries.new_full((len(queries), int(counts.max())), -math.inf)
    where = torch.zeros_like(more, dtype=torch.long)
    more[row, column], where[row, column] = _some(queries, bank, ends, index), index
    value, inner = torch.cat([value, more], 1).topk(k, sorted=False)
    return value, torch.cat([first, where], 1).gather(1, inner)


def _reaching(upper: Tensor, groups: Tensor, floor: Tensor) -> tuple[Tensor, Tensor]:
    """Query and index of each bound in some groups that reaches the floor, by query."""
    query, group = groups.nonzero(as_tuple=True)
    indices = group[:, None] + torch.arange(GROUP) * groups.shape[1]
    bounds = upper.view(-1).take(indices + query[:, None] * upper.shape[1])
    which, step = (bounds >= floor[query, None]).nonzero(as_tuple=True)
    return query[which], indices[which, step]


def _roundings(queries: Tensor, bank: Bank) -> Tensor:
    """More than what bounds and values can be off by, `(n,)`: each is a sum of at most F terms."""
    longest = (bank.rows[0] if bank.half is None else bank.rows[bank.half.argmin()]).norm()
    size: Tensor = torch.linalg.vector_norm(queries, dim=1) + longest
    return size.mul_(longest).mul_(queries.shape[1] * torch.finfo(queries.dtype).eps)


def _some(queries: Tensor, bank: Bank, ends: Tensor, indices: Tensor) -> Tensor:
    """Values of query i and the rows at `indices[ends[i] : ends[i + 1]]`, one after another."""
    shape, zeros = (len(queries), len(bank)), queries.new_zeros(len(indices))
    wanted = torch.sparse_csr_tensor(ends, indices, zeros, shape, check_invariants=False)
    result: Tensor = torch.sparse.sampled_addmm(wanted, queries, bank.rows.T, beta=0.0).values()
    return result if bank.half is None else result.add_(bank.half[indices])


def _padded(size: int) -> int:
    return -(-size // GROUP**2) * GROUP**2  # whole groups of groups


def _products(queries: Tensor, rows: Tensor, room: Tensor) -> Tensor:
    """All products `(n, N)`, and -inf up to whole groups, in `room`."""
    near = room[: len(queries), : _padded(len(rows))]
    torch.mm(queries, rows.T, out=near[:, : len(rows)])
    near[:, len(rows) :] = -math.inf
    return near


def _tops(numbers: Tensor) -> Tensor:
    return numbers.unflatten(1, (GROUP, -1)).amax(1)  # type: ignore[no-any-return]


def _largest(numbers: Tensor, k: int) -> Found:
    """The k largest of each row, and where: they are in the k groups with the largest tops."""
    if numbers.shape[1] % GROUP or numbers.shape[1] < 2 * k * GROUP:
        return numbers.topk(k, sorted=False)
    return _within(numbers, _largest(_tops(numbers), k)[1], k)


def _within(numbers: Tensor, groups: Tensor, k: int) -> Found:
    """The k largest of each row that are in some groups `(n, g)`, and where."""
    steps = torch.arange(GROUP, device=groups.device) * (numbers.shape[1] // GROUP)
    indices = (groups[:, :, None] + steps).flatten(1)
    value, inner = numbers.gather(1, indices).topk(k, sorted=False)
    return value, indices.gather(1, inner)
