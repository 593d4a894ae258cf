"""Folders of image files: one sub-folder for each class, as photographs are usually stored."""

from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor

from nescio.core import NescioError
from nescio.core.registry import datasets
from nescio.data.dataset import Dataset, Part, only_tests, split
from nescio.data.images import as_images
from nescio.data.readers.arrays import demand, only_archive, read_arrays, targets
from nescio.data.readers.image_folders import ENDINGS, Size, read_images
from nescio.data.sets.catalogue import data_folder, lacking

PARTS = {"train": "train", "validation": "validation", "val": "validation", "test": "test"}
SCENES = ("bedroom", "bridge", "church_outdoor", "classroom", "conference_room", "dining_room",
          "kitchen", "living_room", "restaurant", "tower")  # fmt: skip


@datasets.register
def image_folder(
    *, folder: str | None = None, size: Size = None, mode: str | None = None, seed: int = 0
) -> Dataset:
    """Your image files, in a folder for each class.

    folder: holds a folder for each class, taken in the order of their names, split 80 / 10 / 10 in
      an order given by `seed`; or folders train and, where there are any, validation (or val) and
      test, each with the same classes.
    size: resize to this side or (height, width), antialiased; None: all must have one size.
    mode: "gray" or "color", to convert to; None: as stored, all alike.
    seed: seed of the split.
    """
    if folder is None:
        raise NescioError('say which folder: image_folder(folder="photos"), or load("photos")')
    where = Path(folder)
    if not where.is_dir():
        raise NescioError(f"there is no folder {where}; expected one with a folder for each class")
    ready = (where / "train").is_dir()
    classes = _classes(where / "train" if ready else where)
    if ready:
        parts = {part: _by_class(here, classes, size, mode) for part, here in _ready(where).items()}
        train, validation, test = parts["train"], parts.get("validation"), parts.get("test")
    else:
        train, validation, test = split(_by_class(where, classes, size, mode), seed)
    return Dataset(
        name=where.name, train=train, validation=validation, test=test, classes=len(classes)
    )


@datasets.register
def lsun_classroom(*, folder: str | None = None, size: Size = 32) -> Dataset:
    """Classrooms of LSUN, all to test on, resized to 32 x 32; needs NESCIO_DATA.

    The label is that of classrooms in LSUN, 3.

    folder: where the folder `lsun-classroom` is; None: where NESCIO_DATA says. It holds image files
      (export them from classroom_train_lmdb), or an .npz file with images x.
    size: side or (height, width) of the images; None: as they are.
    """
    where = data_folder("lsun_classroom", folder)
    files = _files(where)
    if files:
        x = read_images(files, size, "color")
    elif any(where.glob("*.npz")):
        x = _archived("lsun_classroom", where, {"x"})[0]
    else:
        raise lacking("lsun_classroom", where, "image files")
    label = torch.full((len(x),), SCENES.index("classroom"))
    return only_tests("lsun_classroom", (x, label), len(SCENES))


@datasets.register
def imagenet_minus(*, folder: str | None = None, size: Size = 32) -> Dataset:
    """ImageNet without the classes of CIFAR-10, all to test on, resized to 32 x 32; your files.

    folder: where the folder `imagenet-minus` is; None: where NESCIO_DATA says. It holds a folder of
      image files for each class that is left, or an .npz file with images x and labels y.
    size: side or (height, width) of the images; None: as they are.
    """
    where = data_folder("imagenet_minus", folder)
    if any(where.glob("*.npz")):
        x, y = _archived("imagenet_minus", where, {"x", "y"})
        assert y is not None
        return only_tests("imagenet_minus", (x, y), max(2, int(y.max()) + 1))
    classes = _classes(where)
    return only_tests("imagenet_minus", _by_class(where, classes, size, "color"), len(classes))


def _ready(where: Path) -> dict[str, Path]:
    """The folders of the parts; none that holds images is left out."""
    folders: dict[str, Path] = {}
    for here in sorted(path for path in where.iterdir() if path.is_dir()):
        part = PARTS.get(here.name)
        if part in folders:
            raise NescioError(f"{where} holds both val and validation; expected one of the two")
        if part is not None:
            folders[part] = here
        elif _files(here) or any(_files(path) for path in here.iterdir() if path.is_dir()):
            raise NescioError(
                f"{where} holds images in {here.name!r} beside 'train'; expected the folders "
                f"{', '.join(PARTS)} alone: rename it, or move it away"
            )
    return folders


def _archived(name: str, where: Path, needed: set[str]) -> tuple[Tensor, Tensor | None]:
    """Images, and labels where they are, of the one .npz file of a folder."""
    path = only_archive(name, where)
    arrays, names = read_arrays(path, {"x", "y"})
    demand(path, names, needed)
    stored = arrays["x"]
    x = torch.from_numpy(stored) if stored.ndim == 4 and stored.shape[1] == 3 else as_images(stored)
    y = targets(f"y in {path}", arrays["y"]) if "y" in arrays else None
    if x.dtype != torch.uint8 or (y is not None and len(x) != len(y)):
        raise NescioError(
            f"expected uint8 images x and as many labels in {path}, got {stored.dtype} "
            f"{stored.shape}" + ("" if y is None else f" and {tuple(y.shape)}")
        )
    return x, y


def _classes(where: Path) -> list[str]:
    """The folders that hold images, sorted by name."""
    names = sorted(path.name for path in where.iterdir() if path.is_dir() and _files(path))
    if len(names) < 2:
        raise NescioError(
            f"{where} holds {len(names)} folder(s) with image files; expected one for each class, "
            f"two at least, as in {where / '0' / 'a.png'} and {where / '1' / 'b.png'}"
        )
    return names


def _files(where: Path) -> list[Path]:
    return sorted(path for path in where.iterdir() if path.suffix.lower() in ENDINGS)


def _by_class(where: Path, classes: Sequence[str], size: Size, mode: str | None) -> Part:
    here = _classes(where)
    if not set(here) <= set(classes):
        other = sorted(set(here) - set(classes))
        raise NescioError(f"{where} has the class {other[0]!r}, which the train folder has not")
    files = [(classes.index(name), path) for name in here for path in _files(where / name)]
    labels = torch.tensor([label for label, _ in files])
    return read_images([path for _, path in files], size, mode), labels
