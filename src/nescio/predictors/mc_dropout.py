"""MC dropout (Gal and Ghahramani, 2016): T passes with dropout on are T members.

The mask of a pass depends on the seed and the pass alone and is shared by all inputs. So a pass is
one network, and the answer does not depend on the batch size. What comes before the first dropout
is computed once; `nescio.dropout` says how.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from nescio.checks import as_inputs
from nescio.dropout import MaskPerPass
from nescio.errors import NescioError
from nescio.heads import Head, categorical
from nescio.model import Model
from nescio.prediction import Prediction
from nescio.predictors.predictor import evaluating
from nescio.randomness import generator
from nescio.registry import predictors

BYTES = 256 << 20  # of the widest tensor after the first dropout
CASES = 512  # at most so many in one go


@predictors.register
def mc_dropout(
    net: nn.Module | Model, *, passes: int = 100, seed: int = 0, head: Head | None = None
) -> "MCDropout":
    """Members are `passes` runs with dropout on; BatchNorm stays as in evaluation.

    Of a model with M networks, each gives `passes` members.
    """
    if passes < 1:
        raise NescioError(f"passes must be at least 1, got {passes}")
    if not isinstance(net, (nn.Module, Model)) or not list(_weights(net)):
        raise NescioError("mc_dropout reads an nn.Module with weights, or a model")
    if isinstance(net, Model):
        nets = tuple(net.member(i) for i in range(net.members))
        return MCDropout(nets, net.head, passes, seed)
    return MCDropout((net,), head or categorical(), passes, seed)


def _weights(net: nn.Module | Model) -> Iterable[Tensor]:
    return net.tensors.values() if isinstance(net, Model) else net.parameters()


@dataclass(frozen=True, eq=False)
class MCDropout:
    """Networks whose dropout is sampled; the same seed gives the same masks."""

    nets: tuple[nn.Module, ...]
    head: Head
    passes: int
    seed: int

    def __call__(self, x: Any) -> Prediction:
        return self.head(self.outputs(x))

    @torch.no_grad()
    def outputs(self, x: Any) -> Tensor:
        """Raw outputs `(M x T, N, O)`."""
        first = next(self.nets[0].parameters())
        x = as_inputs(x, dtype=first.dtype)
        parts = []
        for net in self.nets:
            with evaluating(net):
                parts.append(self._sample(net, x.to(first.device)))
        return torch.cat(parts).to(x.device)

    def _sample(self, net: nn.Module, x: Tensor) -> Tensor:
        cases, width = self._try(net, x)
        size = x.element_size()
        passes = 1 if width is None else min(self.passes, max(1, BYTES // (size * width)))
        cases = cases if width is None else max(1, min(cases, BYTES // (size * width * passes)))
        chunks = [
            torch.cat(
                [
                    self._run(net, part, range(start, min(start + passes, self.passes)))[0]
                    for start in range(0, self.passes, passes)
                ]
            )
            for part in x.split(cases)
        ]
        return torch.cat(chunks, dim=1)

    def _try(self, net: nn.Module, x: Tensor) -> tuple[int, int | None]:
        """Cases in one go, and the widest row; None where passes must run one by one."""
        probe = x[:2] if len(x) > 1 else torch.cat([x, x])
        count = range(min(2, self.passes))
        single = [self._run(net, probe, range(t, t + 1)) for t in count]
        _refuse_hidden(net)
        if not single[0][1].drawn:
            raise NescioError(
                "no dropout layer with p > 0 drew a mask, so all passes would be the same; "
                "add nn.Dropout layers, or use an ensemble"
            )
        truth = torch.cat([outputs for outputs, _ in single])
        try:
            together, mode = self._run(net, probe, count)
        except (RuntimeError, ValueError, IndexError):
            return CASES, None
        near = 1e-4 * truth.abs().max().item()
        if together.shape != truth.shape or not torch.allclose(together, truth, 1e-3, near):
            return CASES, None
        return CASES, mode.widest

    def _run(self, net: nn.Module, x: Tensor, passes: range) -> tuple[Tensor, MaskPerPass]:
        """Outputs `(T, N, O)` of some passes over one chunk of inputs."""
        mode = MaskPerPass([generator(self.seed, "pass", t) for t in passes], len(x))
        with mode:
            outputs = net(x.clone())  # in-place layers must not reach the caller's inputs
        outputs = mode.expanded(outputs)
        return outputs.unflatten(0, (len(passes), len(x))), mode


def _refuse_hidden(net: nn.Module) -> None:
    """Some layers draw masks out of reach; better an error than half the dropout."""
    for name, module in net.named_modules():
        hidden = isinstance(module, (nn.RNNBase, nn.MultiheadAttention))
        if hidden and float(module.dropout) > 0:
            raise NescioError(
                f"the dropout inside {type(module).__name__} ({name or 'the network'}) cannot be "
                "sampled; set it to 0 and put nn.Dropout between the layers"
            )
