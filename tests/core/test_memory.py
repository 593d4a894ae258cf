"""Blocks that are freed and taken again: the system is not asked for them each time."""

import os
import resource
import subprocess
import sys

import pytest

from nescio.core import keep_freed

SCRIPT = """
import resource, torch
from nescio.core.running import keep_freed
if {keep}:
    keep_freed()
def work():
    parts = [torch.ones(1 << 20) for _ in range(3)]  # 12 MB
work()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(20):
    work()
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


def faults(keep):
    script = SCRIPT.format(keep=keep)
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, env=os.environ
    )
    return int(done.stdout)


@pytest.mark.skipif(not os.path.exists("/lib64/ld-linux-x86-64.so.2"), reason="needs glibc")
def test_blocks_are_used_again():
    pages = 12 * (1 << 20) // resource.getpagesize()
    assert faults(keep=True) < 5 * pages  # of 20 rounds; beside other work a few more fault


def test_it_takes_no_memory_and_may_be_called_again():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    keep_freed()
    keep_freed()
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 4096
