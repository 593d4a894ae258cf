"""The k-th nearest rows of a bank, by an exact search.

The nearest rows b of a query q have the largest values q b - |b|^2 / 2. More of them than k are
found, with a bound on the rounding of a value; distances, which do not cancel, order these, and a
query that the bound leaves open is searched in float64.

A value is at most that of the parts of q and b along some directions, plus the product of the
lengths of what is left. Features of networks vary in few directions, so few rows can be among the
nearest by these bounds; a bank of which many rows could be is searched by whole products.
"""

import math
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

import torch
from torch import Tensor

from nescio.core import NescioError, keep_freed, one_thread, spans, workers
from nescio.detectors.mahalanobis import blocks

ROWS, PIECE = 512, 1 << 12  # queries and rows of the bank at a time, by products: 8 MB, in cache
FEW, WIDE = 256, 1 << 16  # the same by bounds
EXTRA = 16  # rows that are found beyond the k-th: rounding may have put them there
EXACT = 1e-5  # a relative error of a squared distance that is as good as none
GROUP = 16  # numbers of which the largest stands for all in the first search
SMALL = 1 << 13  # rows of a bank from which bounds are tried
SAMPLE = 1 << 13  # rows of the bank that the directions come from
PROBES = 64  # rows of the bank that show how many rows are reached
COLUMNS = (16, 32, 64, 128, 256, 512)  # of bounds: the cheapest is taken
SCAN = 28  # columns in whose time the bounds are searched
FLOATS = 3  # queries for which differences in float32 will do: few are asked for to be quick
DIRECT = 1 << 19  # differences that are computed sooner than all else is arranged
PRICE = 100  # rows in whose time one that is reached is fetched, times 4: other queries reach more

Found = tuple[Tensor, Tensor]  # values, descending, and indices in the bank


@dataclass(frozen=True, eq=False, kw_only=True)
class Bank:
    """Rows to search, and what bounds are computed from, where they help."""

    rows: Tensor  # (N, F)
    half: Tensor  # (N,) -|b|^2 / 2
    turn: Tensor | None = None  # (F, R) directions, float64
    head: Tensor | None = None  # (N, R + 2) as `_lead` gives it

    def __getitem__(self, part: slice) -> "Bank":
        head = None if self.head is None else self.head[part]
        return Bank(rows=self.rows[part], half=self.half[part], turn=self.turn, head=head)

    def __len__(self) -> int:
        return len(self.rows)


def as_bank(state: Mapping[str, Tensor]) -> Bank:
    """The bank whose state `prepared` computed."""
    parts = {name: state.get(name) for name in ("turn", "head")}
    return Bank(rows=state["bank"], half=state["half"], **parts)


@torch.no_grad()
def prepared(rows: Tensor, k: int) -> dict[str, Tensor]:
    """The state of a bank that is searched for the k-th nearest row."""
    state = {"bank": rows, "half": half_squares(rows)}
    bank = as_bank(state)
    turn = _directions(bank, k) if len(rows) >= max(SMALL, k * GROUP**2) else None
    if turn is not None:
        parts = (bank[start : start + SAMPLE] for start in range(0, len(rows), SAMPLE))
        state |= {"turn": turn, "head": torch.cat([_lead(p.rows, turn, p.half) for p in parts])}
    return state


def half_squares(rows: Tensor) -> Tensor:
    """-|b|^2 / 2 of each row, a block at a time in float64."""
    squares = [part.double().square().sum(1) for _, part in blocks(rows)]
    return (torch.cat(squares) / -2).to(rows.dtype)


def _directions(bank: Bank, k: int) -> Tensor | None:
    """As many leading directions as make a search cost least; none: whole products cost less."""
    size, width = bank.rows.shape
    sample = bank.rows[:: -(-size // SAMPLE)]
    every = torch.linalg.eigh((sample.T @ sample).double()).eigenvectors.flip(1)
    probes, some = bank[:: size // PROBES].rows, bank[::GROUP]
    floor = _nearest(probes, bank, k)[0][:, -1:]
    best, least = None, 0.9 * size * width
    for columns in COLUMNS:
        turn = every[:, : columns - 2]
        cost = float(size * (columns + SCAN))
        if columns > width or cost > least:
            break
        upper = _lead_of(probes, turn) @ _lead(some.rows, turn, some.half).T
        cost += PRICE * width * GROUP * float((upper >= floor).sum()) / len(probes)
        if cost < least:
            best, least = turn.contiguous(), cost
    return best


def _lead(rows: Tensor, turn: Tensor, last: Tensor) -> Tensor:
    """`(n, R + 2)`: parts along the directions; no less than the length of the rest; `last`."""
    exact = rows.double()
    along = exact @ turn
    square = exact.square().sum(1) * (1 + 4 * len(turn) * torch.finfo(torch.float64).eps)
    rest = (square - along.square().sum(1)).clamp_min_(0).sqrt_()
    return torch.cat([along, rest[:, None], last[:, None].double()], 1).to(rows.dtype)


def _lead_of(queries: Tensor, turn: Tensor) -> Tensor:
    return _lead(queries, turn, queries.new_ones(len(queries)))


@torch.no_grad()
def kth_nearest(queries: Tensor, bank: Bank, k: int) -> Tensor:
    """Indices `(n,)` in the bank of the k-th nearest rows."""
    if len(queries) * bank.rows.numel() <= DIRECT:
        far, index = _by_differences(queries, bank.rows, k)
        if math.isfinite(far.sum()):  # no square overflows
            return index
    keep_freed()
    few = ROWS if bank.head is None else FEW
    threads = min(torch.get_num_threads(), -(-len(queries) // few))

    @torch.no_grad()  # each thread has its own switch
    def search(own: Tensor) -> Tensor:
        return torch.cat([_kth(own[cut], bank, k) for cut in spans(len(own), few)])

    if bank.head is not None:
        _use_sparse()
    if threads == 1 or queries.device.type != "cpu":
        return search(queries)
    with workers(threads) as pool:  # each has queries of its own
        return torch.cat(list(pool.map(search, queries.chunk(threads))))


@torch.no_grad()
def nearest_rows(queries: Tensor, rows: Tensor, k: int) -> Found:
    """Distances `(n, k)`, ascending, in float64, and indices of the k nearest rows; exact.

    Both are taken from the mean of the rows, so that an offset they share costs no figures.

    queries: the rows whose neighbors are looked for, `(n, F)`.
    rows: the rows to search, `(N, F)`.
    k: number of neighbors, from 1 to N.
    """
    if not 1 <= k <= len(rows) or queries.shape[1:] != rows.shape[1:]:
        raise NescioError(
            f"expected k from 1 to the number of rows, and queries as wide as they are, got k={k}, "
            f"{len(rows)} rows of {tuple(rows.shape[1:])} and queries of {tuple(queries.shape[1:])}"
        )
    if not len(queries):
        return queries.new_empty(0, k, dtype=torch.float64), torch.empty(0, k, dtype=torch.long)
    total = [part.double().sum(0) for part in rows.split(SAMPLE)]
    center = torch.stack(total).sum(0) / len(rows)
    near = torch.cat([(part.double() - center).float() for part in rows.split(SAMPLE)])
    bank = as_bank(prepared(near, k))
    if bank.head is not None:
        _use_sparse()
    parts = [_ordered((part.double() - center).float(), bank, k) for part in queries.split(FEW)]
    return torch.cat([far for far, _ in parts]), torch.cat([index for _, index in parts])


def _ordered(queries: Tensor, bank: Bank, k: int) -> Found:
    """Distances and indices of the nearest rows of a block; in float64 where it must be."""
    count = min(k + EXTRA, len(bank))
    value, index = _nearest(queries, bank, count)
    far, index = _sorted_by_distance(queries, bank, index)
    least = queries.square().sum(1) - 2 * value.amin(1) - 2 * _roundings(queries, bank)
    unsure = far[:, k - 1].square() > least
    open_ = unsure.nonzero()[:, 0] if count < len(bank) else index.new_empty(0)
    far, index = far[:, :k], index[:, :k]
    if len(open_):
        found = _in_double(queries[open_], bank, k)
        far[open_], index[open_] = _sorted_by_distance(queries[open_], bank, found)
    return far, index


def _sorted_by_distance(queries: Tensor, bank: Bank, index: Tensor) -> Found:
    """Rows `(n, g)` of the bank by their distances, some queries at a time."""
    parts = []
    for some, which in zip(queries.split(32), index.split(32), strict=True):
        apart = bank.rows[which].double() - some.double()[:, None]
        parts.append(torch.linalg.vector_norm(apart, dim=2))
    far, order = torch.cat(parts).sort(dim=1, stable=True)
    return far, index.gather(1, order)


@one_thread()  # another would be waited for longer than it helps
def _by_differences(queries: Tensor, rows: Tensor, k: int) -> Found:
    """Distance and index `(n,)` of the k-th nearest row: nothing cancels, so they are exact."""
    if len(queries) > FLOATS:  # told apart as surely as by other searches
        queries, rows = queries.double(), rows.double()
    apart = torch.cdist(queries, rows, compute_mode="donot_use_mm_for_euclid_dist")
    far, index = apart.min(1) if k == 1 else apart.kthvalue(k, dim=1)
    return far, index


@cache
def _use_sparse() -> None:
    """Let torch warn for the only time that sparse tensors are in beta, where nobody hears it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.sparse_csr_tensor([0, 0], [], torch.empty(0), (1, 1))


def _kth(queries: Tensor, bank: Bank, k: int) -> Tensor:
    """The index of the k-th nearest row of each query of a block; in float64 where it must be."""
    count = min(k + EXTRA, len(bank))
    value, index = _nearest(queries, bank, count)
    error = 2 * _roundings(queries, bank)
    length = queries.square().sum(1)
    far = length - 2 * value[:, k - 1]
    near, after = value[:, max(k - 2, 0)], value[:, min(k, count - 1)]
    kth = value[:, k - 1]
    clear = ((near - kth > error) | (k == 1)) & ((kth - after > error) | (count == k))
    result = index[:, k - 1].clone()
    open_ = (~clear).nonzero()[:, 0]
    if len(open_):  # by their distances in float64: the same row, whatever queries are beside
        apart, which = _sorted_by_distance(queries[open_], bank, index[open_].sort(1).values)
        result[open_] = which[:, k - 1]
        least = length[open_] - 2 * value[open_, -1] - error[open_]  # of all that are not here
        near_enough = apart[:, k - 1].square() <= least + EXACT * far[open_]
        left = open_[~near_enough] if count < len(bank) else open_[:0]
        if len(left) and bank.rows.dtype != torch.float64:
            result[left] = _in_double(queries[left], bank, k)[:, -1]
    return result


def _in_double(queries: Tensor, bank: Bank, k: int) -> Tensor:
    """Indices `(n, k)` for queries that float32 leaves open, by products in float64."""
    value, index = None, None
    exact = queries.double()
    for start in range(0, len(bank), PIECE):
        rows = bank.rows[start : start + PIECE].double()
        own = torch.addmm(rows.square().sum(1) / -2, exact, rows.T)
        where = torch.arange(start, start + len(rows), device=rows.device).expand_as(own)
        if value is not None and index is not None:
            own, where = torch.cat([value, own], 1), torch.cat([index, where], 1)
        value, order = own.topk(min(k, own.shape[1]))
        index = where.gather(1, order)
    assert index is not None
    return index


def _nearest(queries: Tensor, bank: Bank, count: int) -> Found:
    """The `count` largest values of each query, `(n, count)`, a piece of the bank at a time."""
    find, wide = (_by_products, PIECE) if bank.head is None else (_by_bounds, WIDE)
    wide = max(wide, _padded(count), wide * (ROWS // (2 * len(queries))))  # few: larger pieces
    room = queries.new_empty(len(queries), _padded(min(wide, len(bank))))
    best = queries.new_empty(len(queries), 0), room.new_empty(len(queries), 0, dtype=torch.long)
    for start in range(0, len(bank), wide):
        best = find(queries, bank[start : start + wide], best, start, count, room)
    return best


def _by_products(
    queries: Tensor, bank: Bank, best: Found, start: int, count: int, room: Tensor
) -> Found:
    """The best of those before and of a piece of the bank, from all products."""
    near = _products(queries, bank.rows, room)
    near[:, : len(bank)] += bank.half
    if best[0].shape[1] < count:
        value, index = _largest(near, min(count, len(bank)))
        return _best(best, value, index + start, count)
    row, index = (near > best[0][:, -1:]).nonzero(as_tuple=True)
    return _merged(best, row, index + start, near[row, index], count)


def _by_bounds(
    queries: Tensor, bank: Bank, best: Found, start: int, count: int, room: Tensor
) -> Found:
    """The same from all bounds and few products; from all where they would not be few."""
    assert bank.turn is not None
    assert bank.head is not None
    upper = _products(_lead_of(queries, bank.turn), bank.head, room)
    tops, own = _tops(upper), min(count, len(bank))
    first = _within(upper, _largest(tops, own)[1], own)[1]
    ends = torch.arange(0, first.numel() + 1, own)
    value = _some(queries, bank, ends, first.flatten()).view_as(first)
    found = _best(best, value, first + start, count)
    floor = found[0][:, -1] - _roundings(queries, bank)
    upper.scatter_(1, first, -math.inf)  # these have their values
    groups = tops >= floor[:, None]
    if groups.sum() > groups.numel() / 4:
        return _by_products(queries, bank, best, start, count, room)
    row, index = _reaching(room, groups, floor)
    if len(row) > upper.numel() / 32:
        return _by_products(queries, bank, best, start, count, room)
    ends = row.bincount(minlength=len(queries)).cumsum(0)
    ends = torch.cat([ends.new_zeros(1), ends])
    return _merged(found, row, index + start, _some(queries, bank, ends, index), count)


def _merged(best: Found, row: Tensor, index: Tensor, value: Tensor, count: int) -> Found:
    """The best of those before and of others, given by query in ascending order."""
    if not len(row):
        return best
    counts = row.bincount(minlength=len(best[0]))
    column = torch.arange(len(row), device=row.device) - (counts.cumsum(0) - counts)[row]
    more = best[0].new_full((len(counts), int(counts.max())), -math.inf)
    where = torch.zeros_like(more, dtype=torch.long)
    more[row, column], where[row, column] = value, index
    return _best(best, more, where, count)


def _best(best: Found, value: Tensor, index: Tensor, count: int) -> Found:
    value, index = torch.cat([best[0], value], 1), torch.cat([best[1], index], 1)
    value, order = value.topk(min(count, value.shape[1]))
    return value, index.gather(1, order)


def _reaching(upper: Tensor, groups: Tensor, floor: Tensor) -> tuple[Tensor, Tensor]:
    """Query and index of each bound in some groups that reaches the floor, by query."""
    query, group = groups.nonzero(as_tuple=True)
    indices = group[:, None] + torch.arange(GROUP) * groups.shape[1]
    bounds = upper.view(-1).take(indices + query[:, None] * upper.shape[1])
    which, step = (bounds >= floor[query, None]).nonzero(as_tuple=True)
    return query[which], indices[which, step]


def _roundings(queries: Tensor, bank: Bank) -> Tensor:
    """More than what bounds and values can be off by, `(n,)`: each is a sum of at most F terms."""
    longest = (-2 * bank.half.min()).sqrt()
    size: Tensor = torch.linalg.vector_norm(queries, dim=1) + longest
    return size.mul_(longest).mul_(queries.shape[1] * torch.finfo(queries.dtype).eps)


def _some(queries: Tensor, bank: Bank, ends: Tensor, indices: Tensor) -> Tensor:
    """Values of query i and the rows at `indices[ends[i] : ends[i + 1]]`, one after another."""
    shape, zeros = (len(queries), len(bank)), queries.new_zeros(len(indices))
    wanted = torch.sparse_csr_tensor(ends, indices, zeros, shape, check_invariants=False)
    result: Tensor = torch.sparse.sampled_addmm(wanted, queries, bank.rows.T, beta=0.0).values()
    return result.add_(bank.half[indices])


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
