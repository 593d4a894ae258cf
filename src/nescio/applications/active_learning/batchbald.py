"""BatchBALD (Kirsch et al., 2019): a batch whose labels together tell most about the members.

A configuration of the labels of the batch so far has a probability and gives each member a weight,
its posterior. The gain of a sample is the mutual information of its label and the member under
these weights, averaged over the configurations. All of them are used while they are few. Beyond
that some are drawn, the same for all candidates; those that are more probable than a draw would
count stay as they are (Fearnhead and Clifford, 2003). The label of the candidate itself is never
drawn, and each term is 0 or more, so that few draws are enough.

Gains fall as the batch grows, so a gain of an earlier step is a bound: only candidates whose
bound exceeds the best gain so far are computed again (Minoux, 1978).
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from nescio.applications.active_learning.by_uncertainty import parts_of
from nescio.applications.active_learning.candidates import Candidates, Picked, because
from nescio.core import Classification, Dirichlet, NescioError, generator, measures
from nescio.core.registry import acquisitions

NUMBERS = 1 << 20  # joint probabilities that are computed at a time
SLACK = 1e-5  # nats; more than the rounding of a mutual information in float32
NEGLIGIBLE = 1e-9  # the probability of all configurations that may be left out


@acquisitions.register
@because("Its label adds {score:.3g} nats about the members to those of the batch", of_members=True)
def batchbald(candidates: Candidates, *, samples: int = 1000) -> Picked:
    """Mutual information of the labels of the whole batch and the member, in nats, greedily.

    candidates: unlabeled samples with their prediction.
    samples: largest number of configurations of the labels of the batch so far that are used.
    """
    if samples < 1:
        raise NescioError(f"samples must be a whole number from 1 up, got {samples}")
    if len(candidates.prediction.batch_shape) > 1:
        raise NescioError(
            "batchbald reads one label per sample; joint entropies of label maps are not computed. "
            "Use bald, which is averaged over the pixels"
        )
    ready = _Ready.of(candidates.prediction)
    bounds = ready.bald.double() + SLACK  # (N,)
    state = _Batch.empty(candidates.prediction)
    index, score = [], []
    for step in range(candidates.size):
        best = _best(candidates, ready, bounds, state)
        index.append(best)
        score.append(bounds[best].clone())
        bounds[best] = -math.inf
        if step + 1 < candidates.size and score[-1] > 0:
            draw = torch.rand((), generator=generator(candidates.seed, "configurations", step))
            state = state.with_label(ready.probs[:, best], samples, float(draw))
    return torch.stack(index), torch.stack(score).to(ready.bald.dtype)


@dataclass(frozen=True, eq=False)
class _Ready:
    """What is computed of each candidate once."""

    probs: Tensor  # (M, N, C)
    entropies: Tensor  # (M, N) of the label under each member
    bald: Tensor  # (N,)

    @classmethod
    def of(cls, prediction: Classification) -> "_Ready":
        parts = [
            (part.member_probs, _entropies(part), measures.mutual_information(part))
            for part in parts_of(prediction)
        ]
        probs, entropies, bald = zip(*parts, strict=True)
        return cls(torch.cat(probs, 1), torch.cat(entropies, 1), torch.cat(bald))


def _best(candidates: Candidates, ready: _Ready, bounds: Tensor, state: "_Batch") -> Tensor:
    """The sample with the largest gain; the gains that are computed replace bounds."""
    order, most = candidates.ordered(bounds), -math.inf
    fresh = torch.full_like(bounds, -math.inf)
    for block in order.split(state.width):
        part = block[(bounds[block] >= most) & (bounds[block] > -math.inf)]
        if not len(part):
            break
        if bounds[part[0]] > 0:  # a gain that was 0 is still 0
            bounds[part] = state.gains(ready.probs[:, part], ready.entropies[:, part])
        fresh[part] = bounds[part]
        most = max(most, fresh[part].max().item())
    return candidates.best(fresh)


@dataclass(frozen=True, eq=False)
class _Batch:
    """What the labels of a batch may be, and which members they would speak for."""

    weight: Tensor  # (J,) of each configuration of the labels, with sum 1
    posterior: Tensor  # (J, M) of the members given the labels, rows with sum 1
    classes: int

    @classmethod
    def empty(cls, prediction: Classification) -> "_Batch":
        one = torch.ones(1, dtype=torch.float64, device=prediction.device)
        equal = (one / prediction.members).repeat(1, prediction.members)
        return cls(one, equal, prediction.classes)

    @property
    def width(self) -> int:
        """Candidates that are computed at a time."""
        return max(1, NUMBERS // (max(self.posterior.shape) * self.classes))

    def gains(self, probs: Tensor, entropies: Tensor) -> Tensor:
        """What the label of each sample would add, `(n,)`, from its `(M, n, C)` and `(M, n)`."""
        weight, posterior = self.weight.to(probs.dtype), self.posterior.to(probs.dtype)
        joint = posterior @ probs.flatten(1)  # (J, n C)
        terms = joint.clamp_min(torch.finfo(joint.dtype).tiny).log_().mul_(joint)  # 0 log 0 = 0
        total = -(weight @ terms).unflatten(0, (-1, self.classes)).sum(1)
        gain = total - (weight @ posterior) @ entropies
        return torch.where(gain > 16 * torch.finfo(gain.dtype).eps, gain, 0.0).double()

    def with_label(self, probs: Tensor, samples: int, draw: float) -> "_Batch":
        """The batch with one sample more, of which the members say `probs` `(M, C)`."""
        probs = probs.double()
        given = self.posterior @ probs  # (J, C) of the label, given those so far
        index, weight = _thinned((self.weight[:, None] * given).flatten(), samples, draw)
        row, label = index // self.classes, index % self.classes
        joint = self.posterior[row] * probs[:, label].T
        return _Batch(weight, joint / joint.sum(1, keepdim=True), self.classes)


def _entropies(prediction: Classification) -> Tensor:
    """The entropy of the label under each member, `(M, n)`; of a Dirichlet, the mean over it."""
    if not isinstance(prediction, Dirichlet):
        return measures.entropy(prediction.member_log_probs)
    alone = Dirichlet(prediction.log_alpha.flatten(0, 1)[None])  # members are samples
    return measures.expected_entropy(alone).reshape(prediction.members, -1)


def _thinned(weight: Tensor, samples: int, draw: float) -> tuple[Tensor, Tensor]:
    """At most `samples` of weighted things and their new weights, which are right in expectation.

    One is taken with probability min(1, w / c), and then has the weight max(w, c), where c is such
    that as many are expected as wanted. A single draw, in [0, 1), takes them at equal steps.
    """
    index = (weight > NEGLIGIBLE / len(weight)).nonzero()[:, 0]
    weight = weight[index]
    if len(index) <= samples:
        return index, weight / weight.sum()
    falling = weight.sort(descending=True).values
    rest = falling.flip(0).cumsum(0).flip(0)[:samples]  # of all from the k-th on
    level = rest / torch.arange(samples, 0, -1, device=weight.device)
    level = level[(falling[:samples] <= level).nonzero()[0, 0]]
    sure = weight >= level
    steps = torch.where(sure, 0.0, weight / level).cumsum(0) + draw
    before = torch.cat([steps.new_full((1,), draw), steps[:-1]])
    taken = sure | (steps.floor() > before.floor())
    new = torch.where(sure, weight, level)[taken]
    return index[taken], new / new.sum()
