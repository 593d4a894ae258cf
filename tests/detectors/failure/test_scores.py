"""Failure scores as detectors: closed forms, what they learn, files."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression

import nescio
from nescio import Categorical, detectors, load, losses, measures, nets
from nescio.core import NescioError, generator
from nescio.detectors.activations import Activations
from nescio.detectors.failure import (
    confidnet,
    cross_fit,
    extra_score,
    log_odds_against,
    recommended,
    true_class_probability,
    without_score,
)
from nescio.detectors.failure.recommended import logistic
from nescio.evaluation import compare
from nescio.metrics import ap_error, auroc

SMALL = {"widths": (16,), "epochs": 3, "learning_rate": 0.01, "progress": False}


def wrong_of(activations):
    return activations.logits.argmax(-1) != activations.labels  # (M, N)


def test_the_oracle_is_the_probability_of_the_label():
    logits = torch.randn(3, 50, 4, dtype=torch.float64)
    labels = torch.arange(50) % 4
    prediction = Categorical(logits)
    found = true_class_probability(prediction, labels)
    probs = logits.softmax(-1).mean(0)
    torch.testing.assert_close(found, probs[torch.arange(50), labels])
    relative = true_class_probability(prediction, labels, normalized=True)
    torch.testing.assert_close(relative, found / probs.amax(-1))
    assert torch.equal(relative == 1, prediction.labels == labels)
    assert ap_error(-relative, prediction.labels != labels) == 1.0
    assert (found[prediction.labels != labels] <= 0.5).all()


def test_the_log_odds_against_an_answer():
    logits = torch.randn(2, 9, 3, dtype=torch.float64)
    prediction, answers = Categorical(logits), torch.arange(9) % 3
    p = prediction.probs[torch.arange(9), answers]
    torch.testing.assert_close(log_odds_against(prediction, answers), ((1 - p) / p).log())
    own = log_odds_against(prediction, prediction.labels)
    torch.testing.assert_close(own, measures.log_odds(prediction))
    with pytest.raises(NescioError, match="labels must lie in"):
        log_odds_against(prediction, answers + 1)


def test_fold_networks_answer_what_they_have_not_seen(crossed, fitted):
    assert sorted(crossed.fold.bincount().tolist()) == [100, 100, 100]
    logits = crossed.logits()
    assert logits.shape == (2, 300, 2)
    for k, model in enumerate(crossed.models):
        own = crossed.fold == k
        torch.testing.assert_close(logits[:, own], model.outputs(fitted.data[0][own]))
    right = (logits.argmax(-1) == fitted.data[1]).double().mean(1)
    trained = (~wrong_of(fitted.train)).double().mean(1)
    assert (trained > right + 0.05).all()  # the model fits its data, fold networks do not
    torch.testing.assert_close(crossed.member(1).logits(), logits[1:])
    with pytest.raises(NescioError, match="member 2 of fold networks with 2"):
        crossed.member(2)
    rest, held = next(crossed.observed(60))
    assert (rest.samples, held.samples) == (200, 20)


def test_fold_networks_are_kept_in_their_folders(tmp_path):
    data = fixed_data()
    options = {"folds": 2, "epochs": 1, "run": tmp_path, "progress": False}
    first = cross_fit(lambda: nets.mlp(3, 2, widths=(4,)), data, **options)
    assert (tmp_path / "fold-1" / "model.safetensors").exists()
    again = cross_fit(lambda: nets.mlp(3, 2, widths=(4,)), data, **options)
    assert torch.equal(first.logits(), again.logits())
    with pytest.raises(NescioError, match="folds must be"):
        cross_fit(lambda: nets.mlp(3, 2), data, folds=1)


def fixed_data():
    rng = torch.Generator().manual_seed(0)
    return torch.randn(20, 3, generator=rng), torch.arange(20) % 2


def test_recommended_is_the_weighted_sum(fitted):
    detector = recommended(fitted.train)
    odds = detectors.msp().each(fitted.test)
    trust = detectors.trust_score(fitted.train, normalize=True).each(fitted.test)
    for member, state in enumerate(detector.states):
        first, second, level = state["weights"].tolist()
        assert (first, level) == (1.0, 0.0)
        expected = odds[member] + second * trust[member]
        torch.testing.assert_close(detector.each(fitted.test)[member], expected)
        order = torch.randperm(300, generator=generator(0, "held"))
        held, rest = fitted.train[order[:150]], fitted.train[order[150:]]  # at most half
        near = detectors.trust_score(rest, normalize=True).each(held)[member].double()
        ratio = detectors.msp().each(held)[member].double().std(correction=0) / near.std(
            correction=0
        )
        assert second == pytest.approx(float(ratio), rel=1e-5)


def test_learnt_weights_are_those_of_scikit_learn(fitted, crossed):
    detector = recommended(fitted.train, crossed=crossed)
    parts, wrong = [], []
    for rest, held in crossed.observed():
        trust = detectors.trust_score(rest, normalize=True)
        parts.append(torch.stack([detectors.msp().each(held), trust.each(held)], -1))
        wrong.append(wrong_of(held))
    x, y = torch.cat(parts, 1).double().numpy(), torch.cat(wrong, 1).numpy()
    for member, state in enumerate(detector.states):
        oracle = LogisticRegression(C=1e8, max_iter=10_000, tol=1e-10).fit(x[member], y[member])
        expected = [*oracle.coef_[0], oracle.intercept_[0]]
        np.testing.assert_allclose(state["weights"].numpy(), expected, rtol=2e-3, atol=2e-3)


def test_the_ridge_of_the_logistic_regression_balances_its_likelihood():
    """Where a feature separates, the mean slope of the likelihood is -1e-6 times the weight."""
    x = torch.linspace(4, 6, 20, dtype=torch.float64)[:, None]
    y = (x[:, 0] > 5).double()
    weight, level = logistic(x, y)
    width = x.std(correction=0)
    wrong = torch.sigmoid(weight * x[:, 0] + level) - y
    slope = (wrong * (x[:, 0] - 5) / width).mean()
    assert float(slope) == pytest.approx(-1e-6 * float(weight * width), rel=1e-3)
    assert float(wrong.mean()) == pytest.approx(0, abs=1e-9)


def test_logistic_regression_that_separates_stays_finite():
    x = torch.linspace(-1, 1, 20, dtype=torch.float64)[:, None]
    found = logistic(x, (x[:, 0] > 0).double())
    assert found.isfinite().all()
    assert found[0] > 0
    with pytest.raises(NescioError, match="all right"):
        logistic(x, torch.zeros(20, dtype=torch.float64))


def test_fold_networks_of_other_members_are_refused(fitted, crossed):
    one = nescio.observe(fitted.model.member(0), fitted.data, progress=False)
    with pytest.raises(NescioError, match=r"have 2 member\(s\)"):
        recommended(one, crossed=crossed)
    with pytest.raises(NescioError, match="as many members"):
        confidnet(one, crossed=crossed, **SMALL)


def test_the_head_learns_the_true_class_probability():
    rng = torch.Generator().manual_seed(0)
    features = torch.rand(500, 2, generator=rng)
    sure = 4 * features[:, 0] - 1  # log-odds of class 0
    logits = torch.stack([sure, torch.zeros(500)], 1)
    train = Activations(logits=logits, features=features, labels=torch.zeros(500, dtype=torch.long))
    detector = confidnet(train, widths=(16,), epochs=40, learning_rate=0.01, progress=False)
    truth = true_class_probability(Categorical(logits[None]), train.labels)
    found = (-detector(train)).sigmoid()
    assert (found - truth).abs().mean() < 0.02


def test_a_residual_learns_to_correct_the_log_odds(crossed, fitted):
    rows = fitted.train
    plain = confidnet(rows, crossed=crossed, residual=True, widths=(16,), epochs=1,
                      learning_rate=1e-12, progress=False)  # fmt: skip
    state = plain.states[0]
    hidden = (rows.features[rows.layer()][0] @ state["0.weight"].T + state["0.bias"]).relu()
    start = (hidden @ state["1.weight"].T + state["1.bias"])[:, 0]
    torch.testing.assert_close(plain.each(rows)[0], detectors.msp().each(rows)[0] - start)
    with pytest.raises(NescioError, match="give crossed="):
        confidnet(rows, residual=True)
    with pytest.raises(NescioError, match="leave out residual"):
        confidnet(rows, residual=True, crossed=crossed, tuned=fitted.model)


def test_stage_two_starts_from_the_network_and_its_head(fitted):
    still = {**SMALL, "tuning_epochs": 1, "tuning_rate": 1e-12}
    one = confidnet(fitted.train, **SMALL)
    two = confidnet(fitted.train, tuned=fitted.model, **still)
    torch.testing.assert_close(two(fitted.test), one(fitted.test), rtol=1e-4, atol=1e-4)
    moved = confidnet(fitted.train, tuned=fitted.model, **{**still, "tuning_rate": 1e-2})
    assert not torch.allclose(moved(fitted.test), one(fitted.test), rtol=1e-2)
    assert two.layers == ()


def test_stage_two_needs_inputs_and_a_network_that_a_file_can_hold(fitted):
    bare = nescio.observe(fitted.model, fitted.data, progress=False)
    with pytest.raises(NescioError, match="inputs=True"):
        confidnet(bare, tuned=fitted.model, **SMALL)
    own = torch.nn.Sequential(torch.nn.Linear(8, 24), torch.nn.ReLU(), torch.nn.Linear(24, 2))
    seen = nescio.observe(own, fitted.data, inputs=True, progress=False)
    with pytest.raises(NescioError, match="never names code"):
        confidnet(seen, tuned=own, **SMALL)
    detector = confidnet(fitted.train, tuned=fitted.model, **SMALL)
    with pytest.raises(NescioError, match="reads inputs"):
        detector(bare)


def test_stage_two_leaves_the_statistics_of_batch_norm_alone():
    rng = torch.Generator().manual_seed(0)
    data = torch.rand(60, 1, 8, 8, generator=rng), torch.arange(60) % 2
    model = nescio.train(
        lambda: nets.resnet((1, 8, 8), 2, blocks=1, width=2), data, epochs=2, progress=False
    )
    seen = nescio.observe(model, data, inputs=True, progress=False)
    options = {**SMALL, "batch_size": 20, "tuning_epochs": 2}
    one = confidnet(seen, **options)
    two = confidnet(seen, tuned=model, tuning_rate=1e-12, **options)
    torch.testing.assert_close(two(seen), one(seen), rtol=1e-4, atol=1e-4)
    moved = confidnet(seen, tuned=model, tuning_rate=1e-2, **options)
    before = {**dict(model.member(0).named_buffers()), **dict(model.member(0).named_parameters())}
    changed = [
        name
        for name, value in before.items()
        if f"encoder/{name}" in moved.states[0]
        and not torch.equal(value, moved.states[0][f"encoder/{name}"])
    ]
    assert not [name for name in changed if "running" in name]
    assert "0.weight" in changed


@pytest.mark.parametrize("hashed", [True, False])
@pytest.mark.parametrize("residual", [True, False])
def test_activations_in_another_order_than_the_fold_networks_are_refused(
    fitted, crossed, hashed, residual
):
    order = torch.arange(300).roll(1)
    turned = fitted.train[order]
    if not hashed:
        turned = Activations(
            logits=turned.logits, features=turned.features, labels=turned.labels, last=turned.last
        )
    with pytest.raises(NescioError, match="300 of the 300 samples .* in its order"):
        confidnet(turned, crossed=crossed, residual=residual, **SMALL)


def test_learning_continues_in_a_folder(fitted, tmp_path):
    first = confidnet(fitted.train, run=tmp_path, **SMALL)
    assert (tmp_path / "stage-1" / "1" / "model.safetensors").exists()
    again = confidnet(fitted.train, run=tmp_path, **SMALL)
    assert torch.equal(first(fitted.test), again(fitted.test))


def make(name, fitted, crossed):
    return {
        "recommended": lambda: recommended(fitted.train),
        "recommended, crossed": lambda: recommended(fitted.train, crossed=crossed),
        "confidnet": lambda: confidnet(fitted.train, **SMALL),
        "confidnet, crossed": lambda: confidnet(fitted.train, crossed=crossed, **SMALL),
        "residual": lambda: confidnet(fitted.train, crossed=crossed, residual=True, **SMALL),
        "tuned": lambda: confidnet(fitted.train, tuned=fitted.model, tuning_epochs=1, **SMALL),
    }[name]()


NAMES = ["recommended", "recommended, crossed", "confidnet", "confidnet, crossed", "residual",
         "tuned"]  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
def test_every_score_is_a_detector_like_any_other(name, fitted, crossed, tmp_path):
    detector = make(name, fitted, crossed)
    whole = detector(fitted.test)
    assert whole.shape == (400,)
    assert whole.isfinite().all()
    assert detector.each(fitted.test).shape == (2, 400)
    again = load(detector.save(tmp_path / "detector.safetensors"))
    assert torch.equal(again(fitted.test), whole)
    parts = torch.cat([detector(fitted.test[start : start + 90]) for start in range(0, 400, 90)])
    torch.testing.assert_close(parts, whole, rtol=1e-4, atol=1e-4)
    raw = nescio.scorer(fitted.model, detector)(fitted.test.inputs)
    torch.testing.assert_close(raw, whole, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("name", ["recommended", "recommended, crossed", "residual"])
def test_it_finds_errors(name, fitted, crossed):
    found = make(name, fitted, crossed).each(fitted.test)
    for scores, wrong in zip(found, wrong_of(fitted.test), strict=True):
        assert auroc(scores[~wrong], scores[wrong]) > 0.65


@pytest.mark.parametrize("name", ["learned_confidence", "reject_class"])
def test_the_extra_score_is_the_last_output(name, tmp_path):
    x, y = fixed_data()
    model = nescio.train(
        lambda: nets.mlp(3, 3, widths=(4,)), (x, y), loss=getattr(losses, name)(), epochs=2,
        progress=False,
    )  # fmt: skip
    seen = nescio.observe(model, (x, y), progress=False)
    found = extra_score(name)(seen)
    outputs = model.outputs(x)[0]
    if name == "learned_confidence":
        expected = -torch.logit(outputs[:, 2].double().sigmoid()).float()
    else:
        share = outputs.double().softmax(-1)[:, 2]
        expected = (share / (1 - share)).log().float()
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4)
    classes = without_score(seen)
    assert classes.classes == 2
    torch.testing.assert_close(Categorical(classes.logits).probs, model(x).probs)
    odds = detectors.msp()(classes)
    torch.testing.assert_close(odds, measures.log_odds(model(x)), rtol=1e-4, atol=1e-4)
    again = load(extra_score(name).save(tmp_path / "score.safetensors"))
    assert torch.equal(again(seen), found)
    with pytest.raises(NescioError, match="unknown loss with a score"):
        extra_score("nll")
    assert math.isfinite(float(found.sum()))


@pytest.fixture(scope="module")
def scored():
    """A network of two classes and a score, on data with errors."""
    rng = torch.Generator().manual_seed(0)
    x = torch.randn(150, 3, generator=rng)
    y = (x[:, 0] + torch.randn(150, generator=rng) > 0).long()
    model = nescio.train(
        lambda: nets.mlp(3, 3, widths=(8,)), (x, y), loss=losses.learned_confidence(), epochs=5,
        learning_rate=0.02, progress=False,
    )  # fmt: skip
    logits = nescio.observe(model, (x, y), inputs=True, progress=False).logits.clone()
    logits[..., -1] += 2  # the score is the largest output of many
    seen = nescio.observe(model, (x, y), inputs=True, progress=False)
    return Activations(
        logits=logits, features=seen.features, labels=y, inputs=x, last=seen.last,
        answers=seen.answers,
    )  # fmt: skip


def test_a_score_beside_the_classes_is_no_class(scored):
    wrong = scored.logits[0, :, :2].argmax(-1) != scored.labels
    confidence = extra_score("learned_confidence")
    fitted = detectors.trust_score(scored)
    found = compare(
        None,
        scored,
        task="errors",
        detectors={"own": confidence, "energy": detectors.energy(), "trust": fitted},
        validation=scored,
        resamples=5,
    )
    assert found.about.errors == int(wrong.sum())
    np.testing.assert_array_equal(found.wrong, wrong.numpy())
    classes = without_score(scored)
    torch.testing.assert_close(torch.from_numpy(found.scores["own"]["test"]), confidence(scored))
    others = {
        "maximum probability": detectors.msp(),
        "energy": detectors.energy(),
        "trust": fitted,
    }
    for name, detector in others.items():
        torch.testing.assert_close(torch.from_numpy(found.scores[name]["test"]), detector(classes))
    top = classes.logits[0].double().softmax(-1).amax(-1)
    torch.testing.assert_close(torch.from_numpy(found.confidence["before"]), top)
    plain = compare(None, classes, task="errors", validation=classes, resamples=5)
    assert found.about.temperature == plain.about.temperature


def test_the_score_is_not_read_from_classes_alone(scored):
    classes = without_score(scored)
    for rows in (classes, classes[:5], without_score(replace(scored, answers=()))):
        with pytest.raises(NescioError, match="went through without_score"):
            extra_score("learned_confidence")(rows)
    with pytest.raises(NescioError, match="compare takes the classes itself"):
        compare(None, classes, task="errors", scores={"own": extra_score("learned_confidence")})
    answers = classes.answers[0](scored.inputs)
    assert answers.shape == (150, 2)
    with pytest.raises(NescioError, match="asks the network"):
        without_score(replace(scored, answers=())).answers[0](scored.inputs)
