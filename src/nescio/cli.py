"""The command `nescio`: audit, train, predict, list."""

import sys
from pathlib import Path
from typing import Any

import click

from nescio import __version__
from nescio.errors import NescioError


class Teaching(click.Group):
    """Commands whose NescioErrors are messages, and whose Ctrl-C is a clean stop."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except NescioError as error:
            raise click.ClickException(str(error)) from error
        except KeyboardInterrupt:
            click.echo("stopped; with --run, the same command goes on where it stopped", err=True)
            sys.exit(130)


@click.group(cls=Teaching, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="nescio")
def main() -> None:
    """Tell when a network does not know.

    \b
    nescio audit                                   a small network on digits, in half a minute
    nescio audit mymodule:make_net --weights w.safetensors --data test.npz
    nescio train deep_ensemble --data digits --run runs/digits
    nescio predict runs/digits --data new.npz --out answers.csv
    nescio list                                    all measures, losses, recipes, ...
    """


@main.command()
@click.argument("network", required=False)
@click.option("--weights", type=click.Path(), help="State dict: .safetensors, or .pt / .pth.")
@click.option("--data", "data_name", help="Test data: an .npz with x and y, or a data set's name.")
@click.option("--train", "train_path", help="Training data (.npz), for the range of the noise.")
@click.option(
    "--outside",
    multiple=True,
    metavar="NAME=FILE",
    help="Other inputs: an .npz with x. Repeatable.",
)
@click.option("--passes", type=int, help="Also audit MC dropout with so many passes.")
@click.option("--out", default="nescio-audit", show_default=True, help="Folder for the results.")
@click.option("--seed", default=0, show_default=True, type=click.IntRange(min=0))
def audit(
    network: str | None,
    weights: str | None,
    data_name: str | None,
    train_path: str | None,
    outside: tuple[str, ...],
    passes: int | None,
    out: str,
    seed: int,
) -> None:
    """Say how far a network can be trusted: on its data, on noise, and far away.

    NETWORK is package.module:factory (a function without arguments that returns the nn.Module),
    or a folder that `nescio train` wrote. Without it, a small network is trained on 8x8 digits and
    audited beside temperature scaling, MC dropout and a deep ensemble.

    Writes audit.json and audit.html, one page with plots, into the folder --out.

    \b
    The .npz holds x (cases, ...) and y (cases,) with integer labels. Make one with
      numpy.savez("test.npz", x=images, y=labels)
    """
    from nescio.files import make_folder

    make_folder(Path(out))  # before the work, not after it
    if network is None:
        if weights or data_name or train_path or outside:
            raise NescioError("these options need a NETWORK: nescio audit mymodule:make_net ...")
        from nescio.demo import audit_digits

        findings = audit_digits(seed=seed)
    else:
        findings = _audit_own(network, weights, data_name, train_path, outside, passes, seed)
    findings.result["command"] = " ".join(["nescio", *sys.argv[1:]])
    click.echo(str(findings))
    click.echo(f"page: {findings.save(out)}")


def _audit_own(
    network: str,
    weights: str | None,
    data_name: str | None,
    train_path: str | None,
    outside: tuple[str, ...],
    passes: int | None,
    seed: int,
) -> Any:
    from nescio import data
    from nescio.auditing import audit as run
    from nescio.predictors import mc_dropout

    if data_name is None:
        raise NescioError("say what to test on: --data test.npz (arrays x and y), or a data set")
    net = _predictor(network, weights)
    test = _labelled(data_name)
    named: dict[str, Any] = {"network": net}
    if passes is not None:
        named["MC dropout"] = mc_dropout(net, passes=passes, seed=seed)
    others = {}
    for text in outside:
        name, equals, path = text.partition("=")
        if not equals:
            raise NescioError(f"--outside takes NAME=FILE, got {text!r}")
        others[name] = data.read_npz(path)[0]
    train = data.read_npz(train_path) if train_path else None
    return run(named, test, train=train, outside=others, seed=seed)


def _predictor(network: str, weights: str | None) -> Any:
    """A network of the user's, or the predictor in a run folder."""
    from nescio.networks import network as own
    from nescio.saving import load

    if ":" in network:
        return own(network, weights)
    if not Path(network).exists():
        raise NescioError(
            f"{network!r} is neither package.module:factory nor a folder written by nescio train"
        )
    return load(network)


def _labelled(name: str) -> tuple[Any, Any]:
    """Test inputs and labels: an .npz file as it is, or the test part of a named data set."""
    from nescio import data

    if not name.endswith(".npz"):
        part = data.load(name).test
        if part is None:
            raise NescioError(f"the data set {name!r} has no test part")
        return part
    x, y = data.read_npz(name)
    if y is None:
        raise NescioError(f"{name} has no labels: add an array y to the file")
    return x, y


@main.command()
@click.argument("recipe")
@click.option("--data", "data_name", required=True, help="A data set's name, or an .npz file.")
@click.option(
    "--net", "net_name", help="A network of `nescio list nets`, or package.module:factory."
)
@click.option(
    "--run", "run", required=True, type=click.Path(), help="Folder of the run; resumable."
)
@click.option("--option", "-o", "options", multiple=True, metavar="NAME=VALUE",
              help="An option of the recipe, for example -o members=10. Repeatable.")  # fmt: skip
@click.option("--epochs", default=50, show_default=True, type=click.IntRange(min=1))
@click.option("--batch-size", default=100, show_default=True, help="0: all cases at once.")
@click.option("--learning-rate", default=1e-3, show_default=True)
@click.option(
    "--schedule", default="constant", show_default=True, help="constant, cosine or drops."
)
@click.option("--clip", type=float, help="Largest gradient norm of a member.")
@click.option("--patience", type=int, help="Stop a member after so many epochs without progress.")
@click.option("--standardise", is_flag=True, help="Scale inputs by their training mean and spread.")
@click.option("--calibrate", help="temperature or platt, fitted on the validation data.")
@click.option("--seed", default=0, show_default=True, type=click.IntRange(min=0))
def train(recipe: str, data_name: str, net_name: str | None, run: str, **options: Any) -> None:
    """Train the RECIPE (see `nescio list recipes`) and save it in a folder.

    The same command with the same folder goes on where it was stopped, to the same result; a
    finished run is only read. `nescio predict` and `nescio audit` take the folder.

    \b
    nescio train single --data half_moons --run runs/moons --epochs 100
    nescio train anchored_ensemble --data cubic --run runs/cubic -o prior_variance=2 -o members=20
    nescio train dropout --data digits --net digit_cnn --run runs/mc --calibrate temperature
    """
    from nescio.running import report, run_recipe

    settings = dict(option.partition("=")[::2] for option in options.pop("options"))
    batch_size = options.pop("batch_size") or None
    done = run_recipe(recipe, data_name, net_name, run, settings, batch_size=batch_size, **options)
    click.echo(report(done))
    click.echo(
        f"saved in {run}; use it with: nescio predict {run} --data new.npz --out answers.csv"
    )


@main.command()
@click.argument("network")
@click.option("--weights", type=click.Path(), help="State dict for package.module:factory.")
@click.option("--data", "data_path", required=True, help="Inputs: an .npz with x, or a data set.")
@click.option("--out", required=True, type=click.Path(), help="Where to write: .csv or .npz.")
def predict(network: str, weights: str | None, data_path: str, out: str) -> None:
    """Write labels, probabilities and every measure for each case.

    NETWORK is a folder that `nescio train` wrote, or package.module:factory with --weights.
    Every measure is larger where the model is less sure.
    """
    from torch import nn

    from nescio import data
    from nescio.predictors import plain
    from nescio.tables import write_predictions

    if Path(out).suffix not in (".csv", ".npz"):
        raise NescioError(f"--out must end in .csv or .npz, got {out!r}")
    predictor = _predictor(network, weights)
    predictor = plain(predictor) if isinstance(predictor, nn.Module) else predictor
    x = data.read_npz(data_path)[0] if data_path.endswith(".npz") else _labelled(data_path)[0]
    prediction = predictor(x)
    write_predictions(Path(out), prediction)
    click.echo(f"{len(prediction)} cases, {prediction.members} member(s): {out}")


@main.command("list")
@click.argument("kind", required=False)
def list_parts(kind: str | None) -> None:
    """List what there is, each with a sentence: measures, losses, recipes, networks, data sets, ...

    \b
    nescio list                 everything
    nescio list measures        what can be read off a prediction
    nescio list recipes         what `nescio train` can train
    """
    import nescio.calibration
    import nescio.recipes  # noqa: F401
    from nescio import registry

    kinds = {k: v for k, v in vars(registry).items() if isinstance(v, registry.Registry)}
    if kind is not None and kind not in kinds:
        raise NescioError(f"unknown kind {kind!r}; known: {', '.join(kinds)}")
    for name, parts in kinds.items():
        if kind in (None, name):
            click.secho(f"\n{name}", bold=True)
            width = max(map(len, parts), default=0)
            for part in parts:
                click.echo(f"  {part:<{width}}  {parts.summary(part)}")
