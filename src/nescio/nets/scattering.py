"""Wavelet scattering before a trained layer (Mallat, 2012; Bruna and Mallat, 2013).

`S x = (x * phi, |x * psi_1| * phi, ||x * psi_1| * psi_2| * phi)` over wavelets psi of several
scales and orientations: averages that barely change when an image is deformed, and what they lose
is recovered by the next wavelets. Nothing of it is trained.
"""

import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.overrides import handle_torch_function, has_torch_function_unary

from nescio.core import NescioError
from nescio.nets.convolutional import image_shape
from nescio.nets.factory import network

WIDTH = 0.8  # of the finest wavelet, in pixels; doubles with each scale
CENTER = 0.75 * math.pi  # its frequency; halves with each scale
SLANT = 4.0  # over the orientations: how much narrower wavelets are along their waves than across


@network
def scattering(
    inputs: Sequence[int] = (1, 28, 28),
    outputs: int = 10,
    *,
    scales: int = 2,
    orientations: int = 8,
    hidden: int = 0,
) -> nn.Module:
    """A fixed wavelet scattering transform of order 2, then one trained layer, or two.

    Channels are scaled by their statistics (BatchNorm).

        scattering((1, 28, 28), 10, scales=2, orientations=8)

    inputs: channels, height and width of an image.
    outputs: number of outputs, such as classes.
    scales: octaves of wavelets; averages are over windows of 2^scales pixels.
    orientations: number of orientations of the wavelets, over half a turn.
    hidden: units of a layer with ReLU before the last one; 0: none.
    """
    channels, height, width = image_shape("scattering", inputs)
    if min(*inputs, outputs, scales, orientations, hidden + 1) < 1:
        raise NescioError(
            f"sizes must be positive, got inputs {tuple(inputs)}, outputs {outputs}, scales "
            f"{scales}, orientations {orientations} and hidden {hidden}"
        )
    front = Scattering(height, width, scales=scales, orientations=orientations)
    flat = channels * front.paths * front.rows * front.columns
    head = [nn.Linear(flat, hidden), nn.ReLU()] if hidden else []
    return nn.Sequential(
        front,
        nn.BatchNorm2d(channels * front.paths, affine=False),
        nn.Flatten(),
        *head,
        nn.Linear(hidden or flat, outputs),
    )


class Scattering(nn.Module):
    """Scattering coefficients `(N, channels * paths, rows, columns)` of images `(N, C, H, W)`.

    Images get zeros around them and are filtered on a torus. The filters are a tight frame: the
    energies of an image in the averages and in the wavelets sum to its own, so that no two images
    have coefficients further apart than they are themselves; `expansion` is a sharper bound.

    height, width: size of the images.
    scales: octaves of wavelets; averages are over windows of 2^scales pixels.
    orientations: number of orientations of the wavelets, over half a turn.
    """

    low: Tensor  # (H', W') the transform of the average
    high: Tensor  # (scales * orientations, H', W') of the wavelets; all are real numbers
    down: Tensor  # (rows, H') averages along columns at every 2^scales-th pixel
    across: Tensor  # (columns, W') and along rows

    def __init__(self, height: int, width: int, *, scales: int, orientations: int) -> None:
        super().__init__()
        self.scales, self.orientations = scales, orientations
        step = 2**scales
        self.rows, self.columns = -(-height // step), -(-width // step)
        low, high = filters(
            (step * (self.rows + 2), step * (self.columns + 2)), scales, orientations
        )
        self.register_buffer("low", low.float())
        self.register_buffer("high", high.float())
        self.register_buffer("down", _averages(low[:, 0], step).float())
        self.register_buffer("across", _averages(low[0], step).float())

    @property
    def paths(self) -> int:
        """Coefficients at each position: 1 + J L + L^2 J (J - 1) / 2."""
        per_scale, scales = self.orientations, self.scales
        return 1 + scales * per_scale + per_scale**2 * scales * (scales - 1) // 2

    @property
    def expansion(self) -> float:
        """A bound on its Lipschitz constant: at most 1, and less the more it averages."""
        largest = float(self._energies.max().clamp(min=1))
        return min(math.pow(largest, 1.5), self._averaged(self.low.double().abs()))

    def shift_bound(self, pixels: float) -> float:
        """The largest change of the coefficients of an image that moves, as a share of its norm.

        It moves by up to `pixels` whole pixels, in any direction: wavelets and moduli move along,
        and only the averages tell. The bound grows in proportion to the distance, and falls to
        about a quarter with each further scale: the averages are smoother, and there are fewer of
        them.
        """
        height, width = self.low.shape
        rows, columns = (2 * math.pi * torch.fft.fftfreq(n).double() for n in (height, width))
        turn = torch.hypot(rows[:, None], columns).mul(pixels).clamp(max=2)  # at least |1 - e^icw|
        return self._averaged(self.low.double().cpu().abs() * turn)

    @property
    def _energies(self) -> Tensor:
        return energies(self.low.double(), self.high.double())

    def _averaged(self, transform: Tensor) -> float:
        """A bound for moduli of three orders that are filtered and taken at every 2^J-th pixel.

        Frequencies that fall on each other there add in squares; a modulus of any order has at
        most the energy of the image.
        """
        step = 1 << self.scales
        squares = transform.square().unflatten(1, (step, -1)).sum(1).unflatten(0, (step, -1)).sum(0)
        share: float = float(self._energies.max().clamp(min=1))
        largest: float = float(squares.max())
        return math.sqrt((1 + share + share * share) * largest) / step

    def forward(self, x: Tensor) -> Tensor:
        """The coefficients of images `x`."""
        return scattering_coefficients(x, self)

    def extra_repr(self) -> str:
        """Its sizes, for `print`."""
        return f"{self.scales} scales, {self.orientations} orientations, {self.paths} paths"


def scattering_coefficients(x: Tensor, front: Scattering) -> Tensor:
    """The coefficients of images, in Fourier space; other tensors may handle it their own way."""
    if has_torch_function_unary(x):
        handled: Tensor = handle_torch_function(scattering_coefficients, (x,), x, front)
        return handled
    step = 2**front.scales
    height, width = front.low.shape
    rows, columns = x.shape[-2:]
    if (-(-rows // step), -(-columns // step)) != (front.rows, front.columns):
        raise NescioError(
            f"this scattering reads images of {front.rows * step}x{front.columns * step} pixels, "
            f"or up to {step - 1} fewer each way, got {rows}x{columns}"
        )
    around = (step, width - columns - step, step, height - rows - step)
    images = nn.functional.pad(x, around)[:, :, None]  # (N, C, 1, H', W')
    high = front.high.unflatten(0, (front.scales, front.orientations))
    firsts = _moduli(images, front.high).unflatten(2, (front.scales, front.orientations))
    found = [images, firsts.flatten(2, 3)]
    for scale in range(front.scales - 1):
        later = high[scale + 1 :].flatten(0, 1)
        found.append(_moduli(firsts[:, :, scale, :, None], later).flatten(2, 3))
    averages = [front.down @ images @ front.across.T for images in found]
    return torch.cat(averages, 2).flatten(1, 2)


def _moduli(images: Tensor, wavelets: Tensor) -> Tensor:
    """The moduli of images `(..., 1, H', W')` filtered by wavelets `(K, H', W')`."""
    found: Tensor = torch.fft.ifft2(torch.fft.fft2(images) * wavelets).abs()
    return found


def _averages(low: Tensor, step: int) -> Tensor:
    """The average around every pixel in `step` but the outermost, `(n - 2, n * step)`.

    The Gaussian is a product of one along columns and one along rows.
    """
    kernel: Tensor = torch.fft.ifft(low).real
    at = torch.arange(step, len(low) - step, step)
    return kernel[(at[:, None] - torch.arange(len(low))) % len(low)]


def filters(size: tuple[int, int], scales: int, orientations: int) -> tuple[Tensor, Tensor]:
    """The transforms of a Gaussian average and of Morlet wavelets on a torus, as a tight frame."""
    spread = WIDTH * 2.0 ** (scales - 1)
    low = _gaussian(size, (0.0, 0.0), spread, 1.0, 0.0)
    low = low / low[0, 0]
    wavelets = [
        _morlet(size, scale, math.pi * turn / orientations, min(1.0, SLANT / orientations))
        for scale in range(scales)
        for turn in range(orientations)
    ]
    high = torch.stack(wavelets)
    covered = energies(torch.zeros_like(low), high)
    left = (1 - low.square()).clamp(min=0)
    factor = torch.where(left > 0, (left / covered.clamp(min=1e-300)).sqrt(), 0.0)
    return low, high * factor


def energies(low: Tensor, high: Tensor) -> Tensor:
    """The share of the energy of real images that the filters hold, by frequency `(H', W')`.

    Littlewood-Paley sums: `|low|^2 + (|high(w)|^2 + |high(-w)|^2) / 2`, summed over the wavelets.
    """
    squares = high.square().sum(0)
    opposite = squares.flip(0, 1).roll((1, 1), (0, 1))
    return low.square() + (squares + opposite) / 2


def _morlet(size: tuple[int, int], scale: int, angle: float, slant: float) -> Tensor:
    """A wave in a Gaussian window, minus what makes its mean 0."""
    center = CENTER * 2.0**-scale
    at = (center * math.sin(angle), center * math.cos(angle))
    spread = WIDTH * 2.0**scale
    wave = _gaussian(size, at, spread, slant, angle)
    window = _gaussian(size, (0.0, 0.0), spread, slant, angle)
    return wave - wave[0, 0] / window[0, 0] * window


def _gaussian(
    size: tuple[int, int], at: tuple[float, float], spread: float, slant: float, angle: float
) -> Tensor:
    """A Gaussian around a frequency, summed over the turns of the torus."""
    found = torch.zeros(size, dtype=torch.float64)
    rows, columns = (2 * math.pi * torch.fft.fftfreq(n, dtype=torch.float64) for n in size)
    for up in (-2, -1, 0, 1, 2):
        for right in (-2, -1, 0, 1, 2):
            y = rows[:, None] + 2 * math.pi * up - at[0]
            x = columns + 2 * math.pi * right - at[1]
            along = math.cos(angle) * x + math.sin(angle) * y
            across = (math.cos(angle) * y - math.sin(angle) * x) / slant
            found += torch.exp(-0.5 * spread**2 * (along.square() + across.square()))
    return found
