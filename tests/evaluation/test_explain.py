"""Explanations: the samples of influence by name, confident errors, and wrong labels first."""

import pytest
import torch
from torch import nn

import nescio
from nescio import NescioError, losses
from nescio.applications.influence import influence, self_influence
from nescio.evaluation import explain, suspects
from nescio.report.plots.influence_plot import influence_bars, influence_images, suspect_images

DRAW = torch.Generator().manual_seed(0)
Y = torch.arange(60) % 2
X = torch.randn(60, 1, 4, 4, generator=DRAW, dtype=torch.float64) + 0.7 * Y[:, None, None, None]
Z, T = X[:40].clone(), Y[:40].clone()
T[7] = 1 - T[7]  # a wrong label


@pytest.fixture(scope="module")
def model():
    make = lambda: nn.Sequential(nn.Flatten(), nn.Linear(16, 2)).double()  # noqa: E731
    loss = losses.weight_decay(losses.nll(), strength=0.01)
    return nescio.train(make, (Z, T), loss=loss, optimizer="lbfgs", batch_size=None, epochs=200)


def test_the_most_confident_errors_have_the_samples_of_their_influence(model):
    test = X[40:], Y[40:]
    probs = model(test[0]).probs
    wrong = [i for i in range(20) if probs[i].argmax() != test[1][i]]
    wrong.sort(key=lambda i: -float(probs[i].max()))
    found = explain(model, (Z, T), test, errors=2, count=3)
    assert [one.sample for one in found.samples] == wrong[:2]
    values = influence(model, (Z, T), (test[0][wrong[:2]], test[1][wrong[:2]])).values
    for row, one in enumerate(found.samples):
        order = values[row].argsort(descending=True)
        assert [s.sample for s in one.helpful] == order[:3].tolist()
        assert [s.sample for s in one.harmful] == order.flip(0)[:3].tolist()
        assert one.helpful[0].change == pytest.approx(float(values[row].max()))
        assert one.harmful[0].change < 0 < one.helpful[0].change
        assert [s.label for s in one.harmful] == [int(T[s.sample]) for s in one.harmful]
        assert one.confidence == pytest.approx(float(probs[one.sample].max()))
        assert one.examined == one.predicted != one.label
    text = found.words()
    assert "(wrong)" in text
    assert "harmful  training sample" in text
    assert "would fall by" in text
    assert "Examined: the last linear layer" in text


def test_samples_by_index_and_other_quantities(model):
    found = explain(model, (Z, T), (X[40:], Y[40:]), index=[3, 0], count=100, on="margin")
    assert [one.sample for one in found.samples] == [3, 0]
    for one in found.samples:
        assert all(s.change < 0 for s in one.helpful)  # without them the margin falls
        assert all(s.change > 0 for s in one.harmful)
        assert len(one.helpful) + len(one.harmful) == 40
    with pytest.raises(NescioError, match="index"):
        explain(model, (Z, T), (X[40:], Y[40:]), index=[20])
    with pytest.raises(NescioError, match="on is one of loss"):
        explain(model, (Z, T), (X[40:], Y[40:]), on="entropy")
    right = model(X[40:]).labels == Y[40:]
    nothing = explain(model, (Z, T), (X[40:][right], Y[40:][right]))
    assert "makes no error" in nothing.words()


def test_samples_that_the_model_was_not_trained_on_are_left_out(model):
    test = X[40:], Y[40:]
    alone = explain(model, (Z, T), test, count=3)
    mixed = torch.cat([X[40:], Z]), torch.cat([Y[40:], T])
    found = explain(model, mixed, test, count=3)
    for one, other in zip(found.samples, alone.samples, strict=True):
        assert [s.sample - 20 for s in one.helpful] == [s.sample for s in other.helpful]
        assert [s.label for s in one.harmful] == [s.label for s in other.harmful]
    assert "trained on 40 of the 60 training samples" in found.words()
    assert "left out" not in alone.words()
    others = explain(model, test, (Z, T), index=[7])
    assert "None of the training samples given" in others.words()


def test_a_wrong_label_is_the_first_suspect(model):
    found = suspects(model, (Z, T))
    assert found[0].sample == 7
    assert found[0].label != found[0].predicted
    values = self_influence(model, (Z, T))
    assert [one.sample for one in found] == values.argsort(descending=True).tolist()
    assert found[0].self_influence == pytest.approx(float(values.max()))


def test_pictures_show_every_sample(model):
    found = explain(model, (Z, T), (X[40:], Y[40:]), errors=2, count=3)
    figure = influence_images(found, X[40:], Z)
    titles = [axis.get_title() for axis in figure.axes if axis.get_title()]
    assert len(titles) == 2 * 7
    assert titles[0].startswith(f"test {found.samples[0].sample}")
    assert f"{found.samples[0].helpful[0].change:+.2g}" in titles[1]
    bars = influence_bars(found)
    assert len(bars.axes[0].patches) == 6
    shown = suspect_images(suspects(model, (Z, T)), Z, most=10)
    assert sum(bool(axis.get_title()) for axis in shown.axes) == 10


def test_the_audit_says_what_its_worst_errors_rest_on(model, tmp_path):
    x, y = X[40:].float(), Y[40:]
    net = model.member(0).float()
    quick = {"rays": 0, "attack_steps": 0}
    found = nescio.audit(net, (x, y), train=(Z.float(), T), also=["influence"], **quick)
    direct = explain(net, (Z.float(), T), (x, y), errors=5, count=3)
    assert [one.sample for one in found.findings.sections["influence"].samples] == [
        one.sample for one in direct.samples
    ]
    page = found.save(tmp_path).read_text()
    first = found.findings.sections["influence"].samples[0]
    for text in (page, " ".join(str(found).split())):
        assert "What the most confident errors rest on" in text
        assert f"test sample {first.sample}, label {first.label}" in text
        assert "harmful training samples" in text
    stored = found.to_json()["sections"]["influence"]["samples"][0]
    assert stored["harmful"][0]["sample"] == first.harmful[0].sample
    bare = nescio.audit(net, (x, y), also=["influence"], **quick)
    assert "give train=(x, y)" in bare.findings.not_run["influence"]
    ensemble = nescio.models.ensemble([net, net])
    skipped = nescio.audit(ensemble, (x, y), train=(Z.float(), T), also=["influence"], **quick)
    assert "member" in skipped.findings.not_run["influence"]
