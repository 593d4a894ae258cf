"""Tiny-ImageNet (Le and Yang, 2015): photographs of 200 of ImageNet's classes, reduced to 32 x 32.

Hein et al. (2019) test on "ImageNet-", ImageNet without the classes that are similar to those of
CIFAR-10. With `without="cifar10"` these photographs replace it.
"""

from pathlib import Path

import torch

from nescio.core import NescioError, unknown
from nescio.core.registry import datasets
from nescio.data.dataset import Dataset, only_tests
from nescio.data.readers.arrays import CROPS, only_archive, read_crops
from nescio.data.sets.catalogue import data_folder, lacking

CLASSES = "classes.tsv"
LIKE_CIFAR10 = {
    "n02123045": "cat (tabby)",
    "n02123394": "cat (Persian cat)",
    "n02124075": "cat (Egyptian cat)",
    "n02125311": "cat (cougar)",
    "n02129165": "cat (lion)",
    "n02085620": "dog (Chihuahua)",
    "n02094433": "dog (Yorkshire terrier)",
    "n02099601": "dog (golden retriever)",
    "n02099712": "dog (Labrador retriever)",
    "n02106662": "dog (German shepherd)",
    "n02113799": "dog (standard poodle)",
    "n01855672": "bird (goose)",
    "n02002724": "bird (black stork)",
    "n02056570": "bird (king penguin)",
    "n02058221": "bird (albatross)",
    "n01641577": "frog (bullfrog)",
    "n01644900": "frog (tailed frog)",
    "n02423022": "deer (gazelle)",
    "n02814533": "automobile (beach wagon)",
    "n03100240": "automobile (convertible)",
    "n03670208": "automobile (limousine)",
    "n04285008": "automobile (sports car)",
    "n03796401": "truck (moving van)",
    "n03977966": "truck (police van)",
    "n04146614": "truck (school bus)",
    "n04487081": "truck (trolleybus)",
    "n03447447": "ship (gondola)",
    "n03662601": "ship (lifeboat)",
}  # by WordNet number: the class of CIFAR-10, and the name; none is like an airplane or a horse
LEFT_OUT = {"": frozenset[str](), "cifar10": frozenset(LIKE_CIFAR10)}


@datasets.register
def tiny_imagenet(*, folder: str | None = None, without: str = "") -> Dataset:
    """Photographs of 200 classes of ImageNet, 32 x 32 color, all to test on; needs NESCIO_DATA.

    folder: where the folder `tiny-imagenet` is; None: where NESCIO_DATA says. It holds crops as
      NAME_x.npy.xz with NAME_y.npz, and classes.tsv with a line for each class: its label, its
      WordNet number and its name.
    without: "cifar10" leaves out the 28 classes that are similar to one of CIFAR-10, such as cats
      and vans; the others keep their labels. Empty: all.
    """
    if without not in LEFT_OUT:
        raise NescioError(unknown("set whose classes are left out", without, LEFT_OUT))
    where = data_folder("tiny_imagenet", folder)
    numbers = _numbers(where)
    x, y = read_crops("tiny_imagenet", only_archive("tiny_imagenet", where, CROPS))
    if int(y.max()) >= len(numbers):
        raise NescioError(
            f"labels in {where} must be below {len(numbers)}, the lines of {CLASSES}, got "
            f"{int(y.max())}; the files do not belong together"
        )
    gone = [label for label, number in enumerate(numbers) if number in LEFT_OUT[without]]
    rest = ~torch.isin(y, torch.tensor(gone, dtype=torch.int64))
    return only_tests("tiny_imagenet", (x[rest], y[rest]), len(numbers))


def _numbers(where: Path) -> list[str]:
    """The WordNet number of each label, in the order of the labels."""
    path = where / CLASSES
    if not path.is_file():
        raise lacking("tiny_imagenet", where, CLASSES)
    lines = [line.split("\t") for line in path.read_text(encoding="utf-8").splitlines() if line]
    if any(len(line) < 3 or line[0] != str(label) for label, line in enumerate(lines)):
        raise NescioError(
            f"{path} must have a line for each label, 0, 1, 2, ..., with the label, the WordNet "
            "number and the name between tabs"
        )
    return [line[1] for line in lines]
