"""`nescio completion`: what makes the Tab key know commands, options and their values."""

import click

SHELLS = {
    "bash": 'eval "$(nescio completion bash)"      in ~/.bashrc',
    "zsh": 'eval "$(nescio completion zsh)"       in ~/.zshrc',
    "fish": "nescio completion fish | source       in ~/.config/fish/config.fish",
}


@click.command("completion")
@click.argument("shell", type=click.Choice(list(SHELLS)))
def completion(shell: str) -> None:
    """Print what makes the Tab key complete nescio in a shell.

    \b
    eval "$(nescio completion bash)"           in ~/.bashrc
    eval "$(nescio completion zsh)"            in ~/.zshrc
    nescio completion fish | source            in ~/.config/fish/config.fish

    Commands, options, choices such as those of --budget, and file names are completed.
    """
    from click.shell_completion import get_completion_class

    from nescio.cli.main import main

    kind = get_completion_class(shell)
    assert kind is not None
    click.echo(kind(main, {}, "nescio", "_NESCIO_COMPLETE").source())
