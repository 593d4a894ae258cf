"""Random changes of training inputs that keep their class: crops, mirrors, affine, colors, noise.

Label maps move with their images. Each member draws from the generator of (seed, member, epoch,
step), as everything does.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, get_args

import torch
from torch import Tensor
from torch.nn import functional as F

from nescio.core import NescioError, Rng, as_labels, is_whole

MoveLabels = Callable[[Tensor, torch.Generator, int], Tensor]


@dataclass(frozen=True)
class Augment:
    """A random change of a batch of images `(B, C, H, W)`, floats or bytes.

    description: what it does, as text.
    change: a function of images and a generator that gives the changed images.
    least: number of pixels that an image must have each way.
    move_labels: the same change of label maps `(B, H, W)`, from a generator in the same state and
      with the label for pixels that come in at the edges; None: not known. `still` for changes of
      colors, which move nothing.
    fills: whether pixels come in at the edges.
    any_shape: whether inputs need not be images.
    """

    description: str
    change: Callable[[Tensor, torch.Generator], Tensor]
    least: int = 1
    move_labels: MoveLabels | None = field(default=None, kw_only=True)
    fills: bool = field(default=False, kw_only=True)
    any_shape: bool = field(default=False, kw_only=True)


def still(labels: Tensor, _: torch.Generator, __: int) -> Tensor:
    """Label maps `labels` as they are: for augmentations that move no pixel."""
    return labels


Edge = Literal["zeros", "mirror"]


def crops(pad: int = 4, *, edge: Edge = "zeros") -> Augment:
    """Shift each image by up to `pad` pixels each way.

    pad: the largest move, in pixels.
    edge: what comes in at the edges: "zeros", in label maps the ignore index, or "mirror", the
      image itself, mirrored. Black edges tell the data from OOD images, which have none: in losses
      such as `acet` a network then learns to be sure of black edges, and is unsure of whole images.
    """
    if not is_whole(pad, 1):
        raise NescioError(f"pad must be a whole number from 1 up, got {pad!r}")

    if edge not in get_args(Edge):
        raise NescioError(f'edge is "zeros" or "mirror", got {edge!r}')

    def padded_with(x: Tensor, fill: int) -> Tensor:
        if edge == "zeros":
            return F.pad(x, (pad, pad, pad, pad), value=fill)
        for axis in (-2, -1):
            last = x.shape[axis] - 1
            place = torch.arange(-pad, last + 1 + pad, device=x.device).abs()
            x = x.index_select(axis, last - (last - place).abs())
        return x

    def shift(x: Tensor, source: torch.Generator, fill: int = 0) -> Tensor:
        height, width = x.shape[-2:]
        corner = torch.randint(2 * pad + 1, (2, len(x)), generator=source).to(x.device)
        # Every window is a view; choosing one for each image is one copy of the batch.
        padded = padded_with(x, fill)
        windows = padded.unfold(-2, height, 1).unfold(-2, width, 1).movedim((-4, -3), (1, 2))
        return windows[torch.arange(len(x), device=x.device), corner[0], corner[1]]

    text = f"crops({pad})" if edge == "zeros" else f"crops({pad}, {edge=})"
    fills = edge == "zeros"
    return Augment(text, shift, least=pad + 1, move_labels=shift, fills=fills)


def mirrors() -> Augment:
    """Swap left and right in about half of the images."""

    def flip(x: Tensor, source: torch.Generator, _: int = 0) -> Tensor:
        chosen = torch.randint(2, (len(x),), generator=source).to(x.device).bool()
        return torch.where(chosen.reshape(-1, *(1,) * (x.ndim - 1)), x.flip(-1), x)

    return Augment("mirrors()", flip, move_labels=flip)


def affine(
    degrees: float = 20.0, *, shift: float = 2.0, scale: float = 0.1, shear: float = 0.15
) -> Augment:
    """Rotate, shear, scale and shift each image, each uniformly up to its limit, around its middle.

    Pixels are interpolated bilinearly, labels of maps are those of the nearest pixel; zeros, or the
    ignore index, come in at the edges.

    degrees: largest angle, either way.
    shift: largest move, in pixels, each way.
    scale: largest change of the size; 0.1 for factors from 0.9 to 1.1.
    shear: largest sideways move per pixel of height.
    """
    limits = {"degrees": degrees, "shift": shift, "scale": scale, "shear": shear}
    for name, limit in limits.items():
        if not 0 <= limit < (1 if name == "scale" else math.inf):
            raise NescioError(f"{name} must be a number from 0 up (scale below 1), got {limit!r}")

    def grid(x: Tensor, source: torch.Generator) -> Tensor:  # (B, H, W, 2) where pixels come from
        draws = (2 * torch.rand(5, len(x), generator=source) - 1).to(x.device)
        angle, factor = math.radians(degrees) * draws[0], 1 + scale * draws[1]
        cos, sin, lean = angle.cos() / factor, angle.sin() / factor, shear * draws[2]
        sides = torch.tensor([x.shape[-1], x.shape[-2]], device=x.device) / 2  # as -1 to 1
        turn = torch.stack([cos, cos * lean - sin, sin, sin * lean + cos], 1).view(-1, 2, 2)
        turn = turn * sides / sides[:, None]
        move = (shift * draws[3:].T / sides)[:, :, None]
        return F.affine_grid(torch.cat([turn, move], 2), [len(x), 1, *x.shape[-2:]], False)

    def change(x: Tensor, source: torch.Generator) -> Tensor:
        values = x if x.is_floating_point() else x.float()
        found = F.grid_sample(values, grid(x, source).to(values.dtype), align_corners=False)
        return found if x.is_floating_point() else found.round_().to(x.dtype)

    def move_labels(labels: Tensor, source: torch.Generator, fill: int = 0) -> Tensor:
        above = (labels - fill).double()[:, None]  # so that the zeros at the edges are `fill`
        where = grid(labels, source).double()
        found = F.grid_sample(above, where, mode="nearest", align_corners=False)
        return found[:, 0].to(labels.dtype) + fill

    text = f"affine({degrees=}, {shift=}, {scale=}, {shear=})"
    return Augment(text, change, move_labels=move_labels, fills=True)


def noise(deviation: float = 0.15) -> Augment:
    """Add normal noise to inputs of any shape; images of bytes are 0 to 1, rounded and clipped.

    deviation: the standard deviation, in the units of the inputs.
    """
    if not 0 < deviation < torch.inf:
        raise NescioError(f"deviation must be a positive number, got {deviation!r}")

    def add(x: Tensor, source: torch.Generator) -> Tensor:
        draws = deviation * torch.randn(x.shape, generator=source).to(x.device)
        if x.dtype != torch.uint8:
            return x + draws.to(x.dtype)
        return (x + 255 * draws).round_().clamp_(0, 255).to(torch.uint8)

    return Augment(f"noise({deviation})", add, move_labels=still, any_shape=True)


def colors(brightness: float = 0.2, *, contrast: float = 0.3, tint: float = 0.1) -> Augment:
    """Make each image lighter or darker, of more or less contrast, and tint it.

    The distance from the image's mean is multiplied by exp(u + v), u between -contrast and
    contrast, v between -tint and tint for each channel. Bytes are rounded and clipped; label maps
    stay.

    brightness: the largest shift of all values, in the units of the inputs; bytes are 0 to 1.
    contrast: the largest logarithm of the factor of an image.
    tint: the largest logarithm of the factor of each of its channels.
    """
    for name, limit in {"brightness": brightness, "contrast": contrast, "tint": tint}.items():
        if not 0 <= limit < math.inf:
            raise NescioError(f"{name} must be a number from 0 up, got {limit!r}")

    def change(x: Tensor, source: torch.Generator) -> Tensor:
        draws = (2 * torch.rand(2 + x.shape[1], len(x), generator=source) - 1).to(x.device)
        draws = draws.T[:, :, None, None]  # (B, 2 + C, 1, 1)
        values = x if x.is_floating_point() else x.float() / 255
        middle = values.mean((1, 2, 3), keepdim=True)
        factor = (contrast * draws[:, :1] + tint * draws[:, 2:]).exp()
        changed = ((values - middle) * factor + middle + brightness * draws[:, 1:2]).to(values)
        return changed if x.is_floating_point() else (255 * changed).round_().clamp_(0, 255).byte()

    text = f"colors({brightness=}, {contrast=}, {tint=})"
    return Augment(text, change, move_labels=still)


def augment(steps: Sequence[Augment], x: Tensor, rng: Rng) -> Tensor:
    """Each member's images `x` `(M, B, C, H, W)`, changed by every one of the `steps` in turn.

    rng: the random numbers of the step, with a generator for each member.
    """
    return augment_pairs(steps, x, x.new_empty(x.shape[:2]), rng)[0]


def augment_pairs(
    steps: Sequence[Augment], x: Tensor, y: Tensor, rng: Rng, ignore_index: int | None = None
) -> tuple[Tensor, Tensor]:
    """The images as `augment` changes them, and label maps `(M, B, H, W)` moved along with them.

    Other targets stay as they are.

    steps: the augmentations, in order.
    x: images of each member, `(M, B, C, H, W)`.
    y: label maps `(M, B, H, W)`, or other targets.
    rng: the random numbers of the step, with a generator for each member.
    ignore_index: the label of pixels that come in at the edges; None: 0.
    """
    moved, labels, maps = [], [], y.ndim == 4
    y = as_labels(y) if maps else y  # so that it holds any ignore index
    for images, own, source in zip(
        x.unbind(0), y.unbind(0), rng.generators("augment"), strict=True
    ):
        for step in steps:
            twin = torch.Generator().set_state(source.get_state()) if maps else source
            was, images = images, step.change(images, source)
            _check_kept(step, was, images)
            if maps and step.move_labels is not None:
                before, own = own, step.move_labels(own, twin, ignore_index or 0)
                _check_kept(step, before, own)
        moved.append(images)
        labels.append(own)
    return torch.stack(moved), torch.stack(labels) if maps else y


def _check_kept(step: Augment, was: Tensor, images: Tensor) -> None:
    if images.shape != was.shape or images.dtype != was.dtype:
        raise NescioError(
            f"{step.description} made {images.dtype} {tuple(images.shape)} of {was.dtype} "
            f"{tuple(was.shape)}; an augmentation keeps type and shape (bytes stay bytes)"
        )


def check_augments(
    steps: object,
    features: Sequence[int],
    targets: Sequence[int] = (),
    ignore_index: int | None = None,
    *,
    marked: bool = False,
) -> tuple[Augment, ...]:
    """The steps as a tuple, if they fit inputs and targets of these shapes.

    steps: one augmentation, or several; None: none.
    features: shape of one input.
    targets: shape of one target; more than one axis for label maps.
    ignore_index: label of pixels without a class; None: there is none.
    marked: whether the last channel marks the steps of sequences; it then stays as it is.
    """
    chosen = [] if steps is None else [steps] if isinstance(steps, Augment) else steps
    if not isinstance(chosen, Sequence) or not all(isinstance(step, Augment) for step in chosen):
        raise NescioError(
            "augment takes crops(), mirrors(), affine(), colors(), noise(), or a list"
        )
    for step in chosen:
        if len(features) != 3 and not step.any_shape:
            raise NescioError(
                f"{step.description} needs images (channels, height, width), got inputs "
                f"{tuple(features)}; noise() changes inputs of any shape"
            )
        if not step.any_shape and step.least > min(features[1:]):
            raise NescioError(
                f"{step.description} would push images of {features[1]} x {features[2]} pixels "
                "out of sight; use a smaller one"
            )
        if len(targets) > 1:
            _check_maps(step, tuple(features[1:]), tuple(targets), ignore_index)
    return tuple(_keeping_marks(step) if marked else step for step in chosen)


def _keeping_marks(step: Augment) -> Augment:
    def change(x: Tensor, source: torch.Generator) -> Tensor:
        return torch.cat([step.change(x, source)[:, :-1], x[:, -1:]], 1)

    return replace(step, change=change)


def _check_maps(
    step: Augment, image: tuple[int, ...], labels: tuple[int, ...], ignore_index: int | None
) -> None:
    """Refuse label maps that a step cannot move along with the images."""
    if labels != image:
        raise NescioError(
            f"{step.description} moves label maps of the size of the images, {image}; these are "
            f"{labels}"
        )
    if step.move_labels is None:
        raise NescioError(
            f"it is not known how {step.description} moves label maps; give it "
            "Augment(..., move_labels=...), nescio.data.augmentation.still if it moves none"
        )
    if step.fills and ignore_index is None:
        raise NescioError(
            f"{step.description} brings pixels without a label into the maps; give an "
            "ignore_index for them, one that is not a class"
        )
