"""Compiled, parallel and scripted networks are read like others, or an error says what to do.

And what a user keeps can be pickled, copied and moved.
"""

import copy
import pickle
from dataclasses import replace
from functools import cache

import pytest
import torch
from torch import nn

import nescio
from nescio import NescioError, attacks, calibration, conformal, detectors, geometry
from nescio.core import quiet
from nescio.models import ensemble, mc_dropout, plain

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")


def network():
    torch.manual_seed(0)
    first = nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten()
    return nn.Sequential(
        *first, nn.Linear(36, 16), nn.ReLU(), nn.Dropout(0.3), nn.Linear(16, 3)
    ).eval()


NET = network()
X = torch.rand(400, 1, 8, 8, generator=torch.Generator().manual_seed(1))
with torch.no_grad():
    LOGITS = NET(X)
Y = torch.where(torch.arange(400) % 5 > 0, LOGITS.argmax(1), torch.arange(400) % 3)
SEALED = {
    "scripted": lambda: torch.jit.script(NET),
    "traced": lambda: torch.jit.trace(NET, X[:2]),
    "partly scripted": lambda: nn.Sequential(*NET[:5], torch.jit.script(NET[5:])),
}
OPEN = {
    "parallel": lambda: nn.DataParallel(NET),
    "compiled": lambda: torch.compile(NET, backend="eager"),
    "compiled in place": lambda: _compiled_in_place(),
    "compiled and parallel": lambda: torch.compile(nn.DataParallel(NET), backend="eager"),
}


def _compiled_in_place():
    net = copy.deepcopy(NET)
    net.compile(backend="eager")
    return net


def guard(source, **options):
    options = {"risk": 0.4, "false_alarm": 0.05, "train": (X[:200] + 0.01, Y[:200]), **options}
    with quiet():
        return nescio.guard(source, (X, Y), **options)


@pytest.mark.parametrize("kind", [*SEALED, *OPEN])
def test_logits_are_those_of_the_network(kind):
    net = (SEALED | OPEN)[kind]()
    for found in (
        plain(net).outputs(X)[0],
        ensemble([net, net]).outputs(X)[1],
        nescio.observe(net, X, layers=[]).logits[0],
    ):
        torch.testing.assert_close(found, LOGITS, rtol=1e-4, atol=1e-5)
    energy = nescio.scorer(net, detectors.energy())(X)
    torch.testing.assert_close(energy, -LOGITS.logsumexp(1), rtol=1e-4, atol=1e-5)
    aim = attacks.confidence(net)
    assert attacks.pgd(aim, X[:5], radius=0.1, steps=2).x.shape == X[:5].shape
    found = guard(net, detector="energy")(X)
    assert torch.equal(found.label, LOGITS.argmax(1))


@pytest.mark.parametrize("kind", OPEN)
def test_layers_are_reached_through_wrappers(kind):
    net = OPEN[kind]()
    ours, theirs = nescio.observe(net, X[:9]), nescio.observe(NET, X[:9])
    assert list(ours.features) == list(theirs.features)
    torch.testing.assert_close(ours.features[ours.last], theirs.features[theirs.last])
    assert guard(net)(X[:9]).label.tolist() == LOGITS[:9].argmax(1).tolist()
    passes = mc_dropout(net, passes=3)(X[:9]), mc_dropout(NET, passes=3)(X[:9])
    torch.testing.assert_close(passes[0].logits, passes[1].logits)
    far = geometry.far_field(net, X[:2] * 0, X[:2]), geometry.far_field(NET, X[:2] * 0, X[:2])
    torch.testing.assert_close(far[0].slope, far[1].slope)


@pytest.mark.parametrize("kind", SEALED)
@pytest.mark.parametrize(
    "use",
    [
        lambda net: nescio.observe(net, X),
        lambda net: guard(net),
        lambda net: mc_dropout(net)(X),
        lambda net: geometry.far_field(net, X[:2] * 0, X[:2]),
        lambda net: pickle.dumps(guard(net, detector="energy")),
        lambda net: nescio.train(lambda: net, (X, Y), epochs=1),
    ],
)
def test_what_a_scripted_network_hides_is_said(kind, use):
    with pytest.raises(NescioError, match=r"TorchScript.*nn\.Module it (was made|came) from"):
        use(SEALED[kind]())


@pytest.mark.parametrize("kind", ["scripted", "parallel"])
def test_an_audit_and_a_file_take_them(kind, tmp_path):
    net = (SEALED | OPEN)[kind]()
    with quiet():
        found = nescio.audit(net, (X, Y), ood={"dark": X * 0.1}, progress=False)
    assert found.findings is not None
    path = guard(net, detector="energy").save(tmp_path / "guard")
    assert torch.equal(nescio.load(path, net=net)(X).label, LOGITS.argmax(1))


def test_a_scripted_network_may_change():
    net = torch.jit.script(network())
    score = nescio.scorer(net, detectors.energy())
    before = score(X[:4])
    with torch.no_grad():
        dict(net.named_parameters())["8.bias"].add_(1.0)
    torch.testing.assert_close(score(X[:4]), before - 1)


@cache
def kept():
    seen = nescio.observe(NET, (X, Y))
    made = guard(NET)
    model = ensemble([NET, network()])
    return {
        "guard": (made, X),
        "guard of logits": (guard(NET, detector="energy"), X),
        "model": (model, X),
        "mc dropout": (mc_dropout(NET, passes=3), X),
        "pooled": (ensemble([NET, nn.Sequential(NET)]), X),
        "calibrated": (calibration.temperature(model, (X, Y)), X),
        "detector": (detectors.knn(seen, k=3), seen),
        "scorer": (nescio.scorer(NET, detectors.mahalanobis(seen)), X),
        "sets": (conformal.threshold(model(X), Y), model(X)),
        "output": (plain(_Pair(), output=1), X),
    }


class _Pair(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = network()

    def forward(self, x):
        return x, self.inner(x)


def numbers(found):
    if isinstance(found, torch.Tensor):
        return found
    return found.failure_score if hasattr(found, "failure_score") else found.log_probs


@pytest.mark.parametrize("name", kept())
def test_what_is_kept_can_be_pickled_and_copied(name):
    value, given = kept()[name]
    fresh = pickle.loads(pickle.dumps(value)), copy.deepcopy(value)
    expected = numbers(value(given))  # what it stores for the next call must not be in the way
    used = pickle.loads(pickle.dumps(value)), copy.deepcopy(value)
    for twin in (*fresh, *used):
        assert torch.equal(numbers(twin(given)), expected)


def test_a_guard_moves():
    made = guard(NET)
    moved = made.to("cpu")
    assert moved is not made
    assert torch.equal(moved(X).score, made(X).score)


def test_a_pickled_guard_holds_no_other_code_than_its_own():
    text = pickle.dumps(replace(guard(NET), notes={}))
    assert b"lambda" not in text
