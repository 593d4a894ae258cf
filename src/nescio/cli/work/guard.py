"""Guards of named networks: of classes, numbers, label maps, several labels, or arrays."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import click

from nescio.cli import options as opt
from nescio.cli import recorded_files as files
from nescio.cli.data_names import data_to_test, ignored_in, input_columns, labeled, names_of
from nescio.cli.networks import is_onnx, named_networks, named_predictor, output_named
from nescio.cli.options import note
from nescio.core import NescioError, make_folder, write_json
from nescio.data import Columns as Encoding
from nescio.data import readers
from nescio.detectors import Activations, Detector, has_features
from nescio.evaluation.compare.subjects import candidates
from nescio.guards import described, guard_labels
from nescio.guards import guard as make_guard
from nescio.models import describe, encoding_of, has_labels, innermost, mc_dropout, task_of

SHARES = ("answer", "unsure", "ood", "out_of_range", "risk", "set_coverage", "interval_coverage",
    "answered", "selective_risk")  # fmt: skip
LOGGED = ("from_log", "served", "reviews", "since")  # options of labels from a service
PYTHON = ("detector", "failure", "false_alarm", "risk", "confidence", "sets", "by", "repeats",
    "seed")  # fmt: skip


def guard_named(
    network: str | None,
    weights: str | None,
    net_name: str | None,
    calibration_name: str | None,
    part: str,
    train_name: str | None,
    data_name: str | None,
    target: str | None,
    no_weights: bool,
    out: str,
    **options: Any,
) -> None:
    """Make the guard that the words of the command describe; print its guarantees and save it."""
    path = _guard_file(out)
    logged = {name: options.pop(name) for name in LOGGED}
    arrays = files.taken(options, "train")
    if logged["from_log"] is not None:
        given = {"--calibration": calibration_name, "--passes": options.pop("passes")}
        _only_log(network, {**given, "an array such as --logits": arrays})
        named = {"network": network, "weights": weights, "net_name": net_name}
        texts = {"train_name": train_name, "data_name": data_name, "target": target}
        _guard_from_log(named, texts, logged, options, path, no_weights)
        return
    if arrays is not None:
        files.only_arrays(network)
        _guard_arrays(arrays, options, path)
        return
    network, calibration_name = _both(network, calibration_name)
    if options["passes"] is None:
        source = named_networks(network, weights, net_name)
    else:
        source = innermost(named_predictor(network, weights, net_name))
    names = readers.listed(options.pop("class_names")) or None
    columns = input_columns(calibration_name, target, source)
    if isinstance(columns, Encoding):
        names = names or list(columns.classes) or None
    own = columns if isinstance(columns, Encoding) else None
    numbers = task_of(source, options["head"]) == "regression"
    calibrated = partial(labeled, target=target, names=names, columns=own, numbers=numbers)
    if numbers and target is not None and len(readers.listed(target)) > 1:
        names = names or readers.listed(target)
    calibration = data_to_test(source, calibration_name, calibrated, part)
    maps = _are_maps(options, calibration[1], calibration_name)
    if (passes := options.pop("passes")) is not None:
        source = mc_dropout(source, passes=passes)
    read = partial(calibrated, columns=columns)
    if train_name is None and getattr(innermost(source), "seen", None) is None:
        note("without --train it was not checked whether --calibration are training samples")
    train = None if train_name is None else read(train_name, "train")
    test = None if data_name is None else read(data_name)
    if has_labels(source, options["head"]):
        data = {"calibration": calibration, "train": train}
        _guard_labels(source, data, {**_python(options), "names": names}, path, not no_weights)
        return
    with opt.warnings_as_notes():
        made = make_guard(source, calibration, train=train, **_python(options, maps), names=names)
    words = {"network": network, "weights": weights, "net_name": net_name}
    tried = None if test is None else (test, data_name)
    _save(made, names_of(columns), tried, words, path, no_weights, maps=maps)


def _save(
    made: Any,
    columns: Sequence[str] | None,
    test: tuple[Any, str | None] | None,
    words: Mapping[str, Any],
    path: Path,
    no_weights: bool,
    *,
    maps: bool = False,
    more: Mapping[str, Any] | None = None,
) -> None:
    """Print a guard and what it does with test data, save it, and say how it is used."""
    if columns is not None:
        made = replace(made, notes={**made.notes, "columns": list(columns)})
    click.echo(str(made))
    about = {**described(made), **(more or {})}
    if test is not None:
        about["test"] = _tried(made, test[0], f"tried on {test[1]}:")
    made.save(path, weights=not no_weights)
    write_json(Path(f"{path}.json"), {**about, "command": opt.command_line()})
    net = _network_words(made, **words, no_weights=no_weights)
    result = "maps.npz" if maps else "decisions.csv"
    click.echo(f"saved; use it with: nescio score {path} INPUTS{net} --out {result}")


def _only_log(network: str | None, given: Mapping[str, Any]) -> None:
    """Refuse what does not go with a log."""
    if network is None:
        raise NescioError("give NETWORK: --from-log has labels and inputs, not the network")
    for name, value in given.items():
        if value is not None:
            raise NescioError(f"{name} does not go with --from-log")


def _guard_from_log(
    words: Mapping[str, Any],
    data: Mapping[str, Any],
    logged: dict[str, Any],
    options: dict[str, Any],
    path: Path,
    no_weights: bool,
) -> None:
    """The guard that labels of a service calibrate."""
    from nescio.cli.logged_calibration import calibration_from_log, how_to_load

    source = named_networks(**words)
    names = readers.listed(options.pop("class_names")) or None
    numbers = task_of(source, options["head"]) == "regression"
    risk, confidence = options["risk"], options["confidence"]
    wish = (risk or (0.1 if numbers else 0.02), confidence or 0.95)
    found = calibration_from_log(
        logged["from_log"],
        source,
        names=names,
        numbers=numbers,
        wish=wish,
        seed=options["seed"],
        **{name: logged[name] for name in ("served", "reviews", "since")},
    )
    columns = encoding_of(source) or found.columns
    read = partial(labeled, target=data["target"], names=found.names, columns=columns,
        numbers=numbers)  # fmt: skip
    train = None if data["train_name"] is None else read(data["train_name"], "train")
    test = None if data["data_name"] is None else (read(data["data_name"]), data["data_name"])
    with opt.warnings_as_notes():
        made = make_guard(source, found.pair, train=train, **_python(options), names=found.names)
    more = {"log": found.sample.summary()}
    _save(made, found.columns, test, words, path, no_weights, more=more)
    click.echo(how_to_load(found.sample, path))


def _guard_file(out: str) -> Path:
    """The file to write, whose folder is there before the work, not after it."""
    path = Path(out)
    if path.suffix != ".safetensors":
        raise NescioError(f"--out must end in .safetensors, got {out!r}")
    make_folder(path.parent)
    return path


def _both(network: str | None, calibration: str | None) -> tuple[str, str]:
    """NETWORK and --calibration, which are needed where there are no arrays."""
    if network is None or calibration is None:
        raise NescioError(
            "give NETWORK and --calibration DATA; or, of a network that runs elsewhere, --logits "
            "and --labels of calibration samples"
        )
    return network, calibration


def _network_words(
    made: Any, *, network: str, net_name: str | None, weights: str | None, no_weights: bool
) -> str:
    """The options of `nescio score` that say which network is guarded, if the file does not."""
    words = ""
    users = any(describe(net)["net"] is None for net in made.nets)  # no file can rebuild it
    if no_weights or users:
        given = ":" in network or is_onnx(network) or not users
        words = f" --net {network if given else net_name}"
    return words + (f" --weights {weights}" if no_weights and weights is not None else "")


def _guard_arrays(arrays: dict[str, Any], options: dict[str, Any], path: Path) -> None:
    """The guard of a network that runs elsewhere."""
    names = readers.listed(options.pop("class_names")) or None
    if arrays["train"] is None:
        note("without --train-logits it was not checked whether --logits are of training samples")
    own = {name: value for name, value in _python(options).items() if name in PYTHON}
    with opt.warnings_as_notes():
        made = make_guard(None, arrays["test"], train=arrays["train"], **own, names=names)
    click.echo(str(made))
    made.save(path, weights=True)
    write_json(Path(f"{path}.json"), {**described(made), "command": opt.command_line()})
    parts = "--logits new.npy" + " --features features.npy" * has_features(arrays["test"])
    click.echo(f"saved; use it with: nescio score {path} {parts} --out decisions.csv")


def _are_maps(options: dict[str, Any], labels: Any, name: str) -> bool:
    """Whether pixels or steps have labels; a data set with a name knows what to ignore."""
    maps = options["ignore_index"] is not None or labels.ndim > 2
    if maps and options["ignore_index"] is None:
        options["ignore_index"] = ignored_in(name)
    return maps


def _tried(made: Any, test: Any, title: str) -> dict[str, Any]:
    """What a new guard does with labeled test data, as numbers that are also printed."""
    with opt.warnings_as_notes():
        found: dict[str, Any] = made(test[0]).summary(test[1])
    click.echo(title)
    for name, value in found.items():
        shown = "-" if value is None else format(value, ".2%" if name in SHARES else ".6g")
        click.echo(f"  {name:<14} {shown}")
    return found


def _guard_labels(
    source: Any, data: dict[str, Any], options: dict[str, Any], path: Path, weights: bool
) -> None:
    """A guard for each label, in a folder named as the file would be."""
    if options.pop("by") or options.pop("failure"):
        raise NescioError("--by-class and --failure go with one guard; here each label has one")
    if options.pop("ignore_index") is not None:
        raise NescioError("--ignore-index is for label maps, not for several labels per sample")
    del options["head"]
    options = {name: one for name, one in options.items() if (name, one) != ("confidence", None)}
    with opt.warnings_as_notes():
        made = guard_labels(source, data["calibration"], train=data["train"], **options)
    click.echo(str(made))
    folder = made.save(path.with_suffix(""), weights=weights)
    write_json(folder / "guarantees.json", {"guarantees": list(made.guarantees)})
    for name in made.guards:
        click.echo(f"saved: {folder / f'{name}.safetensors'}")


def _python(options: dict[str, Any], maps: bool = False) -> dict[str, Any]:
    """The options as `nescio.guard` takes them; the failure score of label maps is a name."""
    options["max_width"] = _widths(options["max_width"])
    layer, by_class = options.pop("layer"), options.pop("by_class")
    for name in ("detector",) if maps else ("detector", "failure"):
        options[name] = None if options[name] is None else detector_named(options[name])
    return {
        **options,
        "layers": list(layer) or None,
        "by": "class" if by_class else None,
        "sets": options["sets"] or None,
        "output": output_named(options["output"]),
    }


def _widths(text: str | None) -> Any:
    """One number, or several."""
    if text is None:
        return None
    try:
        found = [float(part) for part in readers.listed(text)]
    except ValueError:
        raise NescioError(
            f"--max-width takes a number, or several: 5 or 5,20; got {text}"
        ) from None
    return found[0] if len(found) == 1 else found


def detector_named(text: str) -> Callable[[Activations], Detector]:
    """What makes the detector that `knn,k=10` stands for, from training activations."""
    candidates([text], members=1, vectors=True)  # unknown names, before the work

    def made(train: Activations) -> Detector:
        spread = train.concentrations
        (contestant,) = candidates([text], members=1, vectors=True, concentrations=spread)
        return contestant.ready(train)

    return made
