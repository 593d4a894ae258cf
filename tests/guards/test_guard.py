"""Guards of small networks: what they decide, keep and refuse, and that their promises hold."""

import json
import math
import re
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import torch
from scipy.stats import betabinom, binom
from torch import nn

import nescio
from nescio import Activations, NescioError, detectors, nets
from nescio.core import RepeatedInputsWarning
from nescio.detectors.default import watched_layers
from nescio.guards import DECISIONS, RULES, about
from nescio.guards.default_failure import default_failure
from nescio.guards.rules import rate_interval

CLASSES, WIDTH = 3, 4


def blobs(count, seed, spread=1.5):
    """Overlapping classes in the plane, with two idle columns."""
    rng = np.random.default_rng(seed)
    y = rng.integers(CLASSES, size=count)
    x = rng.normal(size=(count, WIDTH)) * spread
    x[:, 0] += 3.0 * np.cos(2 * y)
    x[:, 1] += 3.0 * np.sin(2 * y)
    return torch.tensor(x, dtype=torch.float32), torch.tensor(y)


@pytest.fixture(scope="module")
def model():
    make = lambda: nets.mlp(WIDTH, CLASSES, widths=(16, 16))  # noqa: E731
    return nescio.train(make, blobs(600, 0), epochs=15, batch_size=50, progress=False)


@pytest.fixture(scope="module")
def guard(model):
    return nescio.guard(model, blobs(1500, 1), train=blobs(600, 0), false_alarm=0.02, risk=0.05)


@pytest.fixture(scope="module")
def decisions(guard):
    x, _ = blobs(3000, 2)
    return guard(x)


def test_the_default_is_chosen_on_the_network_and_says_how_good_it_is(guard):
    parts = [part["name"] for part in guard.detector.options["parts"]]
    assert parts[0] == "gower"  # inputs of few numbers are a table
    assert 3 <= len(parts) <= 5
    record = guard.detector.chosen
    assert len(record["parts"]) == len(parts)
    assert {"uniform", "shuffled", "halves", "one off"} <= set(record["auroc"])
    assert record["auroc"]["uniform"] > 0.6


@pytest.mark.parametrize(("telling", "wanted"), [(True, "recommended"), (False, None)])
def test_the_default_failure_score_is_the_better_one_on_the_tuning_part(telling, wanted):
    """Features that know the class beat log-odds of noise; features of noise do not."""

    def seen(count, seed):
        rng = torch.Generator().manual_seed(seed)
        labels = torch.arange(count) % 3
        wrong = torch.rand(count, generator=rng) < 0.2
        sure = torch.rand(count, generator=rng) + (4.0 if telling else 1.0 + 5.0 * ~wrong)
        answers = nn.functional.one_hot(torch.where(wrong, (labels + 1) % 3, labels), 3)
        noise = torch.randn(count, 6, generator=rng)
        features = noise + (4.0 * torch.eye(3, 6)[labels] if telling else 0.0)
        logits = answers * sure[:, None]
        return nescio.Activations(
            logits=logits, features={"last": features}, labels=labels, last="last"
        )

    tuning = seen(300, 1)
    made = default_failure(seen(600, 0), (tuning, tuning.labels))
    assert (None if made is None else made.name) == wanted
    pooled = nn.Sequential(
        nn.Conv1d(1, 6, 3), nn.AdaptiveAvgPool1d(1), nn.Flatten(), nn.Linear(6, 3)
    )
    hidden = nn.Sequential(nn.Conv1d(1, 6, 3), nn.Flatten(), nn.LazyLinear(6), nn.Linear(6, 3))
    assert default_failure(seen(600, 0), None, [hidden]).name == "recommended"
    assert default_failure(seen(600, 0), None, [pooled]) is None
    unlabeled = replace(seen(600, 0), labels=None)
    assert default_failure(unlabeled, (tuning, tuning.labels)) is None


@pytest.mark.parametrize(
    ("net", "shape", "wanted"),
    [
        (nets.small_cnn((1, 12, 12), 3), (1, 12, 12), ["1", "3", None]),
        (nn.Sequential(nn.Flatten(), nn.Linear(9, 3)), (1, 3, 3), [None]),
        (nn.Sequential(nn.Linear(5, 4), nn.BatchNorm1d(4), nn.Linear(4, 2)), (5,), ["0", None]),
        (nn.Sequential(nn.Linear(5, 4), nn.BatchNorm1d(4), nn.Tanh(), nn.Linear(4, 2)), (5,),
         ["2", None]),
    ],
)  # fmt: skip
def test_the_early_layer_is_found_in_any_network(net, shape, wanted):
    assert watched_layers(net, torch.randn(3, *shape)) == wanted


def test_no_guarantee_is_significantly_broken_on_new_inputs(guard, decisions):
    _, y = blobs(3000, 2)
    found = decisions.summary(y)
    n = len(guard.rules[0].scores)
    over = math.floor(guard.false_alarm * (n + 1))
    law = betabinom(3000, over, n + 1 - over)
    assert law.sf(round(found["ood"] * 3000) - 1) > 1e-3
    assert law.cdf(round(found["ood"] * 3000)) > 1e-3
    answered = int(decisions.answered.sum())
    assert answered > 1500
    assert binom.sf(found["errors"] - 1, answered, guard.risk) > 1e-3
    assert found["set_coverage"] > 0.88


def test_what_is_far_away_is_ood(guard):
    with pytest.warns(UserWarning, match="outside the range"):
        far = guard(blobs(200, 3)[0] + 15.0)
    assert far.summary()["ood"] > 0.95
    assert (far.p_value <= guard.false_alarm).float().mean() > 0.95


def test_the_decision_follows_from_the_columns(guard, decisions):
    rule = guard.rules[0]
    ood = decisions.p_value <= guard.false_alarm
    assert torch.equal(decisions.decision == 2, ood)
    sure = (decisions.failure_score <= rule.coverage.threshold) & (decisions.score < rule.limit)
    assert torch.equal(decisions.answered, sure)
    assert torch.equal(decisions.sets.gather(1, decisions.label[:, None])[:, 0].all(),
                       torch.tensor(True))  # fmt: skip


def test_the_network_gives_label_and_calibrated_probability(guard, model, decisions):
    x, _ = blobs(3000, 2)
    logits = model(x).logits[0].double()
    probs = (guard.map.slope * logits).softmax(1)
    assert torch.equal(decisions.label, probs.argmax(1))
    assert torch.allclose(decisions.probability, probs.amax(1), atol=1e-6)


def test_parts_and_batches_do_not_matter(guard, decisions):
    x, _ = blobs(3000, 2)
    small = replace(guard, batch_size=7)(x[:50])
    assert torch.equal(small.decision, decisions.decision[:50])
    assert torch.allclose(small.score, decisions.score[:50], atol=1e-4)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("detector", [None, "mahalanobis", "knn"])
def test_an_input_that_repeats_is_decided_alike_alone_and_in_a_batch(model, detector, seed):
    """One in twenty calibration inputs is the same, and far out."""
    blank = 20.0 * torch.randn(1, WIDTH, generator=torch.Generator().manual_seed(seed))
    x, y = blobs(1500, 1)
    x[::20], y[::20] = blank, model(blank).labels
    made = nescio.guard(model, (x, y), train=blobs(600, 0), detector=detector, false_alarm=0.02,
                        risk=0.1, repeats=True)  # fmt: skip
    found = [made(blank.expand(count, -1)) for count in (1, 3, 256)]
    for name in ("decision", "rule", "label", "p_value", "sets"):
        values = torch.cat([getattr(one, name) for one in found])
        assert len(values.unique(dim=0)) == 1, name
    if detector == "mahalanobis":  # nothing is further out, so the limit is its score
        assert found[0].columns()["rule"][0] == "tie"


def test_activations_are_decided_like_inputs(guard, model, decisions):
    x, _ = blobs(3000, 2)
    seen = nescio.observe(model, x[:100], layers=guard.layers, pool="grid", inputs=True)
    found = guard.decide(seen)
    assert torch.equal(found.decision, decisions.decision[:100])
    assert torch.allclose(found.p_value, decisions.p_value[:100])


def test_a_guard_can_be_made_of_activations_alone():
    rng = np.random.default_rng(5)
    y = rng.integers(3, size=900)
    features = rng.normal(size=(900, 2)) + 3 * np.eye(3)[y][:, :2]
    logits = features @ rng.normal(size=(2, 3)) + 2 * np.eye(3)[y]
    seen = Activations(logits=logits, features=features, labels=y)
    made = nescio.guard(None, seen[300:], train=seen[:300], false_alarm=0.05, risk=0.2)
    assert len(made.decide(seen[:10])) == 10
    with pytest.raises(NescioError, match=r"no network; use guard\.decide"):
        made(features)


def test_without_training_data_a_part_of_the_calibration_data_fits_the_detector(model):
    made = nescio.guard(model.member(0), blobs(1500, 1), risk=0.1)
    notes = made.notes
    assert (notes["fitting"], notes["tuning"], notes["guarantee_samples"]) == (450, 0, 1050)
    with pytest.warns(UserWarning, match="outside the range"):
        assert made(blobs(50, 3)[0] + 15.0).summary()["ood"] > 0.9


def test_a_detector_and_a_failure_score_of_ones_own(model):
    x, y = blobs(600, 0)
    fitted = detectors.knn(nescio.observe(model, (x, y)), k=5)
    for given in (fitted, "mahalanobis", "energy", lambda train: detectors.knn(train, k=5)):
        made = nescio.guard(model, blobs(800, 1), train=(x, y), detector=given, risk=0.1)
        assert made.failure is None
        assert len(made(x[:5])) == 5
    made = nescio.guard(model, blobs(800, 1), train=(x, y), detector=fitted, failure="trust_score",
                        risk=0.1)  # fmt: skip
    assert made.failure.name == "trust_score"


def test_a_detector_that_needs_more_than_its_name(model):
    with pytest.raises(NescioError, match="measured needs more than its name"):
        nescio.guard(model, blobs(800, 1), train=blobs(600, 0), detector="measured")


def test_guarantees_for_each_predicted_class(model):
    names = ["left", "up", "down"]
    made = nescio.guard(model, blobs(3000, 1), train=blobs(600, 0), by="class", names=names,
                        risk=0.1, false_alarm=0.05)  # fmt: skip
    assert [rule.group for rule in made.rules] == names
    x, y = blobs(3000, 2)
    found = made(x)
    for place in range(CLASSES):
        own = found.label == place
        rate = (found.decision[own] == 2).double().mean()
        assert rate < 0.1
        rule = made.rules[place]
        score = found.score[own][:20, None]
        brute = 1 + (rule.scores[None] >= score - 1e-4 * score.clamp_min(1)).sum(1)
        assert torch.allclose(found.p_value[own][:20], brute.double() / (len(rule.scores) + 1))
        wrong = (found.label != y) & found.answered & own
        assert binom.sf(int(wrong.sum()) - 1, int((found.answered & own).sum()), 0.1) > 1e-3
    assert set(found.columns()["label"]) == set(names)
    assert "for each predicted class by itself" in made.guarantees[1]
    assert ": for each class it fails for at most 5 %" in made.guarantees[1]


def test_guarantees_for_each_group(model):
    x, y = blobs(2000, 1)
    groups = (x[:, 3] > 0).long() * 7
    made = nescio.guard(model, (x, y), train=blobs(600, 0), by=groups, risk=0.1, false_alarm=0.05)
    assert made.groups == (0, 7)
    new = blobs(100, 2)[0]
    odd = torch.tensor([0, 7, 5] * 33 + [0])
    found = made(new, groups=odd)
    assert (found.columns()["rule"][odd == 5] == "unknown group").all()
    assert (found.decision[odd == 5] == 1).all()
    assert found.sets[odd == 5].all()
    assert not (found.columns()["rule"][odd != 5] == "unknown group").any()
    with pytest.raises(NescioError, match="give groups="):
        made(new)


def test_a_group_that_is_too_small_is_refused(model):
    x, y = blobs(500, 1)
    with pytest.raises(NescioError, match=r"in group 1 cannot show .* at least 99"):
        nescio.guard(model, (x, y), train=blobs(600, 0), by=torch.arange(500) // 480)


def test_where_the_data_show_too_little_it_abstains_and_says_what_would_do(model):
    with pytest.warns(UserWarning, match=r"abstain on every input.* from 3,0") as warned:
        made = nescio.guard(model, blobs(300, 1), train=blobs(600, 0), risk=0.001)
    assert len(warned) == 1
    found = made(blobs(100, 2)[0])
    assert not found.answered.any()
    assert "no guarantee" in found.columns()["rule"]
    text = str(made)
    assert "abstains on every input" in text
    assert "nothing is answered" in text
    assert "from 3,0" in text  # log(0.05) / log(0.999) is 2,995 inside


def test_inputs_that_are_not_finite_are_ood_and_lose_no_other_row(guard):
    x, _ = blobs(10, 2)
    whole = guard(x)
    x[3, 0], x[7, 2] = math.nan, math.inf
    with pytest.warns(UserWarning, match="2 of 10 inputs are, or lead to, NaN"):
        found = guard(x)
    rest = torch.tensor([i for i in range(10) if i not in (3, 7)])
    assert found.columns()["rule"][[3, 7]].tolist() == ["not finite"] * 2
    assert (found.decision[[3, 7]] == 2).all()
    assert (found.label[[3, 7]] == -1).all()
    assert torch.equal(found.decision[rest], whole.decision[rest])
    assert torch.allclose(found.score[rest], whole.score[rest], atol=1e-5)
    with pytest.warns(UserWarning, match="1 of 1 inputs"):
        assert guard(x[3:4]).sets.all()


def test_inputs_of_another_range_are_flagged_loudly(guard):
    x, _ = blobs(10, 2)
    x[4] *= 100
    with pytest.warns(UserWarning, match="1 of 10 inputs hold numbers outside the range"):
        found = guard(x)
    assert found.in_range.tolist() == [i != 4 for i in range(10)]


def test_inputs_of_another_shape_are_refused(guard):
    with pytest.raises(NescioError, match=r"shape \(5,\) per sample, the guard was calibrated on"):
        guard(torch.zeros(3, 5))
    with pytest.raises(NescioError, match="needs an axis"):
        guard(torch.zeros(4))


def test_training_data_are_recognized(model):
    x, y = blobs(600, 0)
    with pytest.raises(NescioError, match="600 of 600 .* the model was trained on"):
        nescio.guard(model, (x, y))
    z, w = blobs(900, 1)
    mixed = torch.cat([z, x[:10]]), torch.cat([w, y[:10]])
    with pytest.raises(NescioError, match="10 of 910 .* the training data given"):
        nescio.guard(model.member(0), mixed, train=(x, y))
    with pytest.raises(NescioError, match="600 of 600 .* the model was trained on"):
        nescio.guard([model.member(0), [model]], (x, y))


@pytest.mark.parametrize("by", [None, torch.arange(900) % 2])
def test_a_few_training_samples_are_left_out_and_said(model, by, tmp_path):
    x, y = blobs(600, 0)
    z, w = blobs(892, 1)
    mixed = torch.cat([x[:8], z]), torch.cat([y[:8], w])  # fewer than one in a hundred
    options = {"train": (x, y), "risk": 0.2}
    with pytest.warns(RepeatedInputsWarning, match="8 of 900 .* training inputs, too, and were le"):
        made = nescio.guard(model.member(0), mixed, by=by, **options)
    clean = nescio.guard(model.member(0), (z, w), by=None if by is None else by[8:], **options)
    for own, other in zip(made.rules, clean.rules, strict=True):
        assert torch.equal(own.scores, other.scores)
        assert own.coverage == other.coverage
    again = nescio.load(made.save(tmp_path / "guard.safetensors", weights=True))
    assert any("8 of 900 calibration inputs" in line for line in again.guarantees)
    assert not any("training inputs, too" in line for line in clean.guarantees)


@pytest.mark.parametrize("given", ["detector", "failure", "combined"])
def test_what_a_detector_was_fitted_on_is_recognized(model, given, tmp_path):
    seen = nescio.observe(model, blobs(1500, 1))
    fitted = detectors.knn(seen[900:], k=5)
    if given == "combined":
        fitted = detectors.combined(
            [detectors.energy(), fitted], nescio.observe(model, blobs(99, 5))
        )
    fitted = nescio.load(fitted.save(tmp_path / "detector.safetensors"))
    where = "failure" if given == "failure" else "detector"
    options = {where: fitted, "train": nescio.observe(model, blobs(600, 0)), "risk": 0.2}
    with pytest.raises(NescioError, match=rf"100 of 1000 .* the detector {fitted.name} was fitted"):
        nescio.guard(None, seen[:1000], **options)
    made = nescio.guard(None, seen[:900], **options)  # the other part of what was observed
    again = nescio.load(made.save(tmp_path / "guard.safetensors"))
    options[where] = again.failure if given == "failure" else again.detector
    with pytest.raises(NescioError, match=r"600 of 600 .* was fitted"):
        nescio.guard(None, seen[900:], **options)


def test_equal_inputs_may_be_separate_samples():
    """Eight columns of yes and no: training and calibration inputs are the same 256."""
    rng = np.random.default_rng(0)
    x = torch.tensor(rng.integers(2, size=(2500, 8)), dtype=torch.float32)
    y = torch.tensor(rng.random(2500) < 0.2 + 0.6 * x[:, 0].numpy()).long()
    net = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 2))
    data = {"calibration": (x[500:], y[500:]), "train": (x[:500], y[:500])}
    with pytest.raises(NescioError, match=r"of 2000 calibration inputs .* repeats=True"):
        nescio.guard(net, **data, risk=0.9)
    made = nescio.guard(net, **data, risk=0.9, repeats=True)
    assert any("not compared with training data" in line for line in made.guarantees)
    assert made.notes["copies"] > 1500


def test_copies_among_the_calibration_data_are_counted(model):
    x, y = blobs(600, 1)
    x[400:], y[400:] = x[:200], y[:200]
    with pytest.warns(UserWarning, match="200 of 600 calibration inputs are copies of another"):
        made = nescio.guard(model, (x, y), train=blobs(600, 0), risk=0.3)
    assert any("200 of 600 calibration inputs are copies" in line for line in made.guarantees)


def test_activations_without_features_are_refused():
    bare = Activations(logits=torch.randn(500, 3), labels=torch.arange(500) % 3)
    with pytest.raises(NescioError, match="there are no features"):
        nescio.guard(None, bare, risk=0.9)


def test_a_model_keeps_what_it_has_seen(model, tmp_path):
    model.save(tmp_path)
    again = nescio.load(tmp_path)
    assert torch.equal(again.seen, model.seen)
    assert torch.equal(model.seen, nescio.core.tensors.hash_inputs(blobs(600, 0)[0]).sort().values)
    with pytest.raises(NescioError, match="the model was trained on"):
        nescio.guard(again, blobs(600, 0))


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"calibration": (blobs(60, 1))}, r"60 calibration samples are too few .* need 99"),
        ({"calibration": blobs(500, 1)[0]}, "need labels"),
        ({"calibration": (blobs(500, 1)[0], torch.zeros(500).long())}, "all calibration labels"),
        ({"calibration": (blobs(500, 1)[0], blobs(500, 1)[1] + 5)}, "labels must lie in"),
        ({"false_alarm": 0.0}, "false_alarm must lie"),
        ({"risk": 1.0}, "risk must lie"),
        ({"confidence": 0.0}, "confidence must lie"),
        ({"by": "color"}, "by is 'class'"),
        ({"by": [1, 2]}, "whole numbers of shape"),
        ({"names": ["a"]}, "1 names for 3 classes"),
        ({"detector": "nonsense"}, "unknown detector"),
        ({"detector": lambda train: 3}, "returned a int"),
        ({"batch_size": 0}, "batch_size"),
        ({"sets": 0.0}, "miscoverage"),
    ],
)
def test_what_it_cannot_use_is_refused(model, change, match):
    given = {"calibration": blobs(500, 1), **change}
    with pytest.raises(NescioError, match=match):
        nescio.guard(model, given.pop("calibration"), train=blobs(600, 0), **given)


def test_nan_logits_are_refused_with_their_number(model):
    net = model.member(0)
    with torch.no_grad():
        list(net.parameters())[-1][0] = math.nan
    with pytest.raises(NescioError, match="NaN or infinite for"):
        nescio.guard(net, blobs(500, 1))


def test_the_guard_is_a_copy(guard, model, decisions):
    net = model.member(0)
    made = nescio.guard(net, blobs(800, 1), train=blobs(600, 0), risk=0.1)
    before = made(blobs(20, 2)[0])
    with torch.no_grad():
        for weight in net.parameters():
            weight.zero_()
    assert torch.equal(made(blobs(20, 2)[0]).score, before.score)


def same(one, other):
    columns = one.columns(), other.columns()
    assert list(columns[0]) == list(columns[1])
    for name, values in columns[0].items():
        assert (values == columns[1][name]).all(), name


def test_a_file_with_weights_is_complete(guard, tmp_path, decisions):
    path = guard.save(tmp_path / "guard.safetensors", weights=True)
    again = nescio.load(path)
    x, _ = blobs(3000, 2)
    same(again(x), decisions)
    assert again.guarantees == guard.guarantees
    assert str(again) == str(guard)
    assert torch.equal(again.hashes, guard.hashes)


def test_a_file_without_weights_asks_for_the_same_network(guard, model, tmp_path, decisions):
    path = guard.save(tmp_path / "guard.safetensors")
    with pytest.raises(NescioError, match="holds no weights: give the network"):
        nescio.load(path)
    same(nescio.load(path, net=model)(blobs(3000, 2)[0]), decisions)
    net = model.member(0)
    same(nescio.load(path, net=net)(blobs(3000, 2)[0]), decisions)
    with torch.no_grad():
        next(iter(net.parameters()))[0] += 1e-3
    with pytest.raises(NescioError, match="weights of network 0 are not those"):
        nescio.load(path, net=net)


class Twice(nn.Module):
    """The same weights, another function."""

    def __init__(self, factor):
        super().__init__()
        self.factor, self.linear, self.last = factor, nn.Linear(WIDTH, 8), nn.Linear(8, CLASSES)

    def forward(self, x):
        return self.last(torch.relu(self.factor * self.linear(x)))


def test_the_same_weights_in_another_network_are_found_by_the_probe(tmp_path):
    net = Twice(1.0)
    made = nescio.guard(net, blobs(800, 1), train=blobs(600, 0), calibration_map=None, risk=0.99)
    path = made.save(tmp_path / "guard.safetensors", weights=True)
    other = Twice(2.0)
    other.load_state_dict(net.state_dict())
    with pytest.raises(NescioError, match="answers a probe differently"):
        nescio.load(path, net=other)
    with pytest.raises(NescioError, match="a file never names code to run"):
        nescio.load(path)
    assert len(nescio.load(path, net=net)(torch.zeros(2, WIDTH))) == 2


def test_a_network_of_other_weights_is_refused_and_a_function_gets_those_of_the_file(tmp_path):
    net = Twice(1.0)
    made = nescio.guard(net, blobs(800, 1), train=blobs(600, 0), calibration_map=None, risk=0.99)
    path = made.save(tmp_path / "guard.safetensors", weights=True)
    x, _ = blobs(50, 2)
    for given in (net, lambda: Twice(1.0), partial(Twice, 1.0)):
        same(nescio.load(path, net=given)(x), made(x))
    with pytest.raises(NescioError, match="weights of network 0 are not those .* net=make_net"):
        nescio.load(path, net=Twice(1.0))  # other weights: the file's would run without a word
    with pytest.raises(NescioError, match="is not the one that .* guards: .*give the same one"):
        nescio.load(path, net=lambda: nn.Linear(WIDTH, CLASSES))
    bare = made.save(tmp_path / "bare.safetensors")
    with pytest.raises(NescioError, match="holds no weights: give the network with its weights"):
        nescio.load(bare, net=lambda: Twice(1.0))
    same(nescio.load(bare, net=net)(x), made(x))


def test_targets_that_are_no_classes_are_those_of_a_regression():
    x, y = blobs(800, 1)
    with pytest.raises(NescioError, match=r"predicts 3 target.* have 1; is the head right"):
        nescio.guard(Twice(1.0), (x, y + 0.25), train=blobs(600, 0))


def test_what_a_file_says_without_its_network_is_checked_too(guard, tmp_path):
    path = guard.save(tmp_path / "guard.safetensors", weights=True)
    whole = path.read_bytes()
    path.write_bytes(whole.replace(b'\\"risk\\": 0.05', b'\\"risk\\": 0.01'))
    assert path.read_bytes() != whole
    for read in (nescio.load, about):
        with pytest.raises(NescioError, match="damaged manifest"):
            read(path)
    detectors.energy().save(path)
    for read in (about, partial(nescio.load, kind="guard")):
        with pytest.raises(NescioError, match="holds a detector, expected a guard"):
            read(path)


def test_a_file_says_what_it_guarantees_without_a_network(guard, tmp_path):
    found = about(guard.save(tmp_path / "guard.safetensors"))
    assert found["guarantees"] == list(guard.guarantees)
    assert (found["false_alarm"], found["risk"]) == (0.02, 0.05)
    json.dumps(found)


def test_grouped_guards_and_those_of_ensembles_are_saved(tmp_path):
    make = lambda: nets.mlp(WIDTH, CLASSES, widths=(8,))  # noqa: E731
    pair = nescio.train(make, blobs(300, 0), members=2, epochs=10, progress=False)
    made = nescio.guard(pair, blobs(900, 1), train=blobs(300, 0), by="class", risk=0.6,
                        false_alarm=0.05, sets=None, calibration_map=None)  # fmt: skip
    assert len(made.nets) == 2
    again = nescio.load(made.save(tmp_path / "pair.safetensors", weights=True))
    x = blobs(200, 2)[0]
    same(again(x), made(x))
    assert made(x).sets is None
    with pytest.raises(NescioError, match="2 network.s., 1 were given"):
        nescio.load(tmp_path / "pair.safetensors", net=pair.member(0))


def test_images_may_be_bytes():
    rng = torch.Generator().manual_seed(0)
    x = torch.randint(0, 256, (900, 1, 12, 12), generator=rng, dtype=torch.uint8)
    y = torch.randint(0, 3, (900,), generator=rng)
    net = nets.small_cnn((1, 12, 12), 3)
    made = nescio.guard(net, (x[300:], y[300:]), train=(x[:300], y[:300]), calibration_map=None,
                        risk=0.9)  # fmt: skip
    assert made.range.shape == (1, 12, 12)
    one, other = made(x[:20]), made(x[:20].float() / 255)
    assert torch.allclose(one.score, other.score, atol=1e-5)
    with pytest.warns(UserWarning, match="20 of 20 inputs hold numbers outside the range"):
        made(x[:20].float())


def test_loaders_serve_as_calibration_and_training_data(model):
    def loader(data):
        return torch.utils.data.DataLoader(torch.utils.data.TensorDataset(*data), batch_size=64)

    made = nescio.guard(model, loader(blobs(800, 1)), train=loader(blobs(600, 0)), risk=0.1)
    whole = nescio.guard(model, blobs(800, 1), train=blobs(600, 0), risk=0.1)
    x = blobs(50, 2)[0]
    assert torch.allclose(made(x).p_value, whole(x).p_value)


def test_the_seed_alone_decides_the_split(model):
    made = [nescio.guard(model.member(0), blobs(900, 1), risk=0.1, seed=s) for s in (0, 0, 1)]
    assert torch.equal(made[0].rules[0].scores, made[1].rules[0].scores)
    assert not torch.equal(made[0].rules[0].scores, made[2].rules[0].scores)


def test_decisions_and_rules_have_names():
    assert DECISIONS == ("answer", "unsure", "ood")
    assert set(RULES.values()) == {0, 1, 2}


def test_the_words_are_never_better_than_the_numbers(model):
    wish = {"risk": 0.12349, "confidence": 0.9996, "false_alarm": 0.01049}
    made = nescio.guard(model, blobs(1500, 1), train=blobs(600, 0), **wish)
    assert "probability at most 1.049 %" in made.guarantees[0]
    assert "Where scores do not tie" in made.guarantees[0]
    assert "at most 12.349 % get a wrong label" in made.guarantees[1]
    assert "confidence of 99.96 %: it fails for at most 0.04 %" in made.guarantees[1]
    low, high = rate_interval(len(made.rules[0].scores), 0.01049)
    said = [float(word) for word in re.findall(r"between ([\d.]+) % and ([\d.]+) %", str(made))[0]]
    assert said[0] <= 100 * low
    assert said[1] >= 100 * high
    bound = float(made.table().splitlines()[1].split("%")[1].split()[-1])
    assert bound >= 100 * made.rules[0].coverage.bound
    assert bound == pytest.approx(100 * made.rules[0].coverage.bound, rel=1e-2)


def test_where_all_scores_tie_that_is_what_it_says():
    same = Activations(logits=torch.zeros(600, 3), labels=torch.arange(600) % 3)
    options = {"detector": detectors.max_logit(), "risk": 0.9, "calibration_map": None}
    with pytest.warns(UserWarning, match=r"none of 600 samples is below .* tells inputs apart"):
        made = nescio.guard(None, same, **options)
    assert not made.rules[0].coverage.holds


def test_rows_in_a_list_and_tables_by_name_are_decided(guard):
    x, _ = blobs(20, 5)
    whole = guard(x).decision
    assert torch.equal(guard(list(x)).decision, whole)
    with pytest.raises(NescioError, match="truth values"):
        guard(list(x > 0))
    names = ["a", "b", "c", "d"]
    named = replace(guard, notes={**guard.notes, "columns": names})
    columns = {name: x[:, index].numpy() for index, name in enumerate(names)}
    table = nescio.data.Table({"id": columns["a"], **dict(reversed(columns.items()))})
    assert torch.equal(named(table).decision, whole)
