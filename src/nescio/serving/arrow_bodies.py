"""Bodies in the formats of Apache Arrow: columns of a table by name, or inputs in one column.

Only plain columns are read: nothing that is compressed, and no types of an extension but that of
tensors. So the numbers are not larger than the body.
"""

import struct
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nescio.core import Inputs, NescioError
from nescio.serving.body_limits import (
    TOO_LARGE,
    UNREADABLE,
    WRONG_TYPE,
    BodyError,
    BodyLimits,
    wrong_inputs,
)
from nescio.serving.input_form import InputForm

MAGIC = b"ARROW1\0\0"  # of files; a stream follows
HEADER_TYPE, HEADER, DATA, COMPRESSION = 1, 2, 1, 3  # fields of Arrow's messages
DICTIONARY = 2  # a type of message


class ArrowRows(Sequence[dict[str, Any]]):
    """The rows of a table as objects, each made when it is asked for."""

    def __init__(self, table: Any) -> None:
        self.table = table

    def __len__(self) -> int:
        return int(self.table.num_rows)

    def __getitem__(self, row: Any) -> Any:
        return self.table.slice(row, 1).to_pylist()[0]


def read_arrow(
    body: bytes, form: InputForm, limits: BodyLimits
) -> tuple[Inputs, Sequence[dict[str, Any]]]:
    """The inputs of a body, and the rows of a table as they were sent; others: none.

    body: a stream or a file of Arrow.
    form: what the guard reads.
    limits: how many rows there may be.
    """
    import pyarrow as pa

    try:
        table = _table(body, limits)
    except (pa.ArrowException, OSError, ValueError, KeyError, TypeError, struct.error) as error:
        if isinstance(error, NescioError):
            raise
        raise BodyError(UNREADABLE, f"the body cannot be read as Arrow: {error}") from None
    names = table.column_names
    if len(set(names)) < len(names):
        raise wrong_inputs(f"two columns have the same name: {', '.join(names)}")
    if form.by_name and set(names) & set(form.by_name):
        cells = {name: _cells(name, table.column(name), limits) for name in names}
        return form.table(cells), ArrowRows(table)
    arrays = {name: _array(name, table.column(name)) for name in names}
    if form.classes and len(arrays) > 1:
        return form.recorded(arrays), ()
    if form.parts:
        return form.bundle(arrays), ()
    return form.numbers(_joined(arrays, form)), ()


def _table(body: bytes, limits: BodyLimits) -> Any:
    """All rows of the body, each checked."""
    import pyarrow as pa

    content = pa.py_buffer(body).slice(len(MAGIC)) if body.startswith(MAGIC) else pa.py_buffer(body)
    for message in _messages(content):
        if _is_compressed(message.metadata.to_pybytes()):
            raise BodyError(WRONG_TYPE, "the Arrow stream is compressed; write it without")
    reader, count, batches = pa.ipc.open_stream(content), 0, []
    for batch in reader:
        count += batch.num_rows
        if count > limits.rows:
            limits.check_rows(count)
        batch.validate(full=True)
        batches.append(batch)
    limits.check_rows(count)
    return pa.Table.from_batches(batches).combine_chunks()


def _messages(content: Any) -> Iterator[Any]:
    """The messages of a stream."""
    import pyarrow as pa

    reader = pa.ipc.MessageReader.open_stream(content)
    while True:
        try:
            yield reader.read_next_message()
        except StopIteration:
            return


def _is_compressed(message: bytes) -> bool:
    """Whether the buffers of a message, a table of FlatBuffers, are compressed."""
    root = struct.unpack_from("<I", message)[0]
    header = _field(message, root, HEADER)
    if not header:
        return False
    batch = header + struct.unpack_from("<I", message, header)[0]
    kind = _field(message, root, HEADER_TYPE)
    if kind and message[kind] == DICTIONARY:
        data = _field(message, batch, DATA)
        batch = data + struct.unpack_from("<I", message, data)[0] if data else 0
    elif not kind or message[kind] != DICTIONARY + 1:  # a schema
        return False
    return batch > 0 and _field(message, batch, COMPRESSION) > 0


def _field(message: bytes, table: int, number: int) -> int:
    """Where a field of a table stands; 0: it has none."""
    layout = table - struct.unpack_from("<i", message, table)[0]
    place = 4 + 2 * number
    if place >= struct.unpack_from("<H", message, layout)[0]:
        return 0
    offset: int = struct.unpack_from("<H", message, layout + place)[0]
    return table + offset if offset else 0


def _cells(name: str, column: Any, limits: BodyLimits) -> Any:
    """A column of a table: numbers, truth values or text."""
    import pyarrow as pa
    import pyarrow.compute as pc

    kind = column.type
    values = column.combine_chunks()
    if pa.types.is_dictionary(kind):
        values = values.chunk(0) if isinstance(values, pa.ChunkedArray) else values
        known, kind = values.dictionary, kind.value_type
        if _is_text(kind) and len(known):
            longest = pc.max(pc.binary_length(known)).as_py() or 0
            if longest * len(values) > limits.body_bytes:
                raise BodyError(TOO_LARGE, f"the texts of column {name!r} are too long")
    plain = pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind)
    if not (plain or _is_text(kind) or pa.types.is_null(kind)):
        raise wrong_inputs(f"column {name!r} must hold numbers or text, got {kind}")
    return values


def _is_text(kind: Any) -> bool:
    import pyarrow as pa

    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def _array(name: str, column: Any) -> NDArray[Any]:
    """Numbers `(N, ...)` of a column of numbers, or of lists of one fixed size."""
    import pyarrow as pa

    values, shape = column.combine_chunks(), [len(column)]
    if isinstance(values, pa.ChunkedArray):
        values = values.chunk(0)
    if isinstance(values.type, pa.FixedShapeTensorType):
        if values.type.permutation is not None:
            raise wrong_inputs(f"column {name!r} has tensors whose axes are exchanged; send rows")
        shape += values.type.shape
        values = values.storage.flatten()
    while pa.types.is_fixed_size_list(values.type):
        if values.null_count:
            raise wrong_inputs(f"column {name!r} has rows without a list")
        shape.append(values.type.list_size)
        values = values.flatten()
    kind = values.type
    if not (pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind)):
        raise wrong_inputs(
            f"column {name!r} must hold numbers, or lists of numbers of one fixed size, got {kind}"
        )
    numbers: NDArray[Any] = values.to_numpy(zero_copy_only=False)
    return numbers.reshape(shape)


def _joined(arrays: dict[str, NDArray[Any]], form: InputForm) -> NDArray[Any]:
    """One column of inputs, perhaps flat; or a column for each number, in their order."""
    if len(arrays) == 1:
        (only,) = arrays.values()
        shape = form.shape if isinstance(form.shape, tuple) else only.shape[1:]
        flat = only.ndim == 2 and only.shape[1] == int(np.prod(shape))
        return only.reshape(len(only), *shape) if flat else only
    if any(array.ndim != 1 for array in arrays.values()):
        raise wrong_inputs(f"one column of inputs is read, got {', '.join(arrays)}")
    return np.stack(list(arrays.values()), axis=1)
