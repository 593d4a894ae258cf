"""`nescio predict`: labels, probabilities or moments, and every measure, one row per sample."""

from typing import Any

import click

from nescio.cli import options as opt
from nescio.cli.options import data_option, option
from nescio.cli.verbs import Verb

# fmt: off
PARAMETERS = [
    opt.argument("network", type=opt.PATH),
    opt.WEIGHTS,
    opt.NET_OF_RUN,
    opt.HEAD,
    opt.OUTPUT,
    data_option("data", "The inputs: an .npz file with x, a .ts file, a table, or the name of a "
        "data set.", required=True),
    option("--passes", "Sample the network's dropout with this number of forward passes.  "
        "[default: no dropout]", type=int),
    option("--out", "The file to write: .csv or .npz.", required=True, type=opt.PATH),
    opt.DEVICE,
]
# fmt: on
EXAMPLES = {
    "a folder that `nescio train` wrote": "nescio predict runs/moons --data new.npz "
    "--out predictions.csv",
    "your network, with 20 passes of its dropout": "nescio predict mymodule:make_net "
    "--weights w.safetensors --head categorical --data new.npz --passes 20 --out predictions.npz",
}


@click.command(cls=Verb, params=PARAMETERS, examples=EXAMPLES)
def predict(**words: Any) -> None:
    """Write labels, probabilities and every measure for each sample.

    NETWORK is a folder that `nescio train` wrote, or package.module:factory with --weights and
    --head: inputs alone do not say whether outputs are class logits, means or something else.
    Every measure is larger where the model is less confident. Columns of a table that keep= names,
    and the ids of a model that was trained on a table, are copied; an image that cannot be read
    has a row without numbers and says why. Of a network that answers for each pixel or step, an
    .npz file has maps: label (N, H, W), probs (N, H, W, C) and each measure (N, H, W).
    """
    from nescio.cli.work.predict import predict_named

    predict_named(**words)
