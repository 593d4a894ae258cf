"""A network with one logit z gives what its equivalent with two logits, 0 and z, gives."""

import pytest
import torch
from torch import nn

import nescio
from nescio import NescioError, attacks, calibration, conformal, detectors, geometry
from nescio.models import ensemble, mc_dropout, plain

ROWS = 1200


class Flat(nn.Module):
    """One number a sample, `(N,)`."""

    def __init__(self, net):
        super().__init__()
        self.net = net

    def forward(self, x):
        return self.net(x).squeeze(-1)


def data(rows, seed):
    rng = torch.Generator().manual_seed(seed)
    x = torch.randn(rows, 4, generator=rng, dtype=torch.float64)
    noise = 0.7 * torch.randn(rows, generator=rng)
    return x, (x[:, 0] + x[:, 1] * x[:, 2] + noise > 0).long()


@pytest.fixture(scope="module")
def trained():
    make = lambda: nn.Sequential(  # noqa: E731
        nn.Linear(4, 24), nn.ReLU(), nn.Dropout(0.2), nn.Linear(24, 12), nn.ReLU(), nn.Linear(12, 1)
    )
    x, y = data(ROWS, 0)
    return nescio.train(
        lambda: make().double(), (x, y.double()), epochs=12, members=2, learning_rate=3e-3
    )


def widened(net):
    """The network with two logits, 0 and z."""
    *rest, last = net
    two = nn.Linear(last.in_features, 2, dtype=torch.float64)
    with torch.no_grad():
        two.weight.copy_(torch.cat([torch.zeros_like(last.weight), last.weight]))
        two.bias.copy_(torch.cat([torch.zeros_like(last.bias), last.bias]))
    return nn.Sequential(*rest, two).eval()


@pytest.fixture(scope="module")
def pair(trained):
    one = trained.member(0)
    return one, widened(one)


def kinds(y):
    return {"int": y, "bool": y.bool(), "float": y.float(), "column": y.float()[:, None]}


def test_training_is_that_of_bce(trained):
    assert trained.head.name == "binary"
    x, y = data(500, 1)
    z = trained.outputs(x)[0, :, 0]
    loss = nn.functional.binary_cross_entropy_with_logits(z, y.double(), reduction="none")
    torch.testing.assert_close(trained.head.nll(z[None, :, None], y[None])[0], loss)
    assert (trained(x).labels == y).float().mean() > 0.7


@pytest.mark.parametrize("shape", ["column", "flat"])
def test_predictors(pair, shape):
    one, two = pair
    one = Flat(one) if shape == "flat" else one
    x, _ = data(64, 2)
    for make in (
        lambda net, **how: plain(net, **how),
        lambda net, **how: ensemble([net, net], **how),
        lambda net, **how: mc_dropout(net, passes=5, **how),
    ):
        ours, theirs = make(one, head="binary")(x), make(two)(x)
        torch.testing.assert_close(ours.probs, theirs.probs, rtol=1e-6, atol=1e-7)
    with pytest.raises(NescioError, match="binary: Two classes"):
        plain(one)(x)


def test_saved(pair, tmp_path):
    x, _ = data(8, 2)
    model = plain(nescio.nets.mlp(4, 1), head="binary")
    model.save(tmp_path)
    again = nescio.load(tmp_path)
    assert again.head.name == "binary"
    assert torch.equal(again(x).probs, model(x).probs)


@pytest.mark.parametrize("kind", ["int", "bool", "float", "column"])
def test_activations_and_every_detector(pair, kind):
    one, two = pair
    x, y = data(400, 3)
    ours = nescio.observe(Flat(one), (x, kinds(y)[kind]), inputs=True)
    theirs = nescio.observe(two, (x, y), inputs=True)
    assert ours.about["head"]["name"] == "binary"
    torch.testing.assert_close(ours.logits, theirs.logits)
    assert torch.equal(ours.labels, y)
    assert torch.equal(ours.weight, theirs.weight)
    assert torch.equal(ours.bias, theirs.bias)
    if kind != "int":
        return
    for make in (
        lambda _: detectors.msp(), lambda _: detectors.energy(), lambda _: detectors.odin(),
        lambda _: detectors.measured("predictive_entropy"), detectors.react, detectors.vim,
        detectors.knn, detectors.mahalanobis, detectors.kl_matching, detectors.openmax,
        detectors.trust_score,
    ):  # fmt: skip
        mine, other = make(ours), make(theirs)
        torch.testing.assert_close(mine(ours), other(theirs))
        torch.testing.assert_close(
            nescio.scorer(Flat(one), mine, head="binary")(x[:50]), nescio.scorer(two, other)(x[:50])
        )


@pytest.mark.parametrize("name", ["temperature", "platt", "vector", "isotonic", "histogram"])
def test_calibration(pair, name):
    one, two = pair
    x, y = data(600, 4)
    calibrate = getattr(calibration, name)
    ours, theirs = calibrate(Flat(one), (x, y.float())), calibrate(two, (x, y))
    new, _ = data(50, 5)
    torch.testing.assert_close(ours(new).probs, theirs(new).probs)
    with torch.no_grad():
        z = Flat(one)(x)
        by_hand = calibration.fit(name, z, y)
        torch.testing.assert_close(by_hand(one(new)).probs, theirs(new).probs, rtol=1e-5, atol=1e-6)


def test_prediction_sets(pair):
    one, two = pair
    x, y = data(600, 4)
    with torch.no_grad():
        for method in (conformal.threshold, conformal.adaptive, conformal.regularized_adaptive):
            ours, theirs = method(Flat(one)(x), y), method(two(x), y)
            assert torch.equal(ours(one(x)), theirs(two(x)))


@pytest.mark.parametrize("kind", ["float", "bool"])
def test_guard_score_and_monitor(pair, kind, tmp_path):
    one, two = pair
    x, y = data(1500, 6)
    train = data(ROWS, 0)
    options = {"risk": 0.2, "false_alarm": 0.05}
    ours = nescio.guard(Flat(one), (x, kinds(y)[kind]), train=train, **options)
    theirs = nescio.guard(two, (x, y), train=train, **options)
    new, _ = data(300, 7)
    found, truth = ours(new), theirs(new)
    assert ours.head.name == "binary"
    for name in ("decision", "label", "rule", "sets"):
        assert torch.equal(getattr(found, name), getattr(truth, name)), name
    for name in ("probability", "p_value", "score", "failure_score"):
        torch.testing.assert_close(getattr(found, name), getattr(truth, name))
    path = ours.save(tmp_path / "guard.safetensors", weights=True)
    again = nescio.load(path, net=Flat(one))
    assert torch.equal(again(new).decision, found.decision)
    watched, other = (nescio.monitor(one).update(found.score) for one in (ours, theirs))
    assert watched.log_martingale == pytest.approx(other.log_martingale)


@pytest.mark.parametrize("task", ["ood", "errors", "confidence"])
def test_comparisons(pair, task):
    one, two = pair
    x, y = data(300, 8)
    ood = None if task == "errors" else {"far": 4 * data(200, 9)[0]}
    options = {"train": data(400, 0), "detectors": ["knn", "energy"], "task": task, "resamples": 20}
    ours = nescio.compare(Flat(one), (x, y.float()), ood, **options)
    theirs = nescio.compare(two, (x, y), ood, **options)
    for mine, other in zip(ours.rows, theirs.rows, strict=True):
        if "seconds" not in str(mine) and isinstance(mine.value, float):
            assert mine.value == pytest.approx(other.value, nan_ok=True), mine


def test_audit(pair):
    one, two = pair
    x, y = data(500, 10)
    options = {"train": data(ROWS, 0), "rays": 3, "attack_steps": 3, "alphas": (1.0, 10.0)}
    ours = nescio.audit(Flat(one), (x, y.float()), **options).findings.predictors["network"]
    theirs = nescio.audit(two, (x, y), **options).findings.predictors["network"]
    assert vars(ours.test) == pytest.approx(vars(theirs.test))
    assert ours.classes == 2


def test_attacks(pair):
    one, two = pair
    x, y = data(40, 11)
    sources = plain(Flat(one), head="binary"), plain(two)
    for attack in (attacks.fgsm, attacks.pgd):
        for objective in (attacks.label_loss, attacks.wrong_confidence):
            ours, theirs = (
                attack(objective(one), x, y, radius=0.3, low=-9, high=9) for one in sources
            )
            torch.testing.assert_close(ours.x, theirs.x)
            torch.testing.assert_close(ours.value, theirs.value)


def test_far_field_and_regions(pair):
    one, two = pair
    x, _ = data(20, 12)
    start, way = x[:10], x[10:]
    for net in (one, Flat(one)):
        ours, theirs = (
            geometry.far_field(source, start, way)
            for source in (plain(net, head="binary"), plain(two))
        )
        torch.testing.assert_close(ours.limit, theirs.limit)
        torch.testing.assert_close(ours.slope, theirs.slope)
    one, two = plain(one, head="binary"), plain(two)
    for question in (
        lambda source: geometry.exact_far_field(source, start[:2], way[:2]).limit,
        lambda source: geometry.first_confident(source, start, way).factor,
        lambda source: geometry.limits(source, start, way).probs,
        lambda source: geometry.affine(source, start).V,
    ):
        torch.testing.assert_close(question(one), question(two))


def test_outputs_that_are_probabilities_are_refused(pair):
    one, _ = pair
    x, _ = data(50, 3)
    squashed = nn.Sequential(one, nn.Sigmoid())
    with pytest.raises(NescioError, match="sigmoid"):
        plain(squashed, head="binary")(x)
    with pytest.raises(NescioError, match="sigmoid"):
        nescio.observe(squashed, data(50, 3))


def test_one_output_that_may_be_a_mean_is_asked_for(pair):
    one, _ = pair
    x, y = data(50, 3)
    for labels in (y + 0.5, None):
        with pytest.raises(NescioError, match="fixed_variance: Mean"):
            nescio.observe(one, (x, labels) if labels is not None else x)
    with pytest.raises(NescioError, match="gaussian: Mean"):
        nescio.observe(nn.Linear(4, 2), (x, y * 3.7))
