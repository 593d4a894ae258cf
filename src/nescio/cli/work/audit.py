"""An audit of named networks and data: by a factory, of a run, of arrays, or the demo."""

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from torch import nn

from nescio.calibration import temperature
from nescio.cli import options as opt
from nescio.cli import recorded_files as files
from nescio.cli.audit_verdict import ENDING, Ending
from nescio.cli.command_files import command_files
from nescio.cli.data_names import (
    check_fit,
    data_to_test,
    input_columns,
    inputs_named,
    labeled,
    names_of,
    one_file,
    ood_by_name,
    ood_data,
    separate_parts,
)
from nescio.cli.group_labels import columns_aside, groups_named
from nescio.cli.networks import factory_named, is_onnx, named_predictor, output_named
from nescio.cli.options import note
from nescio.cli.work.train import Remedy, remedies_named, train_remedy
from nescio.core import NescioError, make_folder
from nescio.data import readers
from nescio.evaluation import (
    ATTACK_STEPS,
    Audit,
    LabelAudit,
    audit_labels,
    check_attack,
    requirements,
)
from nescio.evaluation import audit as run_audit
from nescio.models import (
    has_labels,
    innermost,
    is_regression,
    mc_dropout,
    networks,
    task_of,
    with_head,
)
from nescio.nets.factory import is_scaled, made_by, rebuild
from nescio.training import Pair

EPOCHS = 20  # of a recipe beside an audited network


def audit_named(
    network: str | None,
    weights: str | None,
    net_name: str | None,
    data_name: str | None,
    target: str | None,
    class_names: str | None,
    output: str | None,
    head: str | None,
    out: str,
    **options: Any,
) -> None:
    """Audit what the words of the command name, print and write what was found, and end."""
    make_folder(Path(out))  # before the work, not after it
    ending = Ending.of(options)
    opt.resumable()
    options["require"] = requirements(options["require"])
    digests = command_files(opt.command_line())
    options = {name: value for name, value in options.items() if value is not None}
    if (arrays := files.taken(options, "train", "validation", "ood")) is not None:
        files.only_arrays(network)
        findings = _audit_arrays(arrays, readers.listed(class_names), out, options)
    elif network is None:
        demo = (
            *("recipe", "epochs", "attack_steps", "attack_radius", "rays"),
            *("budget", "skip", "also", "require", "seed"),
        )
        opt.without_network(*demo, *ENDING)
        chosen = {name: options[name] for name in demo if name in options}
        from nescio.cli.demo import audit_digits

        findings = audit_digits(run=out, **chosen)
    else:
        net = named_predictor(network, weights, net_name)
        if has_labels(net, head):
            names = {"names": readers.listed(class_names) or None, "output": output_named(output)}
            ending.labels(_audit_labels(net, data_name, {**options, **names}), Path(out))
        findings = audit_files(
            net,
            data_name,
            target=target,
            class_names=readers.listed(class_names) or None,
            factory=network if ":" in network or is_onnx(network) else net_name,
            run=out,
            head=head,
            output=output_named(output),
            **options,
        )
    ending(findings.with_command(opt.command_line(), digests), out)


def _audit_arrays(
    arrays: dict[str, Any], class_names: Sequence[str], out: str, options: dict[str, Any]
) -> Audit:
    """The audit of a network that runs elsewhere, from arrays of what it gave."""
    groups = groups_named(options.pop("group", ()), None)
    own = files.without_network(options)
    names: dict[str, Any] = {"class_names": list(class_names) or None, "run": out}
    names["groups"] = groups
    test = arrays.pop("test")
    return run_audit(None, test, **arrays, **names, **own).bound_for(out)


def _audit_labels(net: Any, data_name: str | None, options: dict[str, Any]) -> LabelAudit:
    """A section for each label; data are .npz files with y (samples, labels)."""
    others = [options.pop(name, None) for name in ("recipe", "passes", "epochs")]
    if data_name is None or any(others):
        raise NescioError(
            "several labels are audited on --data test.npz, with y (samples, labels) of 0 and 1, "
            "and without --recipe, --passes and --epochs"
        )
    test = labeled(data_name)
    options["groups"] = groups_named(options.pop("group", ()), data_name)
    shape = tuple(test[0].shape[1:])
    for part in ("train", "validation"):
        name = options.pop(f"{part}_name", None)
        options[part] = None if name is None else labeled(name, part)
    options["ood"] = ood_by_name(options.pop("ood", ()), partial(ood_data, shape=shape))
    return audit_labels(net, test, **options)


def audit_files(
    net: Any,
    data_name: str | None,
    *,
    train_name: str | None = None,
    validation_name: str | None = None,
    target: str | None = None,
    class_names: Sequence[str] | None = None,
    group: Sequence[str] = (),
    ood: Sequence[str] = (),
    recipe: Sequence[str] = (),
    factory: str | None = None,
    run: str | Path | None = None,
    epochs: int = EPOCHS,
    passes: int | None = None,
    seed: int = 0,
    head: str | None = None,
    output: int | str | None = None,
    **options: Any,
) -> Audit:
    """Audit a network or predictor on named data; `options` are those of `nescio.audit`.

    group: columns of the data, or NAME=FILE.npy, that name the group of each test sample.
    recipe: trained beside the network, on the data of `train_name`, in folders within `run`.
    factory: `package.module:factory` of a network that is not one of nescio's.
    """
    if data_name is None:
        raise NescioError("say what to test on: --data test.npz (arrays x and y), or a data set")
    check_attack(options.get("attack_steps", ATTACK_STEPS), options.get("attack_radius"))
    remedies = remedies_named(recipe)
    _check_names(data_name, train_name, validation_name, trains=bool(remedies))
    columns = input_columns(data_name, target, net, aside=columns_aside(group))
    groups = groups_named(group, data_name)
    numbers = task_of(net, head) == "regression"
    read = partial(labeled, target=target, names=class_names, columns=columns, numbers=numbers)
    train: Pair | None
    if remedies and one_file(data_name, str(train_name)):
        test, train = separate_parts(data_name)
    else:
        test = data_to_test(net, data_name, read)
        train = None if train_name is None else read(train_name, "train")
    shape = tuple(test[0].shape[1:])
    predictors: dict[str, Any] = {"network": net}
    numbers = is_regression(net, test, head)
    _check_recipes(remedies, numbers=numbers)
    validation = None if validation_name is None else read(validation_name, "validation")
    if not numbers or passes is not None:
        read_net = with_head(net, test, head=head, output=output)
        predictors |= _variants(read_net, None if numbers else validation, passes, seed)
    others = ood_by_name(
        ood, partial(ood_data, shape=shape, read=partial(inputs_named, columns=columns))
    )
    how: dict[str, Any] = {"epochs": epochs, "seed": seed, "run": run}
    for chosen in remedies:
        assert train is not None
        check_fit(str(train_name), train[0], shape)
        predictors[chosen.title] = _trained(chosen, net, factory, train, **how)
    data: dict[str, Any] = {"train": train, "validation": validation, "ood": others}
    data |= {"head": head, "output": output} if isinstance(net, nn.Module) else {}
    data |= {"class_names": class_names, "columns": names_of(columns), "run": run}
    data["groups"] = groups
    findings = run_audit(predictors, test, **data, seed=seed, **options)
    return (
        findings if run is None else findings.bound_for(run, net=factory, columns=names_of(columns))
    )


def _trained(
    chosen: Remedy, net: Any, factory: str | None, train: Pair, *, epochs: int, **how: Any
) -> Any:
    """A recipe, trained from other initial weights of the architecture of `net`."""
    make_net, standardize = _like(net, factory)
    note(f"training {chosen.title} on {len(train[0])} samples, {epochs} epochs")
    how |= {"epochs": epochs, "standardize": standardize, "schedule": "cosine"}
    return train_remedy(chosen, make_net, train, **how)


def _variants(net: Any, validation: Pair | None, passes: int | None, seed: int) -> dict[str, Any]:
    """The same network with a temperature, and with MC dropout, where these are asked for."""
    found: dict[str, Any] = {}
    if validation is not None:
        found["temperature"] = temperature(net, validation)
    if passes is not None:
        found["MC dropout"] = mc_dropout(net, passes=passes, seed=seed)
    return found


def _check_recipes(remedies: Sequence[Remedy], *, numbers: bool) -> None:
    if numbers and remedies:
        raise NescioError(
            "--recipe trains classifiers beside the network; of a regression train it with `nescio "
            "train`, and audit its run folder"
        )


def _check_names(data: str, train: str | None, validation: str | None, *, trains: bool) -> None:
    if validation is not None and one_file(data, validation):
        raise NescioError(
            f"--data and --validation are one file, {validation}: a temperature must not be "
            "fitted to the samples it is tested on; give other samples, or ready parts in that "
            "file (x_train, y_train, x_validation, ..., x_test, ...)"
        )
    if trains and train is None:
        raise NescioError(
            "--recipe trains a network; say on what: --train train.npz, or a data set"
        )


def _like(net: Any, factory: str | None) -> tuple[Callable[[], nn.Module], bool]:
    """What makes a network like `net` from another start, and whether its inputs are scaled."""
    whole: Any = networks(innermost(net))[0].net
    scaled = is_scaled(whole) and not isinstance(net, nn.Module)  # by training, not by a factory
    if factory is not None:
        return factory_named(factory), scaled
    made = made_by(whole[1] if scaled else whole)
    return lambda: rebuild(made), scaled
