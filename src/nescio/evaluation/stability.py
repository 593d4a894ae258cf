"""How stable the answers of a network are: under the smallest changes, and by proof.

Stability is a bounded change of the answer under a small change of the input (a Lipschitz
property). Attacks find how small a change is enough to flip an answer; Lipschitz constants prove
how small one is not.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import ROUND_FLOOR, Context
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from nescio import geometry
from nescio.attacks import norm_named
from nescio.attacks import patch as make_patch
from nescio.core import Head, NescioError, as_batch, as_inputs, as_targets
from nescio.data import ranges
from nescio.evaluation.answers import see
from nescio.evaluation.deformations import deformations
from nescio.evaluation.patch_success import PatchSuccess, patch_success
from nescio.evaluation.smallest_changes import (
    AdversarialExample,
    SmallestChanges,
    adversarial_examples,
    smallest_changes,
)
from nescio.evaluation.under_shift import ShiftCurves
from nescio.models import Model, Predictor, plain, takes_tokens, with_head
from nescio.nets import Output

EXAMPLES = 5
DEFORMED: dict[str, tuple[float, ...]] = {  # sizes by kind
    "rotation": (5, 10, 20, 30),
    "translation": (1, 2, 4),
    "warping": (0.05, 0.1, 0.2),
}
EXACT = 20  # samples whose local constants are computed
# By how much the difference of two logits can change, per unit of the norm of all their changes.
DIFFERENCE = {"l2": math.sqrt(2), "linf": 2.0, "l1": 1.0}


@dataclass(frozen=True, kw_only=True)
class LipschitzFindings:
    """Lipschitz constants of the logits, and what they prove, in one norm of inputs and logits."""

    norm: str
    members: int
    local: tuple[float, ...]  # exact, on the linear regions of some samples, member by member
    product: float  # a bound over all inputs, from the layers
    sampled: float  # the largest ratio of changes between samples: a lower bound
    proved: tuple[float, ...] | None = None  # changes that no flip can be below; one network only


@dataclass(frozen=True, kw_only=True)
class Stability:
    """What was found, part by part; `skipped` says why a part is missing.

    norm: norm of the changes.
    images: whether the inputs are images.
    changes: smallest changes that flip answers.
    examples: inputs that were changed until the answer is confidently wrong.
    lipschitz: Lipschitz constants.
    deformations: curves of the change of the outputs of images, by the kind of deformation.
    corruptions: curves of the change of the outputs, by the kind of corruption.
    patch: how often a patch misleads the network.
    skipped: reasons by the name of the part.
    """

    norm: str
    images: bool
    changes: SmallestChanges | None = None
    examples: tuple[AdversarialExample, ...] = ()
    lipschitz: LipschitzFindings | None = None
    deformations: Mapping[str, ShiftCurves] = field(default_factory=dict)
    corruptions: Mapping[str, ShiftCurves] = field(default_factory=dict)
    patch: PatchSuccess | None = None
    skipped: Mapping[str, str] = field(default_factory=dict)

    @property
    def drawable(self) -> bool:
        """Whether examples have their images."""
        return self.images and any(one.x is not None for one in self.examples)

    @property
    def certificates(self) -> tuple[str, ...]:
        """What is proved: below which change no answer of the examined samples flips."""
        proved = () if self.lipschitz is None else self.lipschitz.proved
        if not proved:
            return ()
        least = Context(prec=2, rounding=ROUND_FLOOR).create_decimal_from_float(min(proved))
        return (
            f"No change of the inputs below {least:f} of their range ({self.norm}) flips the "
            f"answer to any of {len(proved):,} test samples, by a bound on the Lipschitz constant "
            "of the network; for other samples it shows nothing.",
        )

    def words(self) -> str:
        """The findings in sentences."""
        from nescio.report.sections.stability_words import stability_sentences

        return "\n".join(stability_sentences(self))


@torch.inference_mode(False)  # whatever the caller is in: attacks need gradients
def stability(
    source: nn.Module | Predictor,
    data: tuple[Any, Any],
    *,
    norm: str = "linf",
    samples: int = 100,
    steps: int = 20,
    examples: int = EXAMPLES,
    lipschitz: bool = True,
    patch: bool = False,
    head: Head | str | None = None,
    output: Output = None,
    seed: int = 0,
) -> Stability:
    """How small a change flips an answer, examples of it, Lipschitz constants, deformations.

    `print(stability(net, (x, y)).words())`. Every part that cannot be computed for the network is
    left out, and `skipped` says why.

    source: a network or a predictor.
    data: inputs and labels, `(x, y)`.
    norm: `"linf"` (the largest change of a feature), `"l2"` or `"l1"`, in units of the range of the
      data: for images of all pixels, for tables of each feature.
    samples: number of correct answers that are attacked, and of images that are deformed, which
      works in the range from 0 to 1.
    steps: gradient steps of each attack.
    examples: number of inputs to change until they are confidently wrong.
    lipschitz: whether to compute Lipschitz constants, which takes the longest.
    patch: whether to make a patch of a third of the side from one half of the images, and to count
      whom it misleads in the other.
    head: how the outputs of modules are read, as for `nescio.observe`.
    output: where the outputs are in what the network returns, as for `nescio.observe`.
    seed: seed of the random draws.
    """
    norm_named(norm)  # what is asked wrongly is refused, not left out
    if min(samples, steps) < 1:
        raise NescioError(f"samples and steps must be positive, got {samples} and {steps}")
    if takes_tokens(source):
        raise NescioError(
            "the network reads tokens, which are names: there is no small change of them; "
            "stability is about inputs that are numbers"
        )
    x = as_inputs(data[0], keep_bytes=True)
    y = as_targets(data[1], len(x), task="classification").cpu()
    read = with_head(source, data, head=head, output=output)
    skipped: dict[str, str] = {}

    def tried(name: str, part: Any) -> Any:
        try:
            return part()
        except NescioError as error:
            skipped[name] = str(error)
            return None

    how: dict[str, Any] = {"norm": norm, "seed": seed}
    changes = tried(
        "changes", lambda: smallest_changes(read, (x, y), samples=samples, steps=steps, **how)
    )
    made = {"count": examples, "steps": 2 * steps, **how}
    shown = tried("examples", lambda: adversarial_examples(read, (x, y), **made))
    constants = None
    if changes is not None and lipschitz:
        constants = tried("lipschitz", lambda: _constants(read, x, y, changes, seed))
    moved: dict[str, ShiftCurves] = {}
    if changes is not None and x.ndim == 4:
        points, first = as_batch(x[list(changes.sample)]), {"network": read}
        deformed = {kind: partial(deformations, first, points, kind, sizes, seed=seed)
                    for kind, sizes in DEFORMED.items()}  # fmt: skip
        moved = tried("deformations", lambda: {kind: one() for kind, one in deformed.items()}) or {}
    return Stability(
        norm=norm,
        images=x.ndim == 4,
        changes=changes,
        examples=shown or (),
        lipschitz=constants,
        deformations=moved,
        patch=tried("patch", lambda: _patched(read, x, y, seed)) if patch else None,
        skipped=skipped,
    )


def _constants(
    read: Any, x: Tensor, y: Tensor, changes: SmallestChanges, seed: int
) -> LipschitzFindings:
    rows = torch.tensor(changes.sample)
    points = as_batch(x[rows])
    local = geometry.local_lipschitz(read, points[:EXACT], norm=changes.norm)
    product = geometry.product_bound(read, points, norm=changes.norm)
    sampled = geometry.sampled_lipschitz(read, points, norm=changes.norm, seed=seed)
    return LipschitzFindings(
        norm=changes.norm,
        members=product.bound.numel(),
        local=tuple(local.flatten().tolist()),
        product=float(product.bound.max()),
        sampled=float(sampled.bound.max()),
        proved=_proved(read, points, y[rows], product.bound, ranges.units_of(x), changes.norm),
    )


def _proved(
    read: Any, points: Tensor, y: Tensor, bound: Tensor, units: ranges.Units, norm: str
) -> tuple[float, ...] | None:
    """Below which size no change of a sample flips it (Tsuzuku et al., 2018), in shares."""
    whole = isinstance(read, Model) and read.head.name == "categorical"
    if bound.numel() > 1 or not (whole or isinstance(read, nn.Module)):
        return None  # a mixture of members, or probabilities that were calibrated
    answers: Predictor = plain(read) if isinstance(read, nn.Module) else read
    logits = see(answers, points).log_probs  # their differences are those of the logits
    own = logits.gather(1, y[:, None])[:, 0]
    gap = own - logits.scatter(1, y[:, None], -math.inf).amax(1)
    steepest = DIFFERENCE[norm] * float(bound) * float(units.width.max())
    return tuple((gap / steepest).tolist()) if steepest > 0 else None


def _patched(read: Any, x: Tensor, y: Tensor, seed: int) -> PatchSuccess:
    if x.ndim != 4:
        raise NescioError("a patch is put on images")
    own = make_patch(read, x[::2], y[::2], steps=100, seed=seed)
    return patch_success(own, read, (x[1::2], y[1::2]), seed=seed + 1)
