"""What every predictor does alike: outputs that are no logits are refused, heads are checked."""

import pytest
import torch
from torch import nn

import nescio
from nescio import heads
from nescio.core import NescioError
from nescio.core.registry import predictors
from nescio.models import ensemble, mc_dropout, plain, weight_samples
from nescio.nets.mlp import VariationalLinear

X = torch.randn(6, 4, generator=torch.Generator().manual_seed(0))


class Ends(nn.Module):
    """A network whose last operation is a given function; what it returns is seen when it runs."""

    def __init__(self, outputs, end, first=nn.Linear):
        super().__init__()
        self.first, self.drop, self.out = first(4, 5), nn.Dropout(0.5), nn.Linear(5, outputs)
        self.end = end

    def forward(self, x):
        return self.end(self.out(self.drop(self.first(x).relu())))


def bayesian(outputs, end):
    return Ends(outputs, end, lambda i, o: VariationalLinear(i, o, spread=0.1))


PREDICTORS = {
    "plain": lambda net, **head: plain(net(), **head),
    "ensemble": lambda net, **head: ensemble([net(), net()], **head),
    "pooled": lambda net, **head: ensemble([net(), nn.Sequential(net())], **head),
    "mc_dropout": lambda net, **head: mc_dropout(net(), passes=3, **head),
    "mc_dropout of a model": lambda net, **head: mc_dropout(ensemble([net()], **head), passes=3),
}


def test_all_predictors_are_here():
    known = {name.split()[0] for name in PREDICTORS} - {"pooled"}
    assert set(predictors) == known | {"weight_samples"}


@pytest.mark.parametrize(
    ("outputs", "end", "message"),
    [
        (3, lambda z: z.softmax(-1), "probabilities already"),
        (1, lambda z: z, "one logit for each class"),
    ],
)
@pytest.mark.parametrize("name", [*PREDICTORS, "weight_samples"])
def test_outputs_that_are_no_logits_are_refused(name, outputs, end, message):
    if name == "weight_samples":
        made = weight_samples(plain(bayesian(outputs, end)), passes=2)
    else:
        made = PREDICTORS[name](lambda: Ends(outputs, end))
    with pytest.raises(NescioError, match=message):
        made(X)


@pytest.mark.parametrize("outputs", [1, 3])
def test_sampled_passes_are_checked_with_gradients_too(outputs):
    made = mc_dropout(Ends(outputs, lambda z: z.softmax(-1)), passes=3)
    with pytest.raises(NescioError, match="one logit for each class|probabilities already"):
        made.answer(X)


@pytest.mark.parametrize("name", PREDICTORS)
def test_a_head_may_be_named(name):
    def net():
        torch.manual_seed(0)
        return Ends(1, lambda z: z)

    named = PREDICTORS[name](net, head="fixed_variance")(X)
    value = PREDICTORS[name](net, head=heads.fixed_variance())(X)
    assert isinstance(named, nescio.Gaussian)
    assert torch.equal(named.mean, value.mean)
    assert named.variance.unique().tolist() == [1.0]


@pytest.mark.parametrize(
    ("head", "message"),
    [
        ("mean", "unknown head 'mean'.*fixed_variance"),
        (
            heads.gaussian,
            r"heads.gaussian\(\), or its name, one of binary, categorical.*got a function",
        ),
        (1, "got a int"),
    ],
)
@pytest.mark.parametrize("name", PREDICTORS)
def test_what_is_no_head_is_refused_at_once(name, head, message):
    with pytest.raises(NescioError, match=message):
        PREDICTORS[name](lambda: Ends(2, lambda z: z), head=head)


@pytest.mark.parametrize("name", PREDICTORS)
def test_one_output_is_seen_before_it_is_asked(name):
    def net():
        return nn.Sequential(nn.Dropout(0.5), nn.Sequential(nn.ReLU(), nn.Linear(4, 1)))

    with pytest.raises(NescioError, match="(?s)one output.*fixed_variance: Mean of D"):
        PREDICTORS[name](net)
    assert PREDICTORS[name](net, head="fixed_variance")(X).mean.shape[1:] == (6, 1)


def test_a_model_keeps_its_own_head():
    model = plain(Ends(2, lambda z: z))
    with pytest.raises(NescioError, match="its own head"):
        mc_dropout(model, passes=2, head="gaussian")


@pytest.mark.parametrize("passes", [0, -1, 2.0, True, "3"])
def test_draws_are_counted_in_whole_numbers(passes):
    for made in (mc_dropout, weight_samples):
        with pytest.raises(NescioError, match="passes must be a whole number from 1 up"):
            made(plain(bayesian(2, lambda z: z)), passes=passes)


def test_what_is_no_list_of_networks_is_refused():
    with pytest.raises(NescioError, match="networks and predictors, got str"):
        ensemble([nn.Linear(4, 3), "net"])
    for nets in (mc_dropout(Ends(2, lambda z: z)), 3, None, iter([])):
        with pytest.raises(NescioError, match="reads a list of networks"):
            ensemble(nets)
    with pytest.raises(NescioError, match="reads a trained model, got Linear"):
        weight_samples(nn.Linear(4, 3))
    assert ensemble(nn.Linear(4, 3) for _ in range(2)).members == 2
