"""The one training loop: M members at once on stacked weights, resumable to the same bits."""

import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from nescio import checkpoints
from nescio.checkpoints import State, check_same_run, digest
from nescio.checks import as_inputs, as_targets
from nescio.errors import NescioError
from nescio.files import make_folder
from nescio.heads import Head
from nescio.losses import Batch, Loss, nll
from nescio.model import FILE, History, Model
from nescio.nets.standardise import standardised
from nescio.optimisers import clip_members, optimiser
from nescio.prediction import check_labels
from nescio.progress import progress
from nescio.randomness import Rng, seeded
from nescio.schedules import Schedule, schedule_named
from nescio.stacking import Forward, Stack, stack

Data = tuple[Any, Any]
TINY = 1_000_000  # multiply-adds a step below which a second thread costs more than it gives


def train(
    make_net: Callable[[], nn.Module],
    data: Data,
    *,
    loss: Loss | None = None,
    members: int | Sequence[int] = 1,
    epochs: int = 100,
    batch_size: int | None = 100,
    optimiser: str = "adam",
    learning_rate: float = 1e-3,
    schedule: str | Schedule = "constant",
    clip: float | None = None,
    validation: Data | None = None,
    patience: int | None = None,
    standardise: bool = False,
    seed: int = 0,
    run: str | Path | None = None,
    checkpoint_seconds: float = 10.0,
    progress: bool | None = None,
) -> Model:
    """Train `members` networks at once and return them as one model.

    make_net: a factory, called once a member; each call draws its own initial weights.
    members: how many, or which ones by number: member 3 alone is member 3 of an ensemble.
    data, validation: `(x, y)`; tensors or arrays. Labels are integers, regression targets floats.
    loss: a combination from `nescio.losses`; negative log-likelihood of classes by default.
    batch_size: cases a step; each member has its own order. None: all cases at once.
    optimiser: "adam" or "sgd"; schedule: "constant", "cosine", "drops", or a function.
    clip: the largest gradient norm of a member. patience: epochs without a better validation score
    after which a member stops; each member then has its best weights.
    standardise: scale inputs by their training mean and deviation, as a layer of the model.
    run: a folder for checkpoints; the same call with the same folder goes on where it stopped.
    """
    loss = loss or nll()
    rule = schedule_named(schedule)
    ids = tuple(range(members) if isinstance(members, int) else members)
    plan = _Plan(loss, ids, epochs, batch_size, learning_rate, rule, clip, patience, seed)
    _check_options(plan, validation)
    nets = _make(make_net, ids, seed)
    x, y = _check_data(data, nets[0], loss.head, "training data")
    held = _check_data(validation, nets[0], loss.head, "validation data") if validation else None
    if standardise:
        nets = [standardised(net, x) for net in nets]
    _check_outputs(nets[0], x, y, loss.head)
    config = {
        "net": str(nets[0]),
        "loss": loss.description,
        "members": list(ids),
        "epochs": epochs,
        "batch_size": batch_size,
        "optimiser": optimiser,
        "learning_rate": learning_rate,
        "schedule": schedule if isinstance(schedule, str) else schedule.__qualname__,
        "clip": clip,
        "patience": patience,
        "standardise": standardise,
        "seed": seed,
    }
    folder = None if run is None else make_folder(Path(run))
    if folder is not None:  # reading all the data is not free, so only where it is needed
        config |= {"data": digest(x, y), "validation": digest(*held) if held else None}
        if (folder / FILE).exists():
            return _finished(folder, config, nets[0])
    state = _start(folder, config, nets, x.device, plan, optimiser)
    architecture = Stack(nets[0])
    _train(
        state,
        plan,
        architecture,
        (x, y),
        held,
        _Saver(folder, config, checkpoint_seconds),
        progress,
    )
    model = Model(nets[0], _final(state), loss.head, _history(state, held), config)
    if folder is not None:
        model.save(folder)
        (folder / checkpoints.FILE).unlink(missing_ok=True)
    return model


@dataclass(frozen=True)
class _Plan:
    loss: Loss
    members: tuple[int, ...]
    epochs: int
    batch_size: int | None
    learning_rate: float
    schedule: Schedule
    clip: float | None
    patience: int | None
    seed: int


def _check_options(plan: _Plan, validation: Data | None) -> None:
    positive = {
        "members": len(plan.members),
        "epochs": plan.epochs,
        "batch_size": plan.batch_size,
        "learning_rate": plan.learning_rate,
        "clip": plan.clip,
        "patience": plan.patience,
    }
    for name, value in positive.items():
        if value is not None and not value > 0:
            raise NescioError(f"{name} must be positive, got {value}")
    if plan.patience is not None and validation is None:
        raise NescioError("patience needs validation data: validation=(x, y)")


def _make(
    make_net: Callable[[], nn.Module], members: Sequence[int], seed: int
) -> list[nn.Module]:
    if isinstance(make_net, nn.Module):
        raise NescioError(
            "the first argument must be a factory, called once a member: "
            "train(lambda: nets.mlp(2, 3), ...), not a network"
        )
    nets = []
    for member in members:
        with seeded(seed, "start", member):
            nets.append(make_net())
        if not isinstance(nets[-1], nn.Module):
            raise NescioError(f"the factory returned {type(nets[-1]).__name__}, not an nn.Module")
    if len(set(map(id, nets))) < len(nets):
        raise NescioError("the factory returned the same network twice; it must make a new one")
    return nets


def _check_data(data: Data, net: nn.Module, head: Head, name: str) -> tuple[Tensor, Tensor]:
    if not isinstance(data, (tuple, list)) or len(data) != 2:
        raise NescioError(f"{name} must be a pair (x, y)")
    dtype = next((p.dtype for p in net.parameters()), torch.float32)
    x = as_inputs(data[0], f"{name}: inputs", dtype=dtype)
    y = as_targets(data[1], len(x), task=head.task, dtype=dtype).to(x.device)
    return x, y


@torch.no_grad()
def _check_outputs(net: nn.Module, x: Tensor, y: Tensor, head: Head) -> None:
    """One dry run, in evaluation mode: does the network fit the data and the head?"""
    if head.task == "classification" and (y == y[0]).all():
        raise NescioError(f"all training labels are {int(y[0])}; a classifier needs two classes")
    was = net.training
    try:
        outputs = net.to(x.device).eval()(x[:2])
    except RuntimeError as error:
        raise NescioError(
            f"the network does not take inputs of shape {tuple(x.shape[1:])}: {error}"
        ) from error
    net.train(was)
    if not isinstance(outputs, Tensor) or outputs.ndim != 2 or len(outputs) != len(x[:2]):
        shape = tuple(outputs.shape) if isinstance(outputs, Tensor) else type(outputs).__name__
        raise NescioError(f"the network must return (cases, outputs), it returned {shape}")
    if head.task == "classification":
        check_labels(y, outputs.shape[1], y.shape)
    elif outputs.shape[1] != head.width * y.shape[1]:
        raise NescioError(
            f"{y.shape[1]} target(s) with the {head.name} head need {head.width * y.shape[1]} "
            f"network outputs, got {outputs.shape[1]}"
        )


def _finished(folder: Path, config: Mapping[str, Any], net: nn.Module) -> Model:
    model = Model.load(folder, net=net[1] if config["standardise"] else net)  # type: ignore[index]
    check_same_run(folder / FILE, model.notes, config)
    return model


def _start(
    folder: Path | None,
    config: Mapping[str, Any],
    nets: list[nn.Module],
    device: torch.device,
    plan: _Plan,
    name: str,
) -> State:
    if folder is not None and (folder / checkpoints.FILE).exists():
        return State.load(folder / checkpoints.FILE, config, device)
    members = len(nets)
    weights = {key: tensor.to(device) for key, tensor in stack(nets).items()}
    trained = [weights[key] for key, p in nets[0].named_parameters() if p.requires_grad]
    if not trained:
        raise NescioError("the network has no weights that require a gradient; nothing to train")
    nothing = torch.full((plan.epochs, members), torch.nan, device=device)
    return State(
        weights,
        optimiser(name, trained),
        active=list(range(members)),
        best={key: t.clone() for key, t in weights.items()} if plan.patience else {},
        train=nothing,
        validation=nothing.clone(),
        best_score=torch.full((members,), torch.inf, device=device),
        best_epoch=torch.zeros(members, dtype=torch.long, device=device),
        stopped=torch.full((members,), plan.epochs, dtype=torch.long, device=device),
        sums=torch.zeros(members, device=device),
    )


class _Saver:
    """Writes checkpoints now and then, and when asked to stop."""

    def __init__(self, folder: Path | None, config: Mapping[str, Any], seconds: float) -> None:
        self.path = None if folder is None else folder / checkpoints.FILE
        self.config, self.seconds = config, seconds
        self.last = time.monotonic()
        self.stop = False

    def after_step(self, state: State) -> None:
        due = self.path is not None and time.monotonic() - self.last >= self.seconds
        if (due or self.stop) and self.path is not None and state.sums.isfinite().all():
            state.save(self.path, self.config)
            self.last = time.monotonic()
        if self.stop:
            raise KeyboardInterrupt

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Turn Ctrl-C into a stop after the step under way, so that the state is whole."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return

        def handler(*_: Any) -> None:
            if self.stop:  # the second time: at once
                raise KeyboardInterrupt
            self.stop = True

        before = signal.signal(signal.SIGINT, handler)
        try:
            yield
        finally:
            signal.signal(signal.SIGINT, before)


def _train(
    state: State,
    plan: _Plan,
    architecture: Stack,
    data: tuple[Tensor, Tensor],
    held: tuple[Tensor, Tensor] | None,
    saver: _Saver,
    show: bool | None,
) -> None:
    x, y = data
    batch_size = min(plan.batch_size or len(x), len(x))
    steps = -(-len(x) // batch_size)
    low, high = x.amin(0), x.amax(0)
    work = sum(t.numel() for t in state.weights.values()) * batch_size
    with _prepared(work), saver.watching(), progress(plan.epochs, "training", show=show) as advance:
        advance(state.epoch, str)
        while state.epoch < plan.epochs and state.active:
            rng = Rng(plan.seed, tuple(plan.members[i] for i in state.active))
            orders = rng.at(state.epoch).orders(len(x)).to(x.device) if steps > 1 else None
            while state.step < steps:
                here = slice(state.step * batch_size, (state.step + 1) * batch_size)
                batch = _batch(x, y, orders, here, len(state.active), low, high)
                rate = plan.learning_rate * plan.schedule(
                    state.epoch * steps + state.step, plan.epochs * steps
                )
                losses = _step(
                    state, plan, architecture, batch, rng.at(state.epoch, state.step), rate
                )
                state.sums += losses * (batch.x.shape[1] / len(x))
                state.step += 1
                if state.step < steps:
                    saver.after_step(state)
            _end_epoch(state, plan, architecture, held)
            advance(1, lambda: f"loss {state.train[state.epoch - 1].nanmean():.4g}")
            saver.after_step(state)


@contextmanager
def _prepared(work: int) -> Iterator[None]:
    """Settings of the process that make steps fast, put back afterwards."""
    # A large block, freed untouched, makes the C library keep freed activations instead of
    # returning them to the system after each step and faulting them in again.
    del_me = torch.empty(31 << 18)
    del del_me
    threads = torch.get_num_threads()
    if work < TINY:
        torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def _batch(
    x: Tensor,
    y: Tensor,
    orders: Tensor | None,
    here: slice,
    members: int,
    low: Tensor,
    high: Tensor,
) -> Batch:
    if orders is None:
        inputs, targets = x.expand(members, *x.shape), y.expand(members, *y.shape)
    else:
        index = orders[:, here]
        inputs, targets = x[index], y[index]
    return Batch(inputs, targets, len(x), low, high)


def _step(
    state: State, plan: _Plan, architecture: Stack, batch: Batch, rng: Rng, rate: float
) -> Tensor:
    """One update of every active member; returns their losses `(A,)`."""
    leaves = [state.weights[name].requires_grad_() for name in architecture.trained]
    losses = plan.loss(Forward(architecture, state.weights, rng), batch, rng)
    slopes = torch.autograd.grad(losses.sum(), leaves, allow_unused=True)
    filled = [
        torch.zeros_like(leaf) if slope is None else slope
        for leaf, slope in zip(leaves, slopes, strict=True)
    ]
    if plan.clip is not None:
        filled = clip_members(filled, plan.clip)
    state.optimiser.update(leaves, filled, rate)
    return losses.detach()


@torch.no_grad()
def _end_epoch(
    state: State, plan: _Plan, architecture: Stack, held: tuple[Tensor, Tensor] | None
) -> None:
    if not state.sums.isfinite().all():
        member = plan.members[state.active[int((~state.sums.isfinite()).nonzero()[0])]]
        raise NescioError(
            f"the loss of member {member} became NaN or infinite in epoch {state.epoch}; try a "
            "smaller learning_rate, clip=1.0, standardise=True, or a head with a larger floor"
        )
    index = torch.tensor(state.active, device=state.sums.device)
    state.train[state.epoch, index] = state.sums
    state.sums = torch.zeros_like(state.sums)
    if held is not None:
        _validate(state, plan, architecture, held, index)
    state.epoch, state.step = state.epoch + 1, 0


def _validate(
    state: State, plan: _Plan, architecture: Stack, held: tuple[Tensor, Tensor], index: Tensor
) -> None:
    score = _held_out(plan.loss, Forward(architecture, state.weights), held, len(index))
    state.validation[state.epoch, index] = score
    if plan.patience is None:
        return
    better = score < state.best_score[index]
    winners = index[better]
    state.best_score[winners] = score[better]
    state.best_epoch[winners] = state.epoch
    for name, tensor in state.weights.items():
        state.best[name][winners] = tensor[better].detach()
    late = state.epoch - state.best_epoch[index] >= plan.patience
    if late.any():
        state.stopped[index[late]] = state.epoch + 1
        state.drop(late)


def _held_out(loss: Loss, forward: Forward, held: tuple[Tensor, Tensor], members: int) -> Tensor:
    """Mean score of each member on held-out data, in evaluation mode, in bounded pieces."""
    total = torch.zeros(members, device=held[0].device)
    for x, y in zip(held[0].split(1024), held[1].split(1024), strict=True):
        outputs = forward(x.expand(members, *x.shape))
        total += loss.score(outputs, y.expand(members, *y.shape)).flatten(1).sum(1)
    return total / len(held[0])


def _final(state: State) -> dict[str, Tensor]:
    return {name: t.detach() for name, t in (state.best or state.weights).items()}


def _history(state: State, held: tuple[Tensor, Tensor] | None) -> History:
    ran = int(state.stopped.max())
    best = state.best_epoch if state.best else state.stopped - 1
    validation = state.validation[:ran] if held is not None else None
    stopped, chosen = tuple(state.stopped.tolist()), tuple(best.tolist())
    return History(state.train[:ran], validation, stopped, chosen)
