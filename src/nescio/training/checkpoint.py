"""The state of a training run, and its file: a killed run goes on to the same bits."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from nescio.core import DamagedError, NescioError, check_same_run, load_tensors, save_tensors
from nescio.training.optimizers import Optimizer, restored

FILE = "checkpoint.safetensors"
LOGS = ("train", "validation", "best_score", "best_epoch", "stopped", "sums")


@dataclass
class State:
    """Everything that changes while M members train; A of them are still active."""

    weights: dict[str, Tensor]  # (A, ...) parameters and buffers
    optimizer: Optimizer
    active: list[int]  # the places of the members still in training
    best: dict[str, Tensor]  # (M, ...) the best weights so far; empty without patience
    train: Tensor  # (E, M) mean loss of each epoch; NaN where not trained
    validation: Tensor  # (E, M)
    best_score: Tensor  # (M,)
    best_epoch: Tensor  # (M,)
    stopped: Tensor  # (M,) epochs trained
    sums: Tensor  # (A,) sum of the losses of the epoch under way
    memory: dict[str, Tensor]  # (A, ...) what the loss keeps between steps
    epoch: int = 0
    step: int = 0

    def drop(self, leaving: Tensor) -> None:
        """Let members leave the stack; `leaving` is a mask over the active ones."""
        stay = (~leaving).nonzero()[:, 0]
        self.active = [self.active[i] for i in stay.tolist()]
        self.weights = {name: tensor[stay] for name, tensor in self.weights.items()}
        self.optimizer.keep(stay)
        self.sums = self.sums[stay]
        self.memory = {name: tensor[stay] for name, tensor in self.memory.items()}

    def save(self, path: Path, config: Mapping[str, Any]) -> None:
        """Write the state and the configuration of its run, atomically."""
        tensors = {f"weights/{name}": tensor for name, tensor in self.weights.items()}
        tensors |= {f"best/{name}": tensor for name, tensor in self.best.items()}
        tensors |= {f"memory/{name}": tensor for name, tensor in self.memory.items()}
        tensors |= {f"optimizer/{k}": t for k, t in self.optimizer.tensors().items()}
        tensors |= {f"log/{key}": getattr(self, key) for key in LOGS}
        place = {"epoch": self.epoch, "step": self.step, "active": self.active}
        own = self.optimizer
        steps = {"name": own.name, "steps": own.steps, "apart": own.apart}
        manifest = {"kind": "checkpoint", "config": dict(config), **place, "optimizer": steps}
        save_tensors(path, tensors, manifest)

    @classmethod
    def load(cls, path: Path, config: Mapping[str, Any], device: torch.device) -> "State":
        """Read the state of a run with this configuration; any other run is refused."""
        try:
            tensors, manifest = load_tensors(path, "checkpoint")
        except DamagedError as error:
            raise NescioError(f"{error}; delete it to start this run again") from None
        check_same_run(path, manifest["config"], config)
        groups: dict[str, dict[str, Tensor]] = {
            "weights": {},
            "best": {},
            "optimizer": {},
            "memory": {},
            "log": {},
        }
        for name, tensor in tensors.items():
            group, _, rest = name.partition("/")
            groups[group][rest] = tensor.to(device)
        order = manifest["optimizer"]
        saved, steps = groups["optimizer"], order["steps"]
        optimizer = restored(order["name"], saved, steps, apart=order["apart"])
        return cls(
            groups["weights"],
            optimizer,
            manifest["active"],
            groups["best"],
            memory=groups["memory"],
            **groups["log"],
            epoch=manifest["epoch"],
            step=manifest["step"],
        )
