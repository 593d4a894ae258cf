"""Small pictures of images, for people: PNG, as files or within a text."""

import base64
import io

import torch
from torch import Tensor

from nescio.core import NescioError

SIDE = 112  # pixels of the longer side, at least
LARGEST = 512  # pixels of a side, at most


def thumbnail(image: Tensor, *, side: int = SIDE, largest: int = LARGEST) -> bytes:
    """An image as PNG; small ones are enlarged in whole steps.

    Floats from 0 to 1 are taken as they are; others are scaled from their smallest to their largest
    value. Images of one channel are gray, of three colored; of others, the mean is shown.

    image: an image `(C, H, W)` of bytes, or of floats.
    side: pixels of the longer side, at least.
    largest: pixels of the longer side, at most.
    """
    from PIL import Image

    pixels = _bytes(image)
    height, width = pixels.shape[1:]
    shown = Image.fromarray((pixels[0] if len(pixels) == 1 else pixels.permute(1, 2, 0)).numpy())
    times = -(-side // max(height, width))
    if times > 1:
        shown = shown.resize((width * times, height * times), Image.Resampling.NEAREST)
    elif max(height, width) > largest:
        shown.thumbnail((largest, largest))
    file = io.BytesIO()
    shown.save(file, format="PNG")
    return file.getvalue()


def data_url(png: bytes) -> str:
    """The bytes of a `png` within a text, which browsers show."""
    return f"data:image/png;base64,{base64.b64encode(png).decode()}"


def _bytes(image: Tensor) -> Tensor:
    """Bytes (C, H, W), of one or three channels."""
    if image.ndim != 3:
        raise NescioError(f"an image has shape (C, H, W), got {tuple(image.shape)}")
    if image.dtype == torch.uint8:
        pixels = image
    else:
        values = image.double().nan_to_num()
        low, high = float(values.min()), float(values.max())
        low, high = (0.0, 1.0) if low >= 0 and high <= 1 else (low, high)
        pixels = ((values - low) / ((high - low) or 1.0) * 255).round().to(torch.uint8)
    if pixels.shape[0] not in (1, 3):
        pixels = pixels.double().mean(0, keepdim=True).round().to(torch.uint8)
    return pixels.cpu().contiguous()
