"""Sequences of the UEA and UCR archives, by name."""

from nescio.core.registry import datasets
from nescio.data import Dataset
from nescio.data.readers.ts import joined_ts, parse_ts
from nescio.data.sets.catalogue import data_folder, lacking, locate


@datasets.register
def japanese_vowels(*, folder: str | None = None) -> Dataset:
    """640 spoken vowels of nine speakers, 12 channels of 7 to 29 steps; needs NESCIO_DATA.

    Inputs are `(N, 13, 29)`: shorter ones end in zeros, and the last channel is 1 where there is a
    value.

    folder: where the folder `sequences` is; None: where NESCIO_DATA says.
    """
    return _archived("japanese_vowels", "JapaneseVowels", folder)


@datasets.register
def gun_point(*, folder: str | None = None) -> Dataset:
    """200 movements of a hand with and without a gun, one channel of 150 steps; needs NESCIO_DATA.

    Inputs are `(N, 2, 150)`; the second channel is 1.

    folder: where the folder `sequences` is; None: where NESCIO_DATA says.
    """
    return _archived("gun_point", "GunPoint", folder)


@datasets.register
def italy_power_demand(*, folder: str | None = None) -> Dataset:
    """1,096 days of power demand in two seasons, one channel of 24 steps; needs NESCIO_DATA.

    Inputs are `(N, 2, 24)`; the second channel is 1.

    folder: where the folder `sequences` is; None: where NESCIO_DATA says.
    """
    return _archived("italy_power_demand", "ItalyPowerDemand", folder)


def _archived(name: str, stem: str, folder: str | None) -> Dataset:
    where = data_folder(name, folder)
    parts = []
    for part in ("TRAIN", "TEST"):
        names = [f"{stem}_{part}.ts{end}" for end in (".xz", "")]
        path = next((p for p in (locate(where, one) for one in names) if p is not None), None)
        if path is None:
            raise lacking(name, where, names[0])
        parts.append(parse_ts(path))
    return joined_ts(name, *parts)
