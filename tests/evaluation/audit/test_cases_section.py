"""Worst cases, likely label errors and duplicates of an audit: which samples, with which rows."""

from dataclasses import replace

import pytest
import torch

import nescio
from nescio import nets
from nescio.core import DataSet, from_json, quiet, to_json
from nescio.evaluation import AuditFindings, Cases
from nescio.evaluation.answers import see
from nescio.evaluation.audit import Material, hold
from nescio.evaluation.audit.cases_section import worst_cases
from nescio.evaluation.audit.duplicates_section import leaked, repeated_samples
from nescio.evaluation.audit.label_errors_section import likely_label_errors
from nescio.evaluation.duplicates import Duplicates, Repeats
from nescio.models import plain

NAMES = ("<b>left</b>", 'right "\u202e')


@pytest.fixture(scope="module")
def images():
    """Dark and bright halves of small images, a network that knows them, training data, noise."""
    draws = torch.Generator().manual_seed(0)

    def drawn(count):
        y = torch.arange(count) % 2
        x = 0.35 * torch.rand(count, 1, 6, 6, generator=draws)
        x[y == 0, :, :, :3] += 0.25
        x[y == 1, :, :, 3:] += 0.25
        return x, y

    train, (x, y) = drawn(300), drawn(200)
    model = nescio.train(
        lambda: nets.mlp(36, 2),
        (train[0].flatten(1), train[1]),
        epochs=20,
        progress=False,
    )
    net = torch.nn.Sequential(torch.nn.Flatten(), model.member(0))
    y = y.clone()
    y[:6] = 1 - y[:6]  # wrong labels
    x[190:195] = train[0][10:15]  # leaked
    return net, (x, y), train, torch.rand(40, 1, 6, 6, generator=draws)


@pytest.fixture(scope="module")
def material(images):
    net, (x, y), train, noise = images
    predictor = plain(net)
    held = hold((x, y), None, seed=0)
    with quiet():
        guard = nescio.guard(net, held.fitting, train=train, risk=0.3, repeats=True, progress=False)
    sets = {"<i>noise": (DataSet(name="<i>noise", kind="ood", samples=40), noise)}
    return Material(
        predictor=predictor,
        net=net,
        x=x,
        y=y,
        seen=see(predictor, x),
        held=held,
        train=train,
        guard=guard,
        decisions=guard(held.measured[0]),
        ood=sets,
        seen_ood={"<i>noise": see(predictor, noise)},
        class_names=NAMES,
    )


@pytest.fixture(scope="module")
def cases(material):
    return worst_cases(material)


def test_errors_are_the_most_confident_ones(material, cases):
    seen, y = material.seen, material.y
    wrong = (seen.labels != y).nonzero()[:, 0]
    assert cases.error_count == len(wrong)
    assert set(cases.error_rows) == set(wrong.tolist())
    sure = [one.confidence for one in cases.errors]
    assert sure == sorted(sure, reverse=True)
    assert sure[0] == pytest.approx(float(seen.confidence[wrong].max()))
    assert all(one.answer != one.label == int(y[one.sample]) for one in cases.errors)


def test_neighbors_are_the_nearest_training_samples(material, cases):
    one, observed = cases.errors[0], material.observed
    far = torch.cdist(observed.of(torch.tensor([one.sample])).double(), observed.train.double())[0]
    assert [near.sample for near in one.neighbors] == far.topk(3, largest=False).indices.tolist()
    assert all(near.label == int(material.train[1][near.sample]) for near in one.neighbors)
    assert "features" in cases.space


def test_ood_inputs_are_the_most_confident_ones(material, cases):
    seen = material.seen_ood["<i>noise"]
    assert [one.sample for one in cases.ood] == seen.confidence.topk(5).indices.tolist()
    assert {one.data for one in cases.ood} == {"<i>noise"}
    assert all(one.decision in ("answer", "unsure", "ood") for one in cases.ood)


def test_withheld_answers_are_right_and_not_answered(material, cases):
    decided = dict(
        zip(material.held.rows.tolist(), material.decisions.decision.tolist(), strict=True)
    )
    assert cases.abstained_count == len(cases.abstained_rows)
    for row in cases.abstained_rows:
        assert decided[row] != 0
        assert material.seen.labels[row] == material.y[row]


def test_pictures_are_small_pngs(cases):
    pictures = [one.view.picture for one in (*cases.errors, *cases.ood)]
    assert all(url.startswith("data:image/png;base64,") for url in pictures)
    assert max(map(len, pictures)) < 400


def test_values_come_back_from_json(cases):
    assert from_json(Cases, to_json(cases)) == cases


def test_without_training_data_there_are_no_neighbors(material):
    found = worst_cases(replace(material, train=None))
    assert found.space is None
    assert "training data" in found.no_neighbors
    assert not any(one.neighbors for one in found.errors)


def test_answers_alone_have_rows(material):
    bare = replace(material, x=None, train=None, predictor=None, guard=None, decisions=None, ood={})
    found = worst_cases(bare)
    assert found.error_rows
    assert found.errors[0].view.picture is None
    by_features = replace(bare, features=material.observed.of(torch.arange(200)),
                          train_features=material.observed.train)  # fmt: skip
    assert worst_cases(by_features).errors[0].neighbors


def test_wrong_labels_are_listed_first(material):
    found = likely_label_errors(material)
    assert set(found.rows[:6]) == set(range(6))
    assert found.neighbors


def test_leaked_samples_are_counted(material):
    found = repeated_samples(material)
    assert found.in_training.exact == 5
    assert found.in_training.rows == tuple(range(190, 195))
    assert found.accuracy_without.value < found.accuracy.value


@pytest.mark.parametrize(
    ("exact", "by_chance", "value"), [(0, 0.0, 0.0), (30, 0.0, 0.03), (30, 0.05, 0.0)]
)
def test_the_leaked_share_is_that_above_chance(exact, by_chance, value):
    part = Repeats(
        exact=exact, near=0, rows=(), pairs=(), by_chance=by_chance, looked_at=1, among=1
    )
    own = replace(part, exact=0)

    class Found:
        sections = {"duplicates": Duplicates(samples=1000, in_training=part, in_test=own)}  # noqa: RUF012

    assert leaked(Found).value == pytest.approx(value)


def test_two_samples_and_one_class_do_not_stop_an_audit(images):
    net, (x, y), *_ = images
    found = nescio.audit(
        net, (x[:2], y[:2] * 0), budget="standard", rays=0, attack_steps=0, progress=False
    ).findings
    assert isinstance(found, AuditFindings)
    assert "cases" in found.sections
    assert "all labels are the same" in found.not_run["label errors"]
