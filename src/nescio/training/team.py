"""The threads that train: as many as are faster than one."""

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TypeVar

import torch

from nescio.core import one_thread, workers

TINY = 4_000_000  # multiply-adds at a time below which a second thread costs more than it gives;
LARGE = 16_000_000  # of stacked networks: a convolution does more than its weights say
EVERY, TRIALS = 200, 4  # steps, and how many of them are timed
T = TypeVar("T")


@dataclass
class Team:
    """Threads that train, each a part of the members; a single network is left to torch's threads.

    Beside other work, threads wait for each other. So now and then a few steps are timed, the parts
    one after the other and at once, and what is faster is used. The parts stay the same, each on
    one thread, and with them the numbers.
    """

    pool: ThreadPoolExecutor | None = None
    parts: int = 1
    alone: bool = False
    times: dict[int, float] = field(default_factory=dict)

    @contextmanager
    def step(self, number: int) -> Iterator[None]:
        """A block for a step, with the threads that are best now."""
        trial = number % EVERY
        if self.pool is None:
            yield
            return
        if trial < TRIALS:
            self.alone = trial < TRIALS // 2
        elif trial == TRIALS:
            half = TRIALS // 2
            one, all_ = (min(self.times.get(i, 0.0) for i in range(s, s + half)) for s in (0, half))
            self.alone = one < all_
        start = time.perf_counter()
        with one_thread():
            yield
        self.times[trial] = time.perf_counter() - start

    def each(self, work: Callable[[list[int]], T], members: int) -> list[T]:
        """What `work` makes of the members, in their order, in parts."""
        size = -(-members // self.parts)
        parts = [list(range(members))[i : i + size] for i in range(0, members, size)]
        if self.pool is None or self.alone:
            return list(map(work, parts))
        return list(self.pool.map(work, parts))


def runs_alone(work: int, *, together: bool) -> bool:
    """Whether one thread is faster than several; work: multiply-adds of what runs in one go."""
    return work < (LARGE if together else TINY)


@contextmanager
def team(device: torch.device, members: int, work: int, *, together: bool) -> Iterator[Team]:
    """The threads that train the members; work: multiply-adds of what runs in one go."""
    # A large block, freed untouched, makes the C library keep freed activations instead of
    # returning them to the system after each step and faulting them in again.
    block = torch.empty(31 << 18)
    del block
    threads = torch.get_num_threads()
    parts = min(threads, members)
    if device.type != "cpu" or threads == 1:
        yield Team()
    elif runs_alone(work, together=together):
        with one_thread():
            yield Team()
    elif parts == 1:
        yield Team()
    else:
        with workers(parts) as pool:
            yield Team(pool, parts)
