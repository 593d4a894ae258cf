"""Pieces on threads of their own come back in order, and torch's threads as they were."""

import threading
import time

import pytest
import torch

from nescio.core import in_order


@pytest.fixture
def four_threads():
    before = torch.get_num_threads()
    torch.set_num_threads(4)
    yield
    torch.set_num_threads(before)


def test_results_come_in_the_order_of_the_items(four_threads):
    def slow_first(item):
        time.sleep(0.02 * (item % 3 == 0))
        return item * item

    assert list(in_order(slow_first, range(20), 3)) == [item * item for item in range(20)]
    assert torch.get_num_threads() == 4


def test_torch_has_one_thread_within(four_threads):
    seen = list(in_order(lambda _: torch.get_num_threads(), range(6), 2))
    assert seen == [1] * 6


def test_few_items_are_taken_ahead():
    taken = []

    def items():
        for item in range(50):
            taken.append(item)
            yield item

    for place, _ in enumerate(in_order(lambda item: item, items(), 2)):
        assert len(taken) <= place + 3 + 1


def test_an_error_stops_the_rest_and_reaches_the_caller(four_threads):
    begun, held = [], threading.Event()

    def work(item):
        begun.append(item)
        if item == 1:
            held.set()
            raise ValueError("piece 1")
        held.wait(5)
        return item

    with pytest.raises(ValueError, match="piece 1"):
        list(in_order(work, range(100), 2))
    assert len(begun) < 10
    assert torch.get_num_threads() == 4
