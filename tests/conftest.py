"""One thread a worker, as the suite runs two workers on two cores; each test starts from a seed.

Without the seed, a test that draws weights or points from the global generators tries other values
on each run, and a brute-force oracle with a grid is wrong for a few of them.
"""

import os
import shutil
import sys
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from nescio.core import LocalEngine, one_thread
from nescio.core.engines import _Here

os.environ.setdefault("MKL_CBWR", "AUTO")  # as the command line does; nothing was computed yet
torch.set_num_threads(1)
collect_ignore = [] if find_spec("sqlalchemy") else ["serving"]  # of the extra serve
BYTECODE = Path(__file__).parents[1] / "build" / "bytecode"


def pytest_configure(config: pytest.Config) -> None:
    """Where bytecode is not kept beside the source, workers and what tests start keep it in build.

    Without it, every process compiles torch and what it imports, and each worker all tests.
    """
    if getattr(config.option, "numprocesses", None) and sys.dont_write_bytecode:
        os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
        os.environ.setdefault("PYTHONPYCACHEPREFIX", str(BYTECODE))


@pytest.fixture(autouse=True)
def seeded() -> None:
    torch.manual_seed(0)
    np.random.seed(0)  # noqa: NPY002 (what a careless test would draw from)


@dataclass
class Answer:
    """What a Transformers-style classifier returns."""

    logits: torch.Tensor
    hidden_states: torch.Tensor
    loss: torch.Tensor | None = None


class Transformer(nn.Module):
    """A classifier of tokens with dictionary inputs, attention with a mask, LayerNorm and GELU."""

    def __init__(self, width=16, classes=3, dropout=0.0):
        super().__init__()
        self.embedding, self.position = nn.Embedding(13, width), nn.Parameter(torch.zeros(8, width))
        self.attention = nn.MultiheadAttention(width, 2, batch_first=True)
        self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)
        self.feed = nn.Sequential(nn.Linear(width, 32), nn.GELU(), nn.Linear(32, width))
        self.dropout, self.classifier = nn.Dropout(dropout), nn.Linear(width, classes)

    def forward(self, input_ids, attention_mask=None, labels=None):
        mask = torch.ones_like(input_ids) if attention_mask is None else attention_mask
        hidden = self.embedding(input_ids) + self.position[: input_ids.shape[1]]
        mixed, _ = self.attention(
            hidden, hidden, hidden, key_padding_mask=mask == 0, need_weights=False
        )
        hidden = self.first(hidden + mixed)
        hidden = self.second(hidden + self.feed(hidden))
        weights = mask[..., None].to(hidden.dtype)
        pooled = (hidden * weights).sum(1) / weights.sum(1)
        logits = self.classifier(self.dropout(pooled))
        loss = None if labels is None else nn.functional.cross_entropy(logits, labels)
        return Answer(logits, hidden, loss)


class TwoInputs(nn.Module):
    """A network of a picture and a row of numbers."""

    def __init__(self):
        super().__init__()
        self.picture, self.row = nn.Linear(16, 8), nn.Linear(3, 8)
        self.last = nn.Linear(8, 3)

    def forward(self, picture, row):
        return self.last(torch.relu(self.picture(picture.flatten(1)) + self.row(row)))


def draw_tokens(count, seed):
    """Sentences of 4 to 8 tokens; most are of the four tokens of a class, 0 pads."""
    rng = torch.Generator().manual_seed(seed)
    labels = torch.arange(count) % 3
    own = 1 + 4 * labels[:, None] + torch.randint(4, (count, 8), generator=rng)
    other = torch.randint(1, 13, (count, 8), generator=rng)
    ids = torch.where(torch.rand(count, 8, generator=rng) < 0.6, own, other)
    mask = (torch.arange(8) < torch.randint(4, 9, (count, 1), generator=rng)).long()
    return {"input_ids": ids * mask, "attention_mask": mask, "labels": labels}


def draw_pair(count, seed):
    rng = torch.Generator().manual_seed(seed)
    labels = torch.arange(count) % 3
    picture = torch.randn(count, 1, 4, 4, generator=rng) + labels[:, None, None, None] - 1
    row = torch.randn(count, 3, generator=rng) + 2 * torch.eye(3)[labels]
    return (picture, row), labels


def fit(net, run):
    torch.manual_seed(0)
    optimizer = torch.optim.Adam(net.parameters(), 1e-2)
    for _ in range(60):
        optimizer.zero_grad()
        run(net).backward()
        optimizer.step()
    return net.eval()


@pytest.fixture(scope="session")
def transformer():
    """A trained classifier of tokens; copy it before you change it."""
    torch.manual_seed(0)
    batch = draw_tokens(512, 0)
    return fit(Transformer(), lambda net: net(**batch).loss)


@pytest.fixture(scope="session")
def two_inputs():
    torch.manual_seed(0)
    x, y = draw_pair(512, 0)
    return fit(TwoInputs(), lambda net: nn.functional.cross_entropy(net(*x), y))


@pytest.fixture(scope="session")
def tokens():
    """A function of a number of samples and a seed: a mapping with labels."""
    return draw_tokens


@pytest.fixture(scope="session")
def pairs():
    """A function of a number of samples and a seed: two inputs, and labels."""
    return draw_pair


@pytest.fixture(scope="module")
def browser():
    """Chromium, which Debian's package brings; tests that look at pages skip without it."""
    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    if chromium is None:
        pytest.skip("there is no Chromium on this machine")
    sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        yield browser
        browser.close()


@dataclass(frozen=True)
class Workers(LocalEngine):
    """So many workers, one after the other in this process, each with one thread."""

    name = "workers"
    last: int = 1000  # tasks after which the machine goes down

    @contextmanager
    def pool(self, work, most):
        left = iter(range(self.last))

        @one_thread()
        def one(task):
            if next(left, None) is None:
                raise KeyboardInterrupt
            return work(task)

        yield _Here(one)


@pytest.fixture(scope="session")
def workers():
    """An engine whose workers are a part of this process."""
    return Workers
