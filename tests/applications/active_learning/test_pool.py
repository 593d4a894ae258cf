"""A pool with a human: what is asked and answered is on disk, checked, and never lost."""

import json
import os
import signal
import subprocess
import sys
import time
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from nescio import NescioError, nets
from nescio.applications.active_learning import Pool
from nescio.core import DamagedError
from nescio.data import read_table

X = torch.arange(30.0).reshape(10, 3)
NAMES = [f"image-{number}" for number in range(10)]


@pytest.fixture
def pool(tmp_path):
    return Pool.create(tmp_path / "pool", X, ids=NAMES, classes=["cat", "dog", "owl"])


def test_a_new_pool_is_all_free(pool):
    assert len(pool) == 10
    assert pool.ids == tuple(NAMES)
    assert pool.classes == ("cat", "dog", "owl")
    assert pool.free.tolist() == pool.unlabeled.tolist() == list(range(10))
    assert pool.waiting.tolist() == []
    assert [part.tolist() for part in pool.labeled] == [[], []]


def test_what_is_asked_waits_and_what_is_answered_is_labeled(pool):
    assert pool.ask(SimpleNamespace(index=torch.tensor([7, 2]))) == ["image-7", "image-2"]
    assert pool.waiting.tolist() == [2, 7]
    assert 7 not in pool.free
    assert pool.answer({"image-7": "owl"}) == 1
    assert pool.waiting.tolist() == [2]
    assert pool.unlabeled.tolist() == [0, 1, 2, 3, 4, 5, 6, 8, 9]
    assert pool.answer([("image-2", " cat ")]) == 1
    again = Pool.open(pool.folder, X)
    assert [part.tolist() for part in again.labeled] == [[2, 7], [0, 2]]
    assert again.labeled[1].dtype == torch.int64
    assert "10 items, 2 labeled" in repr(again)


def test_an_answer_may_come_again_and_be_corrected(pool):
    pool.ask([1])
    assert pool.answer({"image-1": "cat"}) == 1
    assert pool.answer({"image-1": "cat"}) == 0
    assert pool.answer({"image-1": "dog"}, correct=True) == 1
    assert pool.answers == {"image-1": "dog"}


@pytest.mark.parametrize(
    ("answers", "words"),
    [
        ({}, "there are no answers"),
        ({"image-3": "cat"}, "were not asked"),
        ({"image-99": "cat"}, "does not have"),
        ({"image-1": "cot"}, "unknown class 'cot'.*did you mean 'cat'"),
        ({"image-1": ""}, "the label of 'image-1'"),
        ({"image-1": float("nan")}, "whole number"),
        ({"image-1": 1.5}, "whole number"),
        ({"image-1": True}, "whole number"),
        ([("image-1", "cat"), ("image-1", "dog")], "answered twice: 'cat' and 'dog'"),
        ([("image-0", "dog")], "answered before: 'cat' and 'dog'"),
        (["image-1"], "pairs"),
        ([("image-1", "cat", 3)], "pairs"),
    ],
)
def test_a_bad_answer_refuses_all_of_them(pool, answers, words):
    pool.ask([0, 1, 2])
    pool.answer({"image-0": "cat"})
    good = {"image-2": "dog"}
    mixed = {**answers, **(good if answers else {})} if isinstance(answers, dict) else answers
    with pytest.raises(NescioError, match=f"(?i){words}"):
        pool.answer(mixed)
    assert pool.answers == {"image-0": "cat"}


def test_questions_are_checked(pool):
    pool.ask([0])
    pool.answer({"image-0": "cat"})
    with pytest.raises(NescioError, match="labeled already \\(image-0\\)"):
        pool.ask([0, 1])
    with pytest.raises(NescioError, match=r"0\.\.9"):
        pool.ask([10])
    with pytest.raises(NescioError, match="twice"):
        pool.ask([1, 1])
    with pytest.raises(NescioError, match="at least one"):
        pool.ask(torch.tensor([], dtype=torch.long))
    assert pool.asked == ["image-0"]


def test_it_chooses_from_what_was_not_asked(pool):
    net = nets.mlp(3, 3)
    pool.ask([0, 1, 2])
    pool.answer({"image-0": "cat"})
    first = pool.choose(net, X, 4, "entropy")
    assert pool.waiting.tolist() == sorted([1, 2, *first.index.tolist()])
    second = pool.choose(net, X, 3, "margin")
    assert sorted([*first.index.tolist(), *second.index.tolist()]) == list(range(3, 10))
    with pytest.raises(NescioError, match="every item .* asked already, 9 of them"):
        pool.choose(net, X, 1)
    with pytest.raises(NescioError, match="the pool changed"):
        pool.choose(net, X + 1, 1)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda x: x[:9], "had 10 items and now has 9"),
        (lambda x: torch.cat([x, x[:1]]), "had 10 items and now has 11"),
        (lambda x: x.clone().index_fill_(0, torch.tensor([4]), 0), "1 changed \\(image-4\\)"),
        (lambda x: x.flip(0), "10 changed"),
        (lambda x: x[:0], "empty"),
    ],
)
def test_a_pool_that_changed_is_refused(pool, change, words):
    pool.ask([1])
    with pytest.raises(NescioError, match=words):
        Pool.open(pool.folder, change(X))
    with pytest.raises(NescioError, match=words):
        pool.answer({"image-1": "cat"}, inputs=change(X))
    assert pool.answers == {}


def test_ids_say_what_is_new_gone_or_moved(pool):
    with pytest.raises(NescioError, match="another order"):
        pool.check(X.flip(0), NAMES[::-1])
    with pytest.raises(NescioError, match="1 new \\(else\\), 1 gone \\(image-9\\)"):
        pool.check(X, [*NAMES[:9], "else"])


@pytest.mark.parametrize(
    ("inputs", "other"),
    [
        (torch.randint(0, 256, (5, 1, 4, 4), dtype=torch.uint8), None),
        (np.arange(20).reshape(5, 4), None),  # tokens
        ((torch.rand(5, 3), torch.rand(5, 2, 2)), None),
        ({"ids": torch.arange(10).reshape(5, 2), "mask": torch.ones(5, 2)}, None),
        (
            read_table(
                {"age": [1.0, 2.0, 3.0, 4.0, float("nan")], "sex": ["F", "M", "", "F", "M"]}
            ),
            read_table(
                {"age": [1.0, 2.0, 3.0, 4.0, float("nan")], "sex": ["F", "M", "", "F", "F"]}
            ),
        ),
        (
            read_table({"a": [1.0, 2.0], "b": [2.0, 1.0]}),
            read_table({"b": [1.0, 2.0], "a": [2.0, 1.0]}),
        ),
    ],
)
def test_images_tokens_bundles_and_tables_are_known_again(tmp_path, inputs, other):
    pool = Pool.create(tmp_path, inputs)
    pool.check(inputs)
    if other is not None:
        with pytest.raises(NescioError, match="changed"):
            pool.check(other)


def test_a_pool_that_makes_no_sense_is_refused(tmp_path):
    for words, given in {
        "empty": {"inputs": X[:0]},
        "10 items but 2 ids": {"inputs": X, "ids": ["a", "b"]},
        "'a' occurs twice": {"inputs": X, "ids": ["a"] * 10},
        "at least two classes": {"inputs": X, "classes": ["cat"]},
        "classes must differ": {"inputs": X, "classes": ["cat", "cat"]},
    }.items():
        with pytest.raises(NescioError, match=words):
            Pool.create(tmp_path / "new", **given)
    Pool.create(tmp_path / "new", X)
    with pytest.raises(NescioError, match="a pool already"):
        Pool.create(tmp_path / "new", X)
    with pytest.raises(NescioError, match="no file"):
        Pool.open(tmp_path / "nowhere")


def test_without_classes_the_answers_are_the_classes(tmp_path):
    pool = Pool.create(tmp_path, X)
    pool.ask([0, 1, 2, 3])
    pool.answer({0: "b", "1": 10, 2: np.int64(9), 3: torch.tensor(10)})
    assert pool.classes == ("9", "10", "b")
    assert pool.labeled[1].tolist() == [2, 1, 0, 1]


def test_a_number_of_classes_names_them(tmp_path):
    pool = Pool.create(tmp_path, X, classes=10, about={"source": "digits"})
    pool.ask([0])
    pool.answer({"0": 7.0})
    assert pool.labeled[1].tolist() == [7]
    assert Pool.open(tmp_path).about == {"source": "digits"}


def test_half_a_line_is_no_answer_and_a_changed_line_is_refused(pool):
    pool.ask([0, 1])
    pool.answer({"image-0": "cat"})
    path = pool.folder / "journal.jsonl"
    whole = path.read_bytes()
    path.write_bytes(whole + b'{"events": [{"asked": [], "answ')  # a kill while it was written
    assert pool.answers == {"image-0": "cat"}
    pool.answer({"image-1": "dog"})
    assert Pool.open(pool.folder).answers == {"image-0": "cat", "image-1": "dog"}
    lines = path.read_bytes().splitlines(keepends=True)
    for damaged in (whole.replace(b"cat", b"dog"), lines[0] + lines[2], b"{}\n"):
        path.write_bytes(damaged)
        with pytest.raises(DamagedError, match=r"journal\.jsonl is damaged: line"):
            Pool.open(pool.folder)


def test_a_changed_manifest_is_refused(pool):
    path = pool.folder / "pool.json"
    said = json.loads(path.read_text())
    path.write_text(json.dumps({**said, "classes": ["dog", "cat", "owl"]}))
    with pytest.raises(DamagedError, match=r"pool\.json"):
        Pool.open(pool.folder)


ANSWERING = """
import sys
from nescio.applications.active_learning import Pool
pool = Pool.open(sys.argv[1])
for number in range(int(sys.argv[2]), 400, 2):
    pool.ask([number])
    pool.answer({str(number): number % 3})
    print(number, flush=True)
"""


def test_two_processes_answer_at_once_and_a_kill_loses_nothing(tmp_path):
    Pool.create(tmp_path, torch.rand(400, 2), classes=3)
    started = [
        subprocess.Popen(
            [sys.executable, "-c", ANSWERING, str(tmp_path), str(first)],
            stdout=subprocess.PIPE,
            text=True,
        )
        for first in (0, 1)
    ]
    for one in started:
        assert one.stdout is not None
        for _ in range(5):
            one.stdout.readline()
    time.sleep(0.2)
    said = [*range(10)]
    for one in started:
        os.kill(one.pid, signal.SIGKILL)
        said += [int(line) for line in one.communicate()[0].splitlines() if line.strip()]
    pool = Pool.open(tmp_path)
    answers = pool.answers
    assert set(said) <= {int(name) for name in answers}
    assert all(label == str(int(name) % 3) for name, label in answers.items())
    pool.ask([399])  # the killed ones are not in the way


def test_a_question_names_the_class_that_is_predicted(pool):
    chosen = pool.choose(nets.mlp(3, 3, widths=(4,)), X, 2, "entropy")
    for label, why in zip(chosen.predicted.tolist(), chosen.why, strict=True):
        assert f"{pool.classes[label]} is predicted with confidence" in why
    with pytest.raises(NescioError, match="3 classes are named, but the predictor has 4"):
        pool.choose(nets.mlp(3, 4, widths=(4,)), X, 2, "entropy")


def test_classes_of_equal_numbers_have_one_order(tmp_path):
    found = Pool.create(tmp_path / "free", X)
    found.ask([0, 1, 2, 3])
    found.answer({"0": "1", "1": "01", "2": "2", "3": "001"})
    assert found.classes == ("001", "01", "1", "2")


def test_pools_of_other_items_or_ids_have_other_keys(pool, tmp_path):
    assert Pool.open(pool.folder).key == pool.key
    others = [Pool.create(tmp_path / "a", X + 1, ids=NAMES), Pool.create(tmp_path / "b", X)]
    assert len({pool.key, *(other.key for other in others)}) == 3
