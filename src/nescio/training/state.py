"""What changes while members train: weights, the optimizer, and the file of a run."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from nescio.core import (
    DamagedError,
    NewerError,
    WrongKindError,
    check_same_run,
    load_tensors,
    save_tensors,
)
from nescio.training.optimizers import Optimizer, restored

GROUPS = ("weights", "average", "best", "memory")
LOGS = ("train", "validation", "best_score", "best_epoch", "stopped", "sums", "gradient")


@dataclass(kw_only=True)
class State:
    """Everything that changes while M members train; A of them are still active."""

    weights: dict[str, Tensor]  # (A, ...) parameters and buffers
    average: dict[str, Tensor] = field(default_factory=dict)  # (A, ...) empty: none is wanted
    optimizer: Optimizer
    active: list[int]  # the indices of the members still in training
    best: dict[str, Tensor]  # (M, ...) the best weights so far; empty without patience
    train: Tensor  # (E, M) mean loss of each epoch; NaN where not trained
    validation: Tensor  # (E, M)
    best_score: Tensor  # (M,)
    best_epoch: Tensor  # (M,)
    stopped: Tensor  # (M,) epochs trained
    sums: Tensor  # (A,) sum of the losses of the epoch under way
    memory: dict[str, Tensor]  # (A, ...) what the loss stores between steps
    gradient: Tensor = field(default_factory=lambda: torch.empty(0))  # (E, M) norms, of lbfgs
    epoch: int = 0
    step: int = 0

    def settle(self) -> None:
        """Write down how far lbfgs came, and let the members leave that are as near as they get."""
        if not self.optimizer.is_exact:
            return
        index = torch.tensor(self.active, device=self.sums.device)
        self.gradient[self.epoch, index] = self.optimizer.norms
        for name, tensor in self.weights.items():
            self.best[name][index] = tensor.detach()
        self.best_epoch[index] = self.epoch
        finished = self.optimizer.finished
        self.stopped[index[finished]] = self.epoch + 1
        if finished.any():
            self.drop(finished)

    @property
    def answering(self) -> dict[str, Tensor]:
        """The weights that are validated and returned: averaged ones where they are wanted."""
        return self.average or self.weights

    def part(self, group: dict[str, Tensor], some: slice) -> dict[str, Tensor]:
        """The tensors of some active members, to be changed in place; of all, the group itself."""
        if some == slice(0, len(self.active)):
            return group
        return {name: tensor[some] for name, tensor in group.items()}

    def drop(self, leaving: Tensor) -> None:
        """Let members leave the stack; `leaving` is a mask over the active ones."""
        stay = (~leaving).nonzero()[:, 0]
        self.active = [self.active[i] for i in stay.tolist()]
        self.weights = {name: tensor[stay] for name, tensor in self.weights.items()}
        self.average = {name: tensor[stay] for name, tensor in self.average.items()}
        self.optimizer.keep(stay)
        self.sums = self.sums[stay]
        self.memory = {name: tensor[stay] for name, tensor in self.memory.items()}

    def save(self, path: Path, config: Mapping[str, Any]) -> None:
        """Write the state and the configuration of its run, atomically."""
        tensors = {f"{group}/{n}": t for group in GROUPS for n, t in getattr(self, group).items()}
        tensors |= {f"optimizer/{k}": t for k, t in self.optimizer.tensors().items()}
        tensors |= {f"log/{key}": getattr(self, key) for key in LOGS}
        progress = {"epoch": self.epoch, "step": self.step, "active": self.active}
        steps = {name: getattr(self.optimizer, name) for name in ("name", "steps")}
        manifest = {"kind": "checkpoint", "config": dict(config), **progress, "optimizer": steps}
        save_tensors(path, tensors, manifest)

    @classmethod
    def load(cls, path: Path, config: Mapping[str, Any], device: torch.device) -> "State":
        """Read the state of a run with this configuration; any other run is refused."""
        try:
            tensors, manifest = load_tensors(path, "checkpoint")
        except (WrongKindError, NewerError):
            raise
        except DamagedError as error:
            raise DamagedError(f"{error}; delete it to start this run again") from None
        check_same_run(path, manifest["config"], config)
        groups: dict[str, Any] = {name: {} for name in (*GROUPS, "optimizer", "log")}
        for name, tensor in tensors.items():
            group, _, rest = name.partition("/")
            groups[group][rest] = tensor.to(device)
        order = manifest["optimizer"]
        saved, steps = groups["optimizer"], order["steps"]
        return cls(
            optimizer=restored(order["name"], saved, steps),
            **{name: manifest[name] for name in ("active", "epoch", "step")},
            **{name: groups[name] for name in GROUPS},
            **groups["log"],
        )
