"""Labels that a small network chose, used by another: a network that learns its convolutions.

The layers are those of Kirsch et al. (2019), with dropout before the last layer alone.
"""

from collections.abc import Mapping
from typing import Any

from torch import nn

from nescio.applications.active_learning import Curves
from nescio.models import Model
from nescio.training.train import train
from nescio_papers.kit import (
    Claim,
    InData,
    Sample,
    Settings,
    folder_of,
    sample,
    slug,
    table,
)
from nescio_papers.robust_deep_learning.active_runs import (
    BALD,
    PART,
    RANDOM,
    Budget,
    budget,
    epochs,
)
from nescio_papers.robust_deep_learning.stored_facts import over_seeds

METHODS = (RANDOM, BALD)
Errors = dict[int, dict[str, Sample]]  # labels -> by whom they were chosen -> of each seed


def transferred(settings: Settings, found: Mapping[str, Curves], images: InData) -> Errors:
    """Test errors of learned convolutions on the labels of each method, some and all of them."""
    sizes = budget(settings)
    return {
        labels: {
            name: _errors(_trained(settings, name, found[name], labels, images), images)
            for name in METHODS
        }
        for labels in (sizes.some, sizes.labels)
    }


def convolutions() -> nn.Module:
    """Two convolutions 5x5 with pooling, and two linear layers with dropout between."""
    return nn.Sequential(
        nn.Conv2d(1, 32, 5),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(32, 64, 5),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(64 * 16, 128),
        nn.ReLU(),
        nn.Dropout(0.5),
        nn.Linear(128, 10),
    )


def _trained(settings: Settings, name: str, curves: Curves, labels: int, images: InData) -> Model:
    sizes: Budget = budget(settings)
    return train(
        convolutions,
        images.train,
        members=len(curves.seeds),
        rows=curves.acquired[:, :labels],
        epochs=epochs(labels, sizes.convolution_updates, sizes.batch),
        batch_size=sizes.batch,
        schedule="cosine",
        seed=settings.seed,
        run=folder_of(settings, PART) / slug(f"convolutions {name} {labels}"),
        progress=False,
    )


def _errors(model: Model, images: InData) -> Sample:
    x, y = images.test
    prediction: Any = model(x)
    return sample(
        float((prediction.choose([member]).labels != y).double().mean())
        for member in range(prediction.members)
    )


def transfer_claim(numbers: Mapping[str, Any]) -> Claim:
    """Are the labels also better for a network that did not choose them?"""
    gaps = {
        labels: sample(row[BALD]["values"]) - sample(row[RANDOM]["values"])
        for labels, row in numbers["convolutions"].items()
    }
    return Claim(
        source="here",
        sentence="The most informative data are worth annotating: also for another network, which "
        "learns its convolutions and chose none of them.",
        facts=[
            over_seeds(
                f"its error on {labels} labels of BALD less that on random ones",
                gap,
                below=0,
                form=".2%",
            )
            for labels, gap in gaps.items()
        ],
    )


def transfer_table(found: Errors) -> str:
    """Errors of learned convolutions by labels and by who chose them."""
    rows = [
        [str(labels), *(f"{100 * own.mean:.2f} ± {100 * own.half:.2f} %" for own in row.values())]
        for labels, row in found.items()
    ]
    return table(["labels", *(f"chosen by {name}" for name in METHODS)], rows)
