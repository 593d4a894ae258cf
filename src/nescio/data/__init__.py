"""Data sets, inputs moved away from them, and noise that is nowhere near them."""

from nescio.data.dataset import Dataset as Dataset
from nescio.data.digits import digits as digits
from nescio.data.idx import mnist as mnist
from nescio.data.idx import read_idx as read_idx
from nescio.data.loading import load as load
from nescio.data.noise import permuted_pixels as permuted_pixels
from nescio.data.noise import shuffled_features as shuffled_features
from nescio.data.noise import uniform_noise as uniform_noise
from nescio.data.npz import dataset_from_npz as dataset_from_npz
from nescio.data.npz import read_npz as read_npz
from nescio.data.shifts import scaling as scaling
from nescio.data.toy import blobs as blobs
from nescio.data.toy import cubic as cubic
from nescio.data.toy import half_moons as half_moons
from nescio.data.toy import spiral as spiral
