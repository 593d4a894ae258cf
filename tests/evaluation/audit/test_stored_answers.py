"""Answers to single samples, as `audit.json` stores them: right values, drawn by hash."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from nescio import NescioError, nets
from nescio.core import DataSet, Gaussian, from_json, hash_inputs, to_json
from nescio.evaluation.answers import see
from nescio.evaluation.audit import stored_answers
from nescio.evaluation.audit.held_out import Held
from nescio.evaluation.audit.sections import Material
from nescio.evaluation.audit.stored_answers import StoredAnswers, answers_section
from nescio.models import plain


def material(count=40, *, order=None, decisions=True, **more):
    torch.manual_seed(0)
    x, y = torch.randn(count, 3), torch.arange(count) % 4
    predictor = plain(nets.mlp(3, 4))
    if order is not None:
        x, y = x[order], y[order]
    rows = torch.arange(0, count, 2)
    decided = SimpleNamespace(decision=torch.arange(len(rows)) % 3) if decisions else None
    held = Held((x[1::2], y[1::2]), (x, y), rows, True)
    seen = see(predictor, x)
    return Material(
        predictor=predictor, predictors={"a": predictor}, x=x, y=y, seen=seen, held=held,
        decisions=decided, **more,
    )  # fmt: skip


def test_the_columns_are_those_of_the_answers():
    given = material()
    found = answers_section(given).test
    own = found.columns()
    assert (found.samples, found.total) == (40, 40)
    seen, y = given.seen, given.y
    nll = torch.nn.functional.nll_loss(seen.log_probs, y, reduction="none")
    assert np.sort(own["nll"]) == pytest.approx(np.sort(nll.numpy()), rel=1e-8)
    assert own["wrong"].mean() == (seen.labels != y).double().mean().item()
    confidence = 1 / (1 + np.exp(own["log_odds"]))
    assert np.sort(confidence) == pytest.approx(np.sort(seen.confidence.numpy()), rel=1e-7)
    letters = bytes(own["decision"]).decode()
    assert {letter: letters.count(letter) for letter in "auo-"} == {"a": 7, "u": 7, "o": 6, "-": 20}
    assert (np.diff(own["keys"].astype(object)) > 0).all()


def test_the_order_of_the_data_does_not_matter_and_the_label_does():
    order = torch.randperm(40, generator=torch.Generator().manual_seed(1))
    one = answers_section(material(decisions=False)).test
    two = answers_section(material(order=order, decisions=False)).test
    assert one == two
    other = material(decisions=False)
    other.y[3] = (other.y[3] + 1) % 4
    found = answers_section(other).test.columns()["keys"]
    assert len(np.intersect1d(found, one.columns()["keys"])) == 39


def test_of_many_samples_those_of_the_smallest_keys_are_stored(monkeypatch):
    whole = answers_section(material()).test.columns()
    monkeypatch.setattr(stored_answers, "MOST", 10)
    some = answers_section(material()).test
    assert (some.samples, some.total) == (10, 40)
    for name, values in some.columns().items():
        assert (values == whole[name][:10]).all()


def test_ood_sets_have_log_odds_and_decisions():
    z = torch.randn(20, 3) + 5
    given = material()
    decided = {"far": SimpleNamespace(decision=torch.full((20,), 2))}
    ood = {"far": (DataSet(name="far"), z)}
    given = replace(given, ood=ood, seen_ood={"far": see(given.predictor, z)})
    given = replace(given, decisions_ood=decided)
    far = answers_section(given).ood["far"]
    assert far.decision == "o" * 20
    keys = np.sort(hash_inputs(z).numpy().view(np.uint64))
    assert (far.columns()["keys"] == keys).all()
    wanted = np.sort(see(given.predictor, z).scores["log_odds"])
    assert np.sort(far.columns()["log_odds"]) == pytest.approx(wanted, rel=1e-8)


def test_a_regression_has_squared_errors_and_densities():
    y = torch.randn(30, 2, dtype=torch.float64)
    mean, variance = torch.zeros(1, 30, 2).double(), torch.full((1, 30, 2), 4.0).double()
    x = torch.randn(30, 3)
    held = Held((x, y), (x, y), torch.arange(30), True)
    decisions = SimpleNamespace(
        decision=torch.zeros(30, dtype=torch.long), missed=lambda truth: truth.abs().amax(1) > 1
    )
    found = answers_section(
        Material(
            task="regression",
            x=x,
            y=y,
            held=held,
            prediction=Gaussian(mean, variance),
            decisions=decisions,
        )
    ).test.columns()
    assert np.sort(found["squared_error"]) == pytest.approx(
        np.sort((y**2).sum(1).numpy()), rel=1e-8
    )
    density = -torch.distributions.Normal(0.0, 2.0).log_prob(y).sum(1)
    assert np.sort(found["nll"]) == pytest.approx(np.sort(density.numpy()), rel=1e-8)
    assert found["missed"].sum() == (y.abs().amax(1) > 1).sum().item()


def test_it_is_read_back_and_a_changed_column_is_found():
    made = answers_section(material())
    assert from_json(StoredAnswers, to_json(made)) == made
    with pytest.raises(NescioError, match="40 samples in each column"):
        replace(made.test, wrong=made.test.wrong[1:]).columns()
