"""Networks that fit separate labels: one stack, epoch by epoch, resumable."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from nescio.core import (
    Classification,
    Head,
    NescioError,
    check_same_run,
    digest,
    load,
    load_manifest,
    owned_folder,
    progress,
    save_manifest,
)
from nescio.training import Stepper, stepper

KIND, STATE, COURSE = "course", "stepper.safetensors", "course.json"
SECONDS = 10.0  # between two files
Numbers = list[list[float]]  # of each epoch, one per member


@dataclass(kw_only=True)
class Course:
    """What was measured after each epoch; `looks` by the number of epochs."""

    loss: Numbers = field(default_factory=list)
    accuracy: Numbers = field(default_factory=list)
    looks: dict[str, Any] = field(default_factory=dict)

    def until(self, epoch: int) -> "Course":
        """The first epochs alone."""
        looks = {key: one for key, one in self.looks.items() if int(key) <= epoch}
        return Course(loss=self.loss[:epoch], accuracy=self.accuracy[:epoch], looks=looks)


@dataclass(frozen=True, eq=False, kw_only=True)
class Fit:
    """A network for each row of `labels`, trained until `enough` of its course, or to the end."""

    make_net: Callable[[], nn.Module]
    x: Tensor  # (N, ...) for all
    labels: Tensor  # (M, N)
    epochs: int
    batch_size: int | None
    optimizer: str
    learning_rate: float
    head: Head | str | None
    seed: int
    look: Callable[[Stepper, int], Any] = lambda _, __: None  # what to measure, after which epochs
    looked_at: tuple[Any, ...] = ()  # on what, in JSON: another look is another run
    enough: Callable[[Course], bool] = lambda _: False

    def __post_init__(self) -> None:
        if self.epochs < 1:
            raise NescioError(f"epochs must be positive, got {self.epochs}")

    def run(self, folder: Path | None, show: bool | None) -> tuple[Stepper, Course]:
        """Train, or resume what the folder holds."""
        if folder is None:
            return self._trained(self._fresh(), Course(), None, show)
        with owned_folder(folder):
            state, course = self._restored(folder)
            return self._trained(state, course, folder, show)

    def _trained(
        self, state: Stepper, course: Course, folder: Path | None, show: bool | None
    ) -> tuple[Stepper, Course]:
        last = time.monotonic()
        with progress(self.epochs, "fitting", show=show) as advance:
            advance(state.rounds, str)
            while state.rounds < self.epochs and not self.enough(course):
                data = self.x, self.labels
                losses = state.fit(data, epochs=1, batch_size=self.batch_size)[0]
                course.loss.append(losses.tolist())
                course.accuracy.append(self.right(state).double().mean(1).tolist())
                if (found := self.look(state, state.rounds)) is not None:
                    course.looks[str(state.rounds)] = found
                if folder is not None and time.monotonic() - last >= SECONDS:
                    self._save(state, course, folder)
                    last = time.monotonic()
                advance(1, lambda: f"accuracy {min(course.accuracy[-1]):.3f}")
        if folder is not None:
            self._save(state, course, folder)
        return state, course

    @torch.no_grad()
    def right(self, state: Stepper) -> Tensor:
        """Which samples each network classifies as it was taught, `(M, N)`."""
        prediction = state(self.x)
        if not isinstance(prediction, Classification):
            raise NescioError("labels are classes: give a network of class logits, or its head")
        return prediction.member_probs.argmax(-1).to(self.labels.device) == self.labels

    def _fresh(self) -> Stepper:
        return stepper(
            self.make_net,
            members=len(self.labels),
            optimizer=self.optimizer,
            learning_rate=self.learning_rate,
            head=self.head,
            seed=self.seed,
        )

    def _restored(self, folder: Path) -> tuple[Stepper, Course]:
        """What a folder holds, if it is of the same call; the course may be an epoch ahead."""
        if not (folder / STATE).exists():
            return self._fresh(), Course()
        said = load_manifest(folder / COURSE, KIND)
        fresh = self._fresh()
        here = self._settings(fresh)
        check_same_run(folder / COURSE, said["settings"], here, "delete the folder")
        state: Stepper = load(folder / STATE, kind="stepper", net=fresh.net, loss=fresh.loss)
        if state.rounds > self.epochs:
            raise NescioError(
                f"{folder} holds {state.rounds} epochs, epochs={self.epochs} are fewer; give at "
                "least as many, or another folder"
            )
        return state, Course(**said["course"]).until(state.rounds)

    def _save(self, state: Stepper, course: Course, folder: Path) -> None:
        said = {"kind": KIND, "settings": self._settings(state), "course": vars(course)}
        save_manifest(folder / COURSE, said)
        state.save(folder / STATE)

    def _settings(self, state: Stepper) -> dict[str, Any]:
        named = ("batch_size", "optimizer", "learning_rate", "seed")
        data = {"data": digest(self.x, self.labels), "head": str(self.head)}
        also = {"net": str(state.net), "looks": list(self.looked_at)}
        return {name: getattr(self, name) for name in named} | data | also
