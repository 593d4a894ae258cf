"""Planted near-duplicates of images: `python -m benchmarks.duplicates mnist cifar10`.

Of 300 training images, changed copies are added to 3,000 test images. Prints, for each change, how
many copies are found and how many other test images are named, which in CIFAR-10 are copies, too.
"""

import argparse
import io
import json
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from nescio import data
from nescio.core import as_batch, generator
from nescio.evaluation.near_duplicates import comparable_rows, near_duplicates

COPIES, OTHERS = 300, 3000


def compressed(image: Tensor) -> Tensor:
    """An image after JPEG of quality 50."""
    pixels = (255 * image).round().byte().movedim(0, -1).numpy()
    file = io.BytesIO()
    Image.fromarray(pixels.squeeze()).save(file, "JPEG", quality=50)
    read = np.array(Image.open(file))
    return torch.from_numpy(read.reshape(pixels.shape)).movedim(-1, 0) / 255


def changes(x: Tensor) -> dict[str, Callable[[], Tensor]]:
    """Copies of images, changed."""
    noise = torch.randn(x.shape, generator=generator(0, "noise"))
    return {
        "noise 0.02": lambda: (x + 0.02 * noise).clamp(0, 1),
        "noise 0.05": lambda: (x + 0.05 * noise).clamp(0, 1),
        "brightness": lambda: 0.7 * x + 0.1,
        "JPEG 50": lambda: torch.stack([compressed(one) for one in x]),
        "shifted by a pixel": lambda: x.roll(1, 3),
        "mirrored": lambda: x.flip(3),
    }


def found(name: str) -> dict[str, Any]:
    """Counts for each change."""
    images: Any = getattr(data, name)()
    train, test = as_batch(images.train[0]), as_batch(images.test[0][:OTHERS])
    chosen = torch.randperm(len(train), generator=generator(0, "copies"))[:COPIES]
    bank, plain = comparable_rows(train), comparable_rows(test)
    counts = {}
    for change, make in changes(train[chosen]).items():
        near = near_duplicates(torch.cat([comparable_rows(make()), plain]), bank)
        counts[change] = {
            "found": int((near[:COPIES] >= 0).sum()),
            "right": int((near[:COPIES] == chosen).sum()),
            "others": int((near[COPIES:] >= 0).sum()),
        }
    return {"copies": COPIES, "other test images": OTHERS, "by change": counts}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.duplicates")
    parser.add_argument("names", nargs="+", help="data sets of images, such as mnist")
    print(json.dumps({name: found(name) for name in parser.parse_args().names}, indent=2))


if __name__ == "__main__":
    main()
