"""A stepper in one file: tensors and a manifest, atomic, checked when it is read."""

from pathlib import Path

from nescio.core import Head, NescioError, Saved, readers, save_tensors
from nescio.losses import Loss, Step, as_loss, nll
from nescio.models import Made, check_weights, describe, rebuilt, saved_head
from nescio.training.optimizers import restored
from nescio.training.step_inputs import StepInputs
from nescio.training.stepper import SETTINGS, Stepper

KIND = "stepper"


def write(state: Stepper, path: Path) -> Path:
    """Write everything that the next step depends on, but data and loss."""
    head, probe = state.live.head_file
    tensors = {f"weights/{name}": tensor for name, tensor in state.weights.items()}
    tensors |= {f"optimizer/{name}": t for name, t in state.optimizer.tensors().items()}
    tensors |= {f"memory/{name}": tensor for name, tensor in state.memory.items()}
    tensors |= {f"head/{name}": answer for name, answer in probe.items()}
    if state.reading is not None:
        tensors |= {"range/low": state.reading.low, "range/high": state.reading.high}
    shapes = None if state.reading is None else state.reading.manifest()
    manifest = {
        "kind": KIND,
        **describe(state.net),
        "head": head,
        **{"notes": state.notes, "reading": shapes},
    }
    save_tensors(path, tensors, manifest)
    return path


@readers.named(KIND)
def _read(
    saved: Saved, *, net: Made = None, loss: Loss | Step | None = None, head: Head | None = None
) -> Stepper:
    """A stepper that resumes where it was saved; `loss` must be the one it was made with."""
    said, notes = saved.manifest, saved.manifest["notes"]
    whole = rebuilt(said, net)
    weights = saved.under("weights/")
    check_weights(whole, weights, saved.path)
    if head is None and isinstance(loss, Loss) and said["head"].get("given"):
        head = loss.head
    given = _saved_loss(saved, loss, saved_head(saved, head))
    shapes, ends = said["reading"], saved.under("range/")
    state, count = saved.under("optimizer/"), notes["steps"]
    return Stepper(
        net=whole,
        loss=given,
        members=tuple(notes["members"]),
        weights=weights,
        optimizer=restored(notes["optimizer"], state, count),
        reading=None if shapes is None else StepInputs.from_manifest(shapes, given, **ends),
        memory=saved.under("memory/"),
        **{name: notes[name] for name in SETTINGS},
    )


def _saved_loss(saved: Saved, loss: Loss | Step | None, head: Head) -> Loss:
    """The loss given, if it is the one that was saved; else the negative log-likelihood, if so."""
    found = nll(head) if loss is None else as_loss(loss, head)
    wanted = saved.manifest["notes"]["loss"]
    if found.description != wanted:
        given = "" if loss is None else f", got {found.description}"
        raise NescioError(
            f"{saved.path} was trained with the loss {wanted}{given}; give the same: "
            "nescio.load(path, loss=...)"
        )
    return found
