"""MC dropout (Gal and Ghahramani, 2016): T passes with dropout on are T members.

The mask of a pass depends on the seed and the pass alone and is shared by all inputs. So a pass is
one network, and the answer does not depend on the batch size. What comes before the first dropout
is computed once; `nescio.nets.modes` says how.
"""

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from nescio.core import (
    Head,
    Inputs,
    NescioError,
    Prediction,
    derive,
    generator,
    head_of_members,
    joint_head,
)
from nescio.core.registry import predictors
from nescio.data import door
from nescio.models.model import Member, check_logits, networks
from nescio.models.predictor import Predictor, as_head, check_passes, save_predictor
from nescio.nets import (
    Copies,
    Output,
    called,
    columns_of,
    entering,
    found,
    is_scripted,
    reads_tokens,
    refusing_shapes,
    returning,
    selected,
    sharing,
)
from nescio.nets.modes import MaskPerPass

BYTES = 256 << 20  # of the widest tensor after the first dropout
SAMPLES = 512  # at most, in one go
STREAMED = 64 << 20  # bytes of that tensor where parts are given one after the other
REFUSED = "mc_dropout reads an nn.Module with weights, or a model"


@predictors.register
def mc_dropout(
    net: nn.Module | Predictor,
    *,
    passes: int = 100,
    seed: int = 0,
    head: Head | str | None = None,
    output: Output = None,
) -> "MCDropout":
    """Members are `passes` runs with dropout on; BatchNorm stays as in evaluation.

    net: a network, or a model; of a model with M networks, each gives `passes` members.
    passes: number of passes of each network.
    seed: seed of the dropout masks.
    head: how the outputs of a network are read, a head or its name; None: class logits. A model has
      its head.
    output: where the outputs are in what the network returns, as for `nescio.observe`.
    """
    check_passes(passes)
    if not isinstance(net, nn.Module) and not callable(getattr(net, "networks", None)):
        raise NescioError(REFUSED)
    members = networks(net)
    if not all(m.is_bare and next(m.net.parameters(), None) is not None for m in members):
        raise NescioError(REFUSED)
    if isinstance(net, nn.Module):
        inner = returning(net, output)
        return MCDropout(inner=inner, head=as_head(head, net), passes=passes, seed=seed)
    if head is not None:
        raise NescioError("a model has its own head; leave head= out, or give its network")
    own = joint_head([member.head for member in members])
    return MCDropout(inner=net, head=own, passes=passes, seed=seed)


@dataclass(frozen=True, eq=False, kw_only=True)
class MCDropout:
    """Networks whose dropout is sampled; the same seed gives the same masks.

    inner: the network, or the model.
    head: how outputs are read.
    passes: number of passes of each network.
    seed: seed of the dropout masks.
    """

    inner: nn.Module | Predictor
    head: Head
    passes: int
    seed: int

    @cached_property
    def nets(self) -> tuple[nn.Module, ...]:
        """The networks, each of which gives `passes` members."""
        return tuple(member.net for member in networks(self.inner))

    @cached_property
    def _copies(self) -> tuple[Copies[nn.Module], ...]:
        """What is called: two threads never share a layer."""
        fixed = not isinstance(self.inner, nn.Module)
        return tuple(Copies(net, sharing, fixed=fixed) for net in self.nets)

    def networks(self) -> list[Member]:
        """Each network once for each pass, with the masks of the pass."""
        return [
            Member(
                net=net,
                head=head_of_members(self.head, [index]),
                masks=(self.seed, t),
                template=self.nets[0],
            )
            for index, net in enumerate(self.nets)
            for t in range(self.passes)
        ]

    def redrawn(self, count: int) -> "list[MCDropout]":
        """The same with other masks, `count` times: how much a number depends on the masks.

        All inputs share the masks, so more samples do not average their noise away. With 10 passes
        and 10,000 samples (two hidden layers of 64, dropout 0.5) the standard deviation over the
        masks was 5.2 times that over the samples for the mean confidence, 0.8 times for the error
        rate; with one pass 21 and 2.4 times.
        """
        seeds = (derive(self.seed, "redrawn", index) for index in range(count))
        return [replace(self, seed=seed) for seed in seeds]

    def save(self, folder: str | Path) -> Path:
        """Write the model into `folder`, and beside it how its members are drawn."""
        return save_predictor(folder, self)

    @property
    def settings(self) -> dict[str, Any]:
        """How its members are drawn, as its file says it."""
        options = {"passes": self.passes, "seed": self.seed}
        return {"sampler": "mc_dropout", "sampling": options}

    def __call__(self, x: Any) -> Prediction:
        """The prediction for inputs `x`, with a member for each pass."""
        outputs = self.outputs(x)
        check_logits(outputs, self.head)
        return self.head(outputs)

    def answer(self, x: Inputs) -> Prediction:
        """The prediction for `x` with gradients with respect to it; passes together if they fit."""
        first = next(self.nets[0].parameters())
        x = entering(x, first.device, first.dtype, tokens=reads_tokens(self.nets[0]))
        parts = []
        for copies in self._copies:
            with copies.lent() as net:
                with torch.no_grad():
                    samples, together = self._sizes(net, x.detach(), BYTES)
                together = max(1, together * min(samples, len(x)) // len(x))
                parts.append(self._passes(net, x, together))
        outputs = torch.cat(parts)
        check_logits(outputs.detach(), self.head)
        return self.head(outputs)

    @torch.no_grad()
    def outputs(self, x: Any) -> Tensor:
        """Raw outputs `(M x T, N, *axes, O)`."""
        first = next(self.nets[0].parameters())
        tokens = reads_tokens(self.nets[0])
        columns = columns_of(self.nets[0])
        x = door.as_network_inputs(x, dtype=first.dtype, tokens=tokens, columns=columns)
        parts = []
        for copies in self._copies:
            with copies.lent() as net, refusing_shapes(x):
                ready = entering(x, first.device, first.dtype, tokens=tokens)
                samples, together = self._sizes(net, ready, BYTES)
                chunks = [self._passes(net, part, together) for part in ready.split(samples)]
                parts.append(torch.cat(chunks, dim=1))
        return torch.cat(parts).to(x.device)

    @torch.no_grad()
    def streamed(self, x: Any) -> Iterator[tuple[int, Prediction]]:
        """The prediction for `x` in parts of bounded memory: some members for some samples.

        Each part comes with the index of its first sample. All members of some samples come before
        the next samples; together the parts are the prediction.
        """
        first = next(self.nets[0].parameters())
        reads: Any = {"dtype": first.dtype, "tokens": reads_tokens(self.nets[0])}
        x = door.as_network_inputs(x, columns=columns_of(self.nets[0]), **reads)
        with ExitStack() as lent, refusing_shapes(x):
            nets = [lent.enter_context(copies.lent()) for copies in self._copies]
            few = entering(x[:2], first.device, first.dtype, tokens=reads["tokens"])
            sizes = [self._sizes(net, few, STREAMED) for net in nets]
            start = 0
            for part in x.split(min(samples for samples, _ in sizes)):
                ready = entering(part, first.device, first.dtype, tokens=reads["tokens"])
                for index, (net, (_, together)) in enumerate(zip(nets, sizes, strict=True)):
                    head = head_of_members(self.head, [index])
                    for run in self._runs(together):
                        outputs = self._run(net, ready, run)[0].to(x.device)
                        check_logits(outputs, self.head)
                        yield start, head(outputs)
                start += len(part)

    def _runs(self, together: int) -> list[range]:
        """The passes, some of them together."""
        starts = range(0, self.passes, together)
        return [range(t, min(t + together, self.passes)) for t in starts]

    def _passes(self, net: nn.Module, x: Inputs, together: int) -> Tensor:
        """Outputs `(T, N, *axes, O)` of all passes, some of them together."""
        return torch.cat([self._run(net, x, run)[0] for run in self._runs(together)])

    def _sizes(self, net: nn.Module, x: Inputs, bytes_at_once: int) -> tuple[int, int]:
        """Samples and passes in one go, from a trial; one pass where they cannot run together."""
        probe = x[:2] if len(x) > 1 else x[[0, 0]]
        _refuse_hidden(net)
        truth, mode = self._run(net, probe, range(1))
        if not mode.drawn:
            if is_scripted(net):
                raise NescioError(
                    "the dropout of a TorchScript network cannot be reached; give the nn.Module it "
                    "was made from"
                )
            raise NescioError(
                "no dropout layer with p > 0 drew a mask, so all passes would be the same; "
                "add nn.Dropout layers, or use an ensemble"
            )
        if not _close(self._run(net, probe[1:], range(1))[0], truth[:, 1:]):
            raise NescioError(
                "the answer for a sample depends on the others of its batch; the samples "
                "must be the first axis wherever dropout acts"
            )
        limit = bytes_at_once // next(net.parameters()).element_size()
        samples = max(1, min(SAMPLES, limit // max(mode.before, mode.widest)))
        wide = self._together(net, probe, truth)
        if wide is None:
            return samples, 1
        passes = min(self.passes, max(1, limit // wide))
        return max(1, min(samples, limit // (wide * passes))), passes

    def _together(self, net: nn.Module, probe: Inputs, first: Tensor) -> int | None:
        """Numbers per sample when passes run together; None where that does not give the same."""
        count = range(min(2, self.passes))
        truth = torch.cat([first, *(self._run(net, probe, range(t, t + 1))[0] for t in count[1:])])
        try:
            together, mode = self._run(net, probe, count)
        except Exception:  # a user's forward may raise anything on a batch of another length
            return None
        return mode.widest if _close(together, truth) else None

    def _run(self, net: nn.Module, x: Inputs, passes: range) -> tuple[Tensor, MaskPerPass]:
        """Outputs `(T, N, *axes, O)` of some passes over one chunk of inputs."""
        mode = MaskPerPass([generator(self.seed, "pass", t) for t in passes], len(x))
        with mode:
            result = called(net, x.clone())  # in-place layers must not reach the caller's inputs
        outputs: Tensor = selected(mode.expanded(found(result)), net=net)
        return outputs.unflatten(0, (len(passes), len(x))), mode


def _close(found: Tensor, truth: Tensor) -> bool:
    near = 1e-4 * truth.nan_to_num(0.0, 0.0, 0.0).abs().max().item()  # a few may be NaN
    same = found.shape == truth.shape
    return same and torch.allclose(found, truth, 1e-3, near, equal_nan=True)


def _refuse_hidden(net: nn.Module) -> None:
    """Some layers draw masks out of reach; better an error than half the dropout."""
    for name, module in net.named_modules():
        hidden = isinstance(module, (nn.RNNBase, nn.MultiheadAttention))
        if hidden and float(module.dropout) > 0:
            raise NescioError(
                f"the dropout inside {type(module).__name__} ({name or 'the network'}) cannot be "
                "sampled; set it to 0 and put nn.Dropout between the layers"
            )
