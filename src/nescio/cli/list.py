"""`nescio list`: everything that has a name."""

import click

from nescio.cli import options as opt
from nescio.cli.verbs import Verb

LIMITS = "limits"
EXAMPLES = {
    "everything": "nescio list",
    "what can be computed from a prediction": "nescio list measures",
    "what `nescio train` can train, with the options": "nescio list recipes",
    "what `nescio audit --require` can name, with the default limits": "nescio list limits",
}
KIND = opt.argument("kind", required=False, type=opt.Name("kinds"))


@click.command("list", cls=Verb, params=[KIND], examples=EXAMPLES)
def list_parts(kind: str | None) -> None:
    """List what has a name: measures, losses, recipes, datasets, ...

    KIND is one kind of them; without it, all are listed. Options such as --detector and --recipe
    take these names, also with options: knn,k=10.
    """
    import nescio_papers  # noqa: F401
    from nescio.core import NescioError, registry, unknown
    from nescio.core.registry import keyword_only

    kinds = {k: v for k, v in vars(registry).items() if isinstance(v, registry.Registry)}
    if kind is not None and kind not in (*kinds, LIMITS):
        raise NescioError(unknown("kind", kind, (*kinds, LIMITS)))
    for name, parts in kinds.items():
        if kind not in (None, name):
            continue
        click.secho(f"\n{name}", bold=True)
        width = max(map(len, parts), default=0)
        for part in parts:
            click.echo(f"  {part:<{width}}  {parts.summary(part)}")
            if parts is registry.recipes:
                options = " ".join(f"{p.name}={p.default}" for p in keyword_only(parts[part]))
                click.echo(f"  {'':<{width}}    -o {options}")
    if kind in (None, LIMITS):
        _list_limits()


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
