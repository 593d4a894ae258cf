"""Sequences and tokens: what works on vectors works on them, in Python and by command."""

import csv

import numpy as np
import pytest
import torch
from click.testing import CliRunner

import nescio
from nescio import detectors, losses, measures, models, nets
from nescio.cli.main import main
from nescio.core import NescioError

FEW = {"rays": 3, "attack_steps": 2, "progress": False}


def walks(samples, *, seed, longest=12):
    """Two channels and marks; the class is the sign of the sum of the first channel."""
    draws = torch.Generator().manual_seed(seed)
    lengths = torch.randint(4, longest + 1, (samples,), generator=draws)
    marks = (torch.arange(longest) < lengths[:, None]).float()
    values = torch.randn(samples, 2, longest, generator=draws) * marks[:, None]
    return torch.cat([values, marks[:, None]], 1), (values[:, 0].sum(1) > 0).long()


def sentences(samples, *, seed):
    """Tokens 1 to 29 and padding; the class is whether one of ten words occurs more than twice."""
    draws = torch.Generator().manual_seed(seed)
    tokens = torch.randint(1, 30, (samples, 9), generator=draws)
    tokens[::2, 6:] = 0
    return tokens, ((tokens > 20).sum(1) > 2).long()


def trained(kind):
    if kind == "sequences":
        make = lambda: nets.gru((3, 12), 2, width=12, dropout=0.1)  # noqa: E731
        return nescio.train(make, walks(300, seed=0), epochs=12, learning_rate=0.03,
                            standardize=True)  # fmt: skip
    make = lambda: nets.lstm(9, 2, vocabulary=30, embedding=6, width=12, dropout=0.1,  # noqa: E731
                             word_dropout=0.05)  # fmt: skip
    return nescio.train(make, sentences(300, seed=0), epochs=20, learning_rate=0.03)


@pytest.fixture(scope="module", params=["sequences", "tokens"])
def kind(request):
    return request.param


@pytest.fixture(scope="module")
def model(kind):
    return trained(kind)


def data(kind, samples, seed):
    return walks(samples, seed=seed) if kind == "sequences" else sentences(samples, seed=seed)


def test_a_network_learns_and_all_measures_apply(model, kind):
    x, y = data(kind, 200, 1)
    assert (model(x).labels == y).double().mean() > 0.8
    prediction = models.mc_dropout(model, passes=8)(x)
    assert prediction.members == 8
    total = measures.predictive_entropy(prediction)
    parts = measures.expected_entropy(prediction) + measures.mutual_information(prediction)
    assert torch.allclose(total, parts, atol=1e-5)
    assert measures.mutual_information(prediction).max() > 0
    assert set(measures.measure_all(prediction)) >= {"variation_ratio", "predictive_entropy"}


def test_detectors_score_them(model, kind):
    train, test = data(kind, 300, 0), data(kind, 40, 1)
    net = model.member(0)
    seen = nescio.observe(net, train)
    assert next(iter(seen.features.values())).shape[-2:] == (300, 12)
    for detector in (detectors.mahalanobis(seen), detectors.knn(seen, k=5), detectors.energy()):
        scores = nescio.scorer(net, detector)(test[0])
        assert scores.shape == (40,)
        assert scores.std() > 0


def test_a_guard_answers_and_is_saved(model, kind, tmp_path):
    train, rest, new = data(kind, 300, 0), data(kind, 400, 2), data(kind, 30, 3)
    guard = nescio.guard(model, rest, train=train, risk=0.35, repeats=True)
    decisions = guard(new[0])
    assert decisions.answered.any()
    path = guard.save(tmp_path / "guard.safetensors")
    again = nescio.load(path, net=model)
    assert torch.equal(again(new[0]).label, decisions.label)
    if kind == "sequences":
        with pytest.raises(NescioError, match="shape"):
            guard(torch.cat([new[0], torch.zeros(30, 3, 2)], 2))


def test_an_audit_reads_them(model, kind, tmp_path):
    audit = nescio.audit(model, data(kind, 120, 4), train=data(kind, 300, 0), repeats=True, **FEW)
    assert audit.results.value(subject="network", data="test", metric="accuracy") > 0.8
    assert ("noise" in audit.findings.not_run) == (kind == "tokens")
    audit.save(tmp_path)


def test_losses_that_move_inputs_refuse_tokens():
    make = lambda: nets.gru(9, 2, vocabulary=30, width=4)  # noqa: E731
    for loss in (
        losses.adversarial(losses.nll()),
        losses.virtual_adversarial(losses.nll()),
        losses.adversarial_training(losses.nll()),
    ):
        with pytest.raises(NescioError, match="tokens are names, not numbers"):
            nescio.train(make, sentences(20, seed=0), loss=loss, epochs=1)
    with pytest.raises(NescioError, match="leave standardize out"):
        nescio.train(make, sentences(20, seed=0), standardize=True)


def test_a_network_of_your_own_with_an_embedding_trains_as_in_pytorch():
    class Own(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.embedding, self.last = torch.nn.Embedding(30, 4), torch.nn.Linear(4, 2)

        def forward(self, tokens):
            return self.last(self.embedding(tokens).mean(1))

    x, y = sentences(50, seed=0)
    model = nescio.train(Own, (x, y), epochs=1, batch_size=None, optimizer="sgd",
                         learning_rate=0.1, seed=3)  # fmt: skip
    with nescio.core.seeded(3, "start", 0):
        net = Own()
    slopes = torch.autograd.grad(
        torch.nn.functional.cross_entropy(net(x), y), list(net.parameters())
    )
    wanted = [p - 0.1 * slope for p, slope in zip(net.parameters(), slopes, strict=True)]
    for found, one in zip(model.member(0).parameters(), wanted, strict=True):
        assert torch.allclose(found, one, atol=1e-6)


def test_a_stepper_reads_tokens_and_resumes(tmp_path):
    x, y = sentences(40, seed=0)
    make = lambda: nets.gru(9, 2, vocabulary=30, width=4, word_dropout=0.1)  # noqa: E731
    state = nescio.stepper(make, members=2)
    state.fit((x, y), epochs=1, batch_size=10)
    state.save(tmp_path / "state.safetensors")
    again = nescio.load(tmp_path / "state.safetensors")
    weight = torch.rand(40, generator=torch.Generator().manual_seed(0))
    assert torch.equal(again.step(x, y, weight), state.step(x, y, weight))


def command(*words):
    found = CliRunner().invoke(main, [str(word) for word in words], catch_exceptions=False)
    assert found.exit_code == 0, found.output
    return found.output


def lines(path):
    """The number of lines of a table below its head."""
    with path.open() as file:
        return len(list(csv.reader(file))) - 1


def written_ts(path, samples, seed, longest):
    x, y = walks(samples, seed=seed, longest=longest)
    rows = []
    for one, label in zip(x, y, strict=True):
        steps = one[:-1, : int(one[-1].sum())].tolist()
        rows.append(":".join([*(",".join(map(str, channel)) for channel in steps), f"c{label}"]))
    path.write_text("\n".join(["@classLabel true c0 c1", "@data", *rows]))
    return path


def test_commands_read_ts_files(tmp_path):
    run = tmp_path / "run"
    train = written_ts(tmp_path / "own_TRAIN.ts", 300, 0, 12)
    test = written_ts(tmp_path / "own_TEST.ts", 300, 1, 12)
    new = written_ts(tmp_path / "new.ts", 20, 2, 8)
    how = ["--epochs", 12, "--learning-rate", 0.03, "--standardize", "--run", run]
    said = command("train", "dropout", "--data", train, "--net", "gru,width=12,dropout=0.1", *how)
    assert "300 test samples" in said
    out = tmp_path / "predictions.csv"
    command("predict", run, "--data", f"{new}:length=12", "--out", out)
    assert lines(out) == 20
    guard = tmp_path / "guard.safetensors"
    command("guard", run, "--calibration", test, "--train", train, "--risk", 0.3, "--out", guard)
    short = CliRunner().invoke(main, ["score", str(guard), str(new), "--out", str(out)])
    assert f"write {new}:length=12" in short.output
    command("score", guard, f"{new}:length=12", "--out", tmp_path / "decisions.csv")
    assert lines(tmp_path / "decisions.csv") == 20


def test_commands_read_tokens(tmp_path):
    x, y = sentences(600, seed=0)
    path = tmp_path / "text.npz"
    np.savez(path, x=x.numpy(), y=y.numpy())
    net = "lstm,vocabulary=30,embedding=6,width=12,word_dropout=0.05"
    run = tmp_path / "run"
    said = command("train", "single", "--data", path, "--net", net, "--epochs", 15,
                   "--learning-rate", 0.03, "--run", run)  # fmt: skip
    assert "60 test samples" in said
    command("predict", run, "--data", path, "--out", tmp_path / "p.csv")
    assert lines(tmp_path / "p.csv") == 600
