"""`nescio list`: everything that has a name."""

import textwrap
from collections.abc import Callable
from typing import Any

import click

from nescio.cli import options as opt
from nescio.cli.verbs import WIDTH, Verb

LIMITS = "limits"
EXAMPLES = {
    "everything": "nescio list",
    "what can be computed from a prediction": "nescio list measures",
    "what `nescio train` can train, with the options": "nescio list recipes",
    "one of them, and what each of its options is": "nescio list recipes acet",
    "what `nescio audit --require` can name, with the default limits": "nescio list limits",
}
KIND = opt.argument("kind", required=False, type=opt.Name("kinds"))
NAME = opt.argument("name", required=False)


@click.command("list", cls=Verb, params=[KIND, NAME], examples=EXAMPLES)
def list_parts(kind: str | None, name: str | None) -> None:
    """List what has a name: measures, losses, recipes, datasets, ...

    KIND is one kind of them; without it, all are listed. NAME is one of that kind, shown with what
    each of its options is. Options such as --detector and --recipe take these names, also with
    options: knn,k=10.
    """
    import nescio_papers  # noqa: F401
    from nescio.core import NescioError, registry, unknown
    from nescio.core.registry import keyword_only, spelled, written

    kinds = {k: v for k, v in vars(registry).items() if isinstance(v, registry.Registry)}
    kind = kind and spelled(kind, (*kinds, LIMITS))
    if kind is not None and kind not in (*kinds, LIMITS):
        raise NescioError(unknown("kind", kind, (*kinds, LIMITS)))
    if kind is not None and name is not None:
        if kind == LIMITS:
            _show_limit(name)
        else:
            _show(kinds[kind][spelled(name, kinds[kind])])
        return
    for heading, parts in kinds.items():
        if kind not in (None, heading):
            continue
        click.secho(f"\n{heading}", bold=True)
        width = max(map(len, parts), default=0)
        for part in parts:
            click.echo(f"  {part:<{width}}  {parts.summary(part)}")
            if parts is registry.recipes:
                options = " ".join(f"-o {written(one)}" for one in keyword_only(parts[part]))
                click.echo(f"  {'':<{width}}    {options}")
    if kind in (None, LIMITS):
        _list_limits()


def _show(part: Callable[..., Any]) -> None:
    """What a part is, and what each of its options is."""
    from nescio.core.registry import described, keyword_only, meanings, written

    click.echo(described(part))
    found = meanings(part)
    for option in keyword_only(part):
        click.echo(f"\n  {written(option)}{' (required)' * (option.default is option.empty)}")
        click.echo(textwrap.indent(textwrap.fill(found.get(option.name, ""), WIDTH - 4), "    "))


def _show_limit(name: str) -> None:
    """The limit of one number of an audit."""
    from nescio.core import NescioError, unknown
    from nescio.core.registry import spelled
    from nescio.evaluation import limits
    from nescio.report import default_limit

    name = spelled(name, limits)
    if name not in limits:
        raise NescioError(unknown("limit", name, limits))
    click.echo(f"{name}  {default_limit(limits[name])}  {limits[name].meaning}")


def _list_limits() -> None:
    """The numbers of an audit with their default limits."""
    from nescio.evaluation import limits
    from nescio.report import default_limit

    click.secho(f"\n{LIMITS}", bold=True)
    width = max(map(len, limits))
    bounds = {name: default_limit(one) for name, one in limits.items()}
    widest = max(map(len, bounds.values()))
    for name, one in sorted(limits.items()):
        click.echo(f"  {name:<{width}}  {bounds[name]:<{widest}}  {one.meaning}")
