"""Decisions about the rows of a large table by the workers of an engine, in their order.

A shard is a few parts of the table, which a worker reads by itself, from its first row on. Parts
are those of a run without an engine, each decided on one thread: so the bytes are the same.
"""

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from itertools import islice
from typing import Any, TypeVar

from nescio.core import Engine, NescioError
from nescio.data.readers import Stream

PARTS = 4  # of a shard
Block = tuple[int, Any, Mapping[str, Any]]  # the first sample, the inputs, columns that are kept
Part = TypeVar("Part")


def decided(
    decide: Callable[[Block], Part], stream: Stream, engine: Engine, *, size: int, start: int
) -> Iterator[Part]:
    """What is decided about each part of a stream, in order, from the sample `start` on."""
    if not stream.sharded or stream.total is None:
        raise NescioError(
            f"the workers of an engine read Parquet files, each its own rows; {stream.name} is "
            "none: write it as .parquet, or leave the engine out"
        )
    firsts = range(start, stream.total, PARTS * size)
    for parts in engine.in_order(partial(_shard, decide, stream, size), firsts):
        yield from parts


def _shard(decide: Callable[[Block], Part], stream: Stream, size: int, start: int) -> list[Part]:
    """What a worker does: it reads a shard, and decides part by part."""
    blocks = islice(stream.blocks(size, start=start), PARTS)
    return [decide(with_kept(stream, first, x)) for first, x in blocks]


def with_kept(stream: Stream, first: int, x: Any) -> Block:
    """A block with the columns that are copied through."""
    return first, x, {} if stream.kept is None else stream.kept(first, len(x))
