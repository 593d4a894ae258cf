"""`nescio monitor`: whether a stream of scores has drifted, with few false alarms."""

from typing import Any

import click

from nescio.cli import options as opt
from nescio.cli.options import option
from nescio.cli.score import NET_OF_GUARD, WEIGHTS_OF_GUARD
from nescio.cli.verbs import Verb

# fmt: off
PARAMETERS = [
    opt.argument("reference", type=opt.PATH),
    opt.argument("streams", nargs=-1, required=False, type=opt.PATH),
    option("--state", "The file of the monitor; the next call goes on from there. Not needed with "
        "--log.", type=opt.PATH, metavar="FILE"),
    option("--log", "Read the decision log of `nescio serve` instead: a file, or a postgresql:// "
        "URL.  [default: none]", type=opt.PATH, metavar="LOG"),
    NET_OF_GUARD,
    WEIGHTS_OF_GUARD,
    option("--false-alarm", "The probability of an alarm, ever, if nothing changes.",
        default=0.01),
    option("--plot", "Draw the evidence over time: a .png file.  [default: none]", type=opt.PATH,
        metavar="FILE"),
    opt.DEVICE,
    opt.SEED,
]
# fmt: on
EXAMPLES = {
    "decisions that `nescio score` wrote": "nescio monitor guard.safetensors monday.csv "
    "--state drift.safetensors",
    "the next day: it continues where it was, and draws the evidence": "nescio monitor "
    "guard.safetensors tuesday.csv --state drift.safetensors --plot drift.png",
    "the log of a service: drift, risk with labels, accuracy": "nescio monitor "
    "guard.safetensors --net mymodule:make_net --log decisions.db",
}


@click.command(cls=Verb, params=PARAMETERS, examples=EXAMPLES, page="methods/monitoring.md")
def monitor(**words: Any) -> None:
    """Raise an alarm when inputs drift from the calibration data.

    REFERENCE is a guard, of which the calibration scores are taken, or a file of such scores.
    STREAMS come one after the other: decisions that `nescio score` wrote (a .csv, .parquet or
    .jsonl with a column score), .npy files of scores, or inputs, which the guard then scores.

    A second command continues where the first stopped, and so does a monitor that was saved in
    Python; nescio.load reads the state there. Give each file once: one that was read before is
    refused. If nothing changes, an alarm is ever raised with probability at most --false-alarm,
    however long the stream. Inputs that are not finite count as infinitely far out.

    With --log, REFERENCE is a guard that `nescio serve` serves, and the report is about its
    drift, the share of wrong answers with the labels of the review queue, and the accuracy
    without labels. It is also written as JSON, to LOG.watch.json. The log is only read.

    \b
    exit code 0   no alarm so far
    exit code 3   an alarm, now or before; use a new state file to start again
    """
    from nescio.cli.work.monitor import monitor_named

    monitor_named(**words)
