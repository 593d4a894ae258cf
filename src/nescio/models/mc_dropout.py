"""MC dropout (Gal and Ghahramani, 2016): T passes with dropout on are T members.

The mask of a pass depends on the seed and the pass alone and is shared by all inputs. So a pass is
one network, and the answer does not depend on the batch size. What comes before the first dropout
is computed once; `nescio.nets.dropout` says how.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from nescio.core import Head, Inputs, NescioError, Prediction, generator
from nescio.core.registry import predictors
from nescio.data import door
from nescio.models.model import Model, check_logits
from nescio.models.predictor import as_head, check_passes
from nescio.nets import (
    Output,
    at_rest,
    called,
    entering,
    reads_tokens,
    refusing_shapes,
    returning,
    selected,
)
from nescio.nets.dropout import MaskPerPass

BYTES = 256 << 20  # of the widest tensor after the first dropout
SAMPLES = 512  # at most so many in one go


@predictors.register
def mc_dropout(
    net: nn.Module | Model,
    *,
    passes: int = 100,
    seed: int = 0,
    head: Head | str | None = None,
    output: Output = None,
) -> "MCDropout":
    """Members are `passes` runs with dropout on; BatchNorm stays as in evaluation.

    Of a model with M networks, each gives `passes` members, read by the model's own head.
    head: how the outputs of a network are read, a head or its name; None for class logits.
    output: where the outputs are in what the network returns, as for `nescio.observe`.
    """
    check_passes(passes)
    if not isinstance(net, (nn.Module, Model)) or not list(_weights(net)):
        raise NescioError("mc_dropout reads an nn.Module with weights, or a model")
    if isinstance(net, Model):
        if head is not None:
            raise NescioError("a model has a head of its own; leave head= out, or give its network")
        nets = tuple(net.member(i) for i in range(net.members))
        return MCDropout(nets, net.head, passes, seed, net.notes)
    return MCDropout((returning(net, output),), as_head(head, net), passes, seed)


def _weights(net: nn.Module | Model) -> Iterable[Tensor]:
    return net.tensors.values() if isinstance(net, Model) else net.parameters()


@dataclass(frozen=True, eq=False)
class MCDropout:
    """Networks whose dropout is sampled; the same seed gives the same masks."""

    nets: tuple[nn.Module, ...]
    head: Head
    passes: int
    seed: int
    notes: Mapping[str, Any] = field(default_factory=dict)  # how the networks were trained

    def __call__(self, x: Any) -> Prediction:
        outputs = self.outputs(x)
        check_logits(outputs, self.head)
        return self.head(outputs)

    def answer(self, x: Inputs) -> Prediction:
        """The prediction with gradients with respect to the inputs; passes together if they fit."""
        first = next(self.nets[0].parameters())
        x = entering(x, first.device, first.dtype, tokens=reads_tokens(self.nets[0]))
        parts = []
        for net in self.nets:
            with at_rest(net):
                with torch.no_grad():
                    samples, together = self._sizes(net, x.detach())
                together = max(1, together * min(samples, len(x)) // len(x))
                parts += [
                    self._run(net, x, range(t, min(t + together, self.passes)))[0]
                    for t in range(0, self.passes, together)
                ]
        outputs = torch.cat(parts)
        check_logits(outputs.detach(), self.head)
        return self.head(outputs)

    @torch.no_grad()
    def outputs(self, x: Any) -> Tensor:
        """Raw outputs `(M x T, N, O)`."""
        first = next(self.nets[0].parameters())
        tokens = reads_tokens(self.nets[0])
        x = door.as_network_inputs(x, dtype=first.dtype, tokens=tokens)
        parts = []
        for net in self.nets:
            with at_rest(net), refusing_shapes(x):
                ready = entering(x, first.device, first.dtype, tokens=tokens)
                parts.append(self._sample(net, ready))
        return torch.cat(parts).to(x.device)

    def _sample(self, net: nn.Module, x: Inputs) -> Tensor:
        samples, passes = self._sizes(net, x)
        chunks = [
            torch.cat(
                [
                    self._run(net, part, range(start, min(start + passes, self.passes)))[0]
                    for start in range(0, self.passes, passes)
                ]
            )
            for part in x.split(samples)
        ]
        return torch.cat(chunks, dim=1)

    def _sizes(self, net: nn.Module, x: Inputs) -> tuple[int, int]:
        """Cases and passes in one go, from a trial; one pass where they cannot run together."""
        probe = x[:2] if len(x) > 1 else x[[0, 0]]
        _refuse_hidden(net)
        truth, mode = self._run(net, probe, range(1))
        if not mode.drawn:
            raise NescioError(
                "no dropout layer with p > 0 drew a mask, so all passes would be the same; "
                "add nn.Dropout layers, or use an ensemble"
            )
        if not _close(self._run(net, probe[1:], range(1))[0], truth[:, 1:]):
            raise NescioError(
                "the answer for a sample depends on the other cases of its batch; the samples "
                "must be the first axis wherever dropout acts"
            )
        limit = BYTES // next(net.parameters()).element_size()
        samples = max(1, min(SAMPLES, limit // max(mode.before, mode.widest)))
        wide = self._together(net, probe, truth)
        if wide is None:
            return samples, 1
        passes = min(self.passes, max(1, limit // wide))
        return max(1, min(samples, limit // (wide * passes))), passes

    def _together(self, net: nn.Module, probe: Inputs, first: Tensor) -> int | None:
        """Numbers a row when passes run together; None where that does not give the same."""
        count = range(min(2, self.passes))
        truth = torch.cat([first, *(self._run(net, probe, range(t, t + 1))[0] for t in count[1:])])
        try:
            together, mode = self._run(net, probe, count)
        except Exception:  # a user's forward may raise anything on a batch of another length
            return None
        return mode.widest if _close(together, truth) else None

    def _run(self, net: nn.Module, x: Inputs, passes: range) -> tuple[Tensor, MaskPerPass]:
        """Outputs `(T, N, O)` of some passes over one chunk of inputs."""
        mode = MaskPerPass([generator(self.seed, "pass", t) for t in passes], len(x))
        with mode:
            result = called(net, x.clone())  # in-place layers must not reach the caller's inputs
        outputs: Tensor = mode.expanded(selected(result))
        return outputs.unflatten(0, (len(passes), len(x))), mode


def _close(found: Tensor, truth: Tensor) -> bool:
    near = 1e-4 * truth.abs().max().item()
    return found.shape == truth.shape and torch.allclose(found, truth, 1e-3, near)


def _refuse_hidden(net: nn.Module) -> None:
    """Some layers draw masks out of reach; better an error than half the dropout."""
    for name, module in net.named_modules():
        hidden = isinstance(module, (nn.RNNBase, nn.MultiheadAttention))
        if hidden and float(module.dropout) > 0:
            raise NescioError(
                f"the dropout inside {type(module).__name__} ({name or 'the network'}) cannot be "
                "sampled; set it to 0 and put nn.Dropout between the layers"
            )
