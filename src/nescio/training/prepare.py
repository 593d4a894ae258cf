"""Networks and data before training: made, read, and checked against each other."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from nescio.core import (
    Head,
    NescioError,
    as_batch,
    as_targets,
    as_tensor,
    check_axes,
    check_counted,
    digest,
    known_head,
    one_thread,
    only_tensor,
    seeded,
    without_ignored,
)
from nescio.data import Dataset, door, is_frame, learn_columns
from nescio.losses import Loss, as_loss, nll
from nescio.losses.loss import Step
from nescio.models import as_head, networks
from nescio.nets import (
    columns_of,
    encoded,
    entering,
    named_columns,
    needed_by,
    reads_tokens,
    refusing_shapes,
    selected,
    sharing,
    standardized,
)
from nescio.nets.stack import stack
from nescio.training.plan import Pair, Rows


def read(
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
    _check_marked(y, loss.head.task, loss.ignore_index)
    y = _targets(y, x, loss.head, nets[0])
    test = None
    if validation is not None:
        held = _arrays(validation, nets[0], "validation data", x.device)
        test = held[0], _targets(held[1], held[0], loss.head, nets[0])
    _check_outputs(nets[0], (x, y), test, loss)
    return nets, (x, y), test, loss


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
    x, y = door.read(data, name=name, **_reads(net))
    return only_tensor(x, "train").to(device or x.device), as_tensor(y, "targets")


def _reads(net: nn.Module) -> dict[str, Any]:
    """How a network reads its inputs."""
    tokens = reads_tokens(net)
    return {"dtype": dtype_of(net), "columns": columns_of(net), "tokens": tokens}


def unlabeled_inputs(inputs: Any, net: nn.Module, x: Tensor) -> Tensor | None:
    """Inputs without labels, if they are like the training inputs."""
    if inputs is None:
        return None
    _check_inputs_alone(inputs)
    found = door.as_network_inputs(inputs, "unlabeled inputs", **_reads(net))
    if not isinstance(found, Tensor):
        raise NescioError("unlabeled= takes one array of inputs, without labels, got several")
    if found.shape[1:] != x.shape[1:]:
        raise NescioError(
            f"unlabeled inputs have shape {tuple(found.shape[1:])} per sample, training inputs "
            f"{tuple(x.shape[1:])}; they must agree"
        )
    return found.to(x.device)


def _check_inputs_alone(given: Any) -> None:
    """Refuse unlabeled inputs that come with labels: nobody should wonder whether they are read."""
    if isinstance(given, Dataset):
        raise NescioError(
            f"unlabeled= takes inputs alone, and {given.name!r} has labels; give the inputs of its "
            "training part: unlabeled=dataset.train[0]"
        )
    labeled = isinstance(given, Mapping) and any(name in given for name in door.LABELS)
    if labeled or (isinstance(given, (tuple, list)) and len(given) == 2 and _is_pair(*given)):
        raise NescioError(
            "unlabeled= takes inputs alone, got inputs with labels; give unlabeled=x. Of a mixed "
            "set in which a label of -1 means none, train on (x[y >= 0], y[y >= 0]) with "
            "unlabeled=x[y < 0]"
        )


def _is_pair(x: Any, y: Any) -> bool:
    """Whether two arrays are inputs and their labels."""
    shapes = [tuple(getattr(part, "shape", ())) for part in (x, y)]
    return len(shapes[0]) > 0 and shapes[0][:1] == shapes[1][:1]


def _check_marked(y: Tensor, task: str, ignore_index: int | None) -> None:
    """Refuse labels of -1, by which others mark samples without a label."""
    if task != "classification" or y.ndim != 1 or ignore_index == -1 or y.is_floating_point():
        return
    marked = int((y == -1).sum())
    if marked:
        raise NescioError(
            f"{marked} of {len(y)} labels are -1, which is not a class; if it marks samples "
            "without a label, train on (x[y >= 0], y[y >= 0]) with unlabeled=x[y < 0], or leave "
            "them out by ignore_index=-1"
        )


def unlabeled_size(unlabeled: Tensor | None, config: Mapping[str, Any]) -> int:
    """How many inputs without labels each step has."""
    if unlabeled is None:
        return 0
    return config.get("unlabeled_size") or min(
        config["batch_size"] or len(unlabeled), len(unlabeled)
    )


def _targets(y: Tensor, x: Tensor, head: Head, net: nn.Module) -> Tensor:
    return as_targets(y, len(x), task=head.task, dtype=dtype_of(net), maps=True).to(x.device)


def _head(net: nn.Module, x: Tensor, y: Tensor, ignore_index: int | None) -> Head:
    """Class logits, or where one output has labels 0 and 1, a binary logit."""
    outputs = _outputs(net, x)
    if outputs.ndim > 2:  # a label for each pixel or step
        y = y.flatten()
    return known_head(outputs.shape[-1], without_ignored(y, ignore_index)[0])


def dtype_of(net: nn.Module) -> torch.dtype:
    """The number type of a network."""
    return next((p.dtype for p in net.parameters()), torch.float32)


@one_thread()
def scaled_networks(
    nets: list[nn.Module], x: Tensor, rows: Rows | None, unlabeled: Tensor | None = None
) -> list[nn.Module]:
    """The networks, each behind the scaling of its own samples and of inputs without labels."""
    if reads_tokens(nets[0]):
        raise NescioError("tokens are names, not numbers: leave standardize out")
    floats = as_batch(x, dtype_of(nets[0]))
    each = (floats for _ in nets) if rows is None else (floats[own] for own in rows)
    if unlabeled is not None:
        others = as_batch(unlabeled, dtype_of(nets[0]))
        each = (torch.cat([own, others]) for own in each)
    return [standardized(net, own) for net, own in zip(nets, each, strict=True)]


@torch.no_grad()
def start_from(nets: list[nn.Module], start: Any, order: Sequence[int]) -> dict[str, str]:
    """Give the networks the weights and statistics of a trained model; their fingerprint.

    start: the model; None: the networks stay as they are.
    order: the number of each network among the members, in case the model has one for each.
    """
    if start is None:
        return {}
    members = [member.net for member in networks(start)]
    if len(members) not in (1, len(nets)):
        raise NescioError(
            f"start has {len(members)} members, the run {len(nets)}; one for each, or one for all"
        )
    for net, index in zip(nets, order, strict=True):
        given = members[index % len(members)].state_dict()
        own = net.state_dict()
        for name in {**own, **given}:
            shapes = [tuple(one[name].shape) if name in one else None for one in (given, own)]
            if shapes[0] != shapes[1]:
                raise NescioError(
                    f"the weights to start from do not fit the network: {name!r} has shape "
                    f"{shapes[0]} there and {shapes[1]} here (None: it is missing)"
                )
        net.load_state_dict(given)
    tensors = (t for net in members for _, t in sorted(net.state_dict().items()))
    return {"start": digest(*tensors)}


def starting_weights(
    nets: list[nn.Module], device: torch.device | None = None
) -> tuple[dict[str, Tensor], list[Tensor]]:
    """The stacked tensors of the networks, and those among them that are trained."""
    weights = {name: tensor.to(device=device) for name, tensor in stack(nets).items()}
    trained = [weights[name] for name, p in nets[0].named_parameters() if p.requires_grad]
    if not trained:
        raise NescioError("the network has no weights that require a gradient; nothing to train")
    return weights, trained


@one_thread()
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
        shape = tuple(outputs.movedim(-1, 1).shape)  # as it returned them
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


@torch.no_grad()
def _outputs(net: nn.Module, x: Tensor) -> Tensor:
    """What the network gives for two inputs, in evaluation mode, wherever it is."""
    first = next(net.parameters(), x)
    with refusing_shapes(x):
        few = entering(x[:2], first.device, dtype_of(net), tokens=reads_tokens(net))
        return selected(sharing(net)(few), net=net)
