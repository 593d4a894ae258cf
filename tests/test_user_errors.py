"""Mistakes that new users make, each with a message instead of a traceback or a wrong number."""

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

import nescio
from nescio import NescioError, calibration, losses, models, nets, train
from nescio.cli.data_names import inputs_named
from nescio.cli.networks import load_weights
from nescio.cli.work.audit import audit_files

X = torch.randn(40, 3, generator=torch.Generator().manual_seed(0))
Y = (X[:, 0] > 0).long()


class Pair(nn.Module):
    """A network that returns two things."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Sequential(nn.Linear(3, 2), nn.Dropout(0.5))

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return self.layer(x), x


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: models.plain(Pair())(X), "a tuple of 2; say which.*output="),
        (lambda: models.mc_dropout(Pair())(X), "a tuple of 2; say which.*output="),
        (lambda: models.plain(nn.Linear(4, 2))(X), r"inputs of shape \(3,\)"),
        (lambda: models.plain(nn.Linear(3, 1))(X), "one logit for each class"),
        (lambda: models.plain(nn.Linear(3, 2))((255 * X).byte()), "uint8"),
        (lambda: train(lambda: nets.mlp(3, 2), (X, Y), loss=losses.nll), r"losses\.nll\(\)"),
        (lambda: train(lambda: nets.mlp(3, 2), (X, Y), loss="nll"), "must be a loss"),
        (lambda: train(lambda: nets.mlp(3, 2), (X, Y), loss=nn.MSELoss()), "must be a loss"),
        (
            lambda: train(lambda: nets.mlp(3, 2), (X, Y), validation=(X[:, :2], Y)),
            "validation inputs have shape",
        ),
        (lambda: nets.digit_cnn(64, 10), "reads images"),
        (lambda: calibration.temperature(nn.Linear(3, 2), None), r"pair \(x, y\)"),
        (lambda: models.mc_dropout(nn.Dropout(), passes=3), "with weights"),
        (lambda: nescio.audit(nn.Linear(3, 2), (X, Y), ood=[X]), "by name"),
    ],
)
def test_a_mistake_is_explained(call: object, said: str) -> None:
    with pytest.raises(NescioError, match=said):
        call()


def test_a_function_is_a_loss() -> None:
    def mine(forward, batch, rng):
        return nn.functional.cross_entropy(
            forward(batch.x).movedim(-1, 1), batch.y, reduction="none"
        ).mean(1)

    one = train(lambda: nets.mlp(3, 2), (X, Y), loss=mine, epochs=3)
    other = train(lambda: nets.mlp(3, 2), (X, Y), epochs=3)
    torch.testing.assert_close(one(X).logits, other(X).logits, rtol=0, atol=1e-5)


def test_labels_in_a_column_are_labels() -> None:
    model = train(lambda: nets.mlp(3, 2), (X, Y[:, None]), epochs=1)
    assert model(X).labels.shape == (40,)


def test_a_bare_network_can_be_calibrated() -> None:
    net = train(lambda: nets.mlp(3, 2), (X, Y), epochs=20).member(0)
    noisy = torch.where(torch.arange(40) % 5 == 0, 1 - Y, Y)
    assert calibration.temperature(net, (X, noisy)).temperature > 0


def test_printing_is_one_line() -> None:
    model = train(lambda: nets.mlp(3, 2), (X, Y), members=2, epochs=1)
    said = "Model(2 member(s) of Sequential, categorical, nll(categorical()), torch.float32)"
    assert repr(model) == said
    assert repr(model(X)) == "Categorical(2 member(s), 40 samples, 2)"


def test_weights_files_of_all_kinds(tmp_path: Path) -> None:
    net, state = nn.Linear(3, 2), nn.Linear(3, 2).state_dict()
    for name, saved in {
        "plain": state,
        "nested": {"model": state, "epoch": 3},
        "lightning": {"state_dict": state},
        "parallel": {f"module.{key}": tensor for key, tensor in state.items()},
    }.items():
        torch.save(saved, tmp_path / f"{name}.pt")
        load_weights(net, tmp_path / f"{name}.pt")
        assert torch.equal(net.weight, state["weight"])
    for name, saved, said in (
        ("lacks", {"weight": state["weight"]}, "lacks 1: bias"),
        ("adds", {**state, "more": torch.ones(1)}, "adds 1: more"),
        ("shape", nn.Linear(4, 2).state_dict(), r"weight has shape \(2, 4\)"),
        ("nothing", {"a": 1}, "no state dict"),
    ):
        torch.save(saved, tmp_path / f"{name}.pt")
        with pytest.raises(NescioError, match=said):
            load_weights(net, tmp_path / f"{name}.pt")


def test_a_run_is_audited_on_what_it_was_not_trained_on(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = str(tmp_path / "all.npz")
    np.savez(path, x=X.numpy(), y=Y.numpy())
    parts = nescio.data.load(path)
    model = train(lambda: nets.mlp(3, 2), parts.train, epochs=1, run=tmp_path / "run")
    found = audit_files(model, path)
    assert found.findings.samples == len(parts.test[0])
    assert "only its 4 test samples" in capsys.readouterr().err
    fresh = audit_files(nn.Linear(3, 2), path)
    assert fresh.findings.samples == 40


def test_ready_parts_are_read_everywhere(tmp_path: Path) -> None:
    path = str(tmp_path / "parts.npz")
    np.savez(path, x_train=X.numpy(), y_train=Y.numpy(), x_test=X[:9].numpy(), y_test=Y[:9].numpy())
    assert audit_files(nn.Linear(3, 2), path).findings.samples == 9
    assert len(inputs_named(path)) == 9


def test_names_of_ood_sets_are_given_once(tmp_path: Path) -> None:
    path = str(tmp_path / "x.npz")
    np.savez(path, x=X.numpy(), y=Y.numpy())
    for ood in ((f"a={path}", f"a={path}"), (f"={path}",)):
        with pytest.raises(NescioError, match="each name once|name it once"):
            audit_files(nn.Linear(3, 2), path, ood=ood)


def test_a_temperature_is_not_fitted_to_the_tested_samples(tmp_path: Path) -> None:
    torch.manual_seed(0)
    path = str(tmp_path / "all.npz")
    np.savez(path, x=X.numpy(), y=Y.numpy())
    (tmp_path / "again.npz").symlink_to(path)
    parts = nescio.data.load(path)
    model = train(lambda: nets.mlp(3, 2), parts.train, epochs=1, run=tmp_path / "run")
    for net in (nn.Linear(3, 2), model):
        for other in (path, str(tmp_path / "again.npz")):
            with pytest.raises(NescioError, match="are one file, .* give other samples, or ready"):
                audit_files(net, path, validation_name=other)
    some_wrong = torch.where(torch.arange(len(Y)) % 5 == 0, 1 - Y, Y)
    ready = {f"{letter}_{part}": values[13 * k : 13 * k + 13].numpy()
             for k, part in enumerate(("train", "validation", "test"))
             for letter, values in (("x", X), ("y", some_wrong))}  # fmt: skip
    np.savez(tmp_path / "parts.npz", **ready)
    options: dict = {"rays": 0, "attack_steps": 0, "validation_name": str(tmp_path / "parts.npz")}
    good = nn.Linear(3, 2)
    with torch.no_grad():
        good.weight.copy_(torch.tensor([[-1.0, 0.0, 0.0], [1.0, 0.0, 0.0]]))
    found = audit_files(good, str(tmp_path / "parts.npz"), **options)
    assert list(found.findings.predictors) == ["network", "temperature"]


def test_one_file_that_trains_and_tests_is_split_as_it_says(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = str(tmp_path / "all.npz")
    np.savez(path, x=X.numpy(), y=Y.numpy())
    options: dict = {"rays": 0, "attack_steps": 0, "epochs": 1, "recipe": ["ceda"]}
    for name in (path, f"{path}:seed=1"):
        audit_files(nets.mlp(3, 2), name, train_name=name, **options)
        assert f"{name} serves both: 32 samples train, 4 test" in capsys.readouterr().err


def test_too_few_samples_to_train_on_some_and_test_on_others(tmp_path: Path) -> None:
    path = str(tmp_path / "few.npz")
    np.savez(path, x=X[:9].numpy(), y=Y[:9].numpy())
    with pytest.raises(NescioError, match="few.npz, of 9 samples; it takes ten"):
        audit_files(nets.mlp(3, 2), path, train_name=path, recipe=["ceda"])
    with pytest.raises(NescioError, match="are one file"):
        audit_files(nets.mlp(3, 2), path, validation_name=path)


def test_labels_far_above_the_number_of_samples_are_refused(tmp_path: Path) -> None:
    np.savez(tmp_path / "x.npz", x=X.numpy(), y=1000 * Y.numpy())
    with pytest.raises(NescioError, match="number the classes"):
        nescio.data.load(str(tmp_path / "x.npz"))
