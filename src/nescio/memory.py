"""Freed memory that the next block of work uses again."""

from functools import cache

import torch

BLOCK = 31 << 20  # bytes; the C library heeds no block above 32 MB


@cache
def keep_freed() -> None:
    """Let the process keep freed memory, up to 62 MB, where it would fetch it anew for each block.

    The C library of Linux gives back what is free at the end of its heap once that is more than
    twice the largest block ever freed: one block, never written to, raises that for good.
    """
    torch.empty(BLOCK, dtype=torch.uint8)
