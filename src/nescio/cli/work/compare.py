"""A comparison of detectors on named networks and data, on arrays, or the demo."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any, Literal

import click
from torch import nn

from nescio.cli import options as opt
from nescio.cli import recorded_files as files
from nescio.cli.data_names import (
    data_to_test,
    input_columns,
    inputs_named,
    labeled,
    one_file,
    ood_by_name,
    ood_named,
    separate_parts,
)
from nescio.cli.networks import named_predictor, output_named
from nescio.cli.options import note
from nescio.core import NescioError, make_folder
from nescio.data import readers
from nescio.detectors import tuned_odin
from nescio.detectors.observe.layers import Pool
from nescio.evaluation import Comparison
from nescio.evaluation import compare as compare_subjects
from nescio.evaluation.compare.scoring import observe_given
from nescio.evaluation.compare.subjects import TUNING
from nescio.models import innermost, mc_dropout, with_head

OF_ARRAYS = ("task", "detector", "resamples", "seed")


def compare_named(
    network: str | None,
    weights: str | None,
    net_name: str | None,
    data_name: str | None,
    class_names: str | None,
    out: str,
    **options: Any,
) -> None:
    """Compare what the words of the command name; print the tables and write them."""
    make_folder(Path(out))  # before the work, not after it
    if (arrays := files.taken(options, "train", "ood")) is not None:
        files.only_arrays(network)
        result = _compare_arrays(arrays, **{name: options[name] for name in OF_ARRAYS})
    elif network is None:
        of_demo = ("detector", "passes", "resamples", "seed")
        opt.without_network(*of_demo)
        chosen = {name: options[name] for name in of_demo}
        from nescio.cli.demo import compare_digits

        result = compare_digits(**{n: value for n, value in chosen.items() if value is not None})
    else:
        net = named_predictor(network, weights, net_name)
        result = compare_files(
            net, data_name, class_names=readers.listed(class_names) or None, **options
        )
    result = result.with_about(command=tuple(opt.command_line()))
    click.echo(str(result))
    click.echo(f"tables and pictures: {result.save(out)}")


def _compare_arrays(
    arrays: dict[str, Any],
    *,
    task: Literal["ood", "errors", "confidence"],
    detector: Sequence[str],
    **options: Any,
) -> Comparison:
    """Compare detectors on what a network that runs elsewhere gave."""
    if task != "errors" and arrays["ood"] is None:
        raise NescioError("say what the network does not know: --ood-logits NAME=FILE")
    if arrays["train"] is None:
        note("no --train-logits: only detectors without a fit are compared")
    chosen = list(detector) or (["all"] if task == "ood" else None)
    return compare_subjects(
        None,
        arrays["test"],
        arrays["ood"],
        task=task,
        train=arrays["train"],
        detectors=chosen,
        **options,
    )


def _check_task(task: str, other: bool, tune: str | None, passes: int | None) -> None:
    if task != "errors" and not other:
        raise NescioError("say what the network does not know: --ood DATA or --near DATA")
    if task != "ood" and tune is not None:
        raise NescioError("--tune goes with --task ood")
    if task == "errors" and (other or passes is not None):
        raise NescioError("--task errors reads one network and no --ood, --near or --passes")


def compare_files(
    net: Any,
    data_name: str | None,
    *,
    train_name: str | None = None,
    target: str | None = None,
    class_names: Sequence[str] | None = None,
    ood: Sequence[str] = (),
    near: Sequence[str] = (),
    detector: Sequence[str] = (),
    task: Literal["ood", "errors", "confidence"] = "ood",
    tune: str | None = None,
    passes: int | None = None,
    layer: Sequence[str] = (),
    pool: Pool = "mean",
    output: str | None = None,
    head: str | None = None,
    seed: int = 0,
    **options: Any,
) -> Comparison:
    """Compare detectors of a network on named data; `options` are those of `nescio.compare`.

    near, ood: OOD data, those near the test data and the others.
    tune: OOD data that ODIN is tuned on, 500 inputs beside 500 training inputs.
    """
    if data_name is None:
        raise NescioError("say what to test on: --data test.npz (arrays x and y), or a data set")
    _check_task(task, bool(near or ood), tune, passes)
    columns = input_columns(data_name, target, net)
    read = partial(labeled, target=target, names=class_names, columns=columns)
    test = data_to_test(net, data_name, read)
    train = read(train_name, "train") if train_name else None
    if train is None:
        note("no --train: only detectors without a fit are compared")
    elif one_file(data_name, str(train_name)):
        test, train = separate_parts(data_name)
    named = partial(
        ood_named,
        shape=tuple(test[0].shape[1:]),
        train=None if train is None else train[0],
        read=partial(inputs_named, columns=columns),
    )
    others = ood_by_name((*near, *ood), partial(named, count=len(test[0]), seed=seed))
    inner = with_head(innermost(net), test, head=head, output=output_named(output))
    calibrated = not isinstance(net, nn.Module) and inner is not net
    subjects = {"network": inner} | ({"predictor": net} if calibrated else {})
    if passes is not None:
        subjects["MC dropout"] = mc_dropout(inner, passes=passes, seed=seed)
    shared: dict[str, Any] = {"train": train, "layers": list(layer) or None, "pool": pool}
    shared |= {"seed": seed, **options}
    shared |= {"near": tuple(others)[: len(near)]} if task == "ood" else {}
    subjects = {"network": inner} if task == "errors" else subjects
    chosen: dict[str, Any] = {text: text for text in detector or ("all",) * (task == "ood")}
    if tune is not None:
        name, inputs = named(tune, count=TUNING, seed=seed + 1)
        tuning = observe_given(inner, name, inputs, pool=pool)[:TUNING]
        odin = lambda known: tuned_odin(known[:TUNING], tuning, name=name)  # noqa: E731
        chosen[f"odin, tuned on {name}"] = odin
    return compare_subjects(
        subjects, test, others or None, task=task, detectors=chosen or None, **shared
    )
