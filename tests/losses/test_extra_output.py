"""Losses with an output beside the classes: closed forms, and what they learn."""

import math

import pytest
import torch

import nescio
from nescio import heads, losses, nets
from nescio.core import NescioError, Rng
from nescio.losses import Batch
from nescio.losses.extra_output import PRICE


def batch_of(x, y, **options):
    return Batch(x=x, y=y, points=10, low=x.amin((0, 1)), high=x.amax((0, 1)), **options)


def given(outputs):
    return lambda x: outputs


X, Y = torch.zeros(1, 2, 1), torch.tensor([[0, 1]])
OUTPUTS = torch.tensor([[[1.0, 0.5, -0.3], [0.2, 0.1, 0.9]]], dtype=torch.float64)


def test_the_bet_is_the_papers_formula():
    loss = losses.reject_class(payoff=2.5, free=0.5)
    probs = OUTPUTS.softmax(-1)
    paid = probs.gather(-1, Y[..., None])[..., 0] + probs[..., -1] / 2.5
    value = loss(given(OUTPUTS), batch_of(X, Y, step=5, total=10), Rng(0, (0,)))
    torch.testing.assert_close(value, -paid.log().mean(1))
    torch.testing.assert_close(loss.score(OUTPUTS, Y), -paid.log())


def test_at_first_rejecting_gains_nothing():
    loss = losses.reject_class(payoff=1.5, free=0.5)
    chance = torch.zeros(1, 2, 3, dtype=torch.float64)
    for kept in (-9.0, 0.0, 9.0):  # whatever is kept, the bet pays one half
        chance[..., 2] = kept
        value = loss(given(chance), batch_of(X, Y, step=4, total=10), Rng(0, (0,)))
        torch.testing.assert_close(value, torch.full((1,), math.log(2), dtype=torch.float64))


def test_hints_and_their_price_are_the_papers_formula():
    loss = losses.learned_confidence(budget=0.3, share=1.0)
    probs, c = OUTPUTS[..., :2].softmax(-1), OUTPUTS[..., 2].sigmoid()
    mixed = c * probs.gather(-1, Y[..., None])[..., 0] + (1 - c)
    batch = batch_of(X, Y)
    value = loss(given(OUTPUTS), batch, Rng(0, (0,)))
    torch.testing.assert_close(value, (-mixed.log() - 0.1 * c.log()).mean(1))
    above = bool((-c.log()).mean() > 0.3)
    assert batch.memory[PRICE].item() == pytest.approx(0.1 * (1.01 if above else 1 / 1.01))


def test_the_price_rises_above_the_budget_and_falls_below():
    for logit, factor in ((-3.0, 1.01), (3.0, 1 / 1.01)):
        outputs = OUTPUTS.clone()
        outputs[..., 2] = logit
        batch = batch_of(X, Y)
        losses.learned_confidence()(given(outputs), batch, Rng(0, (0,)))
        assert batch.memory[PRICE].item() == pytest.approx(0.1 * factor)


def test_about_half_of_the_samples_may_ask():
    x, y = torch.zeros(2, 4000, 1), torch.zeros(2, 4000, dtype=torch.long)
    outputs = torch.tensor([0.0, 0.0, -50.0]).expand(2, 4000, 3)  # c is 0: a hint is the answer
    value = losses.learned_confidence()(given(outputs), batch_of(x, y), Rng(0, (0, 1)))
    plain = (value - 0.1 * 50) / math.log(2)  # the share that was not asked
    assert ((plain - 0.5).abs() < 0.03).all()  # 3.8 standard deviations


def test_the_head_reads_the_classes_alone():
    prediction = heads.with_score()(OUTPUTS)
    torch.testing.assert_close(prediction.probs, OUTPUTS[0, :, :2].softmax(-1))
    with pytest.raises(NescioError, match="at least 3, got 2"):
        heads.with_score()(OUTPUTS[..., :2])


@pytest.mark.parametrize("name", ["learned_confidence", "reject_class"])
def test_the_extra_output_learns_where_the_labels_are_noise(name, tmp_path):
    rng = torch.Generator().manual_seed(0)
    x = 2 * torch.rand(600, 1, generator=rng) - 1
    noisy = x[:, 0] > 0
    coin = torch.randint(2, (600,), generator=rng)
    y = torch.where(noisy, coin, (x[:, 0] > -0.5).long())
    loss = {"learned_confidence": losses.learned_confidence(), "reject_class":
            losses.reject_class(payoff=1.5)}[name]  # fmt: skip
    model = nescio.train(
        lambda: nets.mlp(1, 3, widths=(20,)),
        (x, y),
        loss=loss,
        members=2,
        epochs=60,
        learning_rate=0.02,
        progress=False,
    )
    assert model(x).classes == 2
    outputs = model.outputs(x)
    rest = outputs[..., :-1].logsumexp(-1)
    unsure = -outputs[..., -1] if name == "learned_confidence" else outputs[..., -1] - rest
    for member in unsure:
        assert nescio.metrics.auroc(member[~noisy], member[noisy]) > 0.9
    again = nescio.load(model.save(tmp_path).parent)
    assert again.head.name == "with_score"
    assert torch.equal(again.outputs(x), model.outputs(x))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: losses.reject_class(payoff=1.0), "payoff"),
        (lambda: losses.reject_class(free=1.0), "free"),
        (lambda: losses.learned_confidence(budget=0), "budget"),
        (lambda: losses.learned_confidence(share=0), "share"),
    ],
)
def test_bad_options_are_refused(make, message):
    with pytest.raises(NescioError, match=message):
        make()
