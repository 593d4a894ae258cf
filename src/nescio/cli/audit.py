"""`nescio audit`: how far a network can be trusted."""

from typing import Any

import click

from nescio.cli import options as opt
from nescio.cli import recorded_files as files
from nescio.cli.audit_verdict import FAIL_ON, FULL, REQUIRE, SCHEMA, WRITE_TESTS
from nescio.cli.options import data_option, option, titled
from nescio.cli.verbs import Verb

SECTION = opt.Name("parts", "audit_sections")

# fmt: off
PARAMETERS = [
    opt.NETWORK,
    *titled("The network",
        opt.WEIGHTS,
        opt.NET_OF_RUN,
        opt.OUTPUT,
        opt.HEAD,
    ),
    *titled("The data",
        opt.test_data("required with NETWORK"),
        data_option("train", "Training data, named in the same way. They fit the guard's detector, "
            "give the range of the noise, and train --recipe.  [default: none]"),
        data_option("validation", "Validation data, other samples than --data. They fit "
            "temperatures and the guard.  [default: half of --data]"),
        option("--ood", "Out-of-distribution data, on which the network should not be confident: "
            "the name of a data set, or NAME=FILE with an .npz file that holds x. Repeatable.  "
            "[default: noise alone]", multiple=True, metavar="DATA", type=opt.DATA),
        opt.TARGET,
        opt.CLASS_NAMES,
        option("--group", "The group of each test sample, such as its hospital, for the accuracy "
            "by group: a column of the table or an array of the .npz file --data, which is then "
            "not an input unless columns= lists it; or NAME=FILE.npy with numbers or words. "
            "Repeatable.", multiple=True, metavar="COLUMN"),
        opt.REPEATS,
    ),
    *titled("What is measured",
        option("--budget", "quick reads few samples; thorough reads all samples in every part, "
            "where for a large network some are drawn, and makes all sections.",
            default="standard", type=opt.Choice(["quick", "standard", "thorough"])),
        option("--skip", "A section to leave out: guard, calibration, failure, noise, attack, "
            "shift, scaled-inputs, far-field, or one of `nescio list audit_sections`. Repeatable.",
            multiple=True, metavar="SECTION", type=SECTION),
        option("--also", "A section to make whatever the budget. Repeatable.", multiple=True,
            metavar="SECTION", type=SECTION),
        option("--passes", "Also audit MC dropout with this number of forward passes.  [default: "
            "no MC dropout]", type=int),
        option("--recipe", "Also train and audit a recipe of `nescio list recipes`, with options "
            "as in acet,radius=0.1. Repeatable.", multiple=True, metavar="NAME",
            type=opt.Name("recipes")),
        option("--epochs", "The number of epochs of each recipe.  [default: 20; on digits 25]",
            type=opt.POSITIVE),
        option("--attack-steps", "The number of steps of the attack that looks for confident "
            "inputs near noise; 0 leaves the attack out.", default=50, type=opt.COUNT),
        option("--attack-radius", "How far the attack may go, as a share of the data's range.  "
            "[default: 0.3 for images, 0.05 for vectors]", type=float),
        option("--rays", "The number of rays of each kind that are followed to infinity; 0 leaves "
            "them out.  [default: 200, fewer for a large network]", type=opt.COUNT),
    ),
    *titled("The verdict",
        REQUIRE,
        FAIL_ON,
        FULL,
        WRITE_TESTS,
        SCHEMA,
    ),
    *files.of_arrays("train", "validation", "ood"),
    opt.out_folder("nescio-audit"),
    opt.DEVICE,
    opt.SEED,
]
# fmt: on
EXAMPLES = {
    "a small network on 8x8 digits, beside remedies for overconfidence": "nescio audit "
    "--budget quick",
    "your network: a function that returns it, its weights, arrays x and y": "nescio audit "
    "mymodule:make_net --weights w.safetensors --data test.npz --train train.npz",
    "a folder that `nescio train` wrote, with OOD data and limits of your own": "nescio audit "
    'runs/moons --data test.npz --ood other=other.npz --require "ece<0.05" --budget quick',
    "a table: the column to predict, and a group for the accuracy by group": "nescio audit "
    "runs/patients --data new-patients.csv --target died --group hospital --budget quick",
    "a network that predicts numbers: the audit is about its intervals": "nescio audit "
    "mymodule:make_regressor --weights price.safetensors --data prices.csv --target price "
    "--head gaussian --budget quick",
    "a network in another framework: what it gave is enough": "nescio audit --logits z.npy "
    "--features f.npy --labels y.npy --ood-logits letters=zo.npy --ood-features letters=fo.npy",
}


@click.command(cls=Verb, params=PARAMETERS, examples=EXAMPLES, page="guide/audit.md")
def audit(**words: Any) -> None:
    """Measure how far a network can be trusted.

    It is tested on its data, on noise and other out-of-distribution (OOD) data, under attack, and
    infinitely far away. NETWORK is package.module:factory (a function without arguments that
    returns the nn.Module), a folder that `nescio train` wrote, or an .onnx file (pip install
    nescio[onnx]). Without it, a small network is trained on 8x8 digits and audited beside
    temperature scaling, MC dropout and a deep ensemble.

    Prints the verdict and its findings, and writes audit.json, audit.html, one page with plots,
    audit.xml (JUnit) and summary.md, a guard, and the recipes that were trained, into the folder
    --out. The exit code is 0 for pass, 2 for attention, 3 for fail, and 1 for an error.

    DATA is the name of a data set, an .npz file or a folder of images, and after colons how images
    are changed: gray, color, crop=28, pad=32; or an option of the data set: letters:without=OISZ.
    Of a .csv or .parquet file, --target is the column to predict; test.csv:without=id leaves
    columns out, and --train, --validation and --ood take the columns of --data by name.

    The .npz file holds x (samples, ...) and y (samples,) with integer labels:

    \b
      numpy.savez("test.npz", x=images, y=labels)

    Of a network that runs elsewhere, arrays of what it gave are enough; only what moves inputs is
    then left out.
    """
    from nescio.cli.work.audit import audit_named

    audit_named(**words)
