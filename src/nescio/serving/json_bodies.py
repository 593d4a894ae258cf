"""Bodies in JSON: lists of numbers, rows of a table by name, several tensors, recorded arrays."""

from collections.abc import Mapping
from itertools import chain
from typing import Any

import numpy as np
import orjson
from numpy.typing import NDArray

from nescio.core import Inputs, unknown
from nescio.serving.body_limits import (
    TOO_LARGE,
    UNREADABLE,
    BodyError,
    BodyLimits,
    wrong_inputs,
)
from nescio.serving.input_form import InputForm

VALUES = 1 << 21  # values, lists and objects of a body: each takes some 50 bytes until it is read
FIRST = b'{"inputs"'
WRAPPED = ("rows", "inputs")  # the key under which a body may have its rows


def read_json(body: bytes, form: InputForm, limits: BodyLimits) -> tuple[Inputs, list[Any]]:
    """The inputs of a body, and the rows of a table as they were sent; others: none.

    body: the bytes.
    form: what the guard reads.
    limits: how many rows there may be.
    """
    given = _unwrapped(parsed(body), form)
    if isinstance(given, dict):
        return _of_columns(given, form, limits)
    if not isinstance(given, list):
        raise wrong_inputs(
            f"expected a list of rows, got {_kind(given)}; the guard reads {form.said}"
        )
    limits.check_rows(len(given))
    if isinstance(given[0], dict):
        if form.by_name:
            return form.records(given), given
        if form.parts:
            return _of_objects(given, form), []
        raise wrong_inputs(f"rows are objects, but the guard reads {form.said}")
    return form.numbers(array_of(given, "the inputs", plain=_is_plain(body))), []


def parsed(body: bytes) -> Any:
    """What JSON holds; its values are counted first, as each takes memory."""
    marks = (b",", b"[", b"{") if len(body) > VALUES else ()
    if sum(map(body.count, marks)) > VALUES:
        raise BodyError(
            TOO_LARGE,
            f"the JSON holds more than {VALUES:,} values; send fewer rows, or the same numbers as "
            "application/x-npy, which takes a fraction of the time",
        )
    try:
        return orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise BodyError(UNREADABLE, f"the body cannot be read as JSON: {error}") from None


def array_of(given: Any, name: str, *, plain: bool = False) -> NDArray[Any]:
    """Nested lists as an array; a null is a missing number, NaN.

    given: the lists.
    name: of what they hold, for messages.
    plain: whether there is neither null, nor true, nor false in them.
    """
    try:
        if plain:
            return np.array(given)
        flat = _flat(given)
        kinds = set(map(type, flat))
        if bool in kinds:
            if kinds == {bool}:
                return np.array(given)  # a mask, or refused
            raise wrong_inputs(f"{name} mix truth values and others; send 0 and 1")
        if kinds & {str, dict}:
            raise wrong_inputs(f"{name} must be numbers in lists, got text or objects among them")
        return np.array(given, dtype=np.float64 if type(None) in kinds else None)
    except ValueError as error:
        if isinstance(error, BodyError):
            raise
        raise wrong_inputs(
            f"{name} must be numbers in lists of one length; rows of different lengths came"
        ) from None


def _is_plain(body: bytes) -> bool:
    """Whether there is no null, true or false in a body: these have letters that numbers lack."""
    start = len(FIRST) if body.startswith(FIRST) else 0
    return body.find(b"u", start) < 0 and body.find(b"l", start) < 0


def _flat(given: Any) -> list[Any]:
    """All values of nested lists."""
    level = given if isinstance(given, list) else [given]
    while any(isinstance(one, list) for one in level):
        level = list(chain.from_iterable(one if isinstance(one, list) else [one] for one in level))
    return level


def _unwrapped(given: Any, form: InputForm) -> Any:
    """The rows of a body, whether they stand under a key or alone."""
    if not isinstance(given, dict):
        return given
    keys = [key for key in WRAPPED if key in given]
    named = {*form.by_name, *form.parts}
    if len(keys) == 1 and (len(given) == 1 or keys[0] not in named):
        others = [key for key in given if key not in keys]
        if others:
            raise wrong_inputs(f"the body: {unknown('key', others[0], WRAPPED)}")
        return given[keys[0]]
    return [given] if form.by_name and not _holds_lists(given) else given


def _holds_lists(given: Mapping[str, Any]) -> bool:
    return any(isinstance(value, list) for value in given.values())


def _of_columns(
    given: dict[str, Any], form: InputForm, limits: BodyLimits
) -> tuple[Inputs, list[Any]]:
    """Inputs whose columns, or whose several tensors, are sent one after the other."""
    lists = [value for value in given.values() if isinstance(value, list)]
    if len(lists) < len(given) or not lists:
        wanted = f"expected a list of rows; the guard reads {form.said}"
        raise wrong_inputs(f"the body is an object with {', '.join(given) or 'no keys'}; {wanted}")
    if form.by_name:
        counts = set(map(len, lists))
        if len(counts) > 1:
            raise wrong_inputs("the columns have different numbers of values; one per row")
        limits.check_rows(counts.pop())
        rows = [dict(zip(given, row, strict=True)) for row in zip(*lists, strict=True)]
        return form.records(rows), rows
    arrays = {name: array_of(value, name) for name, value in given.items()}
    if form.classes:
        found = form.recorded(arrays)
        limits.check_rows(len(found))
        return found, []
    if form.parts:
        limits.check_rows(max(map(len, lists)))
        return form.bundle(arrays), []
    raise wrong_inputs(
        f"the body is an object with {', '.join(given)}; the guard reads {form.said}: send "
        '{"inputs": [[...], ...]}'
    )


def _of_objects(given: list[Any], form: InputForm) -> Inputs:
    """Inputs of several tensors, an object for each input."""
    names = given[0].keys()
    for place, row in enumerate(given):
        if not isinstance(row, dict) or row.keys() != names:
            raise wrong_inputs(f"row {place} has other keys than row 0: {', '.join(names)}")
    return form.bundle({name: array_of([row[name] for row in given], name) for name in names})


def _kind(given: Any) -> str:
    kinds = {str: "a text", bool: "a truth value", type(None): "null"}
    return kinds.get(type(given), "a number")
