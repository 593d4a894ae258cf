"""Recipes to train beside a network of the user, for `nescio audit` and `nescio demo`."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import nn

from nescio.cli.train import recipe_named
from nescio.core import NescioError, make_folder, owned, parse
from nescio.models import Predictor
from nescio.models.predictor import save_settings, unfinished
from nescio.training.loop import Pair
from nescio.training.recipe import Recipe
from nescio.training.train import train as train_model

TITLES = {"ceda": "CEDA", "acet": "ACET"}


@dataclass(frozen=True)
class Remedy:
    """A recipe to train beside a network, and how it is called in the report."""

    title: str
    folder: str
    recipe: Recipe


def remedy(text: str) -> Remedy:
    """Read `acet`, or with options `acet,radius=0.1,steps=5`; hyphens stand for underscores."""
    name, words = parse(text)
    recipe = recipe_named(name, words)
    if recipe.net is not None or recipe.dropout:
        raise NescioError(
            f"the recipe {name!r} needs a network of its own; train it with: nescio train {name}"
        )
    pairs = [f"{key}={value}" for key, value in words.items()]
    title = ", ".join([TITLES.get(name, name.replace("_", " ")), *pairs])
    folder = "".join(c if c.isalnum() or c in ".=-" else "_" for c in ",".join([name, *pairs]))
    return Remedy(title, folder, recipe)


def remedies_named(texts: Sequence[str], taken: Sequence[str] = ()) -> list[Remedy]:
    """Read several, each once; `taken` are titles that the report has without them."""
    remedies = [remedy(text) for text in texts]
    titles = [*taken, *(one.title for one in remedies)]
    for one in remedies:
        if titles.count(one.title) > 1:
            raise NescioError(f"--recipe takes each recipe once, got {one.title!r} again")
    return remedies


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
    made = {"loss": loss, "members": recipe.members, "run": folder, **options}
    if folder is None:
        return recipe.predictor(train_model(make_net, data, **made))
    with owned(make_folder(folder)), unfinished(folder):
        model = train_model(make_net, data, **made)
        save_settings(folder, sampler=recipe.sampler, sampling=recipe.sampling)
    return recipe.predictor(model)
