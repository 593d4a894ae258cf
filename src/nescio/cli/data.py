"""`nescio data`: list, download and verify data sets."""

import sys
from pathlib import Path

import click

from nescio.cli import options as opt

FOLDER = opt.option(
    "--folder", "The folder with one folder per data set.  [default: NESCIO_DATA]", type=opt.PATH
)


@click.group()
def data() -> None:
    """List, download and check data sets that are not part of nescio.

    They are in a folder that the variable NESCIO_DATA, or --folder, names.

    \b
    nescio data list
    nescio data download mnist fashion_mnist --folder data
    nescio data verify
    """


@data.command("list", params=[FOLDER])
def list_data(folder: str | None) -> None:
    """List the data sets: size of the download, whether they are there, what they are, license."""
    from nescio.data.sets import catalogue, download

    above = catalogue.root(folder)
    click.echo(
        f"folder: {above}" if above else f"no folder: set {catalogue.SETTING}, or give --folder"
    )
    width = max(map(len, catalogue.CATALOGUE))
    click.echo(f"{'name':<{width}}  {'there':<7}  {'MB':>6}  what")
    for name, known in catalogue.CATALOGUE.items():
        size = f"{known.size / 1e6:.1f}" if known.files else "-"  # by hand
        there = download.presence(name, folder)
        click.echo(f"{name:<{width}}  {there:<7}  {size:>6}  {known.what}")
        path = (catalogue.home(name, folder) or Path(known.folders[0])).name
        click.echo(f"{'':<{width}}  folder {path}; license: {known.license}; {known.home}")


@data.command("download", params=[opt.argument("names", nargs=-1, required=True), FOLDER])
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


@data.command(params=[opt.argument("names", nargs=-1), FOLDER])
def verify(names: tuple[str, ...], folder: str | None) -> None:
    """Compare files with their published sizes and checksums; exit code 1 if one is damaged.

    Without NAMES: all data sets of `nescio data list`.
    """
    from nescio.data.sets import catalogue, download

    damaged = False
    for name in names or catalogue.CATALOGUE:
        files = download.verify(name, folder)
        for one in files:
            reason = f"  ({one.reason})" if one.reason else ""
            click.echo(f"{one.verdict:<7}  {one.path}{reason}")
            damaged = damaged or one.verdict == "damaged"
        if not files:
            click.echo(f"no file to compare for {name}; expected: {catalogue.entry(name).by_hand}")
    if damaged:
        sys.exit(1)
