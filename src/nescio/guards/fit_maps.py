"""Make the guard of label maps: predict the calibration images, and find the threshold."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from nescio.conformal import control_risk
from nescio.core import (
    Classification,
    FewSamplesWarning,
    Head,
    Inputs,
    NescioError,
    RepeatedInputsWarning,
    as_targets,
    check_axes,
    check_counted,
    check_ignore_index,
    hash_inputs,
    unknown,
    warn,
)
from nescio.data import door
from nescio.guards.fit_regression import without_dropout
from nescio.guards.guarantees import dropped_words, repeated_words
from nescio.guards.map_guard import MEASURES, MapGuard, predictor_of
from nescio.guards.observing import class_names, copies_of, known
from nescio.guards.splitting import unknown_to
from nescio.guards.watching import learn_range
from nescio.metrics import mark_ignored
from nescio.models import Predictor, encoding_of, takes_tokens, uncertainty_maps
from nescio.nets import Output

RISK = 0.05  # where nothing is asked for


def guard_maps(
    source: Any,
    calibration: Any,
    *,
    train: Any,
    failure: Any,
    risk: float | None,
    confidence: float | None,
    ignore_index: int | None,
    names: Sequence[str] | None,
    repeats: bool,
    output: Output,
    head: Head | str | None,
) -> MapGuard:
    """A guard of networks with a label for each pixel; the options are those of `nescio.guard`."""
    measure = _measure(failure)
    if source is None:
        raise NescioError("a guard of label maps runs the network; give it, not activations alone")
    source, head, passes = without_dropout(source, head)
    members = copies_of(source, 1, head, calibration)
    nets = tuple(member.net for member in members)
    reads: Any = {"tokens": takes_tokens(nets[0]), "columns": encoding_of(nets[0])}
    x, y = door.read(calibration, name="calibration data", **reads)
    y = as_targets(y, len(x), task="classification", maps=True)
    how: Any = {**passes, "output": output}
    predictor = predictor_of(nets, members[0].head, **how)
    classes = _check(predictor, x, y, ignore_index)
    hashes = hash_inputs(x)
    new = torch.arange(len(x)) if repeats else unknown_to(hashes, _known(source, train, reads))
    notes = {"dropped": len(x) - len(new), "train": train is not None, "repeats": repeats}
    x, y, hashes = (x, y, hashes) if len(new) == len(x) else (x[new], y[new], hashes[new])
    maps = uncertainty_maps(predictor, x)
    wrong: Any = maps.labels != y.long()
    if ignore_index is not None:
        wrong = mark_ignored(wrong, y, ignore_index=ignore_index)
    wish: Any = {"risk": RISK if risk is None else risk, "confidence": confidence}
    control = control_risk(getattr(maps, measure), wrong, ignore_index=ignore_index, **wish)
    made = MapGuard(
        control=control,
        measure=measure,
        head=members[0].head,
        nets=nets,
        classes=classes,
        **how,
        ignore_index=check_ignore_index(ignore_index, classes),
        names=class_names(names, classes),
        range=learn_range(x),
        hashes=hashes.sort().values,
        notes={
            **notes,
            "calibration": len(x),
            "unlabeled": len(x) - control.images,
            "copies": len(x) - len(hashes.unique()),
            "axes": list(y.shape[1:]),
            "absent": sorted(set(range(classes)) - set(y.unique().tolist())),
        },
    )
    _warn_about(made)
    return made


def _measure(failure: Any) -> str:
    if failure is None:
        return MEASURES[0]
    if not isinstance(failure, str) or failure not in MEASURES:
        named = unknown("failure score of label maps", str(failure), MEASURES)
        raise NescioError(f"{named}; failure= names a measure of uncertainty")
    return failure


def _check(predictor: Predictor, x: Inputs, y: Tensor, ignore_index: int | None) -> int:
    """The number of classes; labels that do not fit the answers are refused."""
    few = predictor(x[:1])
    if not isinstance(few, Classification):
        raise NescioError(
            f"label maps are of classes, the network gives a {type(few).__name__}; give a network "
            "of class logits for each pixel"
        )
    if y.ndim < 2:
        raise NescioError(
            f"ignore_index= is for label maps (N, H, W), these labels are {tuple(y.shape)}; leave "
            "the samples without a label out"
        )
    check_axes(y, few.probs)
    check_counted(y, few.classes, y.shape, ignore_index)
    return few.classes


def _known(source: Any, train: Any, reads: Any) -> list[tuple[str, Tensor | None]]:
    """Hashes of the images that the network was trained on, where they are known."""
    found = list(known(None, source, ()))
    if train is None:
        return found
    x, _ = door.read(train, name="train", labels=False, **reads)
    return [*found, ("the training data given", hash_inputs(x))]


def _warn_about(made: MapGuard) -> None:
    """Warn where images are copies, or every pixel will be left without an answer."""
    texts = [*dropped_words(made), *([] if made.notes["repeats"] else repeated_words(made))]
    for text in texts:
        warn(text, RepeatedInputsWarning, stacklevel=4)
    if made.control.coverage == 0:
        warn(
            "the guard will abstain on every pixel: some of the most confident pixels are wrong; "
            "give more calibration images, or a larger risk",
            FewSamplesWarning,
            stacklevel=4,
        )
