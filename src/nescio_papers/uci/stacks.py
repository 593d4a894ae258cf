"""All splits and members of a table with the same settings as one stack of networks."""

from collections.abc import Callable, Mapping, Sequence
from multiprocessing import parent_process

from torch import Tensor

import nescio
from nescio.core import derive
from nescio.models import Model
from nescio_papers.kit import folder_of, slug
from nescio_papers.uci.methods import Choice, network, recipe_of
from nescio_papers.uci.tables import Work

BATCH = 100
Rows = Callable[[int], Tensor]  # of a split


def stacks(
    work: Work, method: str, stage: str, choices: Mapping[int, Choice], rows: Rows, members: int
) -> dict[int, Model]:
    """The members of each split, trained with its choice on its rows, in one stack per choice."""
    found = {}
    for choice in sorted(set(choices.values())):
        splits = [split for split, own in choices.items() if own == choice]
        model = _trained(work, method, stage, choice, splits, rows, members)
        for place, split in enumerate(splits):
            found[split] = model.choose(range(place * members, (place + 1) * members))
    return found


def _trained(
    work: Work,
    method: str,
    stage: str,
    choice: Choice,
    splits: Sequence[int],
    rows: Rows,
    members: int,
) -> Model:
    x, y = work.splits.x, work.splits.y
    recipe = recipe_of(method, work.budget, choice.dropout)
    loss = recipe.loss_for(x)
    setting = "-".join(str(part) for part in vars(choice).values())
    folder = folder_of(work.settings, work.name) / slug(method) / stage / slug(setting)
    return nescio.train(
        lambda: network(x.shape[1], work.table.hidden, loss.head.width, recipe.dropout),
        (x, y),
        loss=loss,
        members=[split * members + one for split in splits for one in range(members)],
        rows=[rows(split) for split in splits for _ in range(members)],
        epochs=choice.epochs,
        batch_size=BATCH,
        learning_rate=choice.learning_rate,
        schedule=choice.schedule,
        standardize=True,
        standardize_targets=True,
        seed=derive(work.settings.seed, "uci", work.name),
        run=folder,
        engine=work.settings.engine,
        progress=None if parent_process() is None else False,  # two bars would mix
    )
