"""Models that remember their loss, and heads of the user in files: given again, and checked."""

from dataclasses import replace

import pytest
import torch
from torch import nn

import nescio
from nescio import NescioError, Prediction, heads, losses, nets
from nescio.core import Categorical, Gaussian

X = torch.randn(30, 3, generator=torch.Generator().manual_seed(0))
Y = (X + 0.5 * torch.randn(30, 3, generator=torch.Generator().manual_seed(1))).argmax(1)


def sharpened(power: float = 2.0, name: str = "sharpened") -> heads.Head:
    """Softmax of the outputs times a number: a head that nescio does not have."""
    plain = heads.categorical()
    return heads.Head(
        name,
        {"power": power},
        "classification",
        1,
        lambda outputs: Categorical(power * outputs),
        lambda outputs: (power * outputs).log_softmax(-1),
        lambda outputs, y: plain.nll(power * outputs, y),
        lambda p, q: plain.divergence(power * p, power * q),
    )


def seven() -> heads.Head:
    """A regression head that reads exactly 7 outputs."""

    def split(outputs: torch.Tensor) -> Prediction:
        if outputs.shape[-1] != 7:
            raise ValueError("7 outputs")
        return Gaussian(outputs[..., :1], outputs[..., 1:2].square() + 1)

    base = heads.gaussian()
    return replace(base, name="seven", options={}, width=7, read=split, center=lambda o: o[..., :1])


def net() -> nn.Module:
    return nets.mlp(3, 3, widths=(5,))


def trained(head: heads.Head, **options):
    options = {"loss": losses.nll(head), "epochs": 5, "learning_rate": 0.02, **options}
    return nescio.train(net, (X, Y), members=2, **options)


def test_a_model_remembers_its_loss(tmp_path) -> None:
    loss = losses.weight_decay(losses.nll(), strength=0.01)
    model = nescio.train(net, (X, Y), loss=loss, epochs=1)
    assert model.loss == loss.description
    assert loss.description in repr(model)
    model.save(tmp_path)
    assert nescio.load(tmp_path).loss == loss.description
    assert nescio.models.plain(net()).loss is None


def test_a_head_of_the_user_is_saved_and_given_again(tmp_path) -> None:
    model = trained(sharpened())
    model.save(tmp_path)
    again = nescio.load(tmp_path, head=sharpened())
    assert torch.equal(again(X).probs, model(X).probs)
    assert again.head.name == "sharpened"
    with pytest.raises(NescioError, match=r"the head 'sharpened'.*nescio.load\(path, head=head\)"):
        nescio.load(tmp_path)


def test_a_head_with_a_fixed_number_of_outputs_is_probed_at_it(tmp_path) -> None:
    nescio.models.plain(nn.Linear(3, 7), head=seven()).save(tmp_path)
    again = nescio.load(tmp_path, net=nn.Linear(3, 7), head=seven())
    assert again(X).mixture_mean.shape == (30, 1)
    wrong = replace(seven(), center=lambda outputs: outputs[..., 1:2])
    with pytest.raises(NescioError, match="its center differ"):
        nescio.load(tmp_path, net=nn.Linear(3, 7), head=wrong)


@pytest.mark.parametrize(
    ("head", "said"),
    [
        (sharpened(3.0), "'power': 2.0.*'power': 3.0"),
        (replace(sharpened(), read=Categorical), "its read.logits differ"),
        (replace(sharpened(), nll=heads.categorical().nll), "its nll differ"),
        (heads.categorical(), "was saved with the head sharpened"),
        ("categorical", "was saved with the head sharpened"),
        (3, "head= takes a head or the name of one"),
    ],
)
def test_another_head_is_refused(head, said: str, tmp_path) -> None:
    trained(sharpened()).save(tmp_path)
    with pytest.raises(NescioError, match=said):
        nescio.load(tmp_path, head=head)


def test_a_head_with_a_name_of_nescio_that_reads_otherwise_is_not_taken_for_it(tmp_path) -> None:
    other = replace(sharpened(), name="categorical", options={})
    trained(other).save(tmp_path)
    with pytest.raises(NescioError, match="is not one of nescio's"):
        nescio.load(tmp_path)
    assert torch.equal(nescio.load(tmp_path, head=other)(X).logits, 2 * trained(other).outputs(X))


def test_heads_of_nescio_need_not_be_given_and_may_be(tmp_path) -> None:
    model = nescio.train(net, (X, Y), head="dirichlet,floor=0.5", epochs=1)
    assert model.loss == losses.nll(heads.dirichlet(floor=0.5)).description
    model.save(tmp_path)
    for given in (None, "dirichlet,floor=0.5", heads.dirichlet(floor=0.5)):
        assert torch.equal(nescio.load(tmp_path, head=given)(X).probs, model(X).probs)
    with pytest.raises(NescioError, match="was saved with the head dirichlet"):
        nescio.load(tmp_path, head="categorical")


def test_options_that_no_file_holds_are_refused_at_saving(tmp_path) -> None:
    odd = replace(sharpened(), options={"power": torch.tensor(2.0)})
    with pytest.raises(NescioError, match="options of the head sharpened must be numbers"):
        nescio.models.plain(net(), head=odd).save(tmp_path)


def test_a_run_with_a_head_of_the_user_resumes_and_is_read_when_finished(tmp_path) -> None:
    first = trained(sharpened(), run=tmp_path)
    second = trained(sharpened(), run=tmp_path)
    assert torch.equal(first(X).probs, second(X).probs)


def test_a_calibrated_model_takes_the_head_too(tmp_path) -> None:
    scaled = nescio.calibration.temperature(trained(sharpened()), (X, Y))
    scaled.save(tmp_path)
    again = nescio.load(tmp_path, head=sharpened())
    assert torch.equal(again(X).probs, scaled(X).probs)


def test_a_stepper_takes_the_head_too(tmp_path) -> None:
    state = nescio.stepper(net, head=sharpened())
    state.step(X, Y)
    again = nescio.load(state.save(tmp_path / "state"), head=sharpened())
    assert torch.equal(again.step(X, Y), state.step(X, Y))
    nescio.load(tmp_path / "state", loss=losses.nll(sharpened()))
    with pytest.raises(NescioError, match="nescio.load"):
        nescio.load(tmp_path / "state")


def test_train_takes_a_head_where_no_loss_says_it() -> None:
    model = nescio.train(net, (X, Y), head=sharpened(), epochs=1)
    assert model.head.name == "sharpened"

    def own(forward, batch, _):
        return batch.mean(sharpened().nll(forward(batch.x), batch.y))

    assert nescio.train(net, (X, Y), loss=own, head=sharpened(), epochs=1).head.name == "sharpened"
    assert nescio.train(net, (X, Y), loss=own, epochs=1).head.name == "categorical"
    with pytest.raises(NescioError, match="leave head= out"):
        nescio.train(net, (X, Y), loss=losses.nll(), head=sharpened(), epochs=1)
    with pytest.raises(NescioError, match="head= takes a head"):
        nescio.train(net, (X, Y), head=3, epochs=1)


def test_a_head_behind_a_convolution_is_probed_at_its_channels(tmp_path) -> None:
    def pairs(sign: float = 1.0) -> heads.Head:
        """Reads exactly 40 outputs, as 20 classes."""

        def logits(outputs: torch.Tensor) -> torch.Tensor:
            return sign * outputs.unflatten(-1, (20, 2)).sum(-1)

        read = {"read": lambda o: Categorical(logits(o)), "center": lambda o: logits(o)}
        return replace(sharpened(), name="pairs", options={}, **read)

    def make() -> nn.Module:
        return nn.Sequential(nn.Conv2d(3, 40, 1), nn.Flatten())

    nescio.models.plain(make(), head=pairs()).save(tmp_path)
    assert nescio.load(tmp_path, net=make(), head=pairs()).head.name == "pairs"
    with pytest.raises(NescioError, match="reads outputs otherwise"):
        nescio.load(tmp_path, net=make(), head=pairs(-1.0))
