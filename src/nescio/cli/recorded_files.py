"""Arrays in place of a network: what one gave for samples, in .npy and .npz files."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from nescio.cli import options as opt
from nescio.cli.options import option, titled

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from torch import Tensor

    from nescio.data import readers
    from nescio.detectors import Activations

KINDS = ("logits", "features", "labels")
ABOUT_NETWORK = {  # options that say nothing about arrays
    "weights", "net_name", "data_name", "calibration_name", "part", "train_name", "target", "tune",
    "validation_name", "ood", "near", "output", "head", "passes", "recipe", "epochs", "layer",
    "attack_steps", "attack_radius", "rays", "pool", "ignore_index", "miscoverage", "intervals",
    "max_width",
}  # fmt: skip
WHAT = {"logits": "(samples, classes)", "features": "(samples, features)", "labels": "(samples,)"}

# fmt: off
FEATURES = option("--features", "Of the same samples, what enters the last layer, (samples, "
    "features).  [default: the logits serve as features]", type=opt.PATH, metavar="FILE")
LABELS = option("--labels", "Of the same samples, the classes as whole numbers, (samples,).",
    type=opt.PATH, metavar="FILE")
PROBABILITIES = option("--probabilities", "What stands for logits, in all of these files, are "
    "probabilities.", is_flag=True)
OOD = [
    option("--ood-logits", "The logits for OOD inputs, NAME=FILE. Repeatable.", multiple=True,
        metavar="NAME=FILE"),
    option("--ood-features", "Their features, by the same names. Repeatable.", multiple=True,
        metavar="NAME=FILE"),
]
# fmt: on
PARTS = {
    "train": "the training samples, which fit the detector",
    "validation": "other samples than --logits, which fit temperatures and guard",
}


def of_arrays(
    *parts: str, labels: bool = True, instead: str = "NETWORK and its data"
) -> list[opt.Option]:
    """The options of a network that runs elsewhere: of samples, and of `parts` as in `taken`."""
    logits = option(
        "--logits",
        f"In place of {instead}: the logits of a network that runs elsewhere, (samples, classes) "
        "in an .npy file, or as logits in an .npz file.",
        type=opt.PATH,
        metavar="FILE",
    )
    own = [logits, FEATURES, *[LABELS] * labels, PROBABILITIES]
    for part in parts:
        own += OOD if part == "ood" else _of_part(part, PARTS[part])
    return titled("Arrays, of a network that runs elsewhere", *own)


def _of_part(part: str, what: str) -> list[opt.Option]:
    """The three options of other samples, such as --train-logits."""
    return [
        option(f"--{part}-{kind}", f"Of {what}, as --{kind}.", type=opt.PATH, metavar="FILE")
        for kind in KINDS
    ]


def taken(options: dict[str, Any], *parts: str) -> "dict[str, Any] | None":
    """The arrays that options name, which are taken out; None: there are no --logits.

    parts: of "train", "validation" and "ood"; the first samples are under "test".
    """
    sure = bool(options.pop("probabilities", False))
    known = _recorded(options, "", sure)
    found: dict[str, Any]
    found = {part: _recorded(options, part, sure, known) for part in parts if part != "ood"}
    if "ood" in parts:
        found["ood"] = _recorded_ood(options, sure) or None
    if known is None and (sure or any(one is not None for one in found.values())):
        from nescio.core import NescioError

        raise NescioError("arrays of other samples go with --logits and --labels of the first")
    return None if known is None else {"test": known, **found}


def _recorded(
    options: dict[str, Any], part: str, probabilities: bool, known: "Activations | None" = None
) -> "Activations | None":
    """What files say of samples; None: there are none.

    known: other arrays; samples without logits get those of the last layer that these
    show.
    """
    from nescio.core import NescioError
    from nescio.detectors import has_features, recorded, recovered_logits

    start = f"{part}_" if part else ""
    files = {kind: options.pop(f"{start}{kind}", None) for kind in KINDS}
    given = {kind: file for kind, file in files.items() if file is not None}
    shown = known is not None and has_features(known) and "features" in given
    if given and "logits" not in given and not shown:
        flag = f"--{start}".replace("_", "-")
        said = f"{flag}{next(iter(given))} goes with {flag}logits, of the same samples"
        named = "; with --probabilities, --logits names the file of probabilities"
        raise NescioError(said + named * probabilities)
    if not given:
        return None
    arrays = {kind: array_in(file, kind) for kind, file in given.items()}
    if probabilities and "logits" in arrays:
        arrays["probabilities"] = arrays.pop("logits")
    try:
        if "logits" not in given:
            assert known is not None
            arrays["logits"] = recovered_logits(known, arrays["features"]).numpy()
        return recorded(**arrays)
    except NescioError as error:
        raise NescioError(f"{', '.join(given.values())}: {error}") from None


def _recorded_ood(options: dict[str, Any], probabilities: bool) -> "dict[str, Activations]":
    """The same of OOD inputs, by their names."""
    from nescio.core import NescioError

    kinds = ("logits", "features")
    named = {kind: _by_name(options.pop(f"ood_{kind}", ()), kind) for kind in kinds}
    for name in named["features"]:
        if name not in named["logits"]:
            raise NescioError(f"--ood-features {name}=FILE goes with --ood-logits {name}=FILE")
    found = {}
    for name in named["logits"]:
        files = {kind: named[kind][name] for kind in kinds if name in named[kind]}
        made = _recorded(files, "", probabilities)
        assert made is not None
        found[name] = made
    return found


def only_arrays(network: str | None) -> None:
    """Refuse NETWORK, and the options about it and its inputs, beside --logits."""
    from nescio.core import NescioError

    if network is not None:
        raise NescioError(
            f"--logits are given in place of a network; leave {network!r} out, or --logits"
        )
    params = click.get_current_context().command.params
    opt.refuse_others(
        "with --logits there is no NETWORK and no input that this could be about; leave it out",
        *(str(one.name) for one in params if one.name not in ABOUT_NETWORK),
    )


def without_network(options: Mapping[str, Any]) -> dict[str, Any]:
    """The options that are not about a network or its inputs."""
    return {name: value for name, value in options.items() if name not in ABOUT_NETWORK}


def array_in(file: str, name: str) -> "NDArray[Any]":
    """The numbers of an .npy file, or of the array of that name, or the only one, in an .npz."""
    from nescio.data import readers

    path = _checked(file, name)
    if path.suffix == ".npy":
        return readers.read_array(path)
    return readers.read_arrays(path, {_held(path, name)})[0][_held(path, name)]


def only_stream(
    inputs: str | None, guard: Any, logits: str | None, features: str | None, probabilities: bool
) -> "readers.Stream | None":
    """What --logits and --features hold; None: there are INPUTS instead."""
    from nescio.core import NescioError
    from nescio.detectors import recorded_nets

    if (inputs is None) == (logits is None):
        raise NescioError("give INPUTS, or --logits and --features of a guard of arrays; not both")
    if logits is None:
        if features is not None or probabilities:
            raise NescioError(
                "--features and --probabilities go with --logits, of a guard of arrays"
            )
        return None
    if not (guard.nets and recorded_nets(guard.nets[0])):
        raise NescioError("this guard has a network, which reads INPUTS; give these, not --logits")
    return recorded_stream(logits, features, probabilities=probabilities)


def recorded_stream(logits: str, features: str | None, *, probabilities: bool) -> "readers.Stream":
    """Inputs of a guard of arrays, block by block from files of any size; NaN stays."""
    from nescio.core import NescioError
    from nescio.data import readers
    from nescio.detectors import as_rows

    files = {"logits": logits} | ({} if features is None else {"features": features})
    streams = [_stream(file, kind) for kind, file in files.items()]
    counts = [stream.total for stream in streams]
    if len(set(counts)) > 1:
        raise NescioError(
            f"{features} has {counts[1]} samples and {logits} {counts[0]}; give one row per sample "
            "in both"
        )

    def read(start: int, size: int) -> "Iterator[Tensor]":
        for blocks in zip(*(stream.read(start, size) for stream in streams), strict=True):
            yield as_rows(*blocks, probabilities=probabilities)[0]

    about = {kind: dict(one.identity) for kind, one in zip(files, streams, strict=True)}
    about["probabilities"] = {"given": probabilities}
    shape = tuple(next(read(0, 1)).shape[1:])
    return readers.Stream(" and ".join(files.values()), shape, counts[0], about, read)


def _stream(file: str, name: str) -> "readers.Stream":
    """Rows of a file; those of several networks are in memory as a whole."""
    from nescio.core import NescioError
    from nescio.data import readers

    path = _checked(file, name)
    options = {} if path.suffix == ".npy" else {"array": _held(path, name)}
    found = readers.open_stream(path, **options)
    if len(found.shape) != 1:
        raise NescioError(
            f"{file} must be {WHAT[name]}, got {(found.total, *found.shape)}; decisions about "
            "several networks are made in Python: nescio.score(guard, nescio.recorded(...), out)"
        )
    return found


def _checked(file: str, name: str) -> Path:
    from nescio.core import NescioError

    path = Path(file)
    if path.suffix not in (".npy", ".npz"):
        raise NescioError(
            f"--{name} takes an .npy or .npz file, got {file!r}; write one with numpy.save"
        )
    if not path.is_file():
        raise NescioError(f"there is no file {file}; check the name")
    return path


def _held(path: Path, name: str) -> str:
    """The name of an array in an .npz file: the one that is asked for, or the only one."""
    from nescio.data import readers

    held = readers.read_arrays(path, set())[1]
    if len(held) != 1:
        readers.demand(path, held, {name})
    return name if name in held else held[0]


def _by_name(texts: Sequence[str], kind: str) -> Mapping[str, str]:
    from nescio.core import NescioError

    found: dict[str, str] = {}
    for text in texts:
        name, _, file = text.partition("=")
        if not name or not file or name in found:
            raise NescioError(f"--ood-{kind} takes NAME=FILE, each name once, got {text!r}")
        found[name] = file
    return found
