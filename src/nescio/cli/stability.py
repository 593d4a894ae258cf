"""`nescio stability`: how far the answers of a network follow small changes of its inputs."""

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import click

from nescio.cli import options as opt
from nescio.cli.options import option
from nescio.cli.verbs import Verb

# fmt: off
PARAMETERS = [
    opt.argument("network", type=opt.PATH),
    opt.WEIGHTS,
    opt.NET_OF_RUN,
    opt.test_data("required"),
    option("--norm", "The norm of changes of inputs and of logits.", default="linf",
        type=opt.Choice(["linf", "l2", "l1"])),
    option("--samples", "The number of correct answers that are attacked, and of images that are "
        "deformed.", default=100, type=opt.POSITIVE),
    option("--steps", "The number of steps of each attack; a patch takes 15 times as many.",
        default=20, type=opt.POSITIVE),
    option("--patch", "Also make a patch to print from one half of the images, and count whom it "
        "misleads in the other half, in random views.", is_flag=True),
    opt.TARGET,
    opt.CLASS_NAMES,
    opt.OUTPUT,
    opt.HEAD,
    opt.out_folder("nescio-stability"),
    opt.DEVICE,
    opt.SEED,
]
# fmt: on


EXAMPLES = {
    "your network": "nescio stability mymodule:make_net --weights w.safetensors --data test.npz",
    "a trained run, in another norm, on fewer samples": "nescio stability runs/moons "
    "--data half_moons --norm l2 --samples 20",
}


@click.command(cls=Verb, params=PARAMETERS, examples=EXAMPLES, page="methods/stability.md")
def stability(
    network: str,
    weights: str | None,
    net_name: str | None,
    data_name: str | None,
    target: str | None,
    class_names: str | None,
    out: str,
    **options: Any,
) -> None:
    """Measure how small a change of an input flips an answer.

    NETWORK is package.module:factory, or a folder that `nescio train` wrote. Says how small a
    change flips correct answers, how fast the logits can change (exactly on the linear regions of a
    ReLU network, with bounds on both sides over all inputs), and how many labels change when images
    are turned, moved or deformed. Writes stability.json into the folder --out, and for images
    adversarial.png, deformations.png, and with --patch patch.png, to print, and patched.png.
    """
    from nescio.cli.data_names import data_to_test, input_columns, labeled
    from nescio.cli.networks import named_predictor, output_named
    from nescio.core import NescioError, make_folder, to_json, write_json
    from nescio.evaluation import stability as stability_of
    from nescio.report.render import Page
    from nescio.report.sections.stability_words import stability_tables

    if data_name is None:
        raise NescioError("say on what: --data test.npz (arrays x and y), or a data set")
    folder = make_folder(Path(out))
    net = named_predictor(network, weights, net_name)
    names = class_names.split(",") if class_names else None
    columns = input_columns(data_name, target, net)
    read = partial(labeled, target=target, names=names, columns=columns)
    test = data_to_test(net, data_name, read)
    reading = {"head": options.pop("head"), "output": output_named(options.pop("output"))}
    wants_patch = options.pop("patch")
    if wants_patch and test[0].ndim != 4:
        shape = tuple(test[0].shape)
        raise NescioError(f"--patch needs images (N, C, H, W), got inputs {shape}")
    found = stability_of(net, test, **options, **reading)
    if wants_patch:
        found = _with_patch(found, net, test, folder, options, reading, names)
    click.echo(found.words())
    click.echo(Page(tables=tuple(stability_tables(found))).text())
    write_json(folder / "stability.json", to_json(found))
    _draw(found, folder, names)


def _with_patch(found: Any, *how: Any) -> Any:
    """What was found, and what a patch does or why there is none."""
    from nescio.core import NescioError

    try:
        return replace(found, patch=_patched(*how))
    except NescioError as error:
        return replace(found, skipped={**found.skipped, "patch": str(error)})


def _patched(
    net: Any, test: Any, folder: Path, options: dict[str, Any], reading: Any, names: Any
) -> Any:
    """Make a patch, save it to print, and try it on other images."""
    from nescio.attacks import patch
    from nescio.evaluation import patch_success
    from nescio.models import with_head
    from nescio.report.plots.adversarial_plot import patch_images

    x, y = test
    source = with_head(net, test, **reading)
    seed, steps = options["seed"], 15 * options["steps"]
    made = patch(source, x[::2], y[::2], steps=steps, seed=seed)
    success = patch_success(made, source, (x[1::2], y[1::2]), seed=seed + 1)
    click.echo(f"patch to print: {made.save_png(folder / 'patch.png')}")
    figure = patch_images(made, source, x[1::2], success=success, seed=seed + 1, names=names)
    _save(figure, folder / "patched.png")
    return success


def _draw(found: Any, folder: Path, names: Any) -> None:
    from nescio.report.plots.adversarial_plot import adversarial_images
    from nescio.report.plots.deformation_plot import deformation_curves

    if found.drawable:
        _save(adversarial_images(found.examples, names=names), folder / "adversarial.png")
    if found.deformations:
        figure = deformation_curves(tuple(found.deformations.values()))
        _save(figure, folder / "deformations.png")


def _save(figure: Any, path: Path) -> None:
    from nescio.core import writing_atomically

    with writing_atomically(path) as file:
        figure.savefig(file, format="png", dpi=110)
    click.echo(f"picture: {path}")
