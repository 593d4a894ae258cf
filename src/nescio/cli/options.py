"""Options that several commands share, and how commands speak: notes, warnings, a stop."""

import signal
import sys
import threading
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import click
from click.core import ParameterSource

from nescio.cli.parameters import COUNT as COUNT
from nescio.cli.parameters import DATA as DATA
from nescio.cli.parameters import OOD_DATA as OOD_DATA
from nescio.cli.parameters import PATH as PATH
from nescio.cli.parameters import POSITIVE as POSITIVE
from nescio.cli.parameters import Choice as Choice
from nescio.cli.parameters import Name as Name
from nescio.cli.parameters import Option as Option
from nescio.cli.parameters import argument as argument
from nescio.cli.parameters import data_option as data_option
from nescio.cli.parameters import option as option
from nescio.cli.parameters import titled as titled

RESUMABLE = "nescio.resumable"  # in the context: whether a stopped command can be repeated
WORDS = "nescio.words"  # in the context: the command as it was typed
DEVICE_CHOSEN = "nescio.device"  # in the context: where networks run
MOST = 200  # characters of somebody else's message

# fmt: off
WEIGHTS = option("--weights", "The weights of NETWORK, a state dict in a .safetensors, .pt or .pth "
    "file.  [default: as its factory makes them]", type=PATH, metavar="FILE")
NET_OF_RUN = option("--net net_name", "The factory of the network, where NETWORK is the folder of "
    "a run that was trained on a network of your own.", metavar="MODULE:FACTORY")
OUTPUT = option("--output", "Where the logits are in what NETWORK returns: an index such as 0, or "
    "a key such as logits.  [default: NETWORK returns the logits alone]", metavar="KEY")
HEAD = option("--head", "How the outputs of NETWORK are read, of `nescio list heads`, with options "
    "as in gaussian,floor=0.001 or binary,label=0.  [default: class logits, or one logit of labels "
    "0 and 1; what is unclear is asked for]", metavar="NAME", type=Name("heads"))
REPEATS = option("--repeats", "Take equal inputs as separate samples, as in tables of few values "
    "or tokenized text: no sample that calibrates the guard is then recognized as training data.",
    is_flag=True)
TARGET = option("--target", "The column with the class, or the number that is predicted (several: "
    "a,b); needed for data in a .csv or .parquet file.", metavar="COLUMN")
CLASS_NAMES = option("--class-names", "The names of the classes, in the order of the network's "
    "outputs; the column of --target may hold them instead of 0, 1, ...", metavar="A,B,...")
LAYER = option("--layer", "Read the features of this layer, a name or a pattern. Repeatable.  "
    "[default: those that enter the last linear layer]", multiple=True, metavar="NAME")
NETWORK = argument("network", required=False, type=PATH)
ENGINE = option("--engine", "Where independent work runs: local, this machine, or ray, the workers "
    "of a Ray cluster (pip install 'nescio[scale]'). Results are the same.", default="local",
    type=Choice(["local", "ray"]))
ADDRESS = option("--address", "The Ray cluster of --engine ray, such as 10.0.0.1:6379.  [default: "
    "$RAY_ADDRESS, otherwise a cluster of this machine, for this command]",
    metavar="HOST:PORT")
SEED = option("--seed", "The seed of all random draws.", default=0, type=COUNT)
# fmt: on


def _read_device(ctx: click.Context, _: click.Parameter, text: str) -> None:
    """Take note of a device, if it is there; the Tab key does not ask."""
    if ctx.resilient_parsing:
        return
    import torch

    try:
        device = torch.device(text)
        if device.type == "meta":
            raise RuntimeError("it holds no numbers")
        torch.zeros(1, device=device)
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        why = str(error).strip().split("\n")[0][:MOST]
        known = ["cpu", *(["cuda"] if torch.cuda.is_available() else [])]
        known += ["mps"] if torch.backends.mps.is_available() else []
        raise click.BadParameter(
            f"{text!r} is not a device of this machine ({why}); there is: {', '.join(known)}"
        ) from None
    ctx.meta[DEVICE_CHOSEN] = device


DEVICE = option(
    "--device",
    "Where networks run: cpu, cuda, cuda:1, mps. Data are read on the CPU.",
    default="cpu",
    metavar="NAME",
    callback=_read_device,
    expose_value=False,
)


def device() -> Any:
    """The torch.device of the option --device, that of the CPU without it."""
    import torch

    context = click.get_current_context(silent=True)
    return (context.meta if context else {}).get(DEVICE_CHOSEN, torch.device("cpu"))


def engine_named(name: str, address: str | None) -> Any:
    """The engine of --engine and --address, which ends with the command; None: a local one."""
    from nescio.core import engine  # needs torch, which help does not

    made = engine(name, address=address)
    if not made.is_remote:
        return None
    click.get_current_context().call_on_close(made.close)
    return made


def test_data(needed: str) -> Option:
    """The option --data of commands that test; `needed` says when it must be given."""
    text = "Test data: an .npz file with x and y, a .ts file, the name of a data set, or, with "
    return data_option("data", f"{text}--target, a .csv or .parquet file.  [{needed}]")


def out_folder(default: str) -> Option:
    """The option --out of commands that write several files."""
    return option("--out", "The folder for the results.", default=default, type=PATH)


def note(text: str) -> None:
    """Say something that is not a result."""
    click.echo(text, err=True)


def command_line() -> list[str]:
    """The command as it was typed."""
    return ["nescio", *click.get_current_context().meta.get(WORDS, sys.argv[1:])]


def without_network(*demo: str) -> None:
    """Refuse any option but those of the demo, and --out, where a command has no NETWORK."""
    name = click.get_current_context().command.name
    refuse_others(
        "without a NETWORK a demo runs, which takes none of these; say which one: nescio "
        f"{name} mymodule:make_net ...",
        *demo,
    )


def refuse_others(why: str, *allowed: str, extra: Sequence[str] = ()) -> None:
    """Refuse any option that was given, but those allowed, and --out unless it is in `extra`."""
    context = click.get_current_context()
    given = [
        max(one.opts, key=len)
        for one in context.command.params
        if isinstance(one, click.Option)
        and (one.name not in (*allowed, "out") or one.name in extra)
        and context.get_parameter_source(str(one.name)) is not ParameterSource.DEFAULT
    ]
    if given:
        from nescio.core import NescioError  # needs torch, which help does not

        raise NescioError(f"{', '.join(given)}: {why}")


def resumable(yes: bool = True) -> None:
    """Say that this command, if it is stopped, goes on where it was when it is repeated.

    A SIGTERM, which a scheduler sends, stops it as Ctrl-C does.
    """
    context = click.get_current_context()
    context.meta[RESUMABLE] = yes
    if threading.current_thread() is threading.main_thread():
        before = signal.signal(signal.SIGTERM, signal.default_int_handler)
        context.call_on_close(lambda: signal.signal(signal.SIGTERM, before or signal.SIG_DFL))


@contextmanager
def warnings_as_notes() -> Iterator[None]:
    """Say each warning of a block once, at its end, without the line of the source."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UserWarning)
        try:
            yield
        finally:
            for text in dict.fromkeys(str(one.message) for one in caught):
                note(f"WARNING: {text}")
