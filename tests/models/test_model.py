"""Trained models: what is saved is what is read, and a member is an ordinary module."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

import nescio
from nescio import Categorical, Gaussian, Model, NescioError, heads, losses, nets, train
from nescio.core import save_tensors
from nescio.models import plain
from nescio.models.model import check_logits


@pytest.fixture(scope="module")
def data() -> tuple[torch.Tensor, torch.Tensor]:
    draw = torch.Generator().manual_seed(0)
    x = 5 + 3 * torch.randn(80, 3, generator=draw)
    return x, (x[:, 0] > 5).long()


@pytest.fixture(scope="module")
def model(data: tuple[torch.Tensor, torch.Tensor]) -> Model:
    return train(
        lambda: nets.mlp(3, 2, widths=(8,), dropout=0.1),
        data,
        members=3,
        epochs=3,
        validation=data,
        patience=5,
        standardize=True,
    )


def test_outputs_are_those_of_the_members_for_any_batch_size(model: Model, data) -> None:
    x = data[0]
    whole = model.outputs(x)
    assert whole.shape == (3, 80, 2)
    for member in range(3):
        torch.testing.assert_close(model.member(member)(x), whole[member])
    torch.testing.assert_close(model.outputs(x, batch_size=7), whole)
    prediction = model(x)
    assert isinstance(prediction, Categorical)
    torch.testing.assert_close(prediction.probs, whole.softmax(-1).mean(0))


def test_arrays_are_inputs_too(model: Model, data) -> None:
    array = data[0].numpy().astype(np.float64)
    assert torch.equal(model(array).logits, model(data[0]).logits)


def test_save_and_load_give_the_same_model(model: Model, data, tmp_path: Path) -> None:
    model.save(tmp_path / "a")
    again = nescio.load(tmp_path / "a")
    assert torch.equal(again(data[0]).logits, model(data[0]).logits)
    assert torch.equal(again.history.train, model.history.train)
    assert again.history.best == model.history.best
    assert again.notes == model.notes
    manifest = json.loads((tmp_path / "a" / "manifest.json").read_text())
    assert manifest["members"] == 3
    assert manifest["net"]["net"] == "mlp"
    assert manifest["head"] == {"name": "categorical", "options": {}}


def test_head_options_are_saved(tmp_path: Path) -> None:
    x = torch.randn(20, 1)
    loss = losses.nll(heads.gaussian(floor=0.5))
    make = lambda: nets.mlp(1, 2, widths=(4,))  # noqa: E731
    train(make, (x, x), loss=loss, epochs=1).save(tmp_path)
    again = nescio.load(tmp_path)
    prediction = again(x)
    assert isinstance(prediction, Gaussian)
    assert prediction.variance.min() >= 0.5


class Own(nn.Module):
    """A network that no file may name."""

    def __init__(self, width: int = 4) -> None:
        super().__init__()
        self.layer = nn.Linear(3, width)
        self.last = nn.Linear(width, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.last(self.layer(x).relu())


def test_a_network_of_the_user_must_be_passed(data, tmp_path: Path) -> None:
    model = train(Own, data, epochs=1, standardize=True)
    model.save(tmp_path)
    with pytest.raises(NescioError, match="pass the network"):
        nescio.load(tmp_path)
    assert torch.equal(nescio.load(tmp_path, net=Own())(data[0]).logits, model(data[0]).logits)
    with pytest.raises(NescioError, match="does not fit the network"):
        nescio.load(tmp_path, net=Own(5))


def test_a_network_changed_after_it_was_made_is_not_rebuilt(data, tmp_path: Path) -> None:
    def make() -> nn.Module:
        net = nets.mlp(3, 2, widths=(4,))
        net[1] = nn.Tanh()
        return net

    model = train(make, data, epochs=1)
    model.save(tmp_path)
    with pytest.raises(NescioError, match="changed after nescio made it"):
        nescio.load(tmp_path)
    assert torch.equal(nescio.load(tmp_path, net=make())(data[0]).logits, model(data[0]).logits)


def test_buffers_that_are_not_saved_with_a_network_belong_to_the_member(data) -> None:
    class Projected(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("turn", torch.randn(3, 3), persistent=False)
            self.last = nn.Linear(3, 2)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.last(x @ self.turn)

    model = train(Projected, data, members=2, epochs=1)
    torch.testing.assert_close(model.member(1)(data[0]), model.outputs(data[0])[1])


def test_probabilities_are_not_taken_for_logits(data) -> None:
    with pytest.raises(NescioError, match="softmax at its end"):
        plain(nn.Sequential(nn.Linear(3, 2), nn.Softmax(-1)))(data[0])
    with pytest.raises(NescioError, match="softmax at its end"):
        plain(nn.Sequential(nn.Conv2d(1, 2, 1), nn.Softmax(1)))(torch.rand(4, 1, 5, 5))


def test_a_damaged_manifest_is_refused(model: Model, tmp_path: Path) -> None:
    save_tensors(tmp_path / "model.safetensors", dict(model.tensors), {"kind": "model"})
    with pytest.raises(NescioError, match="damaged manifest"):
        nescio.load(tmp_path)


def test_damaged_and_missing_files_are_refused(model: Model, tmp_path: Path) -> None:
    path = model.save(tmp_path)
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(NescioError, match="damaged"):
        nescio.load(tmp_path)
    with pytest.raises(NescioError, match="no file"):
        nescio.load(tmp_path / "nothing")


def test_plain_copies_the_network_and_never_changes_it(data) -> None:
    net = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Linear(4, 2)).train()
    before = {key: tensor.clone() for key, tensor in net.state_dict().items()}
    prediction = plain(net)(data[0])
    torch.testing.assert_close(prediction.logits[0], net.eval()(data[0]))
    assert all(torch.equal(tensor, before[key]) for key, tensor in net.state_dict().items())


def test_moving_to_float64(model: Model, data) -> None:
    wide = model.to(torch.float64)
    torch.testing.assert_close(wide.member(1)(data[0].double()), wide.outputs(data[0])[1])
    assert wide(data[0].double()).logits.dtype == torch.float64
    torch.testing.assert_close(wide(data[0]).probs.float(), model(data[0]).probs)


@pytest.mark.parametrize(
    ("x", "said"),
    [
        (torch.full((3, 3), torch.nan), "NaN"),
        (torch.empty(0, 3), "empty"),
        (torch.zeros(3), "shape"),
        ("text", "numbers"),
    ],
)
def test_bad_inputs_are_refused(model: Model, x: object, said: str) -> None:
    with pytest.raises(NescioError, match=said):
        model(x)
    with pytest.raises(NescioError, match="member 3 of a model with 3"):
        model.member(3)


def test_one_output_is_told_how_it_may_be_read() -> None:
    with pytest.raises(NescioError, match=r"(?s)one output.*fixed_variance: Mean of D"):
        check_logits(torch.zeros(1, 4, 1), heads.categorical())
