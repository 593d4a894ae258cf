"""Predictions of samples by the members that were trained without them."""

from typing import Any

import torch

from nescio.core import TRAINED_ROWS, NescioError, Prediction, digests_of
from nescio.data import Splits, door
from nescio.models.model import Model
from nescio.nets import columns_of, reads_tokens


def out_of_fold(model: Model, splits: Splits, x: Any) -> Prediction:
    """The prediction of each sample by the members of the split that tests on it.

    The prediction has as many members as a split.

    >>> from nescio import data, nets, train
    >>> x, y = data.half_moons(train=40).train
    >>> parts = data.folds(len(x), 4).repeated(3)
    >>> options = {"members": len(parts), "rows": parts.train, "epochs": 2}
    >>> model = train(lambda: nets.mlp(2, 2), (x, y), **options)
    >>> out_of_fold(model, parts, x)
    Categorical(3 member(s), 40 samples, 2)

    model: trained with `rows=splits.train`.
    splits: splits of the samples, such as `nescio.data.folds`.
    x: the inputs of all samples, `(N, ...)`.
    """
    if model.members != len(splits):
        raise NescioError(
            f"the model has {model.members} members, the splits are {len(splits)}; train it with "
            "rows=splits.train"
        )
    trained = model.notes.get(TRAINED_ROWS)
    if trained is not None and not set(digests_of(splits.train)) <= set(trained):
        raise NescioError(
            "the model was trained on other rows than splits.train, so members would predict "
            "samples that they were trained on; give the splits of its training"
        )
    tested = torch.cat(splits.test[:: splits.each])
    reads: dict[str, Any] = {"tokens": reads_tokens(model.net), "columns": columns_of(model.net)}
    x = door.as_network_inputs(x, dtype=model.dtype, **reads)
    if len(x) != len(tested):
        raise NescioError(f"{len(x)} inputs, but the splits are of {len(tested)} samples")
    starts = range(0, len(splits), splits.each)
    parts = [
        model.choose(range(start, start + splits.each))(x[splits.test[start]]) for start in starts
    ]
    return type(parts[0]).join(parts)[tested.argsort()]
