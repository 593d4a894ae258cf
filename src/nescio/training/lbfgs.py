"""L-BFGS (Nocedal, 1980) for M members at once, each with its own memory and its own line search.

The line search finds a step with the weak Wolfe conditions by halving and doubling (Lewis and
Overton, 2013). Near a minimum the loss changes by less than its rounding; there the derivatives
decide (Hager and Zhang, 2005), so that the gradient can become much smaller than the square root of
the rounding.
"""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from nescio.core import NescioError

State = dict[str, list[Tensor]]
Evaluate = Callable[[], tuple[Tensor, list[Tensor]]]  # losses and gradients at the present weights

DECREASE, CURVATURE = 1e-4, 0.9  # of the Wolfe conditions
ROUNDING = 100  # times the machine epsilon: a difference of losses that says nothing
TRIALS = 40  # points of a line search
WIDER = 4.0  # how much longer the next trial is while the loss falls steeply


def fresh(weights: Sequence[Tensor], memory: int) -> State:
    """The state before the first step: no pairs of moves and changes of the gradient."""
    members, size = len(weights[0]), sum(w[0].numel() for w in weights)
    pairs = weights[0].new_zeros(members, memory, size)
    norm = weights[0].new_full((members,), torch.inf)
    counts = torch.zeros(members, dtype=torch.long, device=norm.device)
    made = {"moves": pairs, "changes": pairs.clone(), "pairs": counts, "norm": norm}
    return {name: [tensor] for name, tensor in (made | {"stuck": counts > 0}).items()}


def iterate(
    state: State,
    weights: Sequence[Tensor],
    losses: Tensor,
    slopes: Sequence[Tensor],
    evaluate: Evaluate,
    *,
    tolerance: float,
) -> None:
    """One iteration of every member, in place; those within the tolerance stay where they are."""
    start, slope = _flat(weights), _flat(slopes)
    norm, pairs, stuck = (state[name][0] for name in ("norm", "pairs", "stuck"))
    here = slope.norm(dim=1)
    stuck &= here == norm  # another gradient at the same weights: the data have changed
    norm.copy_(here)
    moving = ~stuck & (norm > tolerance)
    if not moving.any():
        return
    direction = _direction(state, slope)
    uphill = (direction * slope).sum(1) >= 0  # by rounding: begin again with the gradient
    direction = torch.where(uphill[:, None], -slope, direction)
    pairs[uphill] = 0
    first = torch.where(pairs == 0, (1 / norm).clamp(max=1.0), 1.0)
    length, after = _search(weights, (start, direction, first), losses, slope, evaluate, moving)
    moved = length > 0
    move = torch.where(moved[:, None], length[:, None] * direction, 0.0)
    _put(weights, start + move)
    _remember(state, move, after - slope, moved)
    norm.copy_(torch.where(moved, after.norm(dim=1), norm))
    failed = moving & ~moved
    stuck |= failed & (pairs == 0)  # the gradient itself leads nowhere
    pairs[failed] = 0


def _direction(state: State, slope: Tensor) -> Tensor:
    """Minus the inverse Hessian, as the pairs tell it, times the gradient: the two loops."""
    moves, changes, pairs = (state[name][0] for name in ("moves", "changes", "pairs"))
    memory = moves.shape[1]
    products = (moves * changes).sum(2)  # (M, memory); the newest pair is the last
    there = torch.arange(memory, device=pairs.device) >= memory - pairs[:, None]
    inverse = torch.where(there, 1 / products, 0.0)
    rest, shares = -slope, []
    for i in reversed(range(memory)):
        shares.append(inverse[:, i] * (moves[:, i] * rest).sum(1))
        rest = rest - shares[-1][:, None] * changes[:, i]
    scale = products[:, -1] / changes[:, -1].square().sum(1)
    rest = rest * torch.where(pairs > 0, scale, 1.0)[:, None]
    for i, share in enumerate(reversed(shares)):
        back = inverse[:, i] * (changes[:, i] * rest).sum(1)
        rest = rest + (share - back)[:, None] * moves[:, i]
    return rest


def _search(
    weights: Sequence[Tensor],
    line: tuple[Tensor, Tensor, Tensor],  # start, direction, length of the first trial
    losses: Tensor,
    slope: Tensor,
    evaluate: Evaluate,
    moving: Tensor,
) -> tuple[Tensor, Tensor]:
    """The length of each member's step, 0 where none is found, and its gradient there."""
    start, direction, length = line
    rise = (direction * slope).sum(1)
    low, high = torch.zeros_like(rise), torch.full_like(rise, torch.inf)
    ends, after = (rise, torch.full_like(rise, torch.nan)), slope
    slack = ROUNDING * torch.finfo(losses.dtype).eps * losses.abs()
    done = ~moving
    for _ in range(TRIALS):
        _put(weights, torch.where(moving[:, None], start + length[:, None] * direction, start))
        values, found = evaluate()
        here_slope = _flat(found)
        here = (here_slope * direction).sum(1)
        lower = values <= losses + DECREASE * length * rise
        level = (values <= losses + slack) & (here <= (2 * DECREASE - 1) * rise)
        enough, steep = lower | level, here < CURVATURE * rise
        open_ = ~done
        good = open_ & enough
        after = torch.where(good[:, None], here_slope, after)
        low = torch.where(good, length, low)
        high = torch.where(open_ & ~enough, length, high)
        ends = torch.where(good, here, ends[0]), torch.where(open_ & ~enough, here, ends[1])
        done = done | (good & ~steep)
        if done.all():
            break
        length = torch.where(done, length, _between(low, high, length, *ends))
    return torch.where(moving, low, 0.0), after


def _between(low: Tensor, high: Tensor, length: Tensor, falls: Tensor, rises: Tensor) -> Tensor:
    """The next trial: longer, or between the ends where the derivative, taken as linear, is 0."""
    width = high - low
    share = (falls / (falls - rises)).clamp(0.1, 0.9)
    share = torch.where((falls < 0) & (rises > 0), share, 0.5)
    return torch.where(high.isinf(), WIDER * length, low + share * width)


def _remember(state: State, move: Tensor, change: Tensor, moved: Tensor) -> None:
    """Add the newest pair of members that moved, if the loss curves upward along the move."""
    product = (move * change).sum(1)
    curved = product > torch.finfo(move.dtype).eps * change.square().sum(1)
    use = (moved & curved)[:, None, None]
    for name, new in (("moves", move), ("changes", change)):
        pairs = state[name][0]
        pairs.copy_(torch.where(use, torch.cat([pairs[:, 1:], new[:, None]], 1), pairs))
    counts = state["pairs"][0]
    counts.copy_((counts + use[:, 0, 0]).clamp(max=state["moves"][0].shape[1]))


def _flat(tensors: Sequence[Tensor]) -> Tensor:
    return torch.cat([tensor.detach().flatten(1) for tensor in tensors], 1)


def _put(weights: Sequence[Tensor], flat: Tensor) -> None:
    sizes = [weight[0].numel() for weight in weights]
    for weight, part in zip(weights, flat.split(sizes, 1), strict=True):
        weight.copy_(part.view_as(weight))


def check_full_batch(**unfit: object) -> None:
    """Refuse options that change the loss from step to step, or that would change the steps.

    unfit: what was given, by name; None, False, 0 and nothing are fine.
    """
    if given := [name for name, value in unfit.items() if value]:
        raise NescioError(
            f"lbfgs does not go with {', '.join(given)}: it needs the same loss of all samples at "
            "every step, and finds its own step lengths; leave them out (and take batch_size=None, "
            "--batch-size 0 on the command line), or take adam"
        )
