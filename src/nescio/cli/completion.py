"""`nescio completion`: what makes the Tab key know commands, options and their values."""

import click

from nescio.cli import options as opt
from nescio.cli.verbs import Verb

EXAMPLES = {
    "what bash reads": "nescio completion bash",
    "what zsh reads": "nescio completion zsh",
    "what fish reads": "nescio completion fish",
}
SHELL = opt.argument("shell", type=opt.Choice(["bash", "zsh", "fish"]))


@click.command("completion", cls=Verb, params=[SHELL], examples=EXAMPLES)
def completion(shell: str) -> None:
    """Print what makes the Tab key complete nescio in a shell.

    Add the line of your shell to its start-up file, and open a new terminal:

    \b
    bash   eval "$(nescio completion bash)"     in ~/.bashrc
    zsh    eval "$(nescio completion zsh)"      in ~/.zshrc, after compinit
    fish   nescio completion fish | source      in ~/.config/fish/config.fish

    Commands, options, choices such as those of --budget, names such as those of recipes, detectors
    and data sets, and file names are completed.
    """
    from click.shell_completion import get_completion_class

    from nescio.cli.main import main

    kind = get_completion_class(shell)
    assert kind is not None
    click.echo(kind(main, {}, "nescio", "_NESCIO_COMPLETE").source())
