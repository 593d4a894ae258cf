"""Networks of tokens and of several inputs: all that works on one tensor works on them."""

from copy import deepcopy

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader

import nescio
from nescio import detectors
from nescio.core import Bundle, NescioError
from nescio.guards.score import score
from nescio.guards.watching import learn_range
from nescio.models import ensemble, mc_dropout, plain


def rows(batch):
    return [{name: part[i] for name, part in batch.items()} for i in range(len(batch["labels"]))]


def without(batch):
    return {name: part for name, part in batch.items() if name != "labels"}


@pytest.fixture
def guarded(transformer, tokens):
    loader = DataLoader(rows(tokens(600, 1)), batch_size=50)
    return nescio.guard(transformer, loader, train=tokens(512, 0), risk=0.4, false_alarm=0.05,
                        repeats=True, progress=False)  # fmt: skip


@pytest.fixture
def far():
    """Sentences without attention to most tokens, and one token again and again."""
    ids = torch.zeros(40, 8, dtype=torch.int64) + 12
    return {"input_ids": ids, "attention_mask": torch.ones_like(ids)}


def test_predictors_answer_mappings(transformer, tokens):
    batch = tokens(40, 2)
    with torch.no_grad():
        expected = transformer(**without(batch)).logits
    torch.testing.assert_close(plain(transformer)(batch).logits[0], expected)
    other = deepcopy(transformer)
    with torch.no_grad():
        other.classifier.bias += 1.0
    both = ensemble([transformer, other])(batch).logits
    torch.testing.assert_close(both, torch.stack([expected, expected + 1]))
    ids = batch["input_ids"]
    with torch.no_grad():
        torch.testing.assert_close(plain(transformer)(ids).logits[0], transformer(ids).logits)


def test_dropout_is_sampled_with_a_mask_of_attention(transformer, tokens):
    net = deepcopy(transformer)
    net.dropout.p = 0.3
    found = mc_dropout(net, passes=3)(tokens(10, 2))
    assert found.logits.shape == (3, 10, 3)
    assert not torch.equal(found.logits[0], found.logits[1])


def test_two_inputs_enter_by_position(two_inputs, pairs):
    x, y = pairs(40, 2)
    with torch.no_grad():
        expected = two_inputs(*x)
    torch.testing.assert_close(plain(two_inputs)(x).logits[0], expected)
    loader = DataLoader([((x[0][i], x[1][i]), y[i]) for i in range(40)], batch_size=7)
    for data in ((x, y), loader):
        found = nescio.observe(two_inputs, data, inputs=True)
        torch.testing.assert_close(found.logits[0], expected)
        assert torch.equal(found.labels, y)
        assert torch.equal(found.inputs["1"], x[1])
        assert found[:5].inputs["0"].shape == (5, 1, 4, 4)
    with pytest.raises(NescioError, match="does not take inputs of shape"):
        plain(two_inputs)(x[1])


def test_a_forward_may_read_the_whole_mapping(tokens):
    class Whole(nn.Module):
        def __init__(self):
            super().__init__()
            self.last = nn.Linear(8, 3)

        def forward(self, batch):
            return {"logits": self.last(batch["attention_mask"].float()), "kept": batch}

    net, batch = Whole(), tokens(9, 0)
    expected = net.last(batch["attention_mask"].float())
    torch.testing.assert_close(nescio.observe(net, batch).logits[0], expected)
    torch.testing.assert_close(plain(net)(batch).logits[0], expected)


def test_observe_reads_mappings_in_every_form(transformer, tokens, tmp_path):
    batch = tokens(50, 3)
    with torch.no_grad():
        expected = transformer(**without(batch))
    for data in (batch, (without(batch), batch["labels"]), DataLoader(rows(batch), batch_size=8)):
        for memory in (10**9, 0):
            found = nescio.observe(transformer, data, inputs=True, memory=memory)
            torch.testing.assert_close(found.logits[0], expected.logits)
            assert torch.equal(found.labels, batch["labels"])
            assert torch.equal(found.inputs["input_ids"], batch["input_ids"])
            assert found.about["output"] == "logits"
            assert found.last == "input of classifier"
    pooled = nescio.observe(transformer, batch, layers="second", pool="tokens").features["second"]
    torch.testing.assert_close(pooled[0], expected.hidden_states.mean(1))


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_networks_of_other_number_types(transformer, tokens, two_inputs, pairs, dtype):
    found = nescio.observe(deepcopy(transformer).to(dtype), tokens(20, 0))
    assert found.logits.dtype == (torch.float64 if dtype == torch.float64 else torch.float32)
    close = nescio.observe(transformer, tokens(20, 0)).logits
    torch.testing.assert_close(found.logits.float(), close, atol=0.1, rtol=0.1)
    assert nescio.observe(deepcopy(two_inputs).to(dtype), pairs(20, 0)).logits.shape == (1, 20, 3)
    logits = plain(deepcopy(two_inputs).to(dtype))(pairs(20, 0)[0]).logits
    assert logits.dtype == (torch.float64 if dtype == torch.float64 else torch.float32)


def test_detectors_and_scorers(transformer, tokens, far):
    train = nescio.observe(transformer, tokens(512, 0), inputs=True)
    for made in (detectors.knn(train, k=5), detectors.mahalanobis(train), detectors.energy()):
        scores = nescio.scorer(transformer, made)(tokens(60, 4))
        torch.testing.assert_close(scores, made(nescio.observe(transformer, tokens(60, 4))))
    loader = DataLoader(rows(tokens(60, 4)), batch_size=9)
    torch.testing.assert_close(nescio.scorer(transformer, made)(loader), scores)
    for reads_inputs in (detectors.gower, detectors.smoothed_density):
        with pytest.raises(NescioError, match="reads inputs of one tensor, these have 2"):
            reads_inputs(train)
    with pytest.raises(NescioError, match="odin reads inputs of one tensor"):
        detectors.odin()(train)


def test_tokens_have_one_range_at_all_positions():
    tokens = torch.tensor([[9, 3, 0], [7, 0, 0], [8, 5, 2]])
    both = {"tokens": tokens, "mask": tokens > 0}
    assert learn_range(tokens).in_dist(tokens.flip(1)).all()
    flipped = Bundle({name: part.flip(1) for name, part in both.items()})
    assert learn_range(Bundle(both)).in_dist(flipped).all()
    assert not learn_range(tokens).in_dist(10 * tokens)[1]
    assert not learn_range(tokens.float()).in_dist(tokens.flip(1).float()).all()


def test_a_guard_decides_about_tokens(guarded, transformer, tokens, tmp_path, far):
    batch = tokens(90, 5)
    decisions = guarded(batch)
    assert len(decisions) == 90
    loader = DataLoader(rows(batch), batch_size=11)
    again = guarded(loader)
    assert torch.equal(again.decision, decisions.decision)
    torch.testing.assert_close(again.score, decisions.score, rtol=1e-4, atol=1e-5)
    assert decisions.in_range.all()
    wild = {**without(batch), "attention_mask": 1 + 9 * batch["attention_mask"]}
    with pytest.warns(UserWarning, match="90 of 90 inputs hold numbers outside the range"):
        guarded(wild)
    path = guarded.save(tmp_path / "guard.safetensors")
    loaded = nescio.load(path, net=transformer)
    backwards = dict(reversed(without(batch).items()))  # the order of keys means nothing
    assert torch.equal(loaded(backwards).score, decisions.score)
    assert loaded(backwards).in_range.all()
    assert loaded.range.shape == {"input_ids": (8,), "attention_mask": (8,)}
    changed = deepcopy(transformer)
    changed.second.eps = 10.0
    with pytest.raises(NescioError, match="answers a probe differently"):
        nescio.load(path, net=changed)
    with pytest.raises(NescioError, match="the guard was calibrated on {'"):
        guarded(batch["input_ids"])


def test_a_guard_of_two_inputs_leaves_nan_apart(two_inputs, pairs, tmp_path):
    made = nescio.guard(two_inputs, pairs(600, 1), train=pairs(512, 0), risk=0.4, false_alarm=0.05,
                        progress=False)  # fmt: skip
    (picture, row), _ = pairs(30, 2)
    expected = made((picture, row))
    row = row.clone()
    row[4] = torch.nan
    with pytest.warns(UserWarning, match="1 of 30 inputs are, or lead to, NaN"):
        found = made((picture, row))
    assert found.columns()["rule"][4] == "not finite"
    keep = torch.arange(30) != 4
    torch.testing.assert_close(found.score[keep], expected.score[keep])
    path = made.save(tmp_path / "guard.safetensors")
    loaded = nescio.load(path, net=two_inputs)
    torch.testing.assert_close(loaded(pairs(30, 2)[0]).score, expected.score)


def test_a_guard_reads_a_generator_once_and_in_bounded_memory(two_inputs, pairs):
    options = {"risk": 0.4, "false_alarm": 0.05, "progress": False, "batch_size": 100}
    (picture, row), y = pairs(600, 1)
    parts = zip(picture.split(100), row.split(100), y.split(100), strict=True)
    generated = (((a, b), labels) for a, b, labels in parts)
    made = nescio.guard(two_inputs, generated, **options)
    same = nescio.guard(two_inputs, ((picture, row), y), **options)
    x, _ = pairs(30, 2)
    assert torch.equal(made(x).score, same(x).score)
    with pytest.raises(NescioError, match="no batch came; a generator can be used only once"):
        nescio.guard(two_inputs, generated, **options)


def test_scores_and_monitor(guarded, tokens, tmp_path):
    batch = tokens(90, 6)
    whole = score(guarded, batch, tmp_path / "a.csv", progress=False)
    loader = DataLoader(rows(batch), batch_size=11)
    stream = score(guarded, loader, tmp_path / "b.csv", progress=False)
    assert whole.decisions == stream.decisions
    assert whole.inputs == stream.inputs == 90
    assert score(guarded, batch, tmp_path / "a.csv", progress=False).seconds is None
    with pytest.raises(NescioError, match="resume"):
        score(guarded, loader, tmp_path / "b.csv", progress=False)
    watched = nescio.monitor(guarded).update(guarded(batch).score)
    in_parts = nescio.monitor(guarded).update(guarded(part).score for part in (batch,))
    assert in_parts.log_martingale == watched.log_martingale


def test_calibration_and_training_read_loaders(transformer, tokens):
    made = nescio.calibration.temperature(transformer, DataLoader(rows(tokens(200, 7)), 32))
    same = nescio.calibration.temperature(transformer, tokens(200, 7))
    assert made.temperature == pytest.approx(same.temperature, rel=1e-4)
    assert made(tokens(5, 0)).probs.shape == (5, 3)
    with pytest.raises(
        NescioError, match=r"one tensor, these have 2 \(input_ids, attention_mask\)"
    ):
        nescio.train(lambda: deepcopy(transformer), tokens(20, 0), epochs=1)
    with pytest.raises(NescioError, match="calibration data must have labels"):
        nescio.calibration.temperature(transformer, without(tokens(20, 0)))


class Mutating(nn.Module):
    def __init__(self):
        super().__init__()
        self.last = nn.Linear(3, 2)

    def forward(self, x, more=None):
        x.mul_(2.0)
        if more is not None:
            more.zero_()
        return self.last(x)


def test_a_network_that_writes_on_its_inputs_does_not_reach_the_callers():
    net, x, more = Mutating(), torch.randn(6, 3), torch.ones(6, 3)
    before, expected = x.clone(), net.last(2 * x)
    for inputs in (x, (x, more), {"x": x, "more": more}):
        predictions = [plain(net)(inputs).logits[0], ensemble([net, net])(inputs).logits[1]]
        predictions.append(nescio.observe(net, (inputs, None)).logits[0])
        for found in predictions:
            torch.testing.assert_close(found, expected)
        assert torch.equal(x, before)
        assert more.all()


def test_dynamic_padding_is_refused_where_inputs_are_kept(transformer, tokens):
    batch = tokens(20, 0)
    parts = [{n: p[:10, :6] if p.ndim > 1 else p[:10] for n, p in batch.items()}, batch]
    assert nescio.observe(transformer, parts).samples == 30
    with pytest.raises(NescioError, match=r"different shapes per sample.*pad"):
        nescio.observe(transformer, parts, inputs=True)


def test_logits_under_another_name_need_output(tokens):
    class Named(nn.Module):
        def __init__(self):
            super().__init__()
            self.embedding, self.last = nn.Embedding(13, 4), nn.Linear(4, 3)

        def forward(self, input_ids, attention_mask):
            return {"scores": self.last(self.embedding(input_ids).mean(1))}

    with pytest.raises(NescioError, match="dictionary with 'scores'.*output="):
        nescio.observe(Named(), tokens(5, 0))
    assert isinstance(
        nescio.observe(Named(), tokens(5, 0), output="scores", inputs=True).inputs, Bundle
    )


def test_an_audit_reads_tokens_and_says_what_does_not_apply(transformer, tokens, far, tmp_path):
    loader = DataLoader(rows(tokens(600, 1)), batch_size=50)
    transformer.dropout.p = 0.3
    audit = nescio.audit(
        {"network": transformer, "MC dropout": mc_dropout(transformer, passes=3)},
        loader, train=tokens(512, 0), ood={"one token": far}, progress=False,
    )  # fmt: skip
    test = tokens(600, 1)
    with torch.no_grad():
        truth = (transformer(**without(test)).logits.argmax(1) == test["labels"]).double().mean()
    row = audit.results.value(subject="network", data="test", metric="accuracy")
    assert row == pytest.approx(truth.item())
    assert list(audit.findings.predictors["network"].ood) == ["one token"]
    assert audit.findings.features == {"input_ids": (8,), "attention_mask": (8,)}
    assert "far field" in audit.findings.not_run
    assert "Not run" in str(audit)
    page = audit.save(tmp_path).read_text()
    assert "not run" in page
    assert "tokens or several tensors" in page
    if audit.guard is not None:
        loaded = nescio.load(tmp_path / "guard.safetensors", net=transformer)
        assert torch.equal(loaded(test).decision, audit.guard(test).decision)


def test_an_audit_reads_integer_tokens_of_one_tensor(transformer, tokens):
    test = tokens(400, 1)
    audit = nescio.audit(transformer, (test["input_ids"], test["labels"]), progress=False)
    assert audit.findings.not_run
    assert audit.findings.features == (8,)


def test_an_audit_reads_two_inputs(two_inputs, pairs):
    audit = nescio.audit(two_inputs, pairs(400, 2), ood={"other": pairs(50, 9)}, progress=False)
    assert set(audit.findings.features) == {"0", "1"}
    assert audit.findings.guard is not None
    with pytest.raises(NescioError, match="have shape"):
        nescio.audit(two_inputs, pairs(400, 2), ood={"other": pairs(50, 9)[0][1]}, progress=False)


def test_a_comparison_reads_tokens(transformer, tokens, far):
    loader = DataLoader(rows(tokens(200, 1)), batch_size=50)
    found = nescio.compare(
        transformer, loader, {"one token": far}, train=tokens(300, 0),
        detectors=["msp", "knn,k=5", "mahalanobis"], resamples=0, progress=False,
    )  # fmt: skip
    assert 0 <= found.value("knn,k=5", "one token") <= 1
    errors = nescio.compare(
        transformer, tokens(200, 1), task="errors", train=tokens(300, 0),
        detectors=["entropy"], resamples=20, progress=False,
    )  # fmt: skip
    assert len(errors.rows) > 0


def test_the_errors_of_one_network_are_compared(transformer, tokens):
    both = {"one": transformer, "two": deepcopy(transformer)}
    with pytest.raises(NescioError, match="reads one network.*got one, two"):
        nescio.compare(both, tokens(50, 1), task="errors", progress=False)


def test_the_table_of_confidence_reads_loaders_and_refuses_mappings(transformer, tokens, far):
    with pytest.raises(NescioError, match='the task "confidence" reads inputs of one tensor'):
        nescio.compare(transformer, tokens(50, 1), {"far": far}, task="confidence", progress=False)
    x, y = torch.randn(60, 3), torch.arange(60) % 2
    loader = DataLoader(list(zip(x, y, strict=True)), batch_size=7)
    net, options = nn.Linear(3, 2), {"task": "confidence", "resamples": 0, "progress": False}
    found = [nescio.compare(net, data, {"far": 9 * x}, **options) for data in ((x, y), loader)]
    assert found[0].rows == found[1].rows


def test_tokens_are_trained(transformer, tokens):
    batch = tokens(60, 1)
    data = batch["input_ids"], batch["labels"]
    start = nescio.metrics.nll(nescio.models.plain(transformer)(data[0]).probs, data[1])
    options = {"epochs": 5, "learning_rate": 1e-3, "batch_size": 20}
    model = nescio.train(lambda: deepcopy(transformer), data, **options)
    assert nescio.metrics.nll(model(data[0]).probs, data[1]) < start


def test_a_monitor_takes_decisions(guarded, tokens):
    decisions = guarded(tokens(60, 3))
    watch = nescio.monitor(decisions.score)
    assert watch.update(decisions).count == watch.update(decisions.score).count == 60
