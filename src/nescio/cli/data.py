"""`nescio data`: list, download and verify data sets."""

import sys

import click

from nescio.cli import options as opt
from nescio.cli.verbs import Verbs

FOLDER = opt.option(
    "--folder", "The folder with one folder per data set.  [default: NESCIO_DATA]", type=opt.PATH
)


ALL = {
    "which data sets there are, and which are here": "nescio data list",
    "one of them from its publisher": "nescio data download mnist --folder data",
}
ONE = opt.Name("downloads")


@click.group(cls=Verbs, examples=ALL, page="guide/data.md")
def data() -> None:
    """List, download and check data sets that are not part of nescio.

    They are in a folder that the environment variable NESCIO_DATA, or --folder, names. Data sets
    that are part of nescio, such as digits and half_moons, need no download: `nescio list
    datasets`.
    """


OF_LIST = {
    "in the folder that NESCIO_DATA names": "nescio data list",
    "in another folder": "nescio data list --folder data",
}


@data.command("list", params=[FOLDER], examples=OF_LIST)
def list_data(folder: str | None) -> None:
    """List the data sets: size of the download, whether they are there, what they are, license.

    Below each are its folder and the files that are expected there. Those that only the papers
    read, for `nescio reproduce`, come last.
    """
    from nescio.data.sets import catalogue, download

    above = catalogue.root(folder)
    click.echo(
        f"folder: {above}" if above else f"no folder: set {catalogue.SETTING}, or give --folder"
    )
    every = catalogue.catalogue()
    width = max(map(len, every))
    click.echo(f"{'name':<{width}}  {'there':<7}  {'MB':>6}  what")
    of_papers = False
    for name, known in every.items():
        if known.papers and not of_papers:
            click.echo("\nonly the papers read these (nescio reproduce):")
            of_papers = True
        size = f"{known.size / 1e6:.1f}" if known.files else "-"  # by hand
        there = download.presence(name, folder)
        click.echo(f"{name:<{width}}  {there:<7}  {size:>6}  {known.what}")
        path = catalogue.place(name, folder)
        click.echo(f"{'':<{width}}  folder {path}; license: {known.license}; {known.home}")
        click.echo(f"{'':<{width}}  expected: {known.expected}")


OF_DOWNLOAD = {
    "two data sets, into a folder of your own": "nescio data download mnist fashion_mnist "
    "--folder data",
    "one, into the folder that NESCIO_DATA names": "nescio data download cifar10",
}


@data.command(
    "download",
    params=[opt.argument("names", nargs=-1, required=True, type=ONE), FOLDER],
    examples=OF_DOWNLOAD,
)
def download_data(names: tuple[str, ...], folder: str | None) -> None:
    """Download data sets from their publishers; NAMES are those of `nescio data list`.

    A file is checked before it gets its name. A download that was cut off is resumed.
    """
    from nescio.data.sets import catalogue, download

    opt.resumable()
    for name in names:
        catalogue.entry(name)  # before the first download, not after it
    for name in names:
        download.download(name, folder, note=click.echo)


OF_VERIFY = {
    "all data sets": "nescio data verify",
    "one, in another folder": "nescio data verify mnist --folder data",
}


@data.command(params=[opt.argument("names", nargs=-1, type=ONE), FOLDER], examples=OF_VERIFY)
def verify(names: tuple[str, ...], folder: str | None) -> None:
    """Compare files with their published sizes and checksums; exit code 1 if one is damaged.

    Without NAMES: all data sets of `nescio data list`.
    """
    from nescio.data.sets import catalogue, download

    damaged = False
    for name in names or catalogue.catalogue():
        files = download.verify(name, folder)
        for one in files:
            reason = f"  ({one.reason})" if one.reason else ""
            click.echo(f"{one.verdict:<7}  {one.path}{reason}")
            damaged = damaged or one.verdict == "damaged"
        if not files:
            click.echo(f"no file to compare for {name}; expected: {catalogue.entry(name).by_hand}")
    if damaged:
        sys.exit(1)
