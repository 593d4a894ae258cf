"""A command killed at any write: nothing half done is taken for the whole, and it can go on."""

import multiprocessing
import os
import signal
from contextlib import suppress
from contextvars import Context
from functools import partial

import numpy as np
import pytest
import torch

import nescio
from nescio import NescioError, detectors, nets, score
from nescio.applications.active_learning import read_answers
from nescio.calibration import Calibrated
from nescio.cli.label_pool import Project
from nescio.cli.work.train import run_recipe
from nescio.core import writing
from nescio.core.files import MODEL, PREDICTOR
from nescio.models.model import READABLE

FORK = multiprocessing.get_context("fork")
X = torch.randn(40, 2, generator=torch.Generator().manual_seed(0))


def killed(work, at, after):
    """Whether work that is killed before, or after, its rename number `at` came that far."""

    def run():
        torch.set_num_threads(1)
        count, replace = 0, os.replace

        def dying(*names):
            nonlocal count
            count += 1
            if count == at and not after:
                os.kill(os.getpid(), signal.SIGKILL)
            replace(*names)
            if count == at:
                os.kill(os.getpid(), signal.SIGKILL)

        writing.os.replace = dying
        work()
        os._exit(0)

    process = FORK.Process(target=run)
    process.start()
    process.join(60)
    assert process.exitcode in (0, -signal.SIGKILL)
    return process.exitcode == -signal.SIGKILL


def every_kill(work, home):
    """The folders in which work was killed before, and after, each of its renames."""
    for at in range(1, 1000):
        for after in (False, True):
            folder = home / f"{at}-{after}"
            folder.mkdir()
            if not killed(partial(work, folder), at, after):
                assert at > 3
                return
            yield folder


def content(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_a_training_killed_at_any_write_is_unfinished_or_whole_and_goes_on(tmp_path):
    options = {"epochs": 1, "calibrate": "temperature", "progress": False}

    def train(folder):
        words = ("single", "half_moons", None, folder)
        run_recipe(*words, checkpoint_seconds=0, batch_size=400, **options)

    train(tmp_path / "whole")
    whole = nescio.load(tmp_path / "whole")
    assert isinstance(whole, Calibrated)
    truth, unfinished = whole(X).logits, 0
    for folder in every_kill(train, tmp_path):
        try:
            assert torch.equal(nescio.load(folder)(X).logits, truth)
        except NescioError:
            unfinished += 1
        train(folder)
        assert content(folder) == content(tmp_path / "whole")
    assert unfinished > 6
    assert set(content(tmp_path / "whole")) == {MODEL, PREDICTOR, READABLE}


def test_a_predictor_killed_while_it_is_saved_is_not_read_as_its_model(tmp_path):
    torch.manual_seed(0)
    model = nescio.models.plain(nets.mlp(2, 3, widths=(4,)))
    value = nescio.calibration.scaled(model, 0.5, (0.0, 1.0, 0.0))
    for folder in every_kill(value.save, tmp_path):
        with suppress(NescioError):
            assert torch.equal(nescio.load(folder)(X).logits, value(X).logits)


def test_decisions_killed_at_any_write_go_on_to_the_same_bytes(tmp_path):
    torch.manual_seed(0)
    net = nets.mlp(2, 3, widths=(4,)).eval()
    labels = (net(X).argmax(1) + (torch.arange(len(X)) % 7 == 0)) % 3
    options = {"detector": detectors.energy(), "false_alarm": 0.05, "risk": 0.9, "batch_size": 8}
    made = nescio.guard(net, (X, labels), progress=False, **options)

    def write(folder):
        score(made, np.asarray(X), folder / "d.csv", batch_bytes=16 * 8)

    (tmp_path / "whole").mkdir()
    write(tmp_path / "whole")
    for folder in every_kill(write, tmp_path):
        write(folder)
        assert content(folder) == content(tmp_path / "whole")


def test_a_run_in_use_says_who_holds_it(tmp_path):
    def train():
        run_recipe("single", "half_moons", None, tmp_path / "run", epochs=1)

    with (
        writing.owned(writing.make_folder(tmp_path / "run")),
        pytest.raises(NescioError, match=f"in use by process {os.getpid()}"),
    ):
        Context().run(train)  # another owner than this context's, as another process is


def test_answers_survive_a_kill_at_any_write(tmp_path):
    """`nescio label add`, killed around each of its renames: the answers stay, the curve is one."""
    np.savez(tmp_path / "pool.npz", x=X.numpy())
    np.savez(tmp_path / "test.npz", x=X.numpy(), y=(X[:, 0] > 0).long().numpy())
    rows = [f"{number},{int(X[number, 0] > 0)}" for number in range(12)]
    (tmp_path / "answers.csv").write_text("\n".join(["id,label", *rows]) + "\n")
    settings = {"classes": ["0", "1"], "test": str(tmp_path / "test.npz"), "test_size": 0}
    settings |= {"recipe": "single", "options": {}, "net": "mlp", "updates": 2, "seed": 0}
    settings |= {"target": None, "learning_rate": 1e-3, "standardize": False}

    def opened(folder):
        pool = folder / "pool"
        if not pool.exists():
            made = Project.start(str(pool), str(tmp_path / "pool.npz"), settings)
            made.pool.ask(range(12))
        return Project.open(pool)

    def work(folder):
        project = opened(folder)
        project.pool.answer(read_answers(tmp_path / "answers.csv").pairs)
        project.step()

    (tmp_path / "whole").mkdir()
    work(tmp_path / "whole")
    wanted = Project.open(tmp_path / "whole" / "pool").curve
    for folder in every_kill(work, tmp_path):
        if (folder / "pool" / "journal.jsonl").exists():
            work(folder)
            assert Project.open(folder / "pool").curve == wanted
