"""A fitted detector: activations to one score per input, larger = further out."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from nescio.core import (
    DamagedError,
    NescioError,
    Registry,
    Saved,
    one_thread,
    readers,
    save_tensors,
)
from nescio.detectors.activations import (
    Activations,
    NoInputsError,
    View,
    check_reading,
    check_task,
    check_widths,
)

State = Mapping[str, Tensor]  # what was fitted, by name
SIGN = "larger is further out"
CHOSEN = "chosen"  # the name in `about` of how a default detector was chosen
FITTED_ON = "fitted_on"  # the name of the hashes in a file

# how a fitted detector of a name scores one network's view: (view, state, **options) -> (N,)
scores = Registry("detector")
joint = Registry("detector")  # the same for those that read all networks at once: (M, N, C) -> (N,)


class LostScoresError(NescioError):
    """Scores that are NaN.

    message: which, and why.
    rows: whether the score of each sample is NaN, `(N,)`.
    """

    def __init__(self, message: str, rows: Tensor) -> None:
        super().__init__(message)
        self.rows = rows


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class Detector:
    """A detector that can be called, saved and moved; built by a function of `nescio.detectors`.

    name: name of the function that built it.
    options: its options; JSON.
    layers: names of the layers whose features it reads.
    states: its tensors by name, one mapping for each network it was fitted on.
    about: how the activations came about; JSON.
    fitted_on: hashes of the inputs it was fitted on, `(n,)` of int64; None: unknown.
    """

    name: str
    options: Mapping[str, Any] = field(default_factory=dict)
    layers: tuple[str, ...] = ()
    states: tuple[State, ...] = ({},)
    about: Mapping[str, Any] = field(default_factory=dict)
    fitted_on: Tensor | None = None

    def __post_init__(self) -> None:
        for state in self.states:
            for name, tensor in state.items():
                if tensor.is_floating_point() and (lost := int(tensor.isnan().sum())):
                    raise NescioError(
                        f"{self.name}: {lost} of the {tensor.numel()} numbers fitted as {name!r} "
                        "are NaN; the training activations hold NaN, check the network and inputs"
                    )

    def __repr__(self) -> str:
        given = {n: v for n, v in self.options.items() if n not in ("parts", "columns")}
        options = "".join(f", {name}={value!r}" for name, value in given.items())
        parts = [part["name"] for part in self.options.get("parts", ())]
        options += f", parts={', '.join(parts)}" if parts else ""
        layers = f"; reads {', '.join(self.layers)}" if self.layers else ""
        networks = f"; of {len(self.states)} networks" if len(self.states) > 1 else ""
        return f"Detector({self.name}{options}{layers}{networks})"

    def __call__(self, activations: Activations) -> Tensor:
        """Scores `(N,)` of `activations`: the mean over the networks.

        `activations.mean()` scores the mean network.
        """
        each = self.each(activations)
        return each[0] if len(each) == 1 else each.mean(0)

    @torch.no_grad()
    def each(self, activations: Activations) -> Tensor:
        """Scores `(M, N)` of `activations`, one row per network, or one for a joint measure."""
        self._check(activations)
        members = range(activations.members)
        blocks = zip(*(activations.views(m, self.layers) for m in members), strict=True)
        parts = [self.rows(views) for views in blocks]
        with one_thread():  # a second one would spin for longer than this takes
            result = parts[0] if len(parts) == 1 else torch.cat(parts, dim=1)
            lost = math.isnan(result.sum()) and bool(result.isnan().any())
        if lost:
            read = {"logits": activations.logits}
            read |= {f"features {name!r}": activations.features[name] for name in self.layers}
            counts = (f"{n} {sum(int(m.isnan().sum()) for m in v)}" for n, v in read.items())
            rows = result.isnan().any(0)
            raise LostScoresError(
                f"{self.name}: {int(rows.sum())} of {len(rows)} scores are NaN; NaN in what they "
                f"read: {', '.join(counts)}; check the network and its inputs",
                rows,
            )
        return result

    def rows(self, views: Sequence[View]) -> Tensor:
        """Scores `(M, N)` of the `views` of M networks, with gradients if they have them."""
        if self.name in joint:
            logits = torch.stack([single(view.logits) for view in views])
            return joint[self.name](logits, **self.options)[None]  # type: ignore[no-any-return]
        states = self.states if len(self.states) > 1 else self.states * len(views)
        each = [self.score(view, state) for view, state in zip(views, states, strict=True)]
        return torch.stack(each) if len(each) > 1 else each[0][None]

    def score(self, view: View, state: State | None = None) -> Tensor:
        """Scores `(N,)` of one network's activations `view`, with gradients if they have them.

        state: the tensors of the network; None: those of the first.
        """
        if self.name in joint:
            return self.rows([view])[0]
        state = _moved(self.states[0] if state is None else state, view.logits.device)
        features = {name: single(view.features[name]) for name in self.layers}
        rest = view.inputs, view.weight, view.bias, view.answer
        view = View(single(view.logits), features, *rest)
        return scores[self.name](view, state, **self.options)  # type: ignore[no-any-return]

    def to(self, device: torch.device | str) -> "Detector":
        """The same detector on `device`."""
        return replace(self, states=tuple(_moved(state, device) for state in self.states))

    @property
    def chosen(self) -> Mapping[str, Any] | None:
        """How a default detector was chosen: its parts, and the AUROC for each kind of outlier."""
        return self.about.get(CHOSEN)

    def manifest(self) -> dict[str, Any]:
        """All but the tensors, as JSON."""
        about = {"name": self.name, "options": dict(self.options), "layers": list(self.layers)}
        return {**about, "networks": len(self.states), "about": dict(self.about)}

    def save(self, path: str | Path) -> Path:
        """Write the file `path`, safetensors with a manifest inside."""
        tensors = {f"{m}/{n}": t for m, state in enumerate(self.states) for n, t in state.items()}
        if self.fitted_on is not None:
            tensors[FITTED_ON] = self.fitted_on
        manifest = {"kind": "detector", "torch": torch.__version__, "sign": SIGN, **self.manifest()}
        save_tensors(Path(path), tensors, manifest)
        return Path(path)

    def _check(self, activations: Activations) -> None:
        if not isinstance(activations, Activations):
            raise NescioError(
                f"{self.name} reads activations, got a {type(activations).__name__}; give "
                "nescio.observe(net, x), or score raw inputs: nescio.scorer(net, detector)(x)"
            )
        check_task(self.name, regression=activations.regression)
        check_reading(self.options, concentrations=activations.concentrations)
        widths = {n: activations.features[activations.layer(n)].shape[-1] for n in self.layers}
        check_widths(self.name, self.about, widths)
        pools = [about.get("pool") for about in (self.about, activations.about)]
        if self.layers and None not in pools and pools[0] != pools[1]:
            raise NescioError(
                f"{self.name} was fitted on features pooled by {pools[0]!r}, these are pooled by "
                f"{pools[1]!r}; observe with the same pool="
            )
        if len(self.states) not in (1, activations.members):
            raise NescioError(
                f"the detector was fitted on {len(self.states)} networks, these activations are "
                f"of {activations.members}; observe the same model, or use activations.mean()"
            )
        if len(self.states) < activations.members and self.states[0]:
            raise NescioError(
                "the detector was fitted on one network, these activations are of "
                f"{activations.members}; fit it on those of the model, or use activations.mean()"
            )


def fitted(
    name: str, train: Activations, options: Mapping[str, Any], states: Iterable[State], *layers: str
) -> Detector:
    """A detector with one state for each network of `train`, whose `layers` it reads."""
    check_task(name, regression=train.regression)
    manifest = {"name": name, "options": options, "layers": layers, "about": train.about}
    return from_manifest(manifest, tuple(states), train.hashes)


def from_manifest(
    manifest: Mapping[str, Any], states: tuple[State, ...], fitted_on: Tensor | None
) -> Detector:
    """A detector from what a file says about it."""
    parts = {name: manifest[name] for name in ("name", "options", "about")}
    return Detector(**parts, layers=tuple(manifest["layers"]), states=states, fitted_on=fitted_on)


@torch.no_grad()
def check_parts(detector: Detector, path: Path) -> Detector:
    """The detector, or an error where the parts that a file gave do not fit together.

    It scores an input of zeros, unless nothing was fitted or it reads raw inputs.
    """
    widths, classes = detector.about.get("widths", {}), detector.about.get("classes", 2)
    if detector.states and not any(detector.states) and not widths:
        return detector
    try:
        if not detector.states or "classes" not in detector.about:
            raise NescioError("what it was fitted on is not said")
        features = {name: torch.zeros(1, widths[name]) for name in detector.layers}
        view = View(torch.zeros(1, classes), features, None, None, None, None)
        for state in detector.states:
            if detector.score(view, state).shape != (1,):
                raise NescioError("it does not give one score per input")
    except NoInputsError:
        pass
    except (AttributeError, IndexError, KeyError, RuntimeError, TypeError, ValueError) as error:
        raise DamagedError(
            f"{path}: the parts of the detector {detector.name!r} do not fit together "
            f"({type(error).__name__}: {error}); fit it again"
        ) from error
    return detector


def _moved(state: State, device: torch.device | str) -> State:
    if all(tensor.device == device for tensor in state.values()):
        return state
    return {name: tensor.to(device) for name, tensor in state.items()}


def only_layer(view: View) -> Tensor:
    """The features `(N, F)` of the one layer that a detector reads."""
    (features,) = view.features.values()
    return features


def single(tensor: Tensor) -> Tensor:
    """Half precision as single: sums of many small numbers need it."""
    return tensor if tensor.dtype in (torch.float32, torch.float64) else tensor.float()


@readers.named("detector")
def _read(saved: Saved, *, device: torch.device | str = "cpu") -> Detector:
    manifest, tensors = saved.manifest, dict(saved.tensors)
    if manifest["sign"] != SIGN:
        raise DamagedError(f"{saved.path} holds scores of another sign: {manifest['sign']!r}")
    states: list[dict[str, Tensor]] = [{} for _ in range(manifest["networks"])]
    fitted_on = tensors.pop(FITTED_ON, None)
    for key, tensor in tensors.items():
        member, _, name = key.partition("/")
        states[int(member)][name] = tensor.to(device)
    if manifest["name"] not in joint:
        scores[manifest["name"]]  # known?
    return check_parts(from_manifest(manifest, tuple(states), fitted_on), saved.path)
