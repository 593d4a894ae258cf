"""A pool with a human who labels it: what was asked and what was answered, safe on disk.

The inputs stay where they are; the folder has a hash of each item, the classes, and a journal of
questions and answers, which is only appended to. So nothing that was answered is lost, two
processes never write at once, and a pool that changed since it was asked is found.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from nescio.applications.active_learning import journal
from nescio.applications.active_learning.candidates import Acquisition
from nescio.applications.active_learning.choose import choose
from nescio.applications.active_learning.chosen import Chosen
from nescio.applications.active_learning.human_answers import checked_answers, label_text
from nescio.applications.active_learning.items import check_not_empty, item_hashes
from nescio.core import (
    NescioError,
    as_tensor,
    check_indices,
    digest,
    load_manifest,
    make_folder,
    owned,
    save_manifest,
)
from nescio.data import door, is_frame, read_table
from nescio.models import Predictor

KIND, MANIFEST, JOURNAL = "pool", "pool.json", "journal.jsonl"
PATIENCE = 10.0  # seconds to wait for another process that writes
SHOWN = 3  # ids in a message


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Pool:
    """The state of a pool on disk; every property reads what is there now.

    folder: folder of the pool.
    ids: names of the items, in their order.
    hashes: what the items are known by, int64, `(N,)`.
    given_classes: names of the classes; None: whatever was answered.
    about: JSON of whoever made it.
    """

    folder: Path
    ids: tuple[str, ...]
    hashes: Tensor
    given_classes: tuple[str, ...] | None = None
    about: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def create(
        cls,
        folder: str | Path,
        inputs: Any,
        *,
        ids: Sequence[Any] | None = None,
        classes: Sequence[Any] | int | None = None,
        about: Mapping[str, Any] | None = None,
    ) -> "Pool":
        """A new pool in a folder that has none.

        folder: folder of the pool; it is made if it does not exist.
        inputs: an array `(N, ...)`, several arrays, tokens, or a table. They are not copied.
        ids: a name for each item; None: its index.
        classes: names of the classes, or how many there are, then named "0", "1", ...; None takes
          any label, and the classes are those answered.
        about: anything in JSON that belongs to the pool, such as where the inputs are.
        """
        check_not_empty(inputs)
        hashes = item_hashes(inputs)
        names = _names(range(len(hashes)) if ids is None else ids, "ids")
        if len(names) != len(hashes):
            raise NescioError(f"{len(hashes)} items but {len(names)} ids; give one for each item")
        known = None if classes is None else _classes(classes)
        said = {
            "kind": KIND,
            "pool": digest(hashes),
            "classes": None if known is None else list(known),
            "about": dict(about or {}),
            "items": dict(zip(names, _hex(hashes), strict=True)),
        }
        path = make_folder(Path(folder)) / MANIFEST
        with owned(path.parent):
            if path.exists():
                raise NescioError(f"{folder} holds a pool already; open it, or choose another name")
            save_manifest(path, said)
        return cls.open(folder)

    @classmethod
    def open(cls, folder: str | Path, inputs: Any = None) -> "Pool":
        """The pool of a folder.

        folder: folder of the pool.
        inputs: inputs that must be those the pool was made of; None: they are not checked.
        """
        there = load_manifest(Path(folder) / MANIFEST, KIND)
        classes = there["classes"]
        pool = cls(
            folder=Path(folder),
            ids=tuple(there["items"]),
            hashes=torch.tensor([_number(text) for text in there["items"].values()]),
            given_classes=None if classes is None else tuple(classes),
            about=there["about"],
        )
        pool._events()  # a damaged journal is refused at once
        if inputs is not None:
            pool.check(inputs)
        return pool

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def key(self) -> str:
        """A word that pools of other items, or of other ids, do not have."""
        return digest("\n".join(self.ids), self.hashes)[:8]

    def __repr__(self) -> str:
        labeled, waiting = len(self.labeled[0]), len(self.waiting)
        return f"Pool({len(self)} items, {labeled} labeled, {waiting} asked and not answered)"

    def check(self, inputs: Any, ids: Sequence[Any] | None = None) -> None:
        """Refuse `inputs` that are not the items of this pool, in their order.

        ids: names of the inputs, where they may have been moved; None: those of the pool.
        """
        check_not_empty(inputs)
        hashes = item_hashes(inputs)
        names = self.ids if ids is None else _names(ids, "ids")
        if names == self.ids and torch.equal(hashes, self.hashes):
            return
        raise NescioError(
            f"the pool changed since {self.folder} was made: {self._changes(hashes, names)}; give "
            "the same items in the same order, or make a new pool of these"
        )

    def _changes(self, hashes: Tensor, names: tuple[str, ...]) -> str:
        """What is not as it was, in words."""
        before = dict(zip(self.ids, self.hashes.tolist(), strict=True))
        if len(names) != len(hashes) or len(hashes) != len(self):
            return f"it had {len(self)} items and now has {len(hashes)}"
        now = dict(zip(names, hashes.tolist(), strict=True))
        parts = {
            "new": [name for name in names if name not in before],
            "gone": [name for name in self.ids if name not in now],
            "changed": [name for name in self.ids if name in now and now[name] != before[name]],
        }
        found = [f"{len(part)} {word} ({_first(part)})" for word, part in parts.items() if part]
        return ", ".join(found) or "its items are in another order"

    @property
    def labeled(self) -> tuple[Tensor, Tensor]:
        """Index and label of what was answered, both int64 `(n,)`, in the order of the pool."""
        answers, classes = self.answers, self.classes
        at = {name: number for number, name in enumerate(classes)}
        index = [number for number, name in enumerate(self.ids) if name in answers]
        labels = [at[answers[self.ids[number]]] for number in index]
        return torch.tensor(index, dtype=torch.long), torch.tensor(labels, dtype=torch.long)

    @property
    def unlabeled(self) -> Tensor:
        """Index of what has no answer."""
        return self._without(self.answers)

    @property
    def waiting(self) -> Tensor:
        """Index of what was asked and not answered."""
        asked, answers = self.asked, self.answers
        return self._without({name for name in self.ids if name not in asked or name in answers})

    @property
    def free(self) -> Tensor:
        """Index of what was neither asked nor answered."""
        return self._without({*self.asked, *self.answers})

    def _without(self, names: Iterable[str]) -> Tensor:
        left = set(self.ids).difference(names)
        return torch.tensor([n for n, name in enumerate(self.ids) if name in left]).long()

    @property
    def asked(self) -> list[str]:
        """Ids of all that was ever asked, in the order of the questions."""
        return list(dict.fromkeys(name for event in self._events() for name in event["asked"]))

    @property
    def answers(self) -> dict[str, str]:
        """The label of each id that was answered, by the last answer."""
        every = (event["answered"] for event in self._events())
        return {name: label for answers in every for name, label in answers.items()}

    @property
    def classes(self) -> tuple[str, ...]:
        """The names of the classes; where none were given, those answered, numbers first."""
        if self.given_classes is not None:
            return self.given_classes
        return tuple(sorted(set(self.answers.values()), key=_sorting))

    def choose(
        self,
        predictor: nn.Module | Predictor,
        inputs: Any,
        size: int,
        acquisition: str | Acquisition = "bald",
        **options: Any,
    ) -> Chosen:
        """Choose items that were not asked yet, and note that they are asked now.

        The index of what is returned is that of the whole pool.

        predictor: a network, a model, `nescio.models.mc_dropout(net)` or another predictor of
          classes.
        inputs: the inputs of the whole pool.
        size: number of items to choose.
        acquisition: a name (`nescio list acquisitions`), with options as in
          "batchbald,samples=10000", or a function of `Candidates`.
        options: options of `nescio.applications.active_learning.choose`, such as `guard`,
          `candidates` and `seed`.
        """
        self.check(inputs)
        with owned(self.folder, wait=PATIENCE):  # another process must not choose the same
            free, known = self.free, self.labeled[0]
            if not len(free):
                raise NescioError(
                    f"every item of {self.folder} was asked already, {len(self.waiting)} of them "
                    "without an answer yet"
                )
            rows = _rows(inputs)
            own: dict[str, Any] = {"labeled": rows(known)} if len(known) else {}
            own |= {} if self.given_classes is None else {"classes": self.given_classes}
            found = choose(predictor, rows(free), size, acquisition, **{**own, **options})
            chosen = replace(found, index=free.to(found.index.device)[found.index])
            self.ask(chosen)
        return chosen

    def ask(self, chosen: Any) -> list[str]:
        """Note that items were asked, and return their ids.

        chosen: what `choose` picked from the whole pool, or the indices themselves.
        """
        picked = getattr(chosen, "index", None)  # a list has a method of this name
        index = as_tensor(picked if isinstance(picked, Tensor) else chosen, "what to ask")
        check_indices(index, len(self), "what to ask")
        names = [self.ids[number] for number in index.tolist()]
        if len(set(names)) < len(names):
            raise NescioError("an item is asked twice at once; give each index once")
        with owned(self.folder, wait=PATIENCE):
            answers = self.answers
            if known := [name for name in names if name in answers]:
                raise NescioError(
                    f"{len(known)} of these items are labeled already ({_first(known)}); choose "
                    "from pool.free"
                )
            self._note(asked=names)
        return names

    def answer(
        self,
        answers: Mapping[Any, Any] | Iterable[tuple[Any, Any]],
        *,
        correct: bool = False,
        inputs: Any = None,
    ) -> int:
        """Take answers, all or none of them; returns how many are new.

        answers: labels by id, or pairs of both.
        correct: whether an answer may replace another one for the same id.
        inputs: the inputs of the pool, to refuse answers to what changed since; None: they are not
          checked.
        """
        if inputs is not None:
            self.check(inputs)
        with owned(self.folder, wait=PATIENCE):
            before = self.answers
            taken = checked_answers(
                answers,
                known=self._known,
                asked=frozenset(self.asked),
                before={} if correct else before,
                classes=self.given_classes,
            )
            new = {name: label for name, label in taken.items() if before.get(name) != label}
            if new:
                self._note(answered=new)
        return len(new)

    @cached_property
    def _known(self) -> frozenset[str]:
        return frozenset(self.ids)

    def _events(self) -> list[journal.Event]:
        return journal.events_of(self.folder / JOURNAL)

    def _note(self, **event: Any) -> None:
        journal.append(self.folder / JOURNAL, [{"asked": [], "answered": {}, **event}])


def _rows(inputs: Any) -> Callable[[Tensor], Any]:
    """A function that takes some items of a pool, of any form."""
    if is_frame(inputs):
        table = read_table(inputs)
        return lambda index: table.rows(index.numpy())
    whole = door.as_network_inputs(inputs, "the inputs of the pool", dtype=None, tokens=True)
    return lambda index: whole[index]


def _names(given: Iterable[Any], what: str) -> tuple[str, ...]:
    """Names as text, each once."""
    names = tuple(label_text(name, what) for name in given)
    if len(set(names)) < len(names):
        twice = Counter(names).most_common(1)[0][0]
        raise NescioError(f"{what} must differ; {twice!r} occurs twice")
    return names


def _classes(given: Sequence[Any] | int) -> tuple[str, ...]:
    names = _names(range(given) if isinstance(given, int) else given, "classes")
    if len(names) < 2:
        raise NescioError(f"a pool needs at least two classes, got {len(names)}")
    return names


def _sorting(name: str) -> tuple[bool, int, str]:
    return (False, int(name), name) if name.isdecimal() else (True, 0, name)


def _hex(hashes: Tensor) -> list[str]:
    return [f"{number & (1 << 64) - 1:016x}" for number in hashes.tolist()]


def _number(text: str) -> int:
    return int.from_bytes(bytes.fromhex(text), "big", signed=True)


def _first(names: Sequence[str]) -> str:
    return ", ".join(names[:SHOWN]) + (", ..." if len(names) > SHOWN else "")
