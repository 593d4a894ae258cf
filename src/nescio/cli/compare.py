"""`nescio compare`: which detector finds OOD inputs best."""

from typing import Any

import click

from nescio.cli import options as opt
from nescio.cli import recorded_files as files
from nescio.cli.options import data_option, option, titled
from nescio.cli.verbs import Verb

# fmt: off
PARAMETERS = [
    opt.NETWORK,
    *titled("The network",
        opt.WEIGHTS,
        opt.NET_OF_RUN,
        opt.OUTPUT,
        opt.HEAD,
        opt.LAYER,
        option("--pool", "How a layer's map or sequence becomes a vector.", default="mean",
            type=opt.Choice(["mean", "max", "flatten", "tokens", "first"])),
    ),
    *titled("The data",
        opt.test_data("required with NETWORK"),
        data_option("train", "Training data, named in the same way; they fit the detectors.  "
            "[default: only detectors without a fit are compared]"),
        option("--ood", "Out-of-distribution data, far from the test data: a data set, NAME=FILE, "
            "or noise of `nescio list ood_sources` such as uniform. Repeatable.", multiple=True,
            metavar="DATA", type=opt.OOD_DATA),
        option("--near", "Out-of-distribution data near the test data, named in the same way. "
            "Repeatable.", multiple=True, metavar="DATA", type=opt.OOD_DATA),
        opt.TARGET,
        opt.CLASS_NAMES,
    ),
    *titled("What is compared",
        option("--task", "How well OOD data are told from test data (ood), how well errors are "
            "found (errors), or the confidence on OOD data (confidence).", default="ood",
            type=opt.Choice(["ood", "errors", "confidence"])),
        option("--detector", "A detector or measure to compare, with options as in knn,k=10. "
            "Repeatable.  [default: all]", multiple=True, metavar="NAME",
            type=opt.Name("detectors", "measures")),
        option("--tune", "Also compare ODIN tuned on 500 inputs of these OOD data, which must be "
            "other data than --ood and --near.  [default: not tuned]", metavar="DATA",
            type=opt.OOD_DATA),
        option("--passes", "Also compare measures of MC dropout with this number of forward "
            "passes.  [default: on digits 50, otherwise none]", type=int),
        option("--resamples", "The number of resamples for the intervals of AUPR and FPR95; 0 "
            "leaves these out (the task errors needs some).", default=500, type=opt.COUNT),
    ),
    *files.of_arrays("train", "ood"),
    opt.out_folder("nescio-compare"),
    opt.DEVICE,
    opt.SEED,
]
# fmt: on
EXAMPLES = {
    "a small network on 8x8 digits, and OOD inputs made of digits": "nescio compare",
    "your network, two detectors, OOD data of your own and noise": "nescio compare "
    "mymodule:make_net --weights w.safetensors --data test.npz --train train.npz "
    "--ood other=other.npz --ood uniform --detector knn,k=10 --detector energy",
    "which score finds the errors of a trained run?": "nescio compare runs/moons --data test.npz "
    "--train train.npz --task errors --detector trust_score --detector msp",
    "a network in another framework: what it gave is enough": "nescio compare --logits z.npy "
    "--features f.npy --labels y.npy --train-logits zt.npy --train-features ft.npy "
    "--train-labels yt.npy --ood-logits other=zo.npy --ood-features other=fo.npy",
}


@click.command(cls=Verb, params=PARAMETERS, examples=EXAMPLES, page="guide/comparing.md")
def compare(**words: Any) -> None:
    """Compare detectors of out-of-distribution (OOD) inputs.

    NETWORK is package.module:factory, or a folder that `nescio train` wrote. Without it, a small
    network is trained on 8x8 digits. All detectors read one forward pass of each data set.

    Prints AUROC, AUPR and FPR95 (OOD is positive) with intervals, and what each detector costs.
    Detectors that a paired test does not tell from the best have a star. Writes comparison.txt,
    .md, .tex and .json, roc.png, histograms.png and scores.safetensors, which
    nescio.Comparison.load reads, into the folder --out. An OOD source gives as many inputs as
    --data has.

    DATA are named as for `nescio audit`. Data that tuned a detector are refused as test data. Of a
    network that runs elsewhere, arrays of what it gave are enough.
    """
    from nescio.cli.work.compare import compare_named

    compare_named(**words)
