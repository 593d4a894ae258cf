"""Observe networks on data: one forward pass, whatever is read afterwards."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from nescio.core import (
    Bundle,
    Head,
    Inputs,
    NescioError,
    as_targets,
    digest,
    keep_freed,
    known_head,
    zero_one,
)
from nescio.core import progress as bar
from nescio.data import door
from nescio.detectors.activations import (
    CONCENTRATIONS,
    REGRESSION,
    TASK,
    Activations,
    check_finite,
    hash_inputs,
)
from nescio.detectors.observe.layers import (
    BEFORE,
    Pool,
    check_pool,
    chosen,
    last_linear,
    latent_layer,
    named,
    place,
    placed_in,
    pooled,
)
from nescio.detectors.observe.network import (
    HALVES,
    Network,
    check_outputs,
    networks,
    reader,
)
from nescio.detectors.observe.store import Column, Room, Store
from nescio.models.model import CLASSES, refuse_sigmoid
from nescio.nets import Output, located, selected

FEW = 4  # samples of the dry run
MEMORY = 2_000_000_000  # bytes
LAYER = "layer "  # how the column of a layer's features is named
INPUTS = "inputs"  # the column of inputs, or how those of several tensors begin


@dataclass(frozen=True, eq=False)
class Seen:
    """What a dry run found out about a network."""

    network: Network  # with its places
    logits: Tensor  # (n, C)
    rows: dict[str, Tensor]  # by place, (n, F)
    last: str | None  # the place that enters the last linear layer
    linear: str | None  # the last linear layer, where its output is the network's to the bit

    @property
    def widths(self) -> dict[str, int]:
        """Numbers a sample by column, which all networks must share."""
        rows = {f"{LAYER}{name}": value.shape[1] for name, value in self.rows.items()}
        return {"logits": self.logits.shape[1], **rows}


def observe(
    source: Any,
    data: Any,
    *,
    layers: Any = None,
    pool: Pool = "mean",
    labels: Any = None,
    count: int | None = None,
    inputs: bool = False,
    output: Output = None,
    head: Head | str | None = None,
    batch_size: int = 256,
    memory: int = MEMORY,
    folder: str | Path | None = None,
    progress: bool | None = None,
) -> Activations:
    """What networks give for data: logits, features of layers, labels, hashes of the inputs.

    Of a regression, which needs `head`, the logits are means and the labels targets `(N, D)`.

    source: an `nn.Module`, a nescio model, or a list of modules. It is only read.
    data: what every function takes (`nescio.data.door`): an array, `(x, y)`, a mapping of arrays, a
      DataLoader or other iterable of batches, or an OOD source with `count`.
    layers: names, patterns, indices among the layers in the order of their calls, types, or a list
      of these: their outputs. None: what enters the last linear layer, or the output of the layer
      that the network names in an attribute `latent_layer`, as posterior networks do.
    pool: of maps `(N, C, ...)`: "mean", "max", "flatten"; of sequences `(N, T, F)`: "tokens" (their
      mean), "first"; or a function to `(N, F)`.
    labels: one per sample, where the data come without; False leaves those of the data out.
    count: number of samples that are read, from the first on; None: all.
    inputs: whether to keep them, for detectors that need gradients.
    output: where the logits are in what the network returns: an index, a key or a function. None:
      it is looked for (`.logits`, the key "logits", the only tensor of two axes), and recorded in
      `about`.
    head: how the outputs of modules are read, a head of `nescio.heads` or its name. None: class
      logits, or of one output with labels 0 and 1 a binary logit; what is unclear is asked for.
    batch_size: number of samples that the networks read at a time.
    memory: bytes; what takes more is written to files in `folder` and mapped, and so is what comes
      from an iterable of unknown length.
    folder: where the files of large activations are written; None: a temporary folder.
    progress: whether to draw a progress bar; None: where stderr is a terminal.
    """
    check_pool(pool)
    keep_freed()
    if memory < 0:
        raise NescioError(f"memory must be 0 bytes or more, got {memory}")
    nets = [reader(member, output, pool) for member in networks(source, head)]
    reads = {**nets[0].reads, "targets": nets[0].head.task == REGRESSION}
    batches = door.batches(
        data, labels=labels, count=count, batch_size=batch_size, fixed=inputs, **reads
    )
    with torch.inference_mode(False), torch.no_grad():
        first = batches.first
        seen = [_dry_run(net, layers, first[0][:FEW], first[1]) for net in nets]
        _check_alike(seen)
        nets = [one.network for one in seen]
        kept = batches.whole if inputs else None
        columns = _columns(seen, first, inputs=inputs and kept is None)
        room = Room(columns, batches.most, memory, None if folder is None else Path(folder))
        with (
            bar(batches.most or 0, f"observing ({room})", show=progress) as advance,
            room.open(first[0].device) as stores,
        ):
            samples = 0
            for x, y in batches:
                _write(stores, seen, samples, x, _labels(nets[0].head, y))
                samples += len(x)
                advance(len(x), str)
            found = {name: store.whole(samples) for name, store in stores.items()}
        size = sum(tensor.nbytes for tensor in found.values())
        mapped = room.on_disk and (room.bytes is not None or folder is not None or size > memory)
        if room.on_disk and not mapped:  # it turned out to be little
            found = {name: tensor.clone() for name, tensor in found.items()}
    about = {**_about(seen, pool), "data": digest(found["hashes"]), "bytes": size}
    return Activations(
        logits=_checked(found["logits"], nets[0].head),
        features={name: found[LAYER + name] for name in seen[0].network.places},
        labels=found.get("labels"),
        inputs=_inputs(found) if kept is None else kept,
        **_last_layer(seen, found["logits"]),
        answers=[net.answer for net in nets],
        about={**about, "stored": "files" if mapped else "memory"},
        hashes=found["hashes"],
        checked=True,
    )


def _checked(logits: Tensor, head: Head) -> Tensor:
    """The logits; of one logit they are refused where all are probabilities."""
    if head.name == "binary":
        refuse_sigmoid(logits[..., 1:])
    return logits


def _about(seen: Sequence[Seen], pool: Pool) -> dict[str, Any]:
    """How the networks were read, as JSON."""
    first = seen[0].network
    head = {"name": first.head.name, "options": dict(first.head.options)}
    columns = first.reads["columns"]
    return {
        "network": type(first.net).__name__,
        "layers": list(first.places),
        "pool": named(pool),
        "output": named(first.output),
        **({} if first.head.name == "categorical" else {"head": head}),
        **({TASK: REGRESSION} if first.head.task == REGRESSION else {}),
        **({} if first.head.log_concentrations is None else {CONCENTRATIONS: True}),
        "dtype": str(first.dtype).removeprefix("torch."),
        "linear": seen[0].linear if all(one.linear for one in seen) else None,
        **({} if columns is None else {"columns": columns.layout}),
    }


def _check_alike(seen: Sequence[Seen]) -> None:
    for member, other in enumerate(seen):
        if other.widths != seen[0].widths:
            raise NescioError(
                f"network {member} differs from network 0: it gives {other.widths}, that one "
                f"{seen[0].widths}; name layers= that all have alike"
            )


def _named(x: Inputs) -> dict[str, Tensor]:
    if isinstance(x, Bundle):
        return {f"{INPUTS} {name}": part for name, part in x.parts.items()}
    return {INPUTS: x}


def _inputs(columns: dict[str, Tensor]) -> Inputs | None:
    """What `_named` took apart; None: no inputs were kept."""
    start = f"{INPUTS} "
    parts = {n.removeprefix(start): t for n, t in columns.items() if n.startswith(start)}
    return Bundle(parts) if parts else columns.get(INPUTS)


def _labels(head: Head, y: Tensor | None) -> Tensor | None:
    """Labels as integers, where the head knows that they are 0 and 1; targets `(N, D)`."""
    if y is None or head.task == REGRESSION:
        return None if y is None else as_targets(y, len(y), task=head.task)
    return zero_one(y) if head.name == "binary" else y


def _dry_run(network: Network, layers: Any, x: Inputs, y: Tensor | None) -> Seen:
    """Which places are meant, how wide they are, and whether a linear layer gives the logits."""
    net = network.net
    result, calls = network.traced(x)
    output = located(result) if network.output is None else network.output
    places = placed_in(net, chosen(layers, net, calls))
    outputs = selected(result, output)
    if outputs.ndim != 2:
        replace(network, output=None).picked(outputs, x)  # says what was expected
    head = known_head(outputs.shape[-1], y) if network.head is CLASSES else network.head
    placed = replace(network, output=output, places=places, head=head)
    logits, linear = head.logits(placed.picked(result, x)), last_linear(calls)
    ends = () if linear is None else (BEFORE + linear, linear)
    held = network.held(x, tuple(dict.fromkeys((*places, *ends))))
    rows = {name: pooled(network.pool, place(name, net), held[name], len(x)) for name in places}
    check_outputs(outputs, head)
    own = latent_layer(net)
    nothing = Seen(placed, logits, rows, own if own in rows else None, None)
    if linear is None:
        return nothing
    entering, given = held[BEFORE + linear], held[linear]
    near = 1e-2 if entering.dtype in HALVES else 1e-4
    same = _equal(outputs, given)
    normed = not (same and (head.gives_logits or head.expand is not None))
    if not same:
        if outputs.shape != given.shape or not head.gives_logits:
            return nothing
        logs = given.double().log_softmax(1)
        if not torch.allclose(outputs.double(), logs, rtol=near, atol=near):
            return nothing
    exact = F.linear(entering.double(), *network.linear(linear, entering.double()))
    if not torch.allclose(exact, given.double(), rtol=near, atol=near):  # a layer of its own kind
        return nothing
    alike = [None, *(name for name, row in rows.items() if _equal(row, entering))]
    last = BEFORE + linear if BEFORE + linear in alike else alike[-1]
    # Of logits less their log-sum-exp, the features are known; weights would give other logits.
    return Seen(placed, logits, rows, last, None if normed else linear)


def _equal(ours: Tensor, theirs: Tensor) -> bool:
    same = ours.shape == theirs.shape and torch.equal(ours, theirs.to(ours.dtype))
    return same and bool(ours.any())


def _columns(seen: Sequence[Seen], first: door.Batch, *, inputs: bool) -> tuple[Column, ...]:
    (x, y), members = first, len(seen)
    y = _labels(seen[0].network.head, y)
    rows = {"logits": seen[0].logits, **{LAYER + n: row for n, row in seen[0].rows.items()}}
    columns = [Column(n, members, (row.shape[1],), row.dtype) for n, row in rows.items()]
    columns.append(Column("hashes", 0, (), torch.int64))
    if y is not None:
        columns.append(Column("labels", 0, tuple(y.shape[1:]), y.dtype))
    for name, part in _named(x).items() if inputs else ():
        columns.append(Column(name, 0, tuple(part.shape[1:]), part.dtype))
    return tuple(columns)


def _write(
    stores: Mapping[str, Store], seen: Sequence[Seen], start: int, x: Inputs, y: Tensor | None
) -> None:
    stores["hashes"].write(start, hash_inputs(x))
    if y is not None:
        stores["labels"].write(start, y)
    for name, part in _named(x).items():
        if name in stores:
            stores[name].write(start, part)
    for member, one in enumerate(seen):
        logits, features = one.network(x)
        rows = {"logits": logits, **{LAYER + name: row for name, row in features.items()}}
        for name, row in rows.items():
            check_finite(f"{name} of the inputs from sample {start}", row[None])
            stores[name].write(start, row, member)


def _last_layer(seen: Sequence[Seen], like: Tensor) -> dict[str, Any]:
    if any(one.last is None or one.last != seen[0].last for one in seen):
        return {}
    if any(one.linear is None for one in seen):
        return {"last": seen[0].last}
    layers = [one.network.linear(one.linear or "", like, one.network.head) for one in seen]
    weights, biases = zip(*layers, strict=True)
    return {"weight": torch.stack(weights), "bias": torch.stack(biases), "last": seen[0].last}
