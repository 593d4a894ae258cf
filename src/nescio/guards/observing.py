"""What a guard is fitted on: copies of the networks, their activations, and the detectors."""

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from torch import Tensor, nn

from nescio.core import Head, NescioError
from nescio.core.registry import detectors
from nescio.data import door
from nescio.detectors import Activations, Detector, read_back, recorded_nets
from nescio.detectors.default import GRID, See, default_detector, watched_layers
from nescio.detectors.observe import observe
from nescio.detectors.observe.network import Network, head_of, networks
from nescio.guards.default_failure import default_failure
from nescio.guards.splitting import Split
from nescio.guards.watching import learn_range
from nescio.models import Member, same_head
from nescio.nets import Output, copied, named_columns

Fitted = Detector | str | Callable[[Activations], Detector]


def read_data(
    members: Sequence[Member],
    data: Mapping[str, Any],
    given: tuple[Any, Any],
    options: Mapping[str, Any],
    progress: bool | None,
) -> tuple[Activations, Activations | None]:
    """Activations of the calibration data and, where there are some, of the training data."""
    nets = [member.net for member in members]
    layers, pool = _layers_to_read(
        nets, *given, options["layers"], options["pool"] or _pool(given[0]), options["output"]
    )
    own = {**options, "pool": pool, "progress": progress}
    own.pop("layers")
    samples, layers = _observed(members, data["calibration"], layers, "calibration", **own)
    if data["train"] is None:
        return samples, None
    read = head_of(samples.about, members)
    members = [replace(member, head=read) for member in members]
    return samples, _observed(members, data["train"], layers, "train", **own)[0]


def of_recorded(source: Any, data: Mapping[str, Any]) -> tuple[Any, dict[str, Any]]:
    """Rows of a network that runs elsewhere as activations, which stand for it; others as given."""
    nets = recorded_nets(source)
    if not nets:
        return source, dict(data)

    def read(given: Any) -> Activations | None:
        if given is None or isinstance(given, Activations):
            return given
        x, y = door.read(given, labels=False)
        return read_back(nets, x, None if y is None else y.long())

    return None, {name: read(given) for name, given in data.items()}


def _pool(detector: Fitted | None) -> str:
    return GRID if detector is None else "mean"


def _seeing(
    members: Sequence[Member], base: Activations | None, options: Mapping[str, Any]
) -> See | None:
    """What runs the networks on outliers, as they were run on the training data."""
    if not members or base is None or not base.features or "pool" not in base.about:
        return None  # activations of the user's
    own = {**options, "layers": list(base.features), "pool": base.about["pool"]}
    own |= {"inputs": True, "progress": False}
    read = head_of(base.about, members)
    return partial(observe, [replace(member, head=read) for member in members], **own)


def _layers_to_read(
    nets: Sequence[nn.Module],
    detector: Fitted | None,
    failure: Fitted | None,
    layers: Any,
    pool: str,
    output: Output,
) -> tuple[Any, str]:
    """The layers and the pooling: of a fitted detector, as given, or found with some inputs."""
    if isinstance(detector, Detector):
        more = [] if failure is None or isinstance(failure, Detector) else [None]
        return [*detector.layers, *more], detector.about.get("pool", pool)
    if nets and layers is None:
        return lambda x: watched_layers(nets[0], x, pool=pool, output=output), pool
    return layers, pool


def known(
    train: Activations | None, source: Any, fitted: Sequence[Any]
) -> Iterator[tuple[str, Tensor | None]]:
    """Hashes of inputs that something was trained or fitted on, with words for where they are.

    source: the model, or models and modules in a list. fitted: detectors that were given.
    """
    yield "the training data given", None if train is None else train.hashes
    for seen in _seen(source):
        yield "the data the model was trained on", seen
    for one in fitted:
        if isinstance(one, Detector):
            yield f"the data the detector {one.name} was fitted on", one.fitted_on


def _seen(source: Any) -> Iterator[Tensor]:
    """Hashes of the inputs that each of the models was trained on, where they are known."""
    if isinstance(source, (list, tuple)):
        for part in source:
            yield from _seen(part)
    elif isinstance(found := getattr(source, "seen", None), Tensor):
        yield found


def inputs_of(samples: Activations) -> dict[str, Any]:
    """What a guard keeps of the calibration inputs: their range and their hashes."""
    return {
        "range": None if samples.inputs is None else learn_range(samples.inputs),
        "hashes": None if samples.hashes is None else samples.hashes.sort().values,
    }


def counts_of(
    samples: Activations, trained: Activations | None, parts: Split, fitted: Detector
) -> dict[str, Any]:
    """How many samples served what, and the layers that are read."""
    hashes = samples.hashes
    return {
        "calibration": samples.samples,
        "fitting": len(parts.fitting),
        "train": None if trained is None else trained.samples,
        "tuning": len(parts.tuning),
        "guarantee_samples": len(parts.guarantees),
        "copies": 0 if hashes is None else samples.samples - len(hashes.unique()),
        "layers": list(fitted.layers),
    }


def rows_of(samples: Activations, chosen: Tensor) -> Activations:
    """The chosen samples; no copy where these are all."""
    return samples if len(chosen) == samples.samples else samples[chosen]


def copies_of(source: Any, batch_size: int, head: Head | str | None, data: Any) -> list[Member]:
    """The networks as they are now, in evaluation mode; none for activations alone.

    data: if they are a table of numbers, the copies know the names of its columns.
    """
    if batch_size < 1:
        raise NescioError(f"batch_size must be at least 1, got {batch_size}")
    members = [] if source is None else networks(source, head)
    if not all(same_head(member.head, members[0].head) for member in members):
        raise NescioError("the networks have different heads; guard those of one head")
    return own_copies(members, data)


def own_copies(members: Sequence[Member], data: Any) -> list[Member]:
    """The members with copies of their networks: later training does not change a guard."""
    nets = [named_columns(copied(member.net).eval(), data) for member in members]
    return [replace(member, net=net) for member, net in zip(members, nets, strict=True)]


def _observed(
    members: Sequence[Member], data: Any, layers: Any, name: str, **options: Any
) -> tuple[Activations, Any]:
    """Activations with their inputs, and the layers to read in other data."""
    if isinstance(data, Activations):
        return data, list(data.features)
    if not members:
        raise NescioError(
            f"without a network {name} must be activations, got {type(data).__name__}"
        )
    reads = {**Network(members[0].net).reads, "targets": members[0].head.task == "regression"}
    batches = door.batches(data, batch_size=options["batch_size"], **reads)
    if callable(layers):  # they are chosen by means of a few inputs
        layers = layers(batches.first[0])
    return observe(list(members), batches, layers=layers, inputs=True, **options), layers


def both_detectors(
    detector: Fitted | None,
    failure: Fitted | None,
    base: Activations | None,
    tuning: tuple[Activations, Tensor] | None,
    run: tuple[Sequence[Member], Mapping[str, Any]],
) -> tuple[Detector, Detector | None]:
    """The detector of OOD inputs and the failure score; `tuning`: labeled samples to choose it."""
    failure_score = None if failure is None else fitted_detector(failure, base)
    if detector is not None:
        return fitted_detector(detector, base), failure_score
    assert base is not None
    see, nets = _seeing(run[0], base, run[1]), [member.net for member in run[0]]
    return default_detector(base, see), failure_score or default_failure(base, tuning, nets)


def fitted_detector(wanted: Fitted, base: Activations | None) -> Detector:
    """The detector that is meant, fitted on `base` where it is not yet."""
    if isinstance(wanted, Detector):
        return wanted
    build: Callable[..., Detector]
    build = wanted if not isinstance(wanted, str) else detectors.built(wanted)
    if isinstance(wanted, str) and "train" not in inspect.signature(build).parameters:
        try:
            unfitted: Detector = build()  # type: ignore[call-arg]
        except TypeError:
            raise NescioError(
                f"{wanted} needs more than its name: make it, as in detectors.{wanted}(...), and "
                "give that"
            ) from None
        return unfitted
    if base is None:
        raise NescioError("a failure score is fitted on train=; give it, or a fitted one")
    made = build(base)
    if not isinstance(made, Detector):
        raise NescioError(f"the function for a detector returned a {type(made).__name__}")
    return made


def class_names(names: Sequence[str] | None, classes: int) -> tuple[str, ...] | None:
    """The names of the classes, one each."""
    if names is not None and len(names) != classes:
        raise NescioError(f"{len(names)} names for {classes} classes; one each")
    return None if names is None else tuple(map(str, names))
