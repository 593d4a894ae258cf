"""`nescio pieces`: the linear regions of a network, drawn and counted."""

from typing import Any

import click

from nescio.cli import options as opt
from nescio.cli.options import data_option, option
from nescio.cli.verbs import Verb

# fmt: off
PARAMETERS = [
    opt.NETWORK,
    opt.WEIGHTS,
    opt.NET_OF_RUN,
    data_option("data", "Samples to show: an .npz file with x, or the name of a data set.  "
        "[default: none]"),
    option("--samples", "Show the plane through these three samples of --data, counted from 0.",
        nargs=3, type=int, metavar="I J K"),
    option("--box", "The range of both axes.  [default: around the data, or -5 5 -5 5]", nargs=4,
        type=float, metavar="LOW HIGH LOW HIGH"),
    option("--merge", "Join neighbors on which the network is one map.", is_flag=True),
    option("--color", "What the color of a region shows.", default="class",
        type=opt.Choice(["class", "confidence", "random"])),
    opt.out_folder("nescio-pieces"),
    opt.SEED,
]
# fmt: on
EXAMPLES = {
    "a small network that is trained on half-moons": "nescio pieces",
    "your network of two inputs, on a box": "nescio pieces mymodule:make_net "
    "--weights w.safetensors --box -3 3 -3 3",
    "the plane through three samples, for networks of any number of inputs": "nescio pieces "
    "runs/moons --data half_moons --samples 0 1 2 --color confidence",
}


@click.command(cls=Verb, params=PARAMETERS, examples=EXAMPLES, page="methods/geometry.md")
def pieces(**words: Any) -> None:
    """Draw and count the linear regions of a ReLU network, exactly.

    On each linear region the network is one affine map. NETWORK is package.module:factory, or a
    folder that `nescio train` wrote, of which the first 4 members are drawn. It takes two inputs;
    of a network with more, --data and --samples choose a plane through three samples. Without
    NETWORK, a small one is trained on half-moons.

    Prints the number of regions beside published upper bounds, the unbounded ones, the segments of
    the decision boundary with the directions in which they run to infinity, and the share of the
    area of each class. Only regions that meet the box are listed: a larger box may show more.

    Writes pieces.png, pieces.json and pieces.npz into the folder --out. The last has all members
    one after the other: vertices (V, 2), offsets (P + 1,) of the regions in them, maps (P, C, 3)
    with logits = maps @ (u, v, 1), areas, unbounded, directions, spread, member (P,), and the
    plane: input = origin + u basis[0] + v basis[1].
    """
    from nescio.cli.work.pieces import draw_named

    draw_named(**words)
