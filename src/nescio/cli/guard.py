"""`nescio guard`: from a network and calibration data to a guard file."""

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
    ),
    *titled("The data",
        data_option("calibration", "Calibration data with labels; the network was not trained on "
            "them."),
        option("--part", "The part to take, where --calibration is the name of a data set.",
            default="test", type=opt.Choice(["train", "validation", "test"])),
        data_option("train", "Training data; they fit the detector.  [default: a part of "
            "--calibration does]"),
        data_option("data", "Test data with labels, to try the new guard on.  [default: it is not "
            "tried]"),
        opt.TARGET,
        opt.CLASS_NAMES,
        opt.REPEATS,
    ),
    *titled("Labels from a service",
        option("--from-log", "Calibrate with what people labeled in this decision log of `nescio "
            "serve`, in place of --calibration.", type=opt.PATH, metavar="LOG"),
        option("--served", "The name of the guard in the log.  [default: the only one]",
            metavar="NAME"),
        option("--reviews", "The number of reviewers that a label needs.", default=1,
            type=opt.POSITIVE),
        option("--since", "Only decisions from this date on, in UTC.  [default: all]",
            metavar="DATE"),
    ),
    *titled("The guarantees",
        option("--risk", "The largest share of answers that are wrong; of a regression, whose "
            "interval misses the target; of label maps, of an image's labeled pixels that are "
            "answered and wrong.  [default: 0.02; of a regression 0.1; of label maps 0.05]",
            type=float),
        option("--confidence", "The probability with which the calibration data must show that "
            "risk.  [default: 0.95; of label maps the risk holds on average]", type=float),
        option("--false-alarm", "The largest share of inputs like the calibration data that may "
            "be called OOD.", default=0.01),
        option("--sets", "The largest share of prediction sets that miss the class; 0 gives no "
            "sets.", default=0.1),
        option("--by-class", "Give the guarantees for each predicted class.", is_flag=True),
        option("--detector", "The detector of OOD inputs, of `nescio list detectors`, with options "
            "as in knn,k=10.  [default: chosen on the network, by outliers made from the "
            "training data]", metavar="NAME", type=opt.Name("detectors", "measures")),
        option("--failure", "The failure score, named in the same way; of label maps a measure "
            "such as mutual_information.  [default: the recommended one after a hidden linear "
            "layer, otherwise the log-odds; of label maps least_confidence]", metavar="NAME",
            type=opt.Name("detectors", "measures")),
    ),
    *titled("A network that predicts numbers",
        option("--miscoverage", "The largest share of prediction intervals that miss a target.  "
            "[default: 0.05]", type=float),
        option("--intervals", "The kind of intervals.  [default: the narrowest on a part of "
            "--calibration]", type=opt.Choice(["normalized", "quantile", "spread", "residual"])),
        option("--max-width", "The width of an interval above which nothing is answered; one "
            "number, or one for each target.  [default: as --risk allows]", metavar="W,..."),
    ),
    *titled("A network that labels pixels",
        option("--ignore-index", "The label of pixels without a class, in label maps y (N, H, W).  "
            "[default: none]", type=int),
        option("--passes", "Sample the network's dropout with this number of forward passes.  "
            "[default: no dropout]", type=int),
    ),
    *files.of_arrays("train"),
    option("--no-weights", "Leave the network's weights out of the file.", is_flag=True),
    option("--out", "The file to write; a .json with the guarantees is written beside it.",
        default="guard.safetensors", type=opt.PATH),
    opt.DEVICE,
    opt.SEED,
]
# fmt: on
EXAMPLES = {
    "at most 2 % of the answers are wrong, with confidence 95 %": "nescio guard "
    "mymodule:make_net --weights w.safetensors --calibration calibration.npz --train train.npz",
    "another risk, a cheaper detector, tried on test data": "nescio guard runs/moons "
    "--calibration calibration.npz --train train.npz --data test.npz --risk 0.05 "
    "--detector mahalanobis --out moons.safetensors",
    "a run that was trained on a table": "nescio guard runs/patients --calibration "
    "new-patients.csv --train patients.csv --risk 0.2 --repeats --out patients.safetensors",
    "a network that predicts numbers: an interval for every input": "nescio guard "
    "mymodule:make_regressor --weights price.safetensors --calibration prices.csv --target price "
    "--head gaussian --max-width 50 --out price-guard.safetensors",
    "labels of people who reviewed what a service decided": "nescio guard mymodule:make_net "
    "--weights w.safetensors --from-log decisions.db --train train.npz --risk 0.05 "
    "--detector mahalanobis --out next.safetensors",
    "a network in another framework: what it gave is enough": "nescio guard --logits z.npy "
    "--features f.npy --labels y.npy --train-logits zt.npy --train-features ft.npy "
    "--train-labels yt.npy --out arrays.safetensors",
}


@click.command(cls=Verb, params=PARAMETERS, examples=EXAMPLES, page="guide/guard.md")
def guard(**words: Any) -> None:
    """Make a guard, which answers or abstains with a guarantee.

    For every input it gives an answer, or abstains because it is unsure or the input is
    out-of-distribution (OOD). NETWORK is package.module:factory, or a folder that `nescio train`
    wrote. The more calibration data there are, the more can be guaranteed. --train fits the
    detector of OOD inputs; without it a part of --calibration does.

    Prints the guarantees and their assumptions, and writes the guard. `nescio score` uses it.

    Of a regression (--head gaussian, or a model that predicts numbers) the guard gives every input
    a prediction interval, and answers where these are narrow; --target names the column of the
    target, or several.

    Of label maps, y (N, H, W), the guard answers or abstains for every pixel. The share of an
    image's labeled pixels that are answered and wrong is bounded; images, not pixels, calibrate it.

    With --head multilabel there is a guard for each label, in a folder named as --out without its
    ending; their risks are bounded all at once.

    With --from-log the labels are those of the review queue of a service. What was refused is all
    there, answers are a sample: labeled rows are left out at random until they are drawn as the
    stream was, and what remains calibrates.

    DATA are named as for `nescio audit`. The guard remembers the columns of a .csv or .parquet
    file: --train, --data and `nescio score` take them by name. Of a network that runs elsewhere,
    arrays of what it gave are enough: those of calibration samples, and of training samples, which
    fit the detector.
    """
    from nescio.cli.work.guard import guard_named

    guard_named(**words)
