"""Files of values: tensors and a manifest with a digest of all of it, read without unpickling."""

import inspect
import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from importlib import import_module
from pathlib import Path
from typing import Any

from torch import Tensor

from nescio.core.errors import NescioError
from nescio.core.registry import Registry
from nescio.core.tensors import digest
from nescio.core.writing import finite, write_atomically, write_json
from nescio.version import VERSION

FORMAT = 2  # of every file; 1 had no digest of all its content
PREDICTOR, MODEL, CHECKPOINT = (f"{n}.safetensors" for n in ("predictor", "model", "checkpoint"))
ROOMS = {  # which room reads a kind of file; a file itself never names code to run
    "columns": "data",
    "sketch": "metrics",
    "model": "models",
    "stepper": "training.stepper_file",
    "predictor": "calibration",
    "calibration": "calibration",
    "prediction sets": "conformal",
    "prediction intervals": "conformal",
    "detector": "detectors",
    "guard": "guards",
    "monitor": "monitoring",
    "risk monitor": "monitoring",
    "accuracy estimate": "monitoring",
}
readers = Registry("kind of file")  # by kind: a function of `Saved` and options
SHOWN = 60  # characters of a setting in a message
KEPT = "kept result"
AUDIT, AUDIT_FORMAT = "audit.json", "nescio audit"  # for people and other programs: no digest


class DamagedError(NescioError):
    """A file that cannot be read: truncated, altered, or not written by nescio."""


class WrongKindError(DamagedError):
    """A whole file, but of another kind than is needed."""


class NewerError(DamagedError):
    """A file of a later nescio."""


@dataclass(frozen=True, eq=False)
class Saved:
    """What a file holds, after its checks."""

    path: Path
    manifest: Mapping[str, Any]
    tensors: Mapping[str, Tensor]

    def under(self, prefix: str) -> dict[str, Tensor]:
        """The tensors whose names begin with `prefix`, by the rest of their names."""
        names = (name for name in self.tensors if name.startswith(prefix))
        return {name.removeprefix(prefix): self.tensors[name] for name in names}


def load(path: str | Path, *, kind: str | None = None, **options: Any) -> Any:
    """Read what `save` wrote: a model, predictor, detector, guard, monitor, audit and so on.

    path: a file, or the folder of a model, predictor or audit. A damaged or foreign file is
      refused.
    kind: what the file must hold, such as "guard"; None for anything.
    options: `net=` and `head=` of models, predictors, steppers and guards, where nescio cannot
      build the network or the head; `loss=` of steppers; `device=` of detectors.
    """
    file = _file_of(Path(path))
    if (audit := _audit_in(file, kind)) is not None:
        return _read_by(import_module("nescio.evaluation").read_audit, audit, options)
    saved = read_saved(file, kind)
    kind = str(saved.manifest["kind"])
    if kind not in ROOMS:
        raise WrongKindError(
            f"{saved.path} holds a {kind}, which nescio.load does not read; give a file with one "
            f"of: {', '.join(ROOMS)}"
        )
    import_module(f"nescio.{ROOMS[kind]}")
    return _read_by(readers[kind], saved, options)


def _read_by(reader: Callable[..., Any], saved: Saved, options: Mapping[str, Any]) -> Any:
    """What a reader makes of a file; options that it does not have are refused."""
    known = list(inspect.signature(reader).parameters)[1:]
    if wrong := sorted(options.keys() - known):
        raise NescioError(
            f"{saved.path} holds a {saved.manifest['kind']}, which is read without "
            f"{', '.join(wrong)}=; its options: {', '.join(known) or 'none'}"
        )
    try:
        return reader(saved, **options)
    except NescioError:
        raise
    except (KeyError, TypeError, ValueError, IndexError, AttributeError) as error:
        raise DamagedError(f"{saved.path} has a damaged manifest: {error!r}") from error


def _file_of(path: Path) -> Path:
    if not path.is_dir():
        return path
    for name in (PREDICTOR, MODEL, AUDIT):
        if (path / name).exists():
            return path / name
    if (path / CHECKPOINT).exists():
        raise NescioError(f"{path} holds an unfinished run; train it to the end first")
    raise NescioError(f"no file {path / MODEL}; check the name of the folder")


def _audit_in(path: Path, kind: str | None) -> Saved | None:
    """What an audit.json says; None if the file is another."""
    if path.suffix != ".json" or not path.is_file():
        return None
    try:
        said = json.loads(path.read_bytes())
    except ValueError:
        return None
    if not isinstance(said, dict) or said.get("format") != AUDIT_FORMAT:
        return None
    if kind not in (None, "audit"):
        raise WrongKindError(f"{path} holds an audit, expected a {kind}; give another file")
    return Saved(path, {**said, "kind": "audit"}, {})


def save_tensors(path: Path, tensors: Mapping[str, Tensor], manifest: Mapping[str, Any]) -> None:
    """Write tensors and their manifest, with its kind, into one safetensors file, atomically."""
    from safetensors.torch import save

    whole, written = {}, set()
    for name, tensor in tensors.items():  # safetensors refuses strided or shared memory
        packed = tensor.detach().cpu().contiguous()
        address = packed.untyped_storage().data_ptr()
        whole[name] = packed.clone() if address in written else packed
        written.add(address)
    text = json.dumps(_signed({**manifest, "contents": _contents(whole)}))
    write_atomically(path, save(whole, metadata={"nescio": text}))


def save_manifest(path: Path, manifest: Mapping[str, Any]) -> None:
    """Write a manifest without tensors as readable JSON, atomically; `load_manifest` reads it."""
    whole = _signed({**finite(manifest), "contents": _contents({})})
    write_json(path, whole)


def _signed(manifest: Mapping[str, Any]) -> dict[str, Any]:
    said = {"format": FORMAT, "nescio": VERSION, **manifest}
    return {**said, "digest": _digest(said)}


def _digest(manifest: Mapping[str, Any]) -> str:
    """A fingerprint of all that a manifest says beside this."""
    said = {name: value for name, value in manifest.items() if name != "digest"}
    return digest(json.dumps(json.loads(json.dumps(said)), sort_keys=True))


def _contents(tensors: Mapping[str, Tensor]) -> str:
    names = sorted(tensors)
    return digest(*names, *(tensors[name] for name in names))


def read_saved(path: Path, kind: str | None = None) -> Saved:
    """The contents of a file, of a kind if it is given; a damaged or foreign file is refused."""
    with _opened(path, kind) as (file, manifest):
        names = [] if file is None else list(file.keys())
        tensors = {name: file.get_tensor(name).clone() for name in names}
    if _contents(tensors) != manifest["contents"]:
        raise DamagedError(f"{path} is damaged: {ALTERED}")
    return Saved(path, manifest, tensors)


def load_tensors(path: Path, kind: str) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Read tensors and manifest of the given kind."""
    saved = read_saved(path, kind)
    return dict(saved.tensors), dict(saved.manifest)


def load_manifest(path: Path, kind: str) -> dict[str, Any]:
    """Read the manifest alone, with the same checks of it."""
    with _opened(path, kind) as (_, manifest):
        return manifest


ALTERED = "its contents are not what was saved; copy it again"


@contextmanager
def _opened(path: Path, kind: str | None) -> Iterator[tuple[Any, dict[str, Any]]]:
    """The safetensors file, None for JSON, and the manifest."""
    from safetensors import SafetensorError, safe_open

    if not path.is_file():
        raise NescioError(f"no file {path}; check the name")
    try:
        with path.open("rb") as start:
            is_json = start.read(1) == b"{"  # safetensors starts with a multiple of 8
        if is_json:
            yield None, _manifest(path, path.read_text(), kind)
            return
        with safe_open(path, framework="pt") as file:
            yield file, _manifest(path, (file.metadata() or {}).get("nescio", ""), kind)
    except (SafetensorError, OSError, UnicodeDecodeError) as error:
        raise DamagedError(
            f"{path} is damaged, or not a file of nescio ({error}); copy it again, or give another"
        ) from error


def _manifest(path: Path, text: str, kind: str | None) -> dict[str, Any]:
    try:
        manifest: dict[str, Any] = json.loads(text)
        written, found = int(manifest["format"]), manifest["kind"]
    except (KeyError, ValueError, TypeError) as error:
        raise DamagedError(
            f"{path} was not written by nescio, or is damaged: it has no manifest"
        ) from error
    if kind is not None and found != kind:
        raise WrongKindError(f"{path} holds a {found}, expected a {kind}; give another file")
    if written < FORMAT:
        raise DamagedError(f"{path} was written by an older nescio; save it again with this one")
    if written > FORMAT:
        raise NewerError(f"{path} was written by a newer nescio; upgrade to read it")
    if manifest.get("digest") != _digest(manifest) or "contents" not in manifest:
        raise DamagedError(f"{path} has a damaged manifest: {ALTERED}")
    return manifest


def kept(path: Path, key: Mapping[str, Any], make: Callable[[], Any]) -> Any:
    """What a file holds for this key; otherwise it is made and written, in one go."""
    same = json.loads(json.dumps(finite(dict(key))))
    if path.exists():
        try:
            there = load_manifest(path, KEPT)
        except DamagedError as error:
            raise DamagedError(f"{error}; or delete it to start again") from None
        if there["key"] == same:
            return there["found"]
    save_manifest(path, {"kind": KEPT, "key": same, "found": make()})
    return load_manifest(path, KEPT)["found"]


def check_same_run(
    path: Path, there: Mapping[str, Any], here: Mapping[str, Any], anew: str = "delete that one"
) -> None:
    """Refuse to resume a run that had other settings, and say which differ.

    there, here: the settings in the file and those of this call. anew: how to start again.
    """
    if shown := _differences(there, here):
        raise NescioError(
            f"{path} belongs to another run ({shown}); choose another name, or {anew}"
        )


def _differences(there: Mapping[str, Any], here: Mapping[str, Any]) -> str:
    """Which settings differ, in words; of nested ones only what differs in them."""
    every = [*here, *(key for key in there if key not in here)]  # what is unset may be left out
    found = []
    for key in every:
        one, two = (run.get(key) or None for run in (there, here))
        if one == two:
            continue
        inner = ""
        if isinstance(one, Mapping) and isinstance(two, Mapping):
            inner = _differences(one, two)
        old, new = _apart(key, str(there.get(key)), str(here.get(key)))
        found.append(f"{key}: {inner or f'{old} there, {new} here'}")
    return "; ".join(found)


def _apart(key: str, one: str, two: str) -> tuple[str, str]:
    """Two texts, cut where they are long, but not before they differ."""
    if key == "written" and one.isdigit() and two.isdigit():  # nanoseconds
        return _time(int(one)), _time(int(two))
    same = next((i for i, (a, b) in enumerate(zip(one, two, strict=False)) if a != b), 0)
    begin = max(0, same - SHOWN // 2)
    return _cut(one, begin), _cut(two, begin)


def _cut(text: str, begin: int) -> str:
    if len(text) <= SHOWN:
        return text
    part = text[begin : begin + SHOWN]
    return f"{'...' * (begin > 0)}{part}{'...' * (begin + SHOWN < len(text))}"


def _time(nanoseconds: int) -> str:
    seconds, rest = divmod(nanoseconds, 10**9)
    return f"{datetime.fromtimestamp(seconds):%Y-%m-%d %H:%M:%S}.{rest:09d}"
