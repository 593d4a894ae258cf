"""A fitted calibration: predictions, or a predictor, to probabilities that can be believed."""

import inspect
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeAlias

import torch
from torch import Tensor, nn

from nescio.core import (
    MODEL,
    Array,
    Categorical,
    Classification,
    DamagedError,
    MultiLabel,
    NescioError,
    Prediction,
    Registry,
    Saved,
    answer,
    as_targets,
    as_tensor,
    counted,
    load,
    readers,
    save_tensors,
    two_logits,
)
from nescio.core.registry import calibrators, predictors
from nescio.data import door
from nescio.models import Member, Predictor, encoding_of, networks, plain, takes_tokens, with_head
from nescio.models.predictor import check_model, save_predictor

if TYPE_CHECKING:
    from nescio.calibration.label_maps import LabelMaps

KIND = "calibration"
LARGE = 256.0  # logits beyond it lose digits of their differences in single precision
State = Mapping[str, Tensor]  # what was fitted, by name, in float64
Apply = Callable[..., Categorical]  # (prediction, state, **options)

fits = Registry(KIND)  # by name: what is fitted
maps = Registry(KIND)  # by name: how it is applied
P = ParamSpec("P")
Fitted: TypeAlias = Callable[Concatenate[Classification, Tensor, P], State]
Calibrator: TypeAlias = Callable[..., "Calibrated"]  # (predictor, data, ignore_index=, options)


@dataclass(frozen=True, eq=False, kw_only=True)
class Map:
    """A calibration that can be called and saved; fitted by `nescio.calibration.fit`.

    name: name of the calibration, such as `"temperature"`.
    options: its options, as JSON values.
    state: fitted numbers by name, in float64.
    classes: number of classes.
    """

    name: str
    options: Mapping[str, Any]
    state: State
    classes: int

    def __post_init__(self) -> None:
        maps[self.name]  # known?
        for name, tensor in self.state.items():
            if tensor.dtype != torch.float64 or not tensor.isfinite().all():
                raise NescioError(
                    f"{self.name}: {name!r} must hold finite numbers in float64; fit it again"
                )
        flat = torch.zeros(1, 1, self.classes, dtype=torch.float64)
        try:
            if self(flat).logits.shape != flat.shape:
                raise ValueError("the calibrated logits have another shape")
        except (KeyError, IndexError, RuntimeError, TypeError, ValueError) as error:
            sizes = ", ".join(f"{name} {tuple(t.shape)}" for name, t in self.state.items())
            raise NescioError(
                f"{self.name}: options {dict(self.options)} and numbers ({sizes or 'none'}) are "
                f"not those of {self.classes} classes; fit it again"
            ) from error

    def __call__(self, prediction: Prediction | Array, *, probs: bool = False) -> Categorical:
        """The calibrated prediction, of the members or of their mixture.

        prediction: a prediction of classes, or logits `(N, C)`, of several members `(M, N, C)`.
        probs: whether `prediction` holds probabilities instead of logits.
        """
        given = as_classification(prediction, probs=probs)
        if given.classes != self.classes:
            raise NescioError(
                f"{self.name} was fitted on {self.classes} classes, this prediction has "
                f"{given.classes}; use the network it was fitted for"
            )
        state = {name: tensor.to(given.device) for name, tensor in self.state.items()}
        return maps[self.name](given, state, **self.options)  # type: ignore[no-any-return]

    @property
    def slope(self) -> float:
        """What all logits are multiplied by, in temperature and Platt scaling."""
        weight = self.state.get("weight")
        if weight is None or weight.ndim:
            raise NescioError(f"{self.name} has no one slope; temperature and platt have")
        return float(weight)

    @property
    def intercept(self) -> tuple[float, ...]:
        """What is added to the logits after they are multiplied, one number per class."""
        if "intercept" not in self.state:
            raise NescioError(f"{self.name} adds no intercept to logits")
        return tuple(self.state["intercept"].tolist())

    @property
    def temperature(self) -> float:
        """What the logits are divided by."""
        return 1 / self.slope

    def manifest(self) -> dict[str, Any]:
        """All but the tensors, as JSON."""
        return {"name": self.name, "options": dict(self.options), "classes": self.classes}

    @classmethod
    def from_manifest(cls, manifest: Mapping[str, Any], state: State) -> "Map":
        """The map that `manifest()` and `state` are of."""
        try:
            return cls(
                **{name: manifest[name] for name in ("name", "options", "classes")},
                state=dict(state),
            )
        except (KeyError, TypeError) as error:
            raise DamagedError(f"the manifest of a calibration is damaged: {error!r}") from error

    def save(self, path: str | Path) -> Path:
        """Write one safetensors file at `path`, with the manifest inside, and return the path."""
        save_tensors(Path(path), self.state, {"kind": KIND, **self.manifest()})
        return Path(path)


@readers.named(KIND)
def _read(saved: Saved) -> Any:
    return _from_manifest(saved.manifest, saved.tensors)


def _from_manifest(manifest: Mapping[str, Any], state: State) -> Any:
    """A map, or those of several labels."""
    from nescio.calibration.label_maps import LabelMaps

    return (LabelMaps if "labels" in manifest else Map).from_manifest(manifest, state)


def fit(
    name: str,
    prediction: Prediction | Array,
    labels: Array,
    *,
    probs: bool = False,
    ignore_index: int | None = None,
    **options: Any,
) -> Map:
    """The calibration of a name, fitted on the predictions and labels of calibration samples.

    >>> rng = torch.Generator().manual_seed(0)
    >>> logits = torch.randn(1000, 3, generator=rng, dtype=torch.float64)
    >>> labels = torch.multinomial(logits.softmax(1), 1, generator=rng)[:, 0]
    >>> round(fit("temperature", 5 * logits, labels).temperature, 1)
    4.7

    name: name of the calibration, such as `"temperature"`; `nescio list calibrators` shows all.
    prediction: a prediction of classes; or logits `(N, C)`, of several members `(M, N, C)`. `(N,)`
      or `(N, 1)`: the logit of class 1 of two.
    labels: true classes, `(N,)`; of a prediction of maps `(N, H, W)`, and every pixel is a sample.
    probs: whether `prediction` holds probabilities instead of logits.
    ignore_index: the label of what is left out, one that is not a class; None: nothing is.
    options: options of the calibration, such as `bins=20` of `histogram`.
    """
    given = as_classification(prediction, probs=probs)
    given, wanted = counted(given, as_tensor(labels, "labels"), ignore_index=ignore_index)
    if len(wanted.unique()) < 2:
        raise NescioError(
            f"the {wanted.numel()} calibration labels are of "
            f"{'one class' if wanted.numel() else 'no class'}; calibration needs "
            "samples of several classes"
        )
    parameters = list(inspect.signature(fits[name]).parameters.values())[2:]
    defaults = {parameter.name: parameter.default for parameter in parameters}
    if wrong := sorted(options.keys() - defaults):
        raise NescioError(
            f"{name} has no option {', '.join(wrong)}; its options: {', '.join(defaults) or 'none'}"
        )
    options = {**defaults, **options}
    state = fits[name](given, wanted, **options)
    return Map(name=name, options=options, state=state, classes=given.classes)


def as_classification(prediction: Prediction | Array, *, probs: bool = False) -> Classification:
    """A prediction of classes: as it is, or of logits or probabilities."""
    if isinstance(prediction, Classification):
        return prediction
    if isinstance(prediction, Prediction):
        raise NescioError(
            f"calibration reads predictions of classes; a {type(prediction).__name__} has none "
            "(several labels: nescio.calibration.fit_labels)"
        )
    table = as_tensor(prediction, "probabilities" if probs else "logits")
    if table.ndim not in (1, 2, 3) or not table.is_floating_point():
        raise NescioError(
            "calibration reads a prediction, or floats of shape (samples, classes) or (members, "
            f"samples, classes); got {table.dtype} {tuple(table.shape)}"
        )
    table = table[:, None] if table.ndim == 1 else table
    table = table[None] if table.ndim == 2 else table
    if table.shape[-1] == 1:  # of two classes, the second
        table = torch.cat([1 - table, table], -1) if probs else two_logits(table)
    return Categorical.from_probs(table) if probs else Categorical(table)


def affine(prediction: Classification, state: State, **_: Any) -> Categorical:
    """The members' logits `W z + b`, before the average."""
    return Categorical(transformed(logits_of(prediction), state))


def transformed(logits: Tensor, state: State) -> Tensor:
    """`W z + b`, with W a number `()`, one per class `(C,)` or a matrix `(C, C)`."""
    weight, intercept = (state[name].to(logits) for name in ("weight", "intercept"))
    if weight.ndim == 2:
        check_finite(logits)
        return logits @ weight.T + intercept
    return weight * (logits if weight.ndim else without_offset(logits)) + intercept


def without_offset(logits: Tensor) -> Tensor:
    """The logits of each sample less the highest, where it is large: what one slope reads alike."""
    highest = logits.amax(-1, keepdim=True)
    return logits - torch.where(highest.abs() > LARGE, highest, 0.0)


def logits_of(prediction: Classification) -> Tensor:
    """Logits of each member, in float32 at least; of other predictions their log probabilities."""
    wide = widened(prediction)
    return wide.logits if isinstance(wide, Categorical) else wide.member_log_probs


def widened(prediction: Classification) -> Classification:
    """The prediction in float32 at least."""
    one = prediction.logits if isinstance(prediction, Categorical) else prediction.member_log_probs
    return prediction if one.dtype.itemsize >= 4 else prediction.to(torch.float32)


def check_finite(logits: Tensor) -> None:
    """Refuse classes that are ruled out: no weight moves them, and a matrix spreads them."""
    if logits.isinf().any():
        lost = int(logits.isinf().any(-1).any(0).sum())
        raise NescioError(
            f"{lost} sample(s) have a class of probability 0, whose logarithm, -inf, can have no "
            "weight; give logits, or use temperature, isotonic or histogram"
        )


def refuse_perfect(logits: Tensor, labels: Tensor) -> None:
    """Where no member ranks a class above the label, the likelihood grows without end."""
    index = labels.to(logits.device).expand(logits.shape[:-1])[..., None]
    own = logits.gather(-1, index)[..., 0]
    if (own == logits.amax(-1)).all():
        raise NescioError(
            "every calibration sample is classified right, so the likelihood grows without end as "
            "the temperature goes to 0; use more, or harder, calibration data"
        )
    if lost := int((own == -math.inf).all(0).sum()):
        raise NescioError(
            f"{lost} calibration sample(s) have labels of probability 0, so the likelihood is 0 "
            "whatever is fitted; give logits, or check the labels"
        )


def refuse_missing(classes: int, labels: Tensor) -> None:
    """Where a class has no calibration sample, nothing is known of its numbers."""
    missing = classes - len(labels.unique())
    if missing:
        raise NescioError(
            f"{missing} of {classes} classes have no calibration sample, so their numbers would "
            "run away; use temperature scaling or more calibration data"
        )


@dataclass(frozen=True, eq=False)
class Calibrated:
    """Answers of a predictor, calibrated by a map.

    inner: the predictor whose answers are calibrated.
    map: the fitted calibration.
    """

    inner: Predictor
    map: "Map | LabelMaps"

    def networks(self) -> list[Member]:
        """The networks of `inner` with scaled logits; temperature and Platt scaling only."""
        return [self._scaled(member) for member in networks(self.inner)]

    def _scaled(self, member: Member) -> Member:
        before = member.intercept or (0.0,) * self.map.classes
        shift = tuple(b * self.slope + s for b, s in zip(before, self.intercept, strict=True))
        return replace(member, slope=member.slope * self.slope, intercept=shift)

    @property
    def temperature(self) -> float:
        """What the logits are divided by."""
        return self.map.temperature

    @property
    def slope(self) -> float:
        """What the logits are multiplied by."""
        return self.map.slope

    @property
    def intercept(self) -> tuple[float, ...]:
        """What is added to the logits, one number per class."""
        return self.map.intercept

    def __call__(self, x: Any) -> Prediction:
        """The calibrated prediction on the inputs `x`."""
        fitted: Any = self.map
        return fitted(self.inner(x))  # type: ignore[no-any-return]

    @property
    def streamed(self) -> Callable[[Any], Iterator[tuple[int, Prediction]]] | None:
        """Parts of the prediction, as `MCDropout.streamed`, where each member is scaled by itself.

        None for maps of the mixture's probabilities, which need all members at once.
        """
        fitted, parts = self.map, getattr(self.inner, "streamed", None)
        if parts is None or not isinstance(fitted, Map) or maps[fitted.name] is not affine:
            return None
        return lambda x: ((start, fitted(part)) for start, part in parts(x))

    def answer(self, x: Tensor) -> Prediction:
        """The prediction on the inputs `x` in one go, with gradients with respect to them."""
        fitted: Any = self.map
        return fitted(answer(self.inner, x))  # type: ignore[no-any-return]

    def save(self, folder: str | Path) -> Path:
        """Write the model into `folder`, and beside it how it is sampled and calibrated."""
        about, state = self.map.manifest(), self.map.state
        return save_predictor(folder, self.inner, calibration=about, state=state)


def map_of(predictor: Predictor) -> Map | None:
    """The calibration that the answers of `predictor` go through, None where there is none."""
    found = getattr(predictor, "map", None)
    return found if isinstance(found, Map) else None


@readers.named("predictor")
def _read_predictor(saved: Saved, *, net: Any = None, head: Any = None) -> Predictor:
    check_model(saved.path, saved.manifest)
    model: Predictor = load(saved.path.with_name(MODEL), kind="model", net=net, head=head)
    sampler, about = saved.manifest["sampler"], saved.manifest["calibration"]
    if sampler is not None:
        model = predictors[sampler](model, **saved.manifest["sampling"])
    return model if about is None else Calibrated(model, _from_manifest(about, saved.tensors))


def calibration(apply: Apply) -> Callable[[Fitted[P]], Calibrator]:
    """Register a function that fits a calibration, and how what it fits is applied.

    The public function of the same name and options takes a predictor and calibration data.
    """

    def register(fitted: Fitted[P]) -> Calibrator:
        name: str = fitted.__name__

        @wraps(fitted)
        def build(predictor: Predictor | nn.Module, data: Any, **options: Any) -> Calibrated:
            return calibrated(name, predictor, data, **options)

        own = list(inspect.signature(fitted).parameters.values())[2:]
        first = list(inspect.signature(calibrated).parameters.values())[1:4]
        seen = inspect.Signature([*first, *own], return_annotation=Calibrated)
        build.__signature__ = seen  # type: ignore[attr-defined]
        fits.named(name)(fitted)
        maps.named(name)(apply)
        return calibrators.register(build)

    return register


def calibrated(
    name: str,
    predictor: Predictor | nn.Module,
    data: Any,
    *,
    ignore_index: int | None = None,
    **options: Any,
) -> Calibrated:
    """A predictor with the calibration of a name, fitted on calibration data.

    ignore_index: the label of what is left out; not a class.
    """
    reads: dict[str, Any] = {"tokens": takes_tokens(predictor), "columns": encoding_of(predictor)}
    x, y = door.read(data, name="calibration data", **reads)
    if isinstance(predictor, nn.Module):
        found = with_head(predictor, (x, y))
        predictor = plain(found) if isinstance(found, nn.Module) else found
    given = predictor(x)
    if isinstance(given, MultiLabel):
        from nescio.calibration.label_maps import fit_labels

        labels = fit_labels(name, given, y, ignore_index=ignore_index, **options)
        return Calibrated(predictor, labels)
    prediction = as_classification(given)
    truth = as_targets(y, len(prediction), task="classification", maps=True)
    fitted = fit(name, prediction, truth, ignore_index=ignore_index, **options)
    return Calibrated(predictor, fitted)


def scaled(predictor: Predictor, slope: float, intercept: tuple[float, ...]) -> Calibrated:
    """A predictor with member logits `slope * z + intercept`, numbers known beforehand.

    predictor: a predictor of classes.
    slope: factor of all logits.
    intercept: what is added to the logits after that, one number per class.
    """
    numbers = {"weight": slope, "intercept": intercept}
    state = {name: torch.tensor(value, dtype=torch.float64) for name, value in numbers.items()}
    return Calibrated(predictor, Map(name="platt", options={}, state=state, classes=len(intercept)))
