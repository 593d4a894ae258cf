"""`nescio serve`: guards behind HTTP, with a log of every decision."""

from typing import Any

import click

from nescio.cli import options as opt
from nescio.cli.options import option, titled
from nescio.cli.verbs import Verb

SECONDS = click.FloatRange(min=0, min_open=True)
SHARE = click.FloatRange(0, 1, min_open=True)
# fmt: off
PARAMETERS = [
    opt.argument("guards", nargs=-1, type=opt.PATH, metavar="[NAME=]GUARD..."),
    *titled("The networks",
        option("--net net_names", "The guarded network, package.module:factory or a run folder; "
            "of several guards NAME=NETWORK. Repeatable; not needed for nescio's networks.",
            multiple=True, metavar="NETWORK"),
        option("--weights", "The weights of --net; of several guards NAME=FILE. Repeatable.  "
            "[default: those in the guard file]", multiple=True, type=opt.PATH, metavar="FILE"),
        option("--guards-folder", "The folder from which admins may load new versions.  [default: "
            "only the files of the start]", type=opt.PATH, metavar="FOLDER"),
        option("--watch-files", "Look at the files of guards and keys at this interval, and load "
            "those that changed.  [default: on SIGHUP only]", type=SECONDS, metavar="SECONDS"),
    ),
    *titled("Where and for whom",
        option("--host", "The address to listen on; others than loopback need --keys.",
            default="127.0.0.1"),
        option("--port", "The port; 0 is a free one.", default=8000,
            type=click.IntRange(0, 65535, clamp=False), metavar="N"),
        option("--keys", "The file with the keys of those who may ask.  [default: none, everybody "
            "on this machine]", type=opt.PATH, metavar="FILE"),
        option("--new-key", "Add a key for ROLE:NAME to --keys, print it, and exit. Roles: "
            "predict, review, admin.", metavar="ROLE:NAME"),
        option("--tls-cert", "The certificate for https, a PEM file.", type=opt.PATH,
            metavar="FILE"),
        option("--tls-key", "Its private key, a PEM file.", type=opt.PATH, metavar="FILE"),
    ),
    *titled("The log",
        option("--log", "The decision log: a file, or a postgresql:// URL.",
            default="decisions.db", type=opt.PATH, metavar="LOG"),
        option("--no-log", "Write no decisions down.", is_flag=True),
        option("--replica", "The name of this process in the log.", default="0", metavar="NAME"),
        option("--sample", "The share of answers that go to review, drawn at random; what is not "
            "answered goes there in any case.", default=0.05, type=SHARE, metavar="SHARE"),
        option("--reviews", "The reviewers who must agree on a label.", default=1,
            type=opt.POSITIVE, metavar="N"),
        option("--webhook", "Where alarms are sent, a URL; NESCIO_WEBHOOK_SECRET, a variable of "
            "the environment, signs them.  [default: nowhere]", metavar="URL"),
        option("--no-inputs", "Keep no inputs, not even of what goes to review.", is_flag=True),
        option("--all-inputs", "Keep all inputs, not only of what goes to review.",
            is_flag=True),
        option("--input-days", "Days for which kept inputs stay in the log.", default=30.0,
            type=click.FloatRange(min=0), metavar="DAYS"),
        option("--decision-days", "Days for which decisions stay in the log.  [default: forever]",
            type=click.FloatRange(min=0), metavar="DAYS"),
        option("--json-lines", "Write the lines on stderr as JSON.", is_flag=True),
    ),
    *titled("Batches and limits",
        option("--batch-ms", "How long a request waits for others, at most.", default=2.0,
            type=click.FloatRange(min=0), metavar="MS"),
        option("--max-batch", "Rows that are decided together, at most.", default=256,
            type=opt.POSITIVE, metavar="ROWS"),
        option("--queue", "Rows that may wait; requests above get 503.", default=1024,
            type=opt.POSITIVE, metavar="ROWS"),
        option("--timeout", "Seconds until a request without an answer gets 503 or 504.",
            default=10.0, type=SECONDS, metavar="SECONDS"),
        option("--max-rows", "Rows of a request, at most.", default=4096, type=opt.POSITIVE,
            metavar="ROWS"),
        option("--max-mb", "Megabytes of a body, at most.", default=16.0, type=SECONDS,
            metavar="MB"),
        option("--connections", "Connections at a time, at most.", default=1000,
            type=opt.POSITIVE, metavar="N"),
        option("--read-seconds", "How long the head of a request may take to arrive; its body may "
            "take three times as long.", default=10.0, type=SECONDS, metavar="SECONDS"),
        option("--drain", "On SIGTERM, say not ready for this time before the port closes.",
            default=0.0, type=click.FloatRange(min=0), metavar="SECONDS"),
    ),
    option("--check", "Load all, open the log, say what would be served, and exit.", is_flag=True),
    opt.DEVICE,
]
# fmt: on
EXAMPLES = {
    "does all of it load? Without --check, it serves": "nescio serve guard.safetensors "
    "--net mymodule:make_net --check",
    "several guards by name, and a network of your own for one": "nescio serve "
    "moons=guard.safetensors patients=patients.safetensors --net moons=mymodule:make_net --check",
    "a key for a client, which is printed once": "nescio serve --new-key predict:anna "
    "--keys keys.txt",
    "for other machines: keys are needed": "nescio serve guard.safetensors "
    "--net mymodule:make_net --host 0.0.0.0 --keys keys.txt --check",
}


@click.command(cls=Verb, params=PARAMETERS, examples=EXAMPLES, page="guide/serve.md")
def serve(**words: Any) -> None:
    """Serve guards over HTTP: answer or abstain, with a log.

    GUARD is a file that `nescio guard` wrote; several are served by name. POST /v1/predict takes
    rows as JSON, .npy, Arrow or images, and gives for each the decision that `nescio score` writes;
    /docs lists all routes. KServe and Triton clients work, too. Requests of many clients are
    decided together, and no answer leaves before its decision is in the log.

    SIGTERM and Ctrl-C answer what was accepted, then stop; SIGHUP loads keys and changed guard
    files again.
    """
    from nescio.cli.work.serve import serve_named

    serve_named(**words)
