"""The one training loop: M members at once on stacked weights, resumable to the same bits."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from nescio.core import (
    CHECKPOINT,
    MODEL,
    TRAINED_ROWS,
    Engine,
    Head,
    NescioError,
    Schedule,
    check_same_run,
    digest,
    digests_of,
    hash_inputs,
    in_target_units,
    load,
    load_manifest,
    one_thread,
    owned_folder,
    schedule_named,
    write_json,
)
from nescio.data.augmentation import Augment, check_augments
from nescio.losses import Loss, Step
from nescio.models.model import READABLE, History, Model
from nescio.nets import marks_steps
from nescio.nets.stack import Stack, dense
from nescio.training.lbfgs import check_full_batch
from nescio.training.loop import Saver, diverged
from nescio.training.loop import run as run_loop
from nescio.training.optimizers import named_optimizer
from nescio.training.optimizers import optimizer as fresh
from nescio.training.options import Own, configured, own_samples
from nescio.training.plan import Pair, Plan
from nescio.training.prepare import (
    dtype_of,
    read,
    scaled_networks,
    start_from,
    starting_weights,
    unlabeled_inputs,
    unlabeled_size,
)
from nescio.training.spread import forget, train_apart
from nescio.training.state import State
from nescio.training.update import lost_member


def train(
    make_net: Callable[[], nn.Module],
    data: Any,
    *,
    loss: Loss | Step | None = None,
    head: Head | str | None = None,
    members: int | Sequence[int] = 1,
    epochs: int = 100,
    batch_size: int | None = 100,
    optimizer: str = "adam",
    learning_rate: float = 1e-3,
    schedule: str | Schedule = "constant",
    clip: float | None = None,
    validation: Any = None,
    patience: int | None = None,
    standardize: bool = False,
    standardize_targets: bool = False,
    rows: Any = None,
    validation_rows: Any = None,
    sample_weight: Any = None,
    unlabeled: Any = None,
    unlabeled_size: int | None = None,
    average: float | None = None,
    bootstrap: bool = False,
    augment: Augment | Sequence[Augment] = (),
    ignore_index: int | None = None,
    start: Model | nn.Module | None = None,
    precision: str = "float32",
    seed: int = 0,
    run: str | Path | None = None,
    checkpoint_seconds: float = 10.0,
    engine: Engine | None = None,
    progress: bool | None = None,
) -> Model:
    """Train `members` networks at once and return them as one model.

    make_net: a factory, called once per member; each call draws its own initial weights. Where the
      data are a table, it may take the number of inputs: the encoding of the table is then learned
      from the training rows and becomes a part of the model (`nescio.nets.encoded`).
    data: training data `(x, y)`, where x may be a table of pandas, Arrow or nescio, a torch Dataset
      or DataLoader, or other batches of such pairs, read into memory at the start. Labels are
      integers, regression targets floats. Images `(N, C, H, W)` of uint8 stay bytes until the
      batch; 255 is 1. Labels may be maps `(N, H, W)` where the network returns `(N, C, H, W)`, or
      have any other axes after the samples, as for torch's cross_entropy.
    loss: a combination from `nescio.losses`, or a function; None: negative log-likelihood.
    head: how outputs are read, a head or its name, if no loss says it or the loss is a function;
      None: class logits.
    members: how many, or which ones by number: member 3 alone is member 3 of an ensemble.
    epochs: number of passes over the data.
    batch_size: samples per step; each member has its own order. None: all samples at once.
    optimizer: "adam", "sgd", or with batch_size=None "lbfgs", which finds its step lengths and ends
      at a gradient norm of 1e-8 ("lbfgs,tolerance=1e-6").
    learning_rate: step size of the optimizer, before the schedule.
    schedule: a factor on the learning rate by step: "constant", "cosine", "drops", "ramps", or a
      function `(step, steps)`.
    clip: the largest gradient norm of a member; None: any.
    validation: validation data, in the forms of `data`; their loss is in the history.
    patience: epochs without a better validation score after which a member stops; each member then
      has its best weights. None: no early stopping.
    standardize: scale inputs by their training mean and deviation, as a layer of the model;
      unlabeled inputs count too.
    standardize_targets: learn the targets of a regression scaled by their training mean and
      deviation; the model has both and answers in the units of the targets. The losses in its
      history are those of scaled targets.
    rows: the samples of each member, as indices of the data: `(members, n)`, or a list with an
      array for each member, such as the training parts of splits or folds. A member trains as if
      its samples were all the data: the same updates (an epoch of fewer samples has fewer steps),
      scaling, ranges and orders; an index that occurs twice counts twice. The encoding of a table
      is learned from all its rows.
    validation_rows: the same for validation on samples of the data, in place of `validation`.
    sample_weight: weights of the samples, 0 or more, `(samples,)` or `(members, samples)`; the loss
      of a batch is the weighted mean. They do not count in validation and in scaling.
    unlabeled: inputs without labels, for losses that read `batch.unlabeled` (members, U, ...); each
      member sees them in its own order, with the same augmentations.
    unlabeled_size: how many unlabeled inputs a step has; None: as many as batch_size.
    average: the decay, such as 0.999, of a moving average of the weights, which is validated and
      returned in place of the last weights; a loss reads the averaged networks as
      `forward.average`, and `losses.mean_teacher` sets the decay. In the first steps it is the
      plain mean of the weights so far. The statistics of BatchNorm are averaged in the same way.
    bootstrap: each member trains on its own sample of the samples, drawn with replacement.
    augment: random changes of images, such as `[crops(4), mirrors()]` of nescio.data.augmentation,
      or `noise(0.1)` of inputs of any shape.
    ignore_index: the label of what is left out, in training, validation and history; not a class.
    start: a trained model, or a network, whose weights and statistics of BatchNorm the members
      start from, for fine-tuning; None: what `make_net` draws. A model of one member starts all.
    precision: "float32", or "bfloat16" for products and convolutions of a training step in numbers
      of 16 bits: about twice as fast on processors with AVX-512 BF16 or AMX, slower on others.
      Weights, losses and answers stay as they are.
    seed: seed of the initial weights, the orders and all other random draws.
    run: a folder for checkpoints; the same call with the same folder resumes where it stopped.
    checkpoint_seconds: time between checkpoints in `run`; it grows where writing one takes long.
    engine: where members train, such as `nescio.core.engine("ray")`, whose workers take a part of
      them each, to the same bits; None, or a local one: here, as one stack.
    progress: whether to draw a progress bar; None: where stderr is a terminal.
    """
    config = configured(locals())
    objective = loss, head, ignore_index
    nets, pair, test, loss = read(make_net, data, validation, objective, config)
    config = {"loss": loss.description, **config}
    asked = {"rows": rows, "validation_rows": validation_rows, "sample_weight": sample_weight}
    own = own_samples(pair, test, loss, len(nets), **asked, standardize_targets=standardize_targets)
    if own.rows is not None:
        config[TRAINED_ROWS] = digests_of(own.rows)
    others = unlabeled_inputs(unlabeled, nets[0], pair[0])
    nets = [nets[index] for index in own.order]
    if standardize:
        nets = scaled_networks(nets, pair[0], own.rows, others)
    config |= start_from(nets, start, own.order)
    nets = [net.to(pair[0].device) for net in nets]
    shapes = pair[0].shape[1:], pair[1].shape[1:]
    augments = check_augments(augment, *shapes, loss.ignore_index, marked=marks_steps(nets[0]))
    config["augment"] = [step.description for step in augments]
    if run is not None:  # reading all the data is not free, so only where it is needed
        config |= {"net": str(nets[0]), "data": digest(*pair), **own.digests()}
        config |= {"validation": digest(*test) if test else None}
        config |= {} if others is None else {"unlabeled": digest(others)}
    rule = schedule_named(schedule)
    plan = _plan(loss, nets[0], pair, test, rule, augments, own, others, config)
    several = engine is not None and engine.is_remote and len(nets) > 1
    how = engine if several else None, checkpoint_seconds, progress
    return _run(plan, config, nets, own, run, how)


def _run(
    plan: Plan,
    config: Mapping[str, Any],
    nets: list[nn.Module],
    own: Own,
    run: str | Path | None,
    how: tuple[Engine | None, float, bool | None],
) -> Model:
    """Train, or resume in the folder of a run, or read what a finished run left there."""
    if run is None:
        state = _to_the_end(None, plan, config, nets, how)
        return _trained(nets[0], state, plan, config, own)
    with owned_folder(run):
        if (Path(run) / MODEL).exists():
            return _finished(Path(run), config, nets[0], plan)
        path = Path(run) / CHECKPOINT
        state = _to_the_end(path, plan, config, nets, how)
        model = _trained(nets[0], state, plan, config, own)
        model.write(path.parent)
        path.unlink(missing_ok=True)
        forget(path.parent)
        return model


def _to_the_end(
    path: Path | None,
    plan: Plan,
    config: Mapping[str, Any],
    nets: list[nn.Module],
    how: tuple[Engine | None, float, bool | None],
) -> State:
    """The state at the end of a run; one that was begun here goes on here.

    how: the engine, the seconds between checkpoints, and whether to draw a progress bar.
    """
    engine, seconds, progress = how
    state = _start(path, config, nets, plan, config["optimizer"])
    if engine is not None and (path is None or not path.exists()):
        folder = None if path is None else path.parent
        return train_apart(state, plan, engine, folder, config, progress)
    run_loop(state, plan, Saver(path, config, seconds), progress)
    return state


@one_thread()
def _trained(
    net: nn.Module, state: State, plan: Plan, config: Mapping[str, Any], own: Own
) -> Model:
    """The model of a finished run, its members in the order in which they were asked for."""
    x, head = plan.data[0], plan.loss.head
    used = x if own.rows is None else x[torch.cat(own.rows).unique()]
    hashes = hash_inputs(used).unique()  # so that a guard recognizes the training data
    made = {"history": _history(state, plan), "notes": config, "seen": hashes}
    head = head if own.units is None else in_target_units(head, *own.units)
    model = Model(net, _final(state, plan), head, **made)
    return model if own.is_in_order else model.choose(own.places)


@one_thread()
def _plan(
    loss: Loss,
    net: nn.Module,
    data: Pair,
    validation: Pair | None,
    schedule: Schedule,
    augments: tuple[Augment, ...],
    own: Own,
    unlabeled: Tensor | None,
    config: Mapping[str, Any],
) -> Plan:
    architecture, scaled = Stack(net), own.rows is not None or own.units is not None
    samples = len(data[0]) if own.rows is None else max(map(len, own.rows))
    half = "precision" in config
    if half and dtype_of(net) is torch.float64:
        raise NescioError(
            'precision="bfloat16" is for float32 networks: float64 is never rounded to it; leave '
            "it out, or give net.float()"
        )
    plan = Plan(
        loss=loss,
        architecture=architecture,
        by_hand=None if half else dense(architecture, data[0].shape[1:], scaled=scaled),
        half=half,
        data=data,
        validation=validation,
        members=tuple(config["members"][index] for index in own.order),
        batch_size=min(config["batch_size"] or samples, samples),
        schedule=schedule,
        augments=augments,
        rows=own.rows,
        validation_rows=own.validation_rows,
        weight=None if own.weight is None else own.weight.to(dtype_of(net)),
        units=own.units,
        unlabeled=unlabeled,
        unlabeled_size=unlabeled_size(unlabeled, config),
        average=_averaging(config.get("average"), loss),
        **{name: config[name] for name in ("epochs", "learning_rate", "clip", "patience")},
        **{name: config[name] for name in ("seed", "bootstrap")},
    )
    if named_optimizer(config["optimizer"])[0] == "lbfgs":
        changing = any(factor != 1 for factor in config["schedule"])
        unfit = {"batch_size": plan.steps > 1, "schedule": changing, "augment": augments}
        unfit |= {"average": plan.average, "unlabeled": unlabeled is not None}
        check_full_batch(**unfit, clip=plan.clip, patience=plan.patience)
    return plan


def _averaging(decay: float | None, loss: Loss) -> Schedule | None:
    """The decay of averaged weights by step: as asked for, or what the loss needs."""
    return loss.average if decay is None else lambda _, __: decay


def _finished(folder: Path, config: Mapping[str, Any], net: nn.Module, plan: Plan) -> Model:
    manifest = load_manifest(folder / MODEL, "model")
    check_same_run(folder / MODEL, manifest.get("notes", {}), config)
    inner = net[1] if config["standardize"] else net  # type: ignore[index]
    head = plan.loss.head if manifest["head"].get("given") else None  # nescio builds others
    model: Model = load(folder / MODEL, kind="model", net=inner, head=head)
    if not (folder / READABLE).exists():  # a kill came just before it
        write_json(folder / READABLE, model.manifest)
    (folder / CHECKPOINT).unlink(missing_ok=True)
    return model.to(plan.data[0].device)


@one_thread()
def _start(
    path: Path | None, config: Mapping[str, Any], nets: list[nn.Module], plan: Plan, name: str
) -> State:
    device = plan.data[0].device
    if path is not None and path.exists():
        return State.load(path, config, device)
    members = len(nets)
    weights, trained = starting_weights(nets, device)
    like: dict[str, Any] = {"dtype": plan.dtype, "device": device}
    nothing = torch.full((plan.epochs, members), torch.nan, **like)
    rule = fresh(name, trained)
    keeps = plan.patience or rule.is_exact  # members then leave with their weights
    return State(
        weights=weights,
        optimizer=rule,
        active=list(range(members)),
        average={} if plan.average is None else {key: t.clone() for key, t in weights.items()},
        best={key: t.clone() for key, t in weights.items()} if keeps else {},
        train=nothing,
        validation=nothing.clone(),
        best_score=torch.full((members,), torch.inf, **like),
        best_epoch=torch.zeros(members, dtype=torch.long, device=device),
        stopped=torch.full((members,), plan.epochs, dtype=torch.long, device=device),
        sums=torch.zeros(members, **like),
        memory={},
        gradient=nothing.clone() if rule.is_exact else torch.empty(0),
    )


def _final(state: State, plan: Plan) -> dict[str, Tensor]:
    final = {name: t.detach() for name, t in (state.best or state.answering).items()}
    for name, tensor in final.items():
        if (lost := lost_member(tensor)) is not None:
            raise diverged(plan.members[lost], plan.epochs - 1, f"the weights {name}")
    return final


def _history(state: State, plan: Plan) -> History:
    ran = int(state.stopped.max())
    best = state.best_epoch if state.best else state.stopped - 1
    validation = state.validation[:ran] if plan.validates else None
    stopped, chosen = tuple(state.stopped.tolist()), tuple(best.tolist())
    gradient = state.gradient[:ran] if state.optimizer.is_exact else None
    logs: dict[str, Any] = {"validation": validation, "gradient": gradient}
    return History(state.train[:ran], **logs, stopped=stopped, best=chosen)
