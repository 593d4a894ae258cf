"""Data sets that only the papers read; their entries join those of `nescio data list`."""

from pathlib import Path

from nescio.data.sets.catalogue import CATALOGUE, read_catalogue
from nescio_papers.data.medical import diabetes_130 as diabetes_130
from nescio_papers.data.medical import diabetes_table as diabetes_table
from nescio_papers.data.medical import heart_disease as heart_disease
from nescio_papers.data.medical import heart_disease_table as heart_disease_table
from nescio_papers.data.mnist_c import corruptions as corruptions
from nescio_papers.data.mnist_c import mnist_c as mnist_c
from nescio_papers.data.sequences import gun_point as gun_point
from nescio_papers.data.sequences import italy_power_demand as italy_power_demand
from nescio_papers.data.sequences import japanese_vowels as japanese_vowels
from nescio_papers.data.uci import SplitTable as SplitTable
from nescio_papers.data.uci import uci as uci
from nescio_papers.data.uci import uci_file as uci_file
from nescio_papers.data.uci import uci_splits as uci_splits

CATALOGUE.update(read_catalogue(Path(__file__).with_name("catalogue.toml"), papers=True))
