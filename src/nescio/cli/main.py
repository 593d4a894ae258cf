"""The command `nescio`: audit, compare, pieces, train, predict, guard, score, monitor, ..."""

import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from nescio.cli.guard import guard
from nescio.cli.monitor import monitor
from nescio.cli.networks import NET_OF_RUN, OUTPUT, named_predictor, output_named, picked
from nescio.cli.score import score
from nescio.core import NescioError
from nescio.version import VERSION

RECIPES = "nescio.recipes"  # whether an audit trains any


class Teaching(click.Group):
    """Commands whose NescioErrors are messages, and whose Ctrl-C is a clean stop."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except NescioError as error:
            raise click.ClickException(str(error)) from error
        except KeyboardInterrupt:
            resumable = ctx.invoked_subcommand in ("train", "reproduce", "search", "score")
            resumable = resumable or ctx.meta.get(RECIPES, False)
            hint = "; the same command goes on where it stopped" if resumable else ""
            click.echo(f"stopped{hint}", err=True)
            sys.exit(130)


@click.group(cls=Teaching, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(VERSION, prog_name="nescio")
def main() -> None:
    """Tell when a network does not know.

    \b
    nescio audit                                   a small network on digits, in a minute
    nescio audit mymodule:make_net --weights w.safetensors --data test.npz
    nescio compare                                 which detector tells what it does not know?
    nescio pieces                                  the linear pieces of a network, drawn
    nescio train deep_ensemble --data digits --run runs/digits
    nescio predict runs/digits --data new.npz --out answers.csv
    nescio guard runs/digits --data held_out.npz   a decision for every input, with a promise
    nescio score guard.safetensors new.npz --out decisions.csv
    nescio monitor guard.safetensors decisions.csv --state drift.safetensors
    nescio reproduce know-your-limits --quick      a paper's figures and tables
    nescio list                                    all measures, losses, recipes, ...
    """


@main.command()
@click.argument("network", required=False)
@click.option("--weights", type=click.Path(), help="State dict: .safetensors, or .pt / .pth.")
@NET_OF_RUN
@click.option(
    "--data",
    "data_name",
    help="Test data: an .npz with x and y, a data set's name, or with --target a .csv or .parquet.",
)
@click.option(
    "--train",
    "train_path",
    help="Training data, in the same way: fits the guard's detector, gives the range of the "
    "noise, and trains --recipe.",
)
@click.option("--target", help="The column with the class, in a .csv or .parquet.")
@click.option(
    "--class-names",
    help="Names of the classes in that column, in the order of the outputs, with commas between.",
)
@click.option(
    "--ood",
    multiple=True,
    metavar="DATA",
    help="Other inputs: a data set's name, or NAME=FILE with an .npz that has x. Repeatable.",
)
@click.option(
    "--validation",
    "validation_path",
    help="Held-out data, other cases than --data: fits temperatures and the guard. Without it half "
    "of --data does.",
)
@OUTPUT
@click.option("--passes", type=int, help="Also audit MC dropout with so many passes.")
@click.option(
    "--recipe",
    multiple=True,
    help="Also train and audit ceda, acet, outlier-exposure or another recipe. Repeatable.",
)
@click.option("--epochs", type=click.IntRange(min=1), help="Of the recipes.  [default: 20]")
@click.option(
    "--attack-steps",
    default=50,
    show_default=True,
    type=click.IntRange(min=0),
    help="Of the attack that looks for sure inputs near noise; 0: none.",
)
@click.option(
    "--attack-radius",
    type=float,
    help="How far it goes, as a share of the data's range.  [default: 0.3; for vectors 0.05]",
)
@click.option(
    "--rays",
    default=200,
    show_default=True,
    type=click.IntRange(min=0),
    help="Rays of each kind to follow to infinity; 0: none.",
)
@click.option("--out", default="nescio-audit", show_default=True, help="Folder for the results.")
@click.option("--seed", default=0, show_default=True, type=click.IntRange(min=0))
def audit(
    network: str | None,
    weights: str | None,
    net_name: str | None,
    data_name: str | None,
    train_path: str | None,
    validation_path: str | None,
    ood: tuple[str, ...],
    target: str | None,
    class_names: str | None,
    output: str | None,
    passes: int | None,
    out: str,
    **options: Any,
) -> None:
    """Say how far a network can be trusted: on its data, on noise, under attack, infinitely far.

    NETWORK is package.module:factory (a function without arguments that returns the nn.Module),
    or a folder that `nescio train` wrote. Without it, a small network is trained on 8x8 digits and
    audited beside temperature scaling, MC dropout and a deep ensemble.

    Writes audit.json and audit.html, one page with plots, into the folder --out; recipes that were
    trained are kept there too.

    \b
    nescio audit --recipe acet
    nescio audit runs/mnist --data mnist --train mnist --recipe acet --recipe ceda,weight=0.5
    nescio audit runs/mnist --data mnist --ood fashion_mnist --ood cifar10:gray:crop=28

    Data are a data set's name, an .npz or a folder of images, and after colons how images are
    changed: gray, color, crop=28, pad=32; or an option of the data set: letters:without=OISZ. Of a
    .csv or .parquet, --target is the column with the class; test.csv:without=id leaves columns out,
    and --train, --validation and --ood take those of --data by name.

    \b
    The .npz holds x (samples, ...) and y (samples,) with integer labels. Make one with
      numpy.savez("test.npz", x=images, y=labels)
    """
    from nescio.core import make_folder

    make_folder(Path(out))  # before the work, not after it
    click.get_current_context().meta[RECIPES] = bool(options["recipe"])
    if options["epochs"] is None:
        del options["epochs"]
    if network is None:
        given = (weights, data_name, train_path, validation_path, ood, passes, target, output)
        if any(given):
            raise NescioError("these options need a NETWORK: nescio audit mymodule:make_net ...")
        from nescio.cli.demo import audit_digits

        findings = audit_digits(run=out, **options)
    else:
        from nescio.cli.running import audit_files
        from nescio.cli.table_names import audit_readers

        columns, readers = audit_readers(data_name, target, class_names)
        net, chosen = named_predictor(network, weights, net_name), output_named(output)
        own = None if chosen is None else picked(net, chosen)
        findings = audit_files(
            net,
            data_name,
            train_path=train_path,
            validation_path=validation_path,
            ood=ood,
            passes=passes,
            factory=network if ":" in network else net_name,
            run=out,
            note=lambda text: click.echo(text, err=True),
            **readers,
            **options,
        )
        if own is not None and findings.guard is not None:
            findings = replace(findings, guard=own.restored(findings.guard))
        if columns is not None and findings.guard is not None:
            notes = {**findings.guard.notes, "columns": list(columns)}
            findings = replace(findings, guard=replace(findings.guard, notes=notes))
    findings.result["command"] = ["nescio", *sys.argv[1:]]
    click.echo(str(findings))
    click.echo(f"page: {findings.save(out)}")


@main.command()
@click.argument("network", required=False)
@click.option("--weights", type=click.Path(), help="State dict: .safetensors, or .pt / .pth.")
@NET_OF_RUN
@click.option("--data", "data_name", help="Test data: an .npz with x and y, or a data set's name.")
@click.option(
    "--train",
    "train_path",
    help="What detectors are fitted on: an .npz with x and y, or a data set.",
)
@click.option(
    "--ood",
    multiple=True,
    metavar="DATA",
    help="Data that the network does not know, far away: a data set, NAME=FILE, or noise of "
    "`nescio list ood_sources` such as uniform. Repeatable.",
)
@click.option("--near", multiple=True, metavar="DATA", help="The same, near the data. Repeatable.")
@click.option(
    "--detector",
    multiple=True,
    metavar="NAME",
    help="Only this one, with options as in knn,k=10, or a measure; all: all. Repeatable.",
)
@click.option("--tune", metavar="DATA", help="Also ODIN tuned on these; not among --ood or --near.")
@click.option("--passes", type=int, help="Also measures of MC dropout with so many passes.")
@click.option("--layer", multiple=True, help="Read these layers: names or patterns. Repeatable.")
@click.option(
    "--pool",
    default="mean",
    show_default=True,
    type=click.Choice(["mean", "max", "flatten", "tokens", "first"]),
    help="What is read of a layer's map or sequence.",
)
@click.option(
    "--output",
    help="Where the logits are in what NETWORK returns: an index or a key, as in logits.",
)
@click.option(
    "--resamples",
    default=500,
    show_default=True,
    type=click.IntRange(min=0),
    help="For the intervals of AUPR and FPR95; 0: none.",
)
@click.option("--out", default="nescio-compare", show_default=True, help="Folder for the results.")
@click.option("--seed", default=0, show_default=True, type=click.IntRange(min=0))
def compare(
    network: str | None,
    weights: str | None,
    net_name: str | None,
    data_name: str | None,
    out: str,
    **options: Any,
) -> None:
    """Compare detectors: which one tells data that a network does not know from its own?

    NETWORK is package.module:factory, or a folder that `nescio train` wrote. Without it, a small
    network is trained on 8x8 digits. All detectors read one forward pass of each data set.

    Prints AUROC, AUPR and FPR95 with intervals, and what each detector costs. Those that a paired
    test does not set apart from the best have a star. Writes detectors.txt, .md, .tex, .json,
    roc.png, histograms.png and the scores into the folder --out.

    \b
    nescio compare
    nescio compare runs/mnist --data mnist --train mnist --near letters:without=OISZ \\
        --ood fashion_mnist --ood cifar10:gray:crop=28 --ood uniform --passes 50
    nescio compare mymodule:make_net --weights w.safetensors --data test.npz --train train.npz \\
        --ood strange=other.npz --detector knn,k=10 --detector energy

    Names of data are those of `nescio audit`. Data that tuned a detector are refused as test data.
    """
    from nescio.core import make_folder

    make_folder(Path(out))  # before the work, not after it
    if network is None:
        given = {"train_path", "ood", "near", "tune", "layer", "output"}
        if weights or net_name or data_name or any(options[name] for name in given):
            raise NescioError("these options need a NETWORK: nescio compare mymodule:make_net ...")
        from nescio.cli.demo import compare_digits

        own = {k: v for k, v in options.items() if k not in {*given, "pool"} and v is not None}
        found = compare_digits(**own)
    else:
        from nescio.cli.running import compare_files

        found = compare_files(
            named_predictor(network, weights, net_name),
            data_name,
            note=lambda text: click.echo(text, err=True),
            **options,
        )
    found.result["command"] = ["nescio", *sys.argv[1:]]
    click.echo(str(found))
    click.echo(f"tables and pictures: {found.save(out)}")


@main.command()
@click.argument("network", required=False)
@click.option("--weights", type=click.Path(), help="State dict: .safetensors, or .pt / .pth.")
@NET_OF_RUN
@click.option("--data", "data_name", help="Cases: an .npz with x, or a data set's name.")
@click.option("--samples", nargs=3, type=int, metavar="I J K", help="Show the plane through these.")
@click.option(
    "--box",
    nargs=4,
    type=float,
    metavar="LOW HIGH LOW HIGH",
    help="Range of both axes.  [default: round the data, or -5 5 -5 5]",
)
@click.option("--merge", is_flag=True, help="Join neighbors on which the network is one map.")
@click.option(
    "--color",
    default="class",
    show_default=True,
    type=click.Choice(["class", "confidence", "random"]),
)
@click.option("--out", default="nescio-pieces", show_default=True, help="Folder for the results.")
@click.option(
    "--seed",
    default=0,
    show_default=True,
    type=click.IntRange(min=0),
    help="Of the half-moons and the network trained on them.",
)
def pieces(
    network: str | None,
    weights: str | None,
    net_name: str | None,
    data_name: str | None,
    samples: tuple[int, ...] | None,
    box: tuple[float, ...] | None,
    merge: bool,
    color: str,
    out: str,
    seed: int,
) -> None:
    """Draw and count the linear pieces of a ReLU network, exactly.

    NETWORK is package.module:factory, or a folder that `nescio train` wrote, of which the first
    4 members are drawn. It takes two inputs; of a network with more, --data and --samples choose a
    plane through three cases. Without NETWORK, a small one is trained on half-moons.

    Writes pieces.png, pieces.json and pieces.npz into the folder --out.

    \b
    nescio pieces mymodule:make_net --weights w.safetensors --box -3 3 -3 3
    nescio pieces runs/digits --data digits --samples 0 1 2 --color confidence
    """
    from nescio.cli.pieces_picture import picture_files, picture_moons
    from nescio.core import make_folder

    make_folder(Path(out))  # before the work, not after it
    if network is None:
        if weights or net_name or data_name or samples:
            raise NescioError("these options need a NETWORK: nescio pieces mymodule:make_net ...")
        found = picture_moons(box=box, merge=merge, seed=seed)
    else:
        found = picture_files(
            named_predictor(network, weights, net_name),
            data_name,
            samples=samples,
            box=box,
            merge=merge,
            note=lambda text: click.echo(text, err=True),
        )
    click.echo(str(found))
    path = found.save(out, color=color, command=["nescio", *sys.argv[1:]])
    click.echo(f"picture: {path}")


def _pair(option: str) -> tuple[str, str]:
    name, equals, value = option.partition("=")
    if not (name and equals and value):
        raise NescioError(f"-o takes NAME=VALUE, for example -o members=10; got {option!r}")
    return name, value


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
@click.option("--batch-size", default=100, show_default=True, help="0: all samples at once.")
@click.option("--learning-rate", default=1e-3, show_default=True)
@click.option("--optimizer", default="adam", show_default=True, help="adam or sgd.")
@click.option(
    "--schedule", default="constant", show_default=True, help="constant, cosine or drops."
)
@click.option("--augment", help="Random changes of images: crops, mirrors or crops,mirrors.")
@click.option("--clip", type=float, help="Largest gradient norm of a member.")
@click.option("--patience", type=int, help="Stop a member after so many epochs without progress.")
@click.option("--standardize", is_flag=True, help="Scale inputs by their training mean and spread.")
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
    nescio train acet --data mnist --run runs/acet --epochs 10 --augment crops -o radius=0.3
    nescio train outlier_exposure --data mnist --run runs/oe -o ood=fashion_mnist
    """
    from nescio.cli.running import report, run_recipe

    settings = dict(_pair(option) for option in options.pop("options"))
    batch_size = options.pop("batch_size") or None
    done = run_recipe(recipe, data_name, net_name, run, settings, batch_size=batch_size, **options)
    click.echo(report(done))
    own = f" --net {net_name}" if net_name and ":" in net_name else ""
    click.echo(f"saved; use it with: nescio predict {run}{own} --data new.npz --out answers.csv")


@main.command()
@click.argument("network")
@click.option("--weights", type=click.Path(), help="State dict for package.module:factory.")
@NET_OF_RUN
@click.option("--data", "data_path", required=True, help="Inputs: an .npz with x, or a data set.")
@click.option("--passes", type=int, help="Sample the network's dropout with so many passes.")
@click.option("--out", required=True, type=click.Path(), help="Where to write: .csv or .npz.")
def predict(
    network: str,
    weights: str | None,
    net_name: str | None,
    data_path: str,
    passes: int | None,
    out: str,
) -> None:
    """Write labels, probabilities and every measure for each sample.

    NETWORK is a folder that `nescio train` wrote, or package.module:factory with --weights.
    Every measure is larger where the model is less sure.
    """
    from torch import nn

    from nescio.cli.prediction_tables import write_predictions
    from nescio.cli.running import inputs_named
    from nescio.models import mc_dropout, plain

    if Path(out).suffix not in (".csv", ".npz"):
        raise NescioError(f"--out must end in .csv or .npz, got {out!r}")
    predictor = named_predictor(network, weights, net_name)
    if passes is not None:
        predictor = mc_dropout(predictor, passes=passes)
    predictor = plain(predictor) if isinstance(predictor, nn.Module) else predictor
    prediction = predictor(inputs_named(data_path))
    write_predictions(Path(out), prediction)
    click.echo(f"{len(prediction)} samples, {prediction.members} member(s): {out}")


for command in (guard, score, monitor):
    main.add_command(command)


@main.command()
@click.argument("experiment", required=False)
@click.option("--part", "parts", multiple=True, help="Only this part. Repeatable.")
@click.option("--quick", is_flag=True, help="Small budgets: under a minute.")
@click.option("--out", help="Folder for the results.  [default: nescio-EXPERIMENT]")
@click.option("--bits", is_flag=True, help="Entropies in bits instead of nats.")
@click.option("--seed", default=0, show_default=True, type=click.IntRange(min=0))
def reproduce(
    experiment: str | None,
    parts: tuple[str, ...],
    quick: bool,
    out: str | None,
    bits: bool,
    seed: int,
) -> None:
    """Reproduce every figure and table of a paper, corrected where it is wrong.

    Without EXPERIMENT: list what there is, what each needs and how long it takes. Writes PNG
    figures, results.json with every number, and summary.md. A stopped run goes on where it was.
    """
    from nescio_papers import Settings, listing, named, run_experiment

    if experiment is None:
        click.echo(listing())
        return
    chosen = named(experiment)
    settings = Settings(quick=quick, seed=seed, bits=bits)
    folder = out or f"nescio-{chosen.name}{'-quick' if quick else ''}"
    click.echo(f"summary: {run_experiment(chosen, folder, settings=settings, only=parts)}")


@main.command()
@click.argument("model")
@click.option("--out", required=True, type=click.Path(), help="Folder of the search; resumable.")
@click.option("--trials", default=200, show_default=True, help="How many configurations.")
@click.option("--workers", default=2, show_default=True, help="Processes.")
@click.option("--epochs", default=20, show_default=True, help="At most so many, with patience 5.")
@click.option("--layers", nargs=2, type=int, metavar="LOW HIGH", help="Hidden layers.  [1 5]")
@click.option("--learning-rate", nargs=2, type=float, metavar="LOW HIGH", help="[1e-4 0.1]")
@click.option("--seed", default=0, show_default=True, type=click.IntRange(min=0))
def search(model: str, out: str, **options: Any) -> None:
    """Search hyper-parameters of MODEL on half-moons at random, by validation NLL.

    MODEL is plain, mc_dropout or bayes_by_backprop; the ranges are those of the paper that
    `nescio reproduce know-your-limits-search` compares with. Needs pip install nescio[search].
    Writes table.csv and table.json, best first. A stopped search goes on where it was.
    """
    from nescio_papers.know_your_limits_search.searching import random_search, report
    from nescio_papers.know_your_limits_search.trial import Ranges

    given = {name: options.pop(name) for name in ("layers", "learning_rate")}
    ranges = Ranges(**{name: tuple(pair) for name, pair in given.items() if pair})
    found = random_search(model, out, ranges=ranges, **options)
    click.echo(report(found))
    click.echo(f"tables: {Path(out) / 'table.csv'}, {Path(out) / 'table.json'}")


DATA_FOLDER = click.option(
    "--folder", type=click.Path(), help="Holds a folder for each data set.  [default: NESCIO_DATA]"
)


@main.group()
def data() -> None:
    """Data sets that are not part of nescio: list them, download them, check their files.

    They stand in a folder that NESCIO_DATA, or --folder, names.

    \b
    nescio data list
    nescio data download mnist fashion_mnist --folder data
    nescio data verify
    """


@data.command("list")
@DATA_FOLDER
def list_data(folder: str | None) -> None:
    """List the data sets: size of the download, whether they are there, what they are, license."""
    from nescio.data.sets.catalogue import SETTING, catalogue, home, root
    from nescio.data.sets.download import presence

    above = root(folder)
    click.echo(f"folder: {above}" if above else f"no folder: set {SETTING}, or give --folder")
    entries = catalogue()
    width = max(map(len, entries))
    click.echo(f"{'name':<{width}}  {'there':<7}  {'MB':>6}  what")
    for name, known in entries.items():
        size = f"{known.size / 1e6:.1f}" if known.files else "-"  # by hand
        click.echo(f"{name:<{width}}  {presence(name, folder):<7}  {size:>6}  {known.what}")
        stands = (home(name, folder) or Path(known.folders[0])).name
        click.echo(f"{'':<{width}}  folder {stands}; license: {known.license}; {known.home}")


@data.command()
@click.argument("names", nargs=-1, required=True)
@DATA_FOLDER
def download(names: tuple[str, ...], folder: str | None) -> None:
    """Download data sets from their publishers; NAMES are those of `nescio data list`.

    A file is checked before it gets its name. A download that was cut off goes on where it was.
    """
    from nescio.data.sets import download
    from nescio.data.sets.catalogue import entry

    for name in names:
        entry(name)  # before the first download, not after it
    for name in names:
        download.download(name, folder, note=click.echo)


@data.command()
@click.argument("names", nargs=-1)
@DATA_FOLDER
def verify(names: tuple[str, ...], folder: str | None) -> None:
    """Compare files with their published sizes and checksums; exit code 1 if one is damaged.

    Without NAMES: all data sets of `nescio data list`.
    """
    from nescio.data.sets import download
    from nescio.data.sets.catalogue import catalogue, entry

    damaged = False
    for name in names or catalogue():
        found = download.verify(name, folder)
        for one in found:
            reason = f"  ({one.reason})" if one.reason else ""
            click.echo(f"{one.verdict:<7}  {one.path}{reason}")
            damaged = damaged or one.verdict == "damaged"
        if not found:
            click.echo(f"no file to compare for {name}; expected: {entry(name).by_hand}")
    if damaged:
        sys.exit(1)


@main.command("list")
@click.argument("kind", required=False)
def list_parts(kind: str | None) -> None:
    """List what there is, each with a sentence: measures, losses, recipes, networks, data sets, ...

    \b
    nescio list                 everything
    nescio list measures        what can be read off a prediction
    nescio list recipes         what `nescio train` can train
    """
    import nescio_papers  # noqa: F401
    from nescio.core import registry
    from nescio.training.recipes import recipe_options

    kinds = {k: v for k, v in vars(registry).items() if isinstance(v, registry.Registry)}
    if kind is not None and kind not in kinds:
        raise NescioError(f"unknown kind {kind!r}; known: {', '.join(kinds)}")
    for name, parts in kinds.items():
        if kind in (None, name):
            click.secho(f"\n{name}", bold=True)
            width = max(map(len, parts), default=0)
            for part in parts:
                click.echo(f"  {part:<{width}}  {parts.summary(part)}")
                if parts is registry.recipes:
                    known = " ".join(f"{k}={v}" for k, v in recipe_options(part).items())
                    click.echo(f"  {'':<{width}}    -o {known}")
