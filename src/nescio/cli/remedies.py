"""Recipes beside a network that is audited: what training could have done for it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import nn

from nescio.cli.data_names import settings
from nescio.core import NescioError
from nescio.core.registry import recipes
from nescio.models import Predictor
from nescio.models.predictor_folder import save_settings
from nescio.training.loop import Pair
from nescio.training.recipes import Recipe
from nescio.training.train import train

TITLES = {"ceda": "CEDA", "acet": "ACET"}


@dataclass(frozen=True)
class Remedy:
    """A recipe to train beside a network, and how it is called in the report."""

    title: str
    folder: str
    recipe: Recipe


def remedy(text: str) -> Remedy:
    """Read `acet`, or with options `acet,radius=0.1,steps=5`; hyphens stand for underscores."""
    word, *words = text.split(",")
    name = word.strip().replace("-", "_")
    pairs = [pair.partition("=") for pair in words]
    if not all(key and value for key, _, value in pairs):
        raise NescioError(f"--recipe takes NAME or NAME,OPTION=VALUE,..., got {text!r}")
    make = recipes[name]
    recipe: Recipe = make(**settings(name, {key.strip(): value for key, _, value in pairs}))
    if recipe.net is not None or recipe.dropout:
        raise NescioError(
            f"the recipe {name!r} needs a network of its own; train it with: nescio train {name}"
        )
    title = ", ".join([TITLES.get(name, name.replace("_", " ")), *map(str.strip, words)])
    folder = "".join(c if c.isalnum() or c in ".=-" else "_" for c in ",".join([name, *words]))
    return Remedy(title, folder, recipe)


def remedies_named(texts: Sequence[str], taken: Sequence[str] = ()) -> list[Remedy]:
    """Read several, each once; `taken` are titles that the report has without them."""
    found = [remedy(text) for text in texts]
    titles = [*taken, *(one.title for one in found)]
    for one in found:
        if titles.count(one.title) > 1:
            raise NescioError(f"--recipe takes each recipe once, got {one.title!r} again")
    return found


def train_remedy(
    chosen: Remedy,
    make_net: Callable[[], nn.Module],
    data: Pair,
    *,
    run: str | Path | None = None,
    **options: Any,
) -> Predictor:
    """Train a recipe on `data`; with `run`, in a folder that `nescio predict` takes."""
    recipe = chosen.recipe
    folder = None if run is None else Path(run) / chosen.folder
    loss = recipe.loss_for(data[0])
    model = train(make_net, data, loss=loss, members=recipe.members, run=folder, **options)
    if folder is not None:
        save_settings(folder, sampler=recipe.sampler, sampling=recipe.sampling)
    return recipe.predictor(model)
