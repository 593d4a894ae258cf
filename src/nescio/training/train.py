"""The one training loop: M members at once on stacked weights, resumable to the same bits."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from nescio.core import (
    CHECKPOINT,
    MODEL,
    Head,
    NescioError,
    Schedule,
    as_batch,
    as_targets,
    as_tensor,
    check_axes,
    check_counted,
    check_same_run,
    digest,
    hash_inputs,
    in_target_units,
    known_head,
    load,
    load_manifest,
    make_folder,
    one_thread,
    only_tensor,
    owned,
    schedule_named,
    seeded,
    without_ignored,
    write_json,
)
from nescio.data import door, is_frame, learn_columns
from nescio.data.augmentation import Augment, check_augments
from nescio.losses import Loss, Step, as_loss, nll
from nescio.models import as_head
from nescio.models.model import READABLE, History, Model
from nescio.nets import (
    columns_of,
    encoded,
    named_columns,
    reads_tokens,
    refusing_shapes,
    selected,
    sharing,
    standardized,
)
from nescio.nets.factory import needed_by
from nescio.nets.stack import Stack, dense, stack
from nescio.training.lbfgs import check_full_batch
from nescio.training.loop import Saver, diverged
from nescio.training.loop import run as run_loop
from nescio.training.optimizers import named_optimizer
from nescio.training.optimizers import optimizer as fresh
from nescio.training.options import Own, check_options, member_numbers, own_samples, whole
from nescio.training.plan import Pair, Plan, Rows
from nescio.training.state import State


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
    bootstrap: bool = False,
    augment: Augment | Sequence[Augment] = (),
    ignore_index: int | None = None,
    seed: int = 0,
    run: str | Path | None = None,
    checkpoint_seconds: float = 10.0,
    progress: bool | None = None,
) -> Model:
    """Train `members` networks at once and return them as one model.

    make_net: a factory, called once per member; each call draws its own initial weights. Where
    the data are a table, it may take the number of inputs: the encoding of the table is then
    learned from the training rows and becomes a part of the model (`nescio.nets.encoded`).
    members: how many, or which ones by number: member 3 alone is member 3 of an ensemble.
    data, validation: `(x, y)`, where x may be a table of pandas, Arrow or nescio, a torch Dataset
    or DataLoader, or other batches of such pairs, read into memory at the start. Labels are
    integers, regression targets floats. Images `(N, C, H, W)` of uint8 stay bytes until the
    batch; 255 is 1. Labels may be maps `(N, H, W)` where the network returns `(N, C, H, W)`, or
    have any other axes after the samples, as for torch's cross_entropy.
    loss: a combination from `nescio.losses`; negative log-likelihood of classes by default.
    head: how outputs are read, a head or its name, if no loss says it or the loss is a function.
    batch_size: samples per step; each member has its own order. None: all samples at once.
    optimizer: "adam", "sgd", or with batch_size=None "lbfgs", which finds its step lengths and ends
    at a gradient norm of 1e-8 ("lbfgs,tolerance=1e-6"). schedule: "constant", "cosine", "drops", or
    a function.
    clip: the largest gradient norm of a member. patience: epochs without a better validation score
    after which a member stops; each member then has its best weights.
    standardize: scale inputs by their training mean and deviation, as a layer of the model.
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
    bootstrap: each member trains on its own sample of the samples, drawn with replacement.
    augment: random changes of images, such as `[crops(4), mirrors()]` of nescio.data.augmentation.
    ignore_index: the label of what is left out, in training, validation and history; not a class.
    run: a folder for checkpoints; the same call with the same folder resumes where it stopped.
    """
    rule = schedule_named(schedule)
    config: dict[str, Any] = {
        "members": member_numbers(members),
        "epochs": whole("epochs", epochs),
        "batch_size": None if batch_size is None else whole("batch_size", batch_size),
        "optimizer": optimizer,
        "learning_rate": float(learning_rate),
        "schedule": [rule(step, 16) for step in range(16)],  # what it does is what it is
        "clip": None if clip is None else float(clip),
        "patience": None if patience is None else whole("patience", patience),
        "standardize": standardize,
        "bootstrap": bootstrap,
        "seed": whole("seed", seed),
    }
    config |= {"standardize_targets": True} if standardize_targets else {}
    check_options(config, validated=validation is not None or validation_rows is not None)
    named_optimizer(optimizer)  # known?
    objective = loss, head, ignore_index
    nets, pair, test, loss = _read(make_net, data, validation, objective, config)
    config = {"loss": loss.description, **config}
    asked = {"rows": rows, "validation_rows": validation_rows, "sample_weight": sample_weight}
    own = own_samples(pair, test, loss, len(nets), **asked, standardize_targets=standardize_targets)
    nets = [nets[index] for index in own.order]
    nets = _fitting(nets, pair, test, loss, own.rows, standardize=standardize)
    shapes = pair[0].shape[1:], pair[1].shape[1:]
    augments = check_augments(augment, *shapes, loss.ignore_index)
    config["augment"] = [step.description for step in augments]
    if run is not None:  # reading all the data is not free, so only where it is needed
        config |= {"net": str(nets[0]), "data": digest(*pair), **own.digests()}
        config |= {"validation": digest(*test) if test else None}
    plan = _plan(loss, nets[0], pair, test, rule, augments, own, config)
    return _run(plan, config, nets, own, run, checkpoint_seconds, progress)


def _read(
    make_net: Callable[[], nn.Module],
    data: Any,
    validation: Any,
    objective: tuple[Loss | Step | None, Head | str | None, int | None],
    config: Mapping[str, Any],
) -> tuple[list[nn.Module], Pair, Pair | None, Loss]:
    """The networks, training and validation data, and the loss.

    objective: loss, head and ignore index as they were given.
    """
    loss, head, ignore_index = objective
    nets = make_members(_without_arguments(make_net, data), config["members"], config["seed"])
    x, y = _arrays(data, nets[0], "training data")
    nets = [named_columns(net, data) for net in nets]
    read = None if head is None else as_head(head)
    if loss is None:
        loss = nll(read or _head(nets[0], x, y, ignore_index))
    loss = as_loss(loss, read).ignoring(ignore_index)
    y = _targets(y, x, loss.head, nets[0])
    test = None
    if validation is not None:
        held = _arrays(validation, nets[0], "validation data", x.device)
        test = held[0], _targets(held[1], held[0], loss.head, nets[0])
    return nets, (x, y), test, loss


def _run(
    plan: Plan,
    config: Mapping[str, Any],
    nets: list[nn.Module],
    own: Own,
    run: str | Path | None,
    seconds: float,
    progress: bool | None,
) -> Model:
    """Train, or resume in the folder of a run, or read what a finished run left there."""
    if run is None:
        state = _start(None, config, nets, plan, config["optimizer"])
        run_loop(state, plan, Saver(None, config, seconds), progress)
        return _trained(nets[0], state, plan, config, own)
    with owned(make_folder(Path(run))):
        if (Path(run) / MODEL).exists():
            return _finished(Path(run), config, nets[0], plan)
        path = Path(run) / CHECKPOINT
        state = _start(path, config, nets, plan, config["optimizer"])
        run_loop(state, plan, Saver(path, config, seconds), progress)
        model = _trained(nets[0], state, plan, config, own)
        model.write(path.parent)
        path.unlink(missing_ok=True)
        return model


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
    config: Mapping[str, Any],
) -> Plan:
    architecture, scaled = Stack(net), own.rows is not None or own.units is not None
    samples = len(data[0]) if own.rows is None else max(map(len, own.rows))
    plan = Plan(
        loss=loss,
        architecture=architecture,
        by_hand=dense(architecture, data[0].shape[1:], scaled=scaled),
        data=data,
        validation=validation,
        members=tuple(config["members"][index] for index in own.order),
        batch_size=min(config["batch_size"] or samples, samples),
        schedule=schedule,
        augments=augments,
        rows=own.rows,
        validation_rows=own.validation_rows,
        weight=None if own.weight is None else own.weight.to(_dtype(net)),
        units=own.units,
        **{name: config[name] for name in ("epochs", "learning_rate", "clip", "patience")},
        **{name: config[name] for name in ("seed", "bootstrap")},
    )
    if named_optimizer(config["optimizer"])[0] == "lbfgs":
        changing = any(factor != 1 for factor in config["schedule"])
        unfit = {"batch_size": plan.steps > 1, "schedule": changing, "augment": augments}
        check_full_batch(**unfit, clip=plan.clip, patience=plan.patience)
    return plan


def _without_arguments(make_net: Any, data: Any) -> Any:
    """A factory; one that takes the number of inputs gets the width of the encoded table."""
    needed = [] if isinstance(make_net, nn.Module) else needed_by(make_net)
    if not needed:
        return make_net
    table = data[0] if isinstance(data, tuple) and data else data
    if len(needed) > 1 or not is_frame(table):
        raise NescioError(
            f"the factory takes {', '.join(needed)}; it is called without "
            "arguments, or with the number of inputs where the training data are a table: "
            "train(lambda inputs: nets.mlp(inputs, 3), (table, y))"
        )
    columns = learn_columns(table)
    return lambda: encoded(make_net(columns.width), columns)


@one_thread()  # beside other work, more threads wait for each other at every small operation
def make_members(
    make_net: Callable[[], nn.Module], members: Sequence[int], seed: int
) -> list[nn.Module]:
    """A network for each member, whose initial weights are a function of seed and number."""
    if isinstance(make_net, nn.Module):
        raise NescioError(
            "the first argument must be a factory, called once per member: "
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


def _arrays(data: Any, net: nn.Module, name: str, device: torch.device | None = None) -> Pair:
    dtype = _dtype(net)
    if reads_tokens(net):
        raise NescioError(
            "train does not train networks that read tokens (with an embedding) yet; train yours "
            "with PyTorch, then use nescio.models.plain, nescio.guard or nescio.audit on it"
        )
    x, y = door.read(data, name=name, dtype=dtype, columns=columns_of(net))
    return only_tensor(x, "train").to(device or x.device), as_tensor(y, "targets")


def _targets(y: Tensor, x: Tensor, head: Head, net: nn.Module) -> Tensor:
    return as_targets(y, len(x), task=head.task, dtype=_dtype(net), maps=True).to(x.device)


def _head(net: nn.Module, x: Tensor, y: Tensor, ignore_index: int | None) -> Head:
    """Class logits, or where one output has labels 0 and 1, a binary logit."""
    outputs = _outputs(net, x)
    if outputs.ndim > 2:  # a label for each pixel or step
        y = y.flatten()
    return known_head(outputs.shape[-1], without_ignored(y, ignore_index)[0])


def _dtype(net: nn.Module) -> torch.dtype:
    return next((p.dtype for p in net.parameters()), torch.float32)


@one_thread()
def _fitting(
    nets: list[nn.Module],
    data: Pair,
    validation: Pair | None,
    loss: Loss,
    rows: Rows | None,
    *,
    standardize: bool,
) -> list[nn.Module]:
    """The networks on the device of the data, behind their scaling, if their outputs fit."""
    x, y = data
    if standardize:
        floats = as_batch(x, _dtype(nets[0]))
        each = [floats] * len(nets) if rows is None else [floats[own] for own in rows]
        nets = [standardized(net, own) for net, own in zip(nets, each, strict=True)]
    nets = [net.to(x.device) for net in nets]
    _check_outputs(nets[0], data, validation, loss)
    for labels in [y] if rows is None else [y[own] for own in rows]:
        _check_classes(labels, loss, whose="" if rows is None else " of a member")
    return nets


@torch.no_grad()
def _check_outputs(net: nn.Module, data: Pair, validation: Pair | None, loss: Loss) -> None:
    """One dry run, in evaluation mode: does the network fit the data and the head?"""
    (x, _), head = data, loss.head
    if validation is not None and validation[0].shape[1:] != x.shape[1:]:
        raise NescioError(
            f"validation inputs have shape {tuple(validation[0].shape[1:])} per sample, training "
            f"inputs {tuple(x.shape[1:])}"
        )
    outputs = _outputs(net, x)
    if len(outputs) != len(x[:2]) or (outputs.ndim != 2 and head.task != "classification"):
        shape = tuple(outputs.shape)
        raise NescioError(f"the network must return (samples, outputs), it returned {shape}")
    for _, targets in (data, validation or data):
        if head.task == "classification":
            check_axes(targets, outputs)
            classes = head.logits(outputs).shape[-1]
            check_counted(targets, classes, targets.shape, loss.ignore_index)
        elif outputs.shape[1] != head.width * targets.shape[1]:
            raise NescioError(
                f"{targets.shape[1]} target(s) with the {head.name} head need "
                f"{head.width * targets.shape[1]} network outputs, got {outputs.shape[1]}; of "
                "means alone the head is fixed_variance"
            )


def _check_classes(labels: Tensor, loss: Loss, *, whose: str) -> None:
    """Refuse training labels that are all the same."""
    if loss.head.task != "classification":
        return
    found, counts = without_ignored(labels, loss.ignore_index)
    found = found if counts is None else found[counts]
    if not found.numel() or found.min() == found.max():
        which = int(found.min()) if found.numel() else "ignored"
        raise NescioError(f"all training labels{whose} are {which}; a classifier needs two classes")


@torch.no_grad()
def _outputs(net: nn.Module, x: Tensor) -> Tensor:
    """What the network gives for two inputs, in evaluation mode, wherever it is."""
    first = next(net.parameters(), x)
    with refusing_shapes(x):
        return selected(sharing(net)(as_batch(x[:2].to(first.device), _dtype(net))))


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
    weights = {key: tensor.to(device) for key, tensor in stack(nets).items()}
    trained = [weights[key] for key, p in nets[0].named_parameters() if p.requires_grad]
    if not trained:
        raise NescioError("the network has no weights that require a gradient; nothing to train")
    like: dict[str, Any] = {"dtype": plan.dtype, "device": device}
    nothing = torch.full((plan.epochs, members), torch.nan, **like)
    rule = fresh(name, trained, apart=not plan.architecture.takes(plan.data[0].shape[1:]))
    keeps = plan.patience or rule.is_exact  # members then leave with their weights
    return State(
        weights=weights,
        optimizer=rule,
        active=list(range(members)),
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
    final = {name: t.detach() for name, t in (state.best or state.weights).items()}
    for name, tensor in final.items():
        good = tensor.isfinite().flatten(1).all(1) if tensor.ndim > 1 else tensor.isfinite()
        if not good.all():
            member = plan.members[int((~good).nonzero()[0])]
            raise diverged(member, plan.epochs - 1, f"the weights {name}")
    return final


def _history(state: State, plan: Plan) -> History:
    ran = int(state.stopped.max())
    best = state.best_epoch if state.best else state.stopped - 1
    validation = state.validation[:ran] if plan.validates else None
    stopped, chosen = tuple(state.stopped.tolist()), tuple(best.tolist())
    gradient = state.gradient[:ran] if state.optimizer.is_exact else None
    logs: dict[str, Any] = {"validation": validation, "gradient": gradient}
    return History(state.train[:ran], **logs, stopped=stopped, best=chosen)
