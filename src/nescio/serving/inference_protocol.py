"""The Open Inference Protocol, version 2, which clients of KServe and Triton speak.

Tensors come as JSON or, after a JSON header, as bytes. Outputs are the columns of the decisions:
text is BYTES, numbers are FP64, INT64 and BOOL. In JSON, a number that is not finite is null.
"""

import struct
from collections.abc import Mapping
from functools import partial
from typing import Annotated, Any

import numpy as np
import orjson
from fastapi import APIRouter, Depends, Path, Request, Response
from numpy.typing import NDArray

from nescio.serving.answered import AnsweredRequest
from nescio.serving.batching import RefusedError
from nescio.serving.bodies import Rows, check_encoding, rows_of
from nescio.serving.described_routes import (
    BYTES,
    PREDICTING,
    V2_ANSWER,
    V2_BODY,
    answers,
)
from nescio.serving.input_form import InputForm, form_of
from nescio.serving.json_bodies import parsed
from nescio.serving.served_guards import UnknownGuardError, Version
from nescio.serving.service import Service
from nescio.version import VERSION

TYPES = {
    "BOOL": "?",
    "UINT8": "<u1",
    "UINT16": "<u2",
    "UINT32": "<u4",
    "UINT64": "<u8",
    "INT8": "<i1",
    "INT16": "<i2",
    "INT32": "<i4",
    "INT64": "<i8",
    "FP16": "<f2",
    "FP32": "<f4",
    "FP64": "<f8",
}
NAMES = {"f": "FP64", "i": "INT64", "u": "UINT64", "b": "BOOL", "U": "BYTES"}
HEADER = "inference-header-content-length"
INPUT = "input"


def router(service: Service) -> APIRouter:
    """The routes of the protocol for the guards of `service`."""
    from nescio.serving.app import need

    routes = APIRouter(tags=["Open Inference Protocol"])
    allowed = [Depends(need(service, "predict"))]
    known: dict[str, Any] = {"dependencies": allowed, "responses": answers(401, 403, 404)}
    inferring: dict[str, Any] = {
        "dependencies": allowed,
        "responses": answers(*PREDICTING, ok=V2_ANSWER, more={"application/octet-stream": BYTES}),
        "openapi_extra": {"requestBody": V2_BODY},
    }

    @routes.get("/v2", dependencies=allowed, responses=answers(401, 403))
    async def server() -> dict[str, Any]:
        """The server, and what it can do beside the protocol."""
        return {"name": "nescio", "version": VERSION, "extensions": ["binary_tensor_data"]}

    @routes.get("/v2/health/live")
    async def live() -> dict[str, bool]:
        """Whether the process lives."""
        return {"live": True}

    @routes.get("/v2/health/ready", responses=answers(503))
    async def ready() -> dict[str, bool]:
        """Whether requests are accepted."""
        _check_ready(service)
        return {"ready": True}

    @routes.get("/v2/models/{name}", **known)
    @routes.get("/v2/models/{name}/versions/{version}", **known)
    async def model(name: Annotated[str, Path()], version: str | None = None) -> dict[str, Any]:
        """The inputs and outputs of a guard."""
        return metadata(service, _asked(service, name, version))

    @routes.get("/v2/models/{name}/ready", **_also(known, 503))
    @routes.get("/v2/models/{name}/versions/{version}/ready", **_also(known, 503))
    async def model_ready(
        name: Annotated[str, Path()], version: str | None = None
    ) -> dict[str, Any]:
        """Whether a guard decides."""
        _asked(service, name, version)
        _check_ready(service)
        return {"name": name, "ready": True}

    @routes.post("/v2/models/{name}/infer", **inferring)
    @routes.post("/v2/models/{name}/versions/{version}/infer", **inferring)
    async def infer(
        request: Request, name: Annotated[str, Path()], version: str | None = None
    ) -> Response:
        """Decide about tensors."""
        asked = _asked(service, name, version)
        check_encoding(request.headers.get("content-encoding"))
        body, length = await request.body(), request.headers.get(HEADER)
        head, rows = await service.aside(len(body), partial(_read, service, asked, body, length))
        return answer_to(head, await service.decided(asked, rows))

    return routes


def _read(
    service: Service, version: Version, body: bytes, length: str | None
) -> tuple[dict[str, Any], Rows]:
    """The JSON of a request, and its rows; what cannot be answered is refused undecided."""
    head, tensors = read_request(body, length)
    _wanted(head.get("outputs"), dict(_outputs(version)), False)
    return head, rows_from(tensors, version, service)


def _also(known: dict[str, Any], code: int) -> dict[str, Any]:
    return {**known, "responses": {**known["responses"], **answers(code)}}


def _check_ready(service: Service) -> None:
    if not service.ready:
        raise RefusedError("the service is stopping", status=503, reason="stopping", retry=1)


def _asked(service: Service, name: str, version: str | None) -> Version:
    """A guard, and one of its versions that are there; None: the one in use."""
    served = service.guards.served(name)
    if version is None:
        return served.current
    for one in served.versions:
        if one.version == version:
            return one
    raise UnknownGuardError(f"{name!r} has no version {version!r}; it has {served.current.version}")


def metadata(service: Service, version: Version) -> dict[str, Any]:
    """The inputs and outputs of a guard.

    service: has it. version: of it.
    """
    form = form_of(version.guard)
    return {
        "name": version.name,
        "versions": [one.version for one in service.guards.served(version.name).versions],
        "platform": "nescio_guard",
        "inputs": _inputs(form),
        "outputs": [{"name": n, "datatype": kind, "shape": [-1]} for n, kind in _outputs(version)],
    }


def _inputs(form: InputForm) -> list[dict[str, Any]]:
    if form.parts:
        return [_tensor(n, _type(form.kinds[n]), shape) for n, shape in form.parts.items()]
    if form.columns is not None:
        return [_tensor(name, "BYTES", ()) for name in form.by_name]
    shape = form.shape if isinstance(form.shape, tuple) else (-1,)
    return [_tensor(INPUT, "INT64" if form.tokens else "FP32", shape)]


def _tensor(name: str, kind: str, shape: tuple[int, ...]) -> dict[str, Any]:
    return {"name": name, "datatype": kind, "shape": [-1, *shape]}


def _type(kind: str) -> str:
    """The name of a number type of torch."""
    other = {"bool": "BOOL", "float16": "FP16", "float32": "FP32", "float64": "FP64"}
    return other.get(kind, kind.upper())


def _outputs(version: Version) -> list[tuple[str, str]]:
    """Names and types of the columns of decisions, from those of one input that is not finite."""
    guard = version.guard
    found = [("id", "BYTES"), ("decision", "BYTES")]
    if hasattr(guard, "targets"):
        from nescio.guards import interval_columns

        numbers = [*interval_columns(guard.names, guard.targets), "p_value", "score"]
        return [
            *found,
            *((one, "FP64") for one in numbers),
            ("rule", "BYTES"),
            ("in_range", "BOOL"),
        ]
    found.append(("label", "INT64" if guard.names is None else "BYTES"))
    found += [(one, "FP64") for one in ("probability", "p_value", "score", "failure_score")]
    found += [("rule", "BYTES"), ("in_range", "BOOL")]
    return [*found, ("set", "BYTES")] if guard.sets is not None else found


def read_request(body: bytes, length: str | None) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """The JSON of a request, and its tensors by name.

    body: its bytes.
    length: of the JSON at its start, as the header says; None: all of it.
    """
    size = len(body)
    if length is not None:
        if not length.isascii() or not length.isdigit() or int(length) > size:
            raise _wrong(400, f"{HEADER} must be the bytes of the JSON, at most {size}")
        size = int(length)
    head = parsed(body[:size])
    inputs = head.get("inputs") if isinstance(head, dict) else None
    if not isinstance(inputs, list) or not inputs or not all(isinstance(t, dict) for t in inputs):
        raise _wrong(422, "expected an object with inputs, a list of tensors")
    found: dict[str, NDArray[Any]] = {}
    rest = memoryview(body)[size:]
    for tensor in inputs:
        name, array, used = _read_tensor(tensor, rest)
        if name in found:
            raise _wrong(422, f"two inputs have the name {name!r}")
        found[name], rest = array, rest[used:]
    if len(rest):
        raise _wrong(422, f"{len(rest)} bytes follow that no input has as its binary_data_size")
    return head, found


def _read_tensor(tensor: dict[str, Any], rest: memoryview) -> tuple[str, NDArray[Any], int]:
    """One tensor: its name, its numbers, and how many of the bytes that follow are its own."""
    name, kind, shape = (tensor.get(key) for key in ("name", "datatype", "shape"))
    if not isinstance(name, str) or not name:
        raise _wrong(422, "each input has a name, a text")
    if kind not in TYPES and kind != "BYTES":
        raise _wrong(422, f"{name}: datatype must be one of {', '.join(TYPES)}, BYTES")
    whole = isinstance(shape, list) and all(type(n) is int and 0 <= n < 1 << 40 for n in shape)
    if not whole or not shape:
        raise _wrong(422, f"{name}: shape must be whole numbers, rows first")
    parameters = tensor.get("parameters")
    size = parameters.get("binary_data_size") if isinstance(parameters, dict) else None
    if size is not None:
        if type(size) is not int or not 0 <= size <= len(rest):
            raise _wrong(422, f"{name}: binary_data_size must be at most {len(rest)}")
        flat, used = _of_bytes(name, kind, rest[:size]), size
    elif isinstance(tensor.get("data"), list):
        flat, used = _of_json(name, kind, tensor["data"]), 0
    else:
        raise _wrong(422, f"{name}: neither data, a list, nor binary_data_size")
    count = 1
    for n in shape:
        count *= n
    if count != flat.size:
        raise _wrong(422, f"{name}: {flat.size} values do not fill the shape {shape}")
    return name, flat.reshape(shape), used


def _of_bytes(name: str, kind: str, raw: memoryview) -> NDArray[Any]:
    if kind != "BYTES":
        if len(raw) % np.dtype(TYPES[kind]).itemsize:
            raise _wrong(422, f"{name}: {len(raw)} bytes are not a whole number of {kind}")
        return np.frombuffer(raw, TYPES[kind])
    words, place = [], 0
    while place < len(raw):
        if place + 4 > len(raw):
            raise _wrong(422, f"{name}: the length of a text is cut off")
        (length,) = struct.unpack_from("<I", raw, place)
        place += 4 + length
        if place > len(raw):
            raise _wrong(422, f"{name}: a text is cut off")
        words.append(_text(name, bytes(raw[place - length : place])))
    return np.array(words, dtype=object)


def _text(name: str, raw: bytes) -> str:
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError:
        raise _wrong(422, f"{name}: a text is not UTF-8") from None


def _of_json(name: str, kind: str, data: list[Any]) -> NDArray[Any]:
    level: list[Any] = data
    while level and isinstance(level[0], list):
        if not all(isinstance(one, list) for one in level):
            raise _wrong(422, f"{name}: lists of different depth")
        level = [value for one in level for value in one]
    kinds = set(map(type, level))
    if kind == "BYTES":
        if kinds - {str, type(None)}:
            raise _wrong(422, f"{name}: BYTES are text in JSON")
        return np.array(level, dtype=object)
    wanted = {bool} if kind == "BOOL" else {int, float} if kind.startswith("FP") else {int}
    if kind.startswith("FP"):
        wanted |= {type(None)}  # NaN
    if kinds - wanted:
        raise _wrong(422, f"{name}: the data are not all of type {kind}")
    try:
        with np.errstate(over="ignore"):
            if type(None) in kinds:
                level = [np.nan if one is None else one for one in level]
            return np.array(level, dtype=TYPES[kind])
    except (OverflowError, ValueError):
        raise _wrong(422, f"{name}: a number is too large for {kind}") from None


def rows_from(tensors: Mapping[str, NDArray[Any]], version: Version, service: Service) -> Rows:
    """The rows of a request.

    tensors: by name. version: the guard that will decide. service: has the limits.
    """
    form = form_of(version.guard)
    counts = {len(one) for one in tensors.values()}
    if len(counts) > 1:
        raise _wrong(422, "each input needs one row per sample; the numbers of rows differ")
    service.limits.check_rows(counts.pop())
    if form.parts:
        return rows_of(form.bundle(tensors))
    if form.by_name and set(tensors) & set(form.by_name):
        cells = {name: _column(name, one) for name, one in tensors.items()}
        sent = [dict(zip(cells, row, strict=True)) for row in zip(*cells.values(), strict=True)]
        return rows_of(form.records(sent), sent, "row")
    if form.classes and len(tensors) > 1:
        return rows_of(form.recorded(tensors))
    if len(tensors) > 1:
        raise _wrong(422, f"one input is read, got {', '.join(tensors)}")
    (only,) = tensors.values()
    if only.dtype == object:
        raise _wrong(422, f"the inputs must be numbers; the guard reads {form.said}")
    return rows_of(form.numbers(only))


def _column(name: str, values: NDArray[Any]) -> list[Any]:
    if values.size != len(values):
        raise _wrong(422, f"column {name!r} must have shape [N] or [N, 1]")
    return list(values.reshape(-1).tolist())


def answer_to(head: Mapping[str, Any], answered: AnsweredRequest) -> Response:
    """The answer to a request, whose JSON says which outputs it wants, and how.

    head: the JSON of the request.
    answered: the decisions.
    """
    columns: dict[str, NDArray[Any]] = {"id": np.array(answered.ids), **answered.columns}
    parameters = head.get("parameters")
    binary = bool(isinstance(parameters, dict) and parameters.get("binary_data_output"))
    asked = _wanted(head.get("outputs"), columns, binary)
    outputs: list[dict[str, Any]] = []
    parts: list[bytes] = []
    for name, as_bytes in asked.items():
        column = columns[name]
        kind = NAMES[column.dtype.kind]
        output: dict[str, Any] = {"name": name, "shape": [len(column)], "datatype": kind}
        if as_bytes:
            parts.append(_raw(column, kind))
            output["parameters"] = {"binary_data_size": len(parts[-1])}
        else:
            output["data"] = column.tolist()
        outputs.append(output)
    sent = head.get("id")
    said = {
        "model_name": answered.version.name,
        "model_version": answered.version.version,
        "id": sent if isinstance(sent, str) and sent else answered.id,
        "parameters": {"nescio_request": answered.id},
        "outputs": outputs,
    }
    text = orjson.dumps(said)
    if not parts:
        return Response(text, media_type="application/json")
    headers = {HEADER: str(len(text))}
    return Response(b"".join([text, *parts]), 200, headers, "application/octet-stream")


def _wanted(asked: Any, columns: Mapping[str, Any], binary: bool) -> dict[str, bool]:
    """Which outputs, and which of them as bytes."""
    if asked is None or asked == []:
        return dict.fromkeys(columns, binary)
    found: dict[str, bool] = {}
    for one in asked if isinstance(asked, list) else [{}]:
        name = one.get("name") if isinstance(one, dict) else None
        if not isinstance(one, dict) or not isinstance(name, str) or name not in columns:
            raise _wrong(422, f"outputs are objects with a name of {', '.join(columns)}")
        parameters = one.get("parameters")
        own = parameters.get("binary_data") if isinstance(parameters, dict) else None
        found[name] = binary if own is None else bool(own)
    return found


def _raw(column: NDArray[Any], kind: str) -> bytes:
    """The values of an output as bytes."""
    if kind != "BYTES":
        return column.astype(TYPES[kind]).tobytes()
    words = [str(one).encode() for one in column.tolist()]
    return b"".join(struct.pack("<I", len(word)) + word for word in words)


def _wrong(status: int, message: str) -> RefusedError:
    return RefusedError(message, status=status, reason="body")
