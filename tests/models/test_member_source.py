"""A new source of members is one file: everything that reads predictors takes it as it is."""

import sys

import pytest
import torch

import nescio
from nescio import NescioError, geometry, measures, nets
from nescio.core.registry import predictors
from nescio.evaluation.audit.far_field_section import rays_from
from nescio.models import innermost, mc_dropout, networks, plain

SOURCE = '''
"""Members are one network with its weights scaled by a few factors."""

from copy import deepcopy
from dataclasses import dataclass

import torch
from torch import nn

from nescio.core import Head, Prediction, as_inputs, categorical
from nescio.core.registry import predictors
from nescio.models import Member


@predictors.register
def scaled_weights(net: nn.Module, *, factors=(0.9, 1.0, 1.1)):
    """The network with its weights scaled by `factors`."""
    return ScaledWeights(net, tuple(factors))


@dataclass(frozen=True, eq=False)
class ScaledWeights:
    """One network at several scales."""

    net: nn.Module
    factors: tuple[float, ...]
    inner = None

    def networks(self):
        return [Member(net=self._at(factor), template=self.net) for factor in self.factors]

    @torch.no_grad()
    def _at(self, factor):
        net = deepcopy(self.net).eval()
        for weight in net.parameters():
            weight.mul_(factor)
        return net

    def answer(self, x):
        return categorical()(torch.stack([member.net(x) for member in self.networks()]))

    @torch.no_grad()
    def __call__(self, x) -> Prediction:
        return self.answer(as_inputs(x, dtype=torch.float32))
'''


@pytest.fixture(scope="module")
def build(tmp_path_factory):
    """The source, from a package of its own: one file, and a line in `__init__`."""
    package = tmp_path_factory.mktemp("packages") / "more_members"
    package.mkdir()
    (package / "scaled_weights.py").write_text(SOURCE)
    line = "from more_members.scaled_weights import scaled_weights as scaled_weights\n"
    (package / "__init__.py").write_text(line)
    sys.path.insert(0, str(package.parent))
    try:
        import more_members

        yield more_members.scaled_weights
    finally:
        sys.path.remove(str(package.parent))
        predictors._parts.pop("scaled_weights", None)


def blobs(count, seed):
    rng = torch.Generator().manual_seed(seed)
    y = torch.randint(3, (count,), generator=rng)
    centers = torch.tensor([[0.0, 2.0], [2.0, -1.0], [-2.0, -1.0]])
    return centers[y] + 0.9 * torch.randn(count, 2, generator=rng), y


@pytest.fixture(scope="module")
def net():
    model = nescio.train(
        lambda: nets.mlp(2, 3, widths=(16,)), blobs(400, 0), epochs=30, progress=False
    )
    return model.member(0)


@pytest.fixture(scope="module")
def source(build, net):
    return build(net)


def test_predictions_and_measures_have_its_members(source, net):
    x, _ = blobs(50, 1)
    prediction = source(x)
    assert prediction.members == 3
    assert torch.equal(prediction.logits[1], net(x))
    values = measures.measure_all(prediction)
    assert values["mutual_information"].min() > 0
    assert "scaled_weights" in predictors


def test_the_geometry_analyzes_each_member(source):
    x, _ = blobs(5, 1)
    rays = torch.zeros_like(x), x
    field = geometry.far_field(source, *rays)
    for index, member in enumerate(networks(source)):
        alone = geometry.far_field(member.net, *rays)
        assert torch.equal(field.limit[index], alone.limit)
        assert torch.equal(field.radius[index], alone.radius)
    ends = geometry.limits(source, *rays, gradients=False)
    assert ends.probs.shape == (3, 5, 3)
    assert len(geometry.regions(source, [(-2, 2), (-2, 2)])) == 3


def test_its_features_are_observed(source):
    x, y = blobs(60, 1)
    found = nescio.observe(source, (x, y), progress=False)
    assert (found.members, found.samples) == (3, 60)
    assert torch.allclose(found.logits, source(x).logits, atol=1e-6)
    detector = nescio.detectors.knn(found, k=5)
    assert torch.allclose(nescio.scorer(source, detector)(x), detector(found))


def test_a_guard_decides_by_it(source, tmp_path):
    x, y = blobs(900, 2)
    made = nescio.guard(source, (x, y), train=blobs(300, 0), risk=0.5, false_alarm=0.05)
    assert len(made.nets) == 3
    decisions = made(x[:40])
    again = nescio.load(made.save(tmp_path / "guard.safetensors"), net=source)
    assert torch.equal(again(x[:40]).p_value, decisions.p_value)


def test_it_is_calibrated_sampled_compared_and_audited(build, source):
    (x, y), far = blobs(400, 3), 8 + torch.zeros(100, 2)
    cooled = nescio.calibration.temperature(source, (x, y))
    assert innermost(cooled) is source
    assert {member.slope for member in networks(cooled)} == {cooled.slope}
    assert geometry.far_field(cooled, x[:2], x[:2]).limit.shape == (3, 2, 3)
    dropping = build(nets.mlp(2, 3, widths=(8,), dropout=0.5))
    assert mc_dropout(dropping, passes=2)(x[:4]).members == 6
    found = nescio.compare(
        source, (x, y), {"far": far}, detectors=["energy", "msp"], resamples=0, progress=False
    )
    assert str(found)
    options = {"task": "confidence", "progress": False}
    assert str(nescio.compare({"toy": source}, (x, y), {"far": far}, **options))
    audit = nescio.audit(source, (x, y), train=blobs(300, 0), progress=False)
    assert str(audit)


def test_what_wraps_others_has_no_features():
    net = nets.mlp(2, 3, widths=(8,), dropout=0.5)
    x, y = blobs(30, 1)
    sampled = mc_dropout(net, passes=2)
    cooled = nescio.calibration.scaled(plain(net), 0.5, (0.0, 0.0, 0.0))
    pooled = nescio.models.ensemble([net, cooled])
    for wrapper in (sampled, cooled, pooled):
        with pytest.raises(NescioError, match="have no one set of features: give the network"):
            nescio.observe(wrapper, (x, y))


def test_a_dirichlet_model_is_read_through_its_head():
    x, y = blobs(300, 1)
    loss = nescio.losses.nll(nescio.heads.dirichlet())
    make = lambda: nets.mlp(2, 3, widths=(8,))  # noqa: E731
    model = nescio.train(make, blobs(300, 0), loss=loss, epochs=5, progress=False)
    found = nescio.observe(model, (x, y), progress=False)
    assert torch.allclose(found.logits, model(x).log_alpha, atol=1e-6)
    msp = nescio.detectors.msp()
    assert torch.allclose(msp(found), measures.log_odds(model(x)), atol=1e-6)
    assert torch.allclose(nescio.scorer(model, msp)(x), msp(found))
    assert found.weight is not None
    assert found.last is not None
    nescio.detectors.knn(found, k=3)
    energy = nescio.detectors.energy()(found)
    assert torch.allclose(energy, -model(x).log_precision, atol=1e-5)
    information = nescio.detectors.measured("mutual_information", head="dirichlet")(found)
    assert torch.allclose(information, measures.mutual_information(model(x)), rtol=1e-5)
    precision = nescio.detectors.measured("negative_log_precision", head="dirichlet")(found)
    assert torch.allclose(precision, energy, atol=1e-5)
    made = nescio.guard(model, (x, y), train=blobs(300, 0), risk=0.9, calibration_map=None,
                        false_alarm=0.05)  # fmt: skip
    assert torch.allclose(made(x).probability, model(x).probs.amax(-1).double(), atol=1e-5)
    sets, by = {"far": x + 9}, nescio.detectors.measured("mutual_information", head="dirichlet")
    ranked = nescio.compare(
        model, (x, y), sets, detectors={"MI": by, "energy": "energy"}, resamples=0, progress=False
    )
    assert "MI" in str(ranked)
    named = nescio.compare(model, (x, y), sets, detectors="all", resamples=0, progress=False)
    assert (named.scores["mutual_information"]["far"] == ranked.scores["MI"]["far"]).all()
    assert {"negative_log_precision", "differential_entropy"} <= set(named.scores)
    assert "variation_ratio" not in named.scores
    found_errors = nescio.compare(
        model, (x, y), task="errors", detectors=["negative_log_precision"], resamples=2
    )
    rows = found_errors.scores["negative_log_precision"].values()
    torch.testing.assert_close(torch.as_tensor(*rows), precision)
    with pytest.raises(NescioError, match=r'measured\("mutual_information", head="dirichlet"\)'):
        nescio.detectors.measured("mutual_information")(found)
    nescio.detectors.measured("predictive_entropy")(found)  # the mean is all that it reads
    audited = nescio.audit(model, (x, y), train=blobs(300, 0), progress=False)
    assert "negative log precision" in " ".join(str(audited).split())
    assert "no far field" not in str(audited)
    shares = audited.findings.predictors["network"].far_field.growing_precision
    said = f"grows without bound in {100 * shares['random directions']:.1f} % of random directions"
    assert said in " ".join(str(audited).split())
    start, way, _ = rays_from(x, count=200, seed=0)["random directions"]
    near, far = (model((start + t * way).float()).log_precision for t in (1e4, 1e5))
    assert shares["random directions"] == pytest.approx((far > near).double().mean().item())


def test_of_a_regression_detectors_of_classes_are_refused_and_a_guard_gives_intervals():
    x, y = torch.randn(400, 2), torch.randn(400, 1)
    loss = nescio.losses.nll(nescio.heads.gaussian())
    data = torch.randn(50, 2), torch.randn(50, 1)
    model = nescio.train(lambda: nets.mlp(2, 2), data, loss=loss, epochs=1, progress=False)
    with pytest.raises(NescioError, match="energy"):
        nescio.scorer(model, nescio.detectors.energy())
    made = nescio.guard(model, (x, y), detector="knn", train=data[0], risk=0.2)
    assert (made(x[:5]).low < made(x[:5]).high).all()
