"""CamVid, road scenes with a class for each pixel (Brostow et al., 2009), as SegNet split them."""

from pathlib import Path

import torch

from nescio.core import NescioError
from nescio.core.registry import datasets
from nescio.data.dataset import Dataset, Part, hold_out
from nescio.data.images import as_images
from nescio.data.readers.arrays import demand, read_array, read_arrays
from nescio.data.sets.catalogue import data_folder, lacking

CAMVID_CLASSES = (
    "sky", "building", "pole", "road", "pavement", "tree", "sign", "fence", "car", "pedestrian",
    "bicyclist",
)  # fmt: skip
UNLABELED = len(CAMVID_CLASSES)  # the label of what has no class


@datasets.register
def camvid(*, folder: str | None = None, validation: int = 0, seed: int = 0) -> Dataset:
    """468 road scenes of 120 x 90 pixels, each pixel of one of 11 classes; needs NESCIO_DATA.

    The 367 training frames of the SegNet split train; its 101 validation frames are the test part
    (its test frames are not read). They are frames of films: neighbors are alike, and the test
    frames are of one stretch of a film that also trains. Label 11, no class, is the ignore index.

    folder: where the folder `camvid` is; None: where NESCIO_DATA says.
    validation: number of training samples, chosen by `seed`, that become validation data.
    seed: seed of the choice of the validation data.
    """
    where = data_folder("camvid", folder)
    train, test = _frames(where, "train"), _frames(where, "val")
    train, held_out = hold_out(train, validation, seed)
    return Dataset(
        name="camvid",
        train=train,
        validation=held_out,
        test=test,
        classes=len(CAMVID_CLASSES),
        ignore_index=UNLABELED,
    )


def _frames(where: Path, part: str) -> Part:
    """Images in camvid_PART_SIZE_x.npy.xz, label maps beside them, both of the same size."""
    found = sorted(where.glob(f"camvid_{part}_*_x.npy.xz"))
    if len(found) != 1:
        raise lacking("camvid", where, f"one file camvid_{part}_*_x.npy.xz, it has {len(found)}")
    beside = found[0].with_name(found[0].name.replace("_x.npy.xz", "_y.npz"))
    arrays, names = read_arrays(beside, {"labels"})
    demand(beside, names, {"labels"})
    x, y = as_images(read_array(found[0])), torch.from_numpy(arrays["labels"])
    if y.dtype != torch.uint8 or y.shape != (len(x), *x.shape[2:]):
        raise NescioError(
            f"{beside} must have a label of uint8 for each pixel of the images "
            f"{tuple(x.shape)}, got {y.dtype} {tuple(y.shape)}"
        )
    return x, y
