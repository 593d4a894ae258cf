"""Decisions as a value: parts, columns, tables, counts, and batches."""

import numpy as np
import pytest
import torch

from nescio.core import NescioError
from nescio.guards import RULES, Decisions
from nescio.guards.decisions import CODES, decided


def made(count=6, classes=3, names=None):
    rng = torch.Generator().manual_seed(0)
    rule = torch.arange(count) % 3
    rule = torch.tensor([CODES["sure enough"], CODES["failure_score"], CODES["p-value"]])[rule]
    draw = lambda: torch.rand(count, generator=rng).double()  # noqa: E731
    p = torch.where(rule == CODES["p-value"], 0.001, draw())
    return Decisions(
        decided(rule),
        torch.arange(count) % classes,
        draw(),
        p,
        draw(),
        draw(),
        rule,
        torch.arange(count) != 1,
        torch.rand(count, classes, generator=rng) > 0.5,
        names,
    )


def test_columns_are_in_words():
    found = made(names=("cat", "dog", "emu")).columns()
    assert found["decision"].tolist() == ["answer", "unsure", "ood"] * 2
    assert found["label"].tolist() == ["cat", "dog", "emu"] * 2
    assert found["rule"].tolist() == ["sure enough", "failure_score", "p-value"] * 2


@pytest.mark.parametrize("classes", [2, 12, 16, 17, 26])
def test_sets_are_written_class_by_class(classes):
    words = tuple("abcdefghijklmnopqrstuvwxyz"[:classes])
    value = made(50, classes, words)
    wanted = [" | ".join(np.array(words)[row]) for row in value.sets.numpy()]
    assert value.columns()["set"].tolist() == wanted
    numbered = made(50, classes).columns()["set"]
    assert numbered[0] == " | ".join(map(str, np.flatnonzero(value.sets[0].numpy())))


def test_parts_join_to_the_whole():
    value = made(20)
    again = Decisions.join([value[:7], value[7:8], value[8:]])
    for name, column in value.columns().items():
        assert (column == again.columns()[name]).all()
    assert len(value[-1]) == 1
    assert len(value[value.answered]) == int(value.answered.sum())
    assert value[[0, 2]].decision.tolist() == [0, 2]
    with pytest.raises(IndexError, match="input 20 of 20"):
        value[20]
    with pytest.raises(NescioError, match="empty"):
        Decisions.join([])


def test_the_risk_of_no_answer_is_unknown():
    nothing = made()[~made().answered]
    found = nothing.summary(torch.zeros(len(nothing), dtype=torch.long))
    assert (found["errors"], found["risk"]) == (0, None)  # not 0: there is no answer to be wrong


def test_the_summary_counts():
    value = made()
    found = value.summary(torch.tensor([0, 1, 2, 1, 1, 2]))
    assert (found["answer"], found["unsure"], found["ood"]) == (1 / 3, 1 / 3, 1 / 3)
    assert (found["errors"], found["risk"]) == (1, 0.5)
    assert found["out_of_range"] == 1 / 6
    assert found["mean_set_size"] == value.sets.sum() / 6
    with pytest.raises(NescioError, match="6 decisions but labels"):
        value.summary([1, 2])
    for labels, match in (
        ([0, 1, 2, 0, 1, 3], r"labels must lie in 0\.\.2, got 0\.\.3"),
        ([0, 1, 2, 0, 1, -1], r"got -1\.\.2"),
        ([0.0, 1.0, 2.0, 0.0, 1.0, 1.0], "must be integers"),
    ):
        with pytest.raises(NescioError, match=match):
            value.summary(labels)


def test_the_table_has_a_row_an_input_and_the_counts():
    lines = made(30).table.splitlines()
    assert lines[0].split()[:3] == ["decision", "label", "probability"]
    assert len(lines) == 1 + 20 + 2
    assert lines[-2] == "... 10 more"
    assert lines[-1] == "Decisions(30 inputs: 10 answer, 10 unsure, 10 ood)"


def test_a_batch_is_judged_by_benjamini_and_hochberg():
    from scipy.stats import false_discovery_control

    value = made(300)
    rng = np.random.default_rng(0)
    p = rng.random(300)
    p[:60] = rng.random(60) * 0.002
    p[5] = np.nan
    rule = torch.where(torch.tensor(p) <= 0.01, CODES["p-value"], CODES["sure enough"])
    rule[5] = CODES["not finite"]
    value = Decisions(
        decided(rule),
        value.label,
        value.probability,
        torch.tensor(p),
        value.score,
        value.failure_score,
        rule,
        value.in_range,
    )
    found = value.batch(0.05)
    tested = ~np.isnan(p)
    wanted = np.zeros(300, bool)
    wanted[tested] = false_discovery_control(p[tested]) <= 0.05
    words = found.columns()["rule"]
    assert ((words == "batch") == wanted).all()
    assert words[5] == "not finite"
    with pytest.raises(NescioError, match=r"level of a batch .* got 0; try 0\.1"):
        value.batch(0)
    strict = value.batch(1e-6).columns()
    assert not (strict["rule"] == "batch").any()
    alone = (p <= 0.01) & tested
    assert (strict["rule"][alone] == "p-value alone").all()
    assert (strict["decision"][alone] == "unsure").all()


def test_every_rule_has_one_decision():
    codes = torch.arange(len(RULES))
    assert decided(codes).tolist() == list(RULES.values())


def test_without_sets_there_is_no_column():
    value = made()
    bare = Decisions(*(getattr(value, n) for n in list(vars(value))[:8]))
    assert "set" not in bare.columns()
    with pytest.raises(NescioError, match="gives no prediction sets"):
        bare.set_sizes  # noqa: B018
