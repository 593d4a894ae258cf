"""A trained model: M networks of one architecture, their stacked weights and their head."""

from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from nescio.checks import as_inputs
from nescio.errors import NescioError
from nescio.files import load_tensors, save_tensors, write_json
from nescio.heads import Head
from nescio.nets.network import made_by, rebuild
from nescio.nets.standardise import Standardise
from nescio.prediction import Prediction
from nescio.registry import heads
from nescio.stacking import Stack

FILE = "model.safetensors"


@dataclass(frozen=True, eq=False)
class History:
    """Losses by epoch and member; NaN after a member has stopped."""

    train: Tensor  # (E, M)
    validation: Tensor | None = None  # (E, M)
    stopped: tuple[int, ...] = ()  # epochs each member was trained
    best: tuple[int, ...] = ()  # the epoch whose weights each member has


@dataclass(frozen=True, eq=False)
class Model:
    """M trained networks; calling it on inputs gives a prediction with M members."""

    net: nn.Module
    tensors: Mapping[str, Tensor]  # (M, ...) by name, parameters and buffers
    head: Head
    history: History | None = None
    notes: Mapping[str, Any] = field(default_factory=dict)  # how it was trained; JSON

    @cached_property
    def architecture(self) -> Stack:
        return Stack(self.net)

    @property
    def members(self) -> int:
        """M, the number of networks."""
        return len(next(iter(self.tensors.values())))

    @property
    def device(self) -> torch.device:
        """Where the weights live."""
        return next(iter(self.tensors.values())).device

    @property
    def dtype(self) -> torch.dtype:
        """Number type of the weights."""
        kinds = [t.dtype for t in self.tensors.values() if t.is_floating_point()]
        return kinds[0] if kinds else torch.float32

    @torch.no_grad()
    def outputs(self, x: Any, *, batch_size: int = 1024) -> Tensor:
        """Raw outputs `(M, N, O)`, computed `batch_size` cases at a time, where `x` lives."""
        x = as_inputs(x, dtype=self.dtype)
        chunks = [
            self.architecture(self.tensors, part.expand(self.members, *part.shape)).to(x.device)
            for part in x.to(self.device).split(batch_size)
        ]
        return torch.cat(chunks, dim=1).contiguous()

    def __call__(self, x: Any, *, batch_size: int = 1024) -> Prediction:
        return self.head(self.outputs(x, batch_size=batch_size))

    def member(self, index: int) -> nn.Module:
        """One network as an ordinary module in evaluation mode, with its input scaling."""
        if not -self.members <= index < self.members:
            raise NescioError(f"member {index} of a model with {self.members} members")
        net = deepcopy(self.net)
        net.load_state_dict({name: t[index] for name, t in self.tensors.items()}, strict=False)
        return net.eval()

    def to(self, *where: Any) -> "Model":
        """The same model on another device or in another number type."""
        moved = {name: tensor.to(*where) for name, tensor in self.tensors.items()}
        return Model(self.net, moved, self.head, self.history, self.notes)

    def save(self, folder: str | Path) -> Path:
        """Write `model.safetensors` (complete by itself) and a readable `manifest.json`."""
        path = Path(folder) / FILE
        manifest = self._manifest()
        tensors = {f"weights/{name}": tensor for name, tensor in self.tensors.items()}
        if self.history is not None:
            tensors["history/train"] = self.history.train
            if self.history.validation is not None:
                tensors["history/validation"] = self.history.validation
        save_tensors(path, tensors, manifest)
        write_json(path.with_name("manifest.json"), manifest)
        return path

    def _manifest(self) -> dict[str, Any]:
        import nescio

        standardised = isinstance(self.net, nn.Sequential) and isinstance(self.net[0], Standardise)
        inner = self.net[1] if standardised else self.net  # type: ignore[index]
        first = self.net[0].mean if standardised else None  # type: ignore[index]
        history = self.history or History(torch.empty(0))
        return {
            "kind": "model",
            "nescio": nescio.__version__,
            "members": self.members,
            "net": made_by(inner),
            "standardise": None if first is None else list(first.shape),
            "head": {"name": self.head.name, "options": dict(self.head.options)},
            "history": {"stopped": list(history.stopped), "best": list(history.best)},
            "notes": dict(self.notes),
        }

    @classmethod
    def load(cls, folder: str | Path, *, net: nn.Module | None = None) -> "Model":
        """Read a saved model; a network that is not nescio's own must be passed as `net`."""
        path = Path(folder)
        path = path / FILE if path.is_dir() else path
        saved, manifest = load_tensors(path, "model")
        inner = net if net is not None else rebuild(manifest["net"])
        if manifest["standardise"] is not None:
            one = torch.ones(manifest["standardise"])
            inner = nn.Sequential(Standardise(one, one), inner)
        weights = _under("weights/", saved)
        _check_weights(inner, weights, path)
        logs = _under("history/", saved)
        history = None
        if "train" in logs:
            epochs = {key: tuple(value) for key, value in manifest["history"].items()}
            history = History(logs["train"], logs.get("validation"), **epochs)
        head = heads[manifest["head"]["name"]](**manifest["head"]["options"])
        return cls(inner, weights, head, history, manifest["notes"])


def _under(prefix: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {n.removeprefix(prefix): t for n, t in tensors.items() if n.startswith(prefix)}


def _check_weights(net: nn.Module, weights: Mapping[str, Tensor], path: Path) -> None:
    expected = {**dict(net.named_parameters()), **dict(net.named_buffers())}
    wanted = {name: tuple(tensor.shape) for name, tensor in expected.items()}
    found = {name: tuple(tensor.shape[1:]) for name, tensor in weights.items()}
    if wanted != found:
        differ = sorted(k for k in wanted | found if wanted.get(k) != found.get(k))
        raise NescioError(f"{path} does not fit the network; these weights differ: {differ[:5]}")
