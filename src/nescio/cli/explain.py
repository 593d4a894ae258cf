"""`nescio explain`: which training samples a network's answers rest on."""

from functools import partial
from pathlib import Path
from typing import Any

import click

from nescio.cli import options as opt
from nescio.cli.options import data_option, note, option
from nescio.cli.verbs import Verb

# fmt: off
PARAMETERS = [
    opt.argument("network", type=opt.PATH),
    opt.WEIGHTS,
    opt.NET_OF_RUN,
    data_option("train", "The data that NETWORK was trained on: an .npz file with x and y, the "
        "name of a data set, or, with --target, a table.", required=True),
    opt.test_data("required without --labels"),
    option("--index", "A test sample to explain, counted from 0. Repeatable.  [default: the most "
        "confident errors]", multiple=True, type=opt.COUNT),
    option("--errors", "The number of confident errors to explain.", default=3,
        type=opt.POSITIVE),
    option("--labels", "List the training samples whose labels may be wrong instead: those that "
        "only they themselves explain (self-influence).", is_flag=True),
    option("--count", "The number of helpful and of harmful training samples that are shown; with "
        "--labels, the number of samples.  [default: 5; with --labels 20]", type=opt.POSITIVE),
    option("--on", "What is explained: the loss of the true label, or the logit, confidence or "
        "margin of the predicted class.", default="loss",
        type=opt.Choice(["loss", "logit", "confidence", "margin"])),
    option("--weight-decay", "The strength of the weight decay of the training, times the sum of "
        "squares of the weights.  [default: that of the run; 1e-4 if there was none]", type=float),
    opt.TARGET,
    opt.CLASS_NAMES,
    opt.OUTPUT,
    opt.HEAD,
    opt.out_folder("nescio-explain"),
    opt.DEVICE,
]
# fmt: on


EXAMPLES = {
    "the most confident errors of your network": "nescio explain mymodule:make_net "
    "--weights w.safetensors --train train.npz --data test.npz",
    "two test samples of a trained run": "nescio explain runs/moons --train half_moons "
    "--data half_moons --index 17 --index 47 --count 8",
    "training samples whose labels may be wrong": "nescio explain runs/moons --train half_moons "
    "--labels",
}


@click.command(cls=Verb, params=PARAMETERS, examples=EXAMPLES, page="methods/influence.md")
def explain(
    network: str,
    weights: str | None,
    net_name: str | None,
    train_name: str,
    data_name: str | None,
    labels: bool,
    out: str,
    **options: Any,
) -> None:
    """Say which training samples a network's answers rest on.

    NETWORK is package.module:factory, or a folder that `nescio train` wrote, of one network. For a
    test sample, a training sample is helpful if the loss would rise without it, and harmful if
    the loss would fall. By default the three most confident errors are explained. Writes
    explain.json and a picture, explain.png, into the folder --out.

    The answers are about the last linear layer on its features, exactly, in float64. It is first
    fitted to its minimum, where influence functions hold, and how far predictions moved by that is
    said. With --labels the training samples are listed by self-influence, the rise of the loss of a
    sample that is removed; wrong labels come first. labels.csv then has all of them.
    """
    from nescio.cli.data_names import data_to_test, input_columns, labeled, one_file
    from nescio.cli.networks import named_networks, output_named
    from nescio.core import NescioError, make_folder

    folder = make_folder(Path(out))
    net = named_networks(network, weights, net_name)
    target, names = options.pop("target"), options.pop("class_names")
    names = names and names.split(",")
    columns = input_columns(train_name, target, net)
    read = partial(labeled, target=target, names=names, columns=columns)
    train = read(train_name, "train")
    reading = {"head": options.pop("head"), "output": output_named(options.pop("output"))}
    reading["weight_decay"] = options.pop("weight_decay")
    if labels:
        _labels(net, train, folder, options["count"] or 20, reading)
        return
    if data_name is None:
        raise NescioError("say what to explain: --data test.npz (arrays x and y), or a data set")
    test = data_to_test(net, data_name, read)
    if one_file(data_name, train_name) and len(test[0]) == len(train[0]):
        note(f"{data_name} is also --train: the samples that are explained are training samples")
    _samples(net, train, test, folder, {**options, **reading})


def _samples(net: Any, train: Any, test: Any, folder: Path, options: dict[str, Any]) -> None:
    """Explain test samples: words, JSON, a picture."""
    from nescio.core import to_json, write_json
    from nescio.evaluation import explain as explanation_of
    from nescio.report.plots.influence_plot import influence_bars, influence_images

    index, count = options.pop("index"), options.pop("count") or 5
    found = explanation_of(net, train, test, index=index or None, count=count, **options)
    click.echo(found.words())
    write_json(folder / "explain.json", to_json(found))
    if found.skipped is not None:
        return
    images = test[0].ndim == 4
    figure = influence_images(found, test[0], train[0]) if images else influence_bars(found)
    _save(figure, folder)


def _labels(net: Any, train: Any, folder: Path, count: int, reading: dict[str, Any]) -> None:
    """List training samples by self-influence: words, JSON, a table of all, a picture."""
    from nescio.core import to_json, write_atomically, write_json
    from nescio.evaluation import suspects
    from nescio.report.plots.influence_plot import suspect_images

    found = suspects(net, train, **reading)
    click.echo("training samples by self-influence, largest first; check these labels:")
    for one in found[:count]:
        differs = "" if one.label == one.predicted else f", the network says {one.predicted}"
        click.echo(
            f"  sample {one.sample:>6}: label {one.label}{differs} (confidence "
            f"{one.confidence:.3f}), self-influence {one.self_influence:.3g}"
        )
    write_json(folder / "explain.json", {"suspects": to_json(found[:count])})
    names = "sample", "label", "predicted", "confidence", "self_influence"
    rows = [",".join(str(getattr(one, name)) for name in names) for one in found]
    write_atomically(folder / "labels.csv", "\n".join([",".join(names), *rows, ""]))
    if train[0].ndim == 4:
        _save(suspect_images(found, train[0], most=count), folder)
    note(f"all {len(found)} samples: {folder / 'labels.csv'}")


def _save(figure: Any, folder: Path) -> None:
    from nescio.core import writing_atomically

    with writing_atomically(folder / "explain.png") as file:
        figure.savefig(file, format="png", dpi=110)
    click.echo(f"picture: {folder / 'explain.png'}")
