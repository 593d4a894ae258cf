"""The linear regions of named networks, on a box, around data, or through samples."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import torch
from torch import Tensor, nn

from nescio import data, nets
from nescio.cli import options as opt
from nescio.cli.data_names import dataset_named, named
from nescio.cli.networks import named_predictor
from nescio.cli.options import note
from nescio.core import NescioError, as_batch, make_folder
from nescio.models import Predictor
from nescio.training import train

if TYPE_CHECKING:
    from nescio.geometry.regions.picture import Picture

WIDTHS, EPOCHS = (25, 25), 60  # of the network on half-moons


def draw_named(
    network: str | None,
    weights: str | None,
    net_name: str | None,
    data_name: str | None,
    samples: tuple[int, ...] | None,
    color: str,
    out: str,
    seed: int,
    **options: Any,
) -> None:
    """Draw and count the linear regions of what the words of the command name."""
    make_folder(Path(out))  # before the work, not after it
    if network is None:
        opt.without_network("box", "merge", "color", "seed")
        result = picture_moons(seed=seed, **options)
    else:
        net = named_predictor(network, weights, net_name)
        result = picture_files(net, data_name, samples=samples, **options)
    click.echo(str(result))
    click.echo(f"picture: {result.save(out, color=color, command=opt.command_line())}")


def picture_moons(
    *, box: Any = None, merge: bool = False, seed: int = 0, progress: bool | None = None
) -> "Picture":
    """The linear regions of a small network that is trained on half-moons here."""
    from nescio.geometry.regions.picture import around_data, picture

    x, y = data.half_moons(seed=seed).train
    options: dict[str, Any] = {"epochs": EPOCHS, "batch_size": 50, "learning_rate": 5e-3}
    model = train(
        lambda: nets.mlp(2, 2, widths=WIDTHS), (x, y), seed=seed, progress=progress, **options
    )
    return picture(model.member(0), box or around_data(x), merge=merge, points=x, labels=y)


def picture_files(
    source: nn.Module | Predictor,
    data_name: str | None = None,
    *,
    samples: Sequence[int] | None = None,
    box: Any = None,
    merge: bool = False,
) -> "Picture":
    """The linear regions of a network or predictor on a box, around data, or through samples."""
    from nescio.geometry.regions.picture import around_data, picture

    if data_name is None:
        if samples is not None:
            raise NescioError("--samples are numbers of samples in --data: add --data test.npz")
        result = picture(source, box, merge=merge)
    else:
        x, y = _samples(data_name)
        if samples is not None:
            chosen = list(map(int, samples))
            if len(chosen) != 3 or not all(0 <= sample < len(x) for sample in chosen):
                raise NescioError(
                    f"--samples takes three numbers from 0 to {len(x) - 1}, the samples of the "
                    f"data; got {' '.join(map(str, chosen))}"
                )
            three, labels = x[chosen], None if y is None else y[chosen]
            result = picture(source, box, merge=merge, plane=three, points=three, labels=labels)
            result = replace(result, samples=tuple(chosen))
        else:
            if x.shape[1:] != (2,):
                raise NescioError(
                    f"the samples of {data_name} have shape {tuple(x.shape[1:])}, not 2 features; "
                    "show the plane through three of them: --samples 0 1 2"
                )
            result = picture(source, box or around_data(x), merge=merge, points=x, labels=y)
    if result.members > len(result.regions):
        note(f"{result.members} members: only the first {len(result.regions)} are shown")
    if result.classes == 1:
        note("the network has one output: no classes, no boundary")
    return result


def _samples(name: str) -> tuple[Tensor, Tensor | None]:
    """Inputs and, where they are classes, labels: of an .npz, or the test part of a data set."""
    given = named(name)
    if given.whole_file:
        x, y = given.read()
    else:
        dataset = dataset_named(name)
        x, y = dataset.test or dataset.train
    labels = None if y is None or y.is_floating_point() else y
    return as_batch(x, torch.float64), labels
