"""The body of a request as rows of inputs, whatever its type.

A body is read as `nescio score` reads the same inputs from a file, to the last bit. What cannot be
read is refused with a status of HTTP and a sentence that says what to do: an image that is broken,
for example, which `score` calls OOD, as a file among others should not stop it.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import orjson

from nescio.core import Bundle, Inputs, NescioError, joined
from nescio.guards import Guard, RegressionGuard
from nescio.serving.arrow_bodies import read_arrow
from nescio.serving.body_limits import WRONG_TYPE
from nescio.serving.body_limits import BodyError as BodyError
from nescio.serving.body_limits import BodyLimits as BodyLimits
from nescio.serving.image_bodies import parts_of, read_images
from nescio.serving.input_form import InputForm, form_of, row_digests
from nescio.serving.json_bodies import array_of, read_json
from nescio.serving.log_records import KeptInput
from nescio.serving.npy_bodies import is_npy, npy_bytes, read_npy

JSON, NPY, BYTES = "application/json", "application/x-npy", "application/octet-stream"
ARROW = ("application/vnd.apache.arrow.stream", "application/vnd.apache.arrow.file")
MULTIPART = ("multipart/form-data", "multipart/mixed")
READ = (JSON, NPY, *ARROW, "image/png, image/jpeg, ...", *MULTIPART)  # for messages


@dataclass(frozen=True, eq=False, kw_only=True)
class Rows:
    """The inputs of a request.

    inputs: as the guard reads them, `(N, ...)`.
    digests: a fingerprint of each.
    sent: what each was sent as, where that is to be kept: an image's bytes, or a table's row.
    kind: what `sent` holds, "image" or "row"; "npy": nothing.
    """

    inputs: Inputs
    digests: list[str]
    sent: Sequence[Any] = field(default=(), repr=False)
    kind: str = "npy"

    def __len__(self) -> int:
        return len(self.digests)

    def kept(self, row: int) -> KeptInput:
        """One input as the log keeps it: an image as it was sent, a table's row as JSON.

        row: its number.
        """
        if self.kind == "image":
            return KeptInput("image", self.sent[row])
        if self.kind == "row":
            return KeptInput("row", orjson.dumps(self.sent[row]))
        if isinstance(self.inputs, Bundle):
            parts = {name: part[row].numpy() for name, part in self.inputs.parts.items()}
            return KeptInput("row", orjson.dumps(parts, option=orjson.OPT_SERIALIZE_NUMPY))
        return KeptInput("npy", npy_bytes(self.inputs[row].numpy()))


def read_body(
    content_type: str, body: bytes, guard: Guard | RegressionGuard, limits: BodyLimits
) -> Rows:
    """The rows of a request's body, as `guard` reads them; a `BodyError` where there are none.

    content_type: the header of that name.
    body: the bytes, not compressed.
    guard: the guard that will decide.
    limits: how large the body may be.
    """
    limits.check_bytes(len(body))
    form, kind = form_of(guard), media_type(content_type)
    if kind == JSON:
        inputs, sent = read_json(body, form, limits)
        return rows_of(inputs, sent, "row" if sent else "npy")
    if kind == NPY or (kind == BYTES and is_npy(body)):
        return _of_array(body, form, limits)
    if kind in ARROW:
        found, rows = read_arrow(body, form, limits)
        return rows_of(found, rows, "row" if len(rows) else "npy")
    if kind.startswith("image/") or kind in MULTIPART:
        files = parts_of(content_type, body, limits) if kind in MULTIPART else [body]
        return rows_of(read_images(files, form, limits), files, "image")
    raise BodyError(
        WRONG_TYPE,
        f"a body of type {kind or '(none)'} is not read; the types are: {', '.join(READ)}",
    )


def check_encoding(content_encoding: str | None) -> None:
    """Refuse a body that is compressed: a small one may hold more than the memory.

    content_encoding: the header of that name; None: there is none.
    """
    if (content_encoding or "identity").strip().lower() not in ("identity", ""):
        raise BodyError(
            WRONG_TYPE, f"a body in {content_encoding} is not read; send it without compression"
        )


def media_type(content_type: str) -> str:
    """The type in a header such as `application/json; charset=utf-8`; small letters.

    content_type: the header.
    """
    return content_type.partition(";")[0].strip().lower()


def rows_of(inputs: Inputs, sent: Sequence[Any] = (), kind: str = "npy") -> Rows:
    """Rows with their digests.

    inputs: as the guard reads them.
    sent: what each was sent as; empty: the numbers are kept.
    kind: what `sent` holds.
    """
    return Rows(inputs=inputs, digests=row_digests(inputs), sent=sent, kind=kind)


def joined_rows(parts: Sequence[Rows]) -> Inputs:
    """The inputs of several requests, one after the other.

    parts: the rows of each.
    """
    found: Inputs = joined([part.inputs for part in parts])
    return found


def rows_of_kept(kept: Sequence[KeptInput], guard: Guard | RegressionGuard | InputForm) -> Inputs:
    """Inputs that were kept in the log, `(N, ...)`, as the guard reads them.

    kept: the inputs, of any kinds.
    guard: the guard that decided about them, another that reads the same, or what that reads.
    """
    if not kept:
        raise NescioError("there are no inputs that were kept; keep some: they feed calibration")
    form = guard if isinstance(guard, InputForm) else form_of(guard)
    found: Inputs = joined([_of_kept(one, form) for one in kept])
    return found


def _of_array(body: bytes, form: InputForm, limits: BodyLimits) -> Rows:
    array = read_npy(body)
    if array.ndim:
        limits.check_rows(len(array))
    return rows_of(form.numbers(array))


def _of_kept(one: KeptInput, form: InputForm) -> Inputs:
    if one.kind == "npy":
        return form.numbers(read_npy(one.body)[None])
    if one.kind == "image":
        return read_images([one.body], form, BodyLimits())
    given = orjson.loads(one.body)
    if form.parts:
        return form.bundle({name: array_of([value], name) for name, value in given.items()})
    return form.records([given])
