"""The far field of ReLU networks: against closed forms, and the part with a small budget."""

import json
import math
import os
from dataclasses import replace

import pytest
import torch
from torch import nn

from nescio import data
from nescio.core import categorical
from nescio.models.model import Model
from nescio.nets.stack import stack
from nescio_papers import Settings, named, run_experiment
from nescio_papers.kit import VERDICTS
from nescio_papers.relu_overconfidence import far_field, worlds
from nescio_papers.relu_overconfidence.alphas import (
    DEAD,
    DISAGREE,
    LEVEL,
    TIE,
    UNDECIDED,
    along,
    confidence,
    measured,
    median,
    quantiles,
    reasons,
    row,
)
from nescio_papers.relu_overconfidence.certified import rbf_network
from nescio_papers.relu_overconfidence.directions import directions, limits
from nescio_papers.relu_overconfidence.far_field_tables import factor
from nescio_papers.relu_overconfidence.searches import (
    SPACING,
    by_bisection,
    by_grid,
    differs,
    search_row,
    searched,
)
from nescio_papers.relu_overconfidence.worlds import (
    CONV,
    DIGITS,
    MLP,
    NARROW,
    World,
    accuracies,
    members,
)

MARGIN = math.log(LEVEL / (1 - LEVEL))  # of two classes at the level


def linear(weight, bias=None):
    layer = nn.Linear(len(weight[0]), len(weight))
    layer.weight.data = torch.tensor(weight)
    layer.bias.data = torch.tensor(bias or [0.0] * len(weight))
    return layer


def model(*nets):
    return Model(nets[0], stack(nets), categorical())


def bent(*bends):
    """Of one feature t: the first logit is 0, the second the sum of slope * relu(t - place)."""
    slopes, places = zip(*bends, strict=True)
    inner = linear([[1.0]] * len(bends), [-place for place in places])
    return nn.Sequential(inner, nn.ReLU(), linear([[0.0] * len(bends), list(slopes)]))


def test_factors_of_a_linear_network_are_those_of_the_formula():
    net = linear([[1.0, -2.0], [-1.0, 1.0]], [0.0, 0.25])
    x = torch.tensor([[0.5, 0.1], [0.1, 0.9], [0.9, 0.2]])
    found = measured(model(net), x)
    steep = 2 * x[:, 0].double() - 3 * x[:, 1].double()
    expected = (MARGIN + 0.25 * steep.sign()) / steep.abs()
    assert torch.allclose(found.exact, expected, rtol=1e-12)
    assert torch.allclose(found.start, torch.sigmoid((steep - 0.25).abs()))
    cut = (x.double() * expected[:, None]).clamp(0, 1)
    gap = 2 * cut[:, 0] - 3 * cut[:, 1] - 0.25
    assert torch.allclose(found.clipped, torch.sigmoid(gap.abs()))
    assert (found.radius == 0).all()
    assert set(found.reason) == {""}


def test_a_ray_that_is_sure_at_once_has_the_factor_one():
    found = measured(model(linear([[9.0], [0.0]])), torch.tensor([[1.0], [0.5]]))
    assert found.exact.tolist() == [1.0, pytest.approx(MARGIN / 4.5)]
    numbers = row([found, found])
    assert numbers["already"] == 0.5
    assert numbers["rays"] == 4
    assert numbers["never"] == 0


def test_why_a_ray_never_gets_there():
    dead = nn.Sequential(linear([[-1.0]]), nn.ReLU(), linear([[1.0], [-1.0]], [1.0, 0.0]))
    tied = linear([[1.0], [1.0]], [0.5, 0.0])
    up, down = linear([[1.0], [0.0]]), linear([[0.0], [1.0]])
    x = torch.tensor([[1.0]])
    samples = {DEAD: model(dead), TIE: model(tied), DISAGREE: model(up, down)}
    for reason, source in samples.items():
        found = measured(source, x)
        assert found.exact.isinf().all()
        assert found.reason.tolist() == [reason]
        assert found.clipped.isnan().all()
        numbers = row([found])
        assert numbers["reasons"][reason] == numbers["never"] == 1.0
        assert numbers["clipped_rays"] == 0
    assert measured(model(up, up), x).exact.item() == pytest.approx(MARGIN)


def test_reasons_are_told_by_the_worst_member():
    import numpy as np

    kinds = np.array([["one", "one", "tie", "one"], ["undecided", "constant", "constant", "one"]])
    never = torch.tensor([torch.inf] * 4)
    assert reasons(kinds, never).tolist() == [UNDECIDED, DEAD, DEAD, DISAGREE]
    assert reasons(kinds, torch.ones(4)).tolist() == [""] * 4


def test_a_bisection_misses_the_first_of_two_crossings():
    hump = model(bent((10.0, 1.0), (-20.0, 2.0), (10.0, 3.0), (1.0, 1000.0)))
    x = torch.ones(1, 1)
    found = searched(hump, x)
    assert found.exact.item() == pytest.approx(1 + MARGIN / 10, rel=1e-6)
    assert found.bisected.item() == pytest.approx(1000 + MARGIN, rel=1e-6)
    assert found.bisection_wrong.tolist() == [True]
    assert found.exact.item() <= found.grid.item() <= found.exact.item() * SPACING * (1 + 1e-6)
    assert found.grid_wrong.tolist() == [False]
    assert found.falls.tolist() == [True]
    numbers = search_row([found])
    assert numbers["bisection_wrong"] == numbers["falls_again"] == 1
    assert numbers["largest_ratio"] == pytest.approx((1000 + MARGIN) / (1 + MARGIN / 10), rel=1e-5)


def test_a_bisection_says_never_where_confidence_ends_low():
    hump = model(bent((10.0, 1.0), (-20.0, 2.0), (10.0, 3.0)))
    found = searched(hump, torch.ones(1, 1))
    assert found.exact.item() == pytest.approx(1 + MARGIN / 10, rel=1e-6)
    assert found.bisected.isinf().all()
    assert search_row([found])["bisection_says_never"] == 1


def test_a_grid_steps_over_a_narrow_crossing():
    narrow = model(bent((2000.0, 5.0), (-4000.0, 5.005), (2000.0, 5.01), (1.0, 50.0)))
    points = torch.logspace(0, 6, 600, dtype=torch.float64)
    assert not ((points > 5) & (points < 5.01)).any()
    found = searched(narrow, torch.ones(1, 1))
    assert found.exact.item() == pytest.approx(5 + MARGIN / 2000, rel=1e-6)
    assert found.grid_wrong.tolist() == [True]
    assert 50 + MARGIN <= found.grid.item() <= (50 + MARGIN) * SPACING


def test_searches_agree_where_confidence_only_grows():
    net = linear([[1.0, -2.0], [-1.0, 1.0]])
    x = torch.rand(50, 2, generator=torch.Generator().manual_seed(0))
    found = searched(model(net), x)
    steep = (2 * x[:, 0] - 3 * x[:, 1]).double().abs()
    assert torch.allclose(found.exact, (MARGIN / steep).clamp(min=1), rtol=1e-6)
    assert not found.bisection_wrong.any()
    assert not found.grid_wrong.any()
    assert not found.falls.any()


def test_the_grid_is_the_one_that_is_described():
    net = model(linear([[0.0], [1.0]]))
    points = torch.logspace(0, 6, 600, dtype=torch.float64)
    x = torch.tensor([[0.003], [1.0], [20.0], [1e-7]])
    first = [points[points >= MARGIN / value][:1].tolist() for value in x[:, 0].tolist()]
    expected = [*(v[0] for v in first[:2]), 1.0, math.inf]
    assert by_grid(net, x).tolist() == pytest.approx(expected)
    for coarse in (2, 5, 7):
        assert torch.equal(by_grid(net, x, coarse=coarse), by_grid(net, x))
    wide = by_bisection(net.to(torch.float64), x.double())
    assert wide.tolist() == pytest.approx([MARGIN / 0.003, MARGIN, 1.0, math.inf], rel=1e-6)


def test_what_counts_as_different():
    exact = torch.tensor([2.0, 2.0, 2.0, math.inf, math.inf, 2.0])
    found = torch.tensor([2.0, 2.1, 1.9, math.inf, 5.0, math.inf])
    assert differs(exact, found).tolist() == [False, True, True, False, True, True]
    assert differs(exact, found, spacing=1.1).tolist() == [False, False, True, False, True, True]


def test_quantiles_are_order_statistics():
    values = torch.tensor([math.inf, 3.0, 1.0, 2.0, math.inf])
    assert median(values) == 3
    assert quantiles(values)["0.05"] == 1
    assert quantiles(values)["0.95"] == math.inf


def test_images_are_scaled_one_by_one():
    x = torch.ones(2, 1, 2, 2)
    assert along(x, torch.tensor([2.0, 3.0])).flatten(1).tolist() == [[2.0] * 4, [3.0] * 4]


def test_confidence_is_that_of_the_average():
    net = model(linear([[1.0], [0.0]]), linear([[0.0], [1.0]]))
    assert confidence(net, torch.tensor([[30.0]])).item() == pytest.approx(0.5)


def test_limits_by_direction_are_counted():
    """One class where the sum of the pixels is positive, dead where it is negative."""
    inner = linear([[1.0, 1.0]])
    net = nn.Sequential(nn.Flatten(), inner, nn.ReLU(), linear([[1.0], [0.0]], [0.0, 1.0]))
    x = torch.rand(40, 1, 1, 2)
    y = torch.arange(40) % 2
    world = World(
        "two",
        data.Dataset(name="two", train=(x, y), validation=None, test=(x, y), classes=2),
        {"net": model(net)},
    )
    found = limits(world, 40, 0)["net"]
    for way in ("noise", "test images"):
        assert found[way]["one"] == found[way]["mean_limit_confidence"] == 1
    signs = directions(world, 40, 0)["random"].flatten(1).sum(1)
    assert found["random"]["constant"] == pytest.approx((signs <= 0).double().mean().item())
    low = torch.tensor([0.0, 1.0]).softmax(0)[1].item()
    share = found["random"]["one"]
    expected = share + (1 - share) * low
    assert found["random"]["mean_limit_confidence"] == pytest.approx(expected)
    assert found["random"]["limit_below_level"] == pytest.approx(1 - share)


def test_members_and_accuracies():
    net = model(linear([[1.0], [-1.0]]), linear([[-1.0], [1.0]]))
    x, y = torch.tensor([[1.0], [-1.0], [2.0], [3.0]]), torch.tensor([0, 1, 0, 1])
    assert accuracies(net, (x, y)) == [0.75, 0.25]
    assert accuracies(members(net, [1]), (x, y)) == [0.25]


def test_factors_that_are_infinite_are_never():
    assert factor(math.inf) == factor(None) == "never"
    assert factor(1.2345) == "1.23"


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    """Without data: the far field of digits, with few images, and the other parts as published."""
    folder = tmp_path_factory.mktemp("overconfidence")
    small = far_field.Budget(20, 8, 10, 40)
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("NESCIO_DATA", raising=False)
        patch.setattr(far_field, "budget", lambda settings, world: small)
        run_experiment(
            named("relu-overconfidence"), folder, settings=Settings(quick=True), show=False
        )
    return folder, json.loads((folder / "results.json").read_text())["parts"]["far-field"]


def test_figures_claims_and_summary_are_written(found):
    folder, part = found
    summary = (folder / "summary.md").read_text()
    assert list(part["figures"]) == ["alphas.png", "rays.png", "distance.png"]
    for name, caption in part["figures"].items():
        assert (folder / name).read_bytes().startswith(b"\x89PNG")
        assert caption.endswith(".")
        assert name in summary
    assert len(part["claims"]) == 7  # two more with MNIST
    for claim in part["claims"]:
        assert claim["verdict"] in VERDICTS
        assert any(letter.isdigit() for letter in claim["measured"])
    assert "No MNIST: NESCIO_DATA" in summary
    for name in ("mnist", "svhn", "cifar10", "cifar100"):
        assert f"nescio data download {name}" in summary
    page = (folder / "table-1-mnist.md").read_text()
    assert "| Adv. Samples | 0.999 | 0.358 | 0.992 |" in page
    assert [row["published"] for row in part["comparisons"][:4]] == [0.51, 1.5, 98.7, 0.463]
    assert {row["note"] for row in part["comparisons"]} == {"digits of 8 x 8 pixels here"}


def test_the_numbers_are_those_of_the_networks(found):
    numbers = found[1]["numbers"]
    rows = numbers["worlds"][DIGITS]
    assert list(rows) == [CONV, MLP, NARROW]
    assert min(rows[MLP]["accuracy"]) > 0.9
    for name in (CONV, MLP):
        assert rows[name]["never"] == 0  # the limit is one class on every ray
        assert rows[name]["quantiles"]["0.05"] >= 1
        for way in ("noise", "test images", "random"):
            assert numbers["limits"][DIGITS][name][way]["one"] == 1
        assert rows[name]["ensemble"]["reasons"][DISAGREE] == rows[name]["ensemble"]["never"] > 0
    assert numbers["limits"][DIGITS][NARROW]["random"]["constant"] > 0
    heat = numbers["temperature"]
    assert heat["never"] == 0
    assert heat["median"]["after"] > 100 * heat["median"]["before"]


def test_the_rbf_network_keeps_its_guarantee_and_knows_the_digits(found):
    rbf = found[1]["numbers"]["rbf"]
    assert rbf["accuracy"] > 0.95
    assert rbf["beyond_the_radius"]["largest_gap"] <= rbf["epsilon"]
    assert rbf["last_distance_above_epsilon"] < rbf["radius"]
    allowed = math.log1p(10 * rbf["epsilon"])
    assert rbf["radius"] ** 2 == pytest.approx(math.log(rbf["alpha"] / allowed) / rbf["gamma"])
    beyond = rbf["beyond_the_radius"]["mean_confidence"]
    assert beyond["RBF"] < 0.11 < 0.8 < beyond[MLP]
    assert rbf["distance"]["test images"] < rbf["radius"] < rbf["distance"]["noise"]


def test_the_same_settings_give_the_same_rbf_network():
    quick = Settings(quick=True)
    world = World(DIGITS, data.digits(), {})
    first, second = (rbf_network(world, quick).tensors for _ in range(2))
    assert all(torch.equal(first[name], second[name]) for name in first)


def test_a_finished_part_is_not_run_again(found, monkeypatch):
    monkeypatch.delenv("NESCIO_DATA", raising=False)
    folder, _ = found
    experiment = named("relu_overconfidence")
    names = [part.name for part in experiment.parts]
    tables = [f"table-1-{name}" for name in ("mnist", "svhn", "cifar10", "cifar100")]
    assert names == ["far-field", *tables, "table-2", "figures", "acet-cost"]

    def refuse(settings):
        raise AssertionError("this part is done")

    done = ("far-field", "figures")  # the others lack their data, and are tried again
    parts = tuple(
        replace(part, run=refuse) if part.name in done else part for part in experiment.parts
    )
    before = (folder / "results.json").read_text()
    quick = Settings(quick=True)
    run_experiment(replace(experiment, parts=parts), folder, settings=quick, show=False)
    assert (folder / "results.json").read_text() == before


def test_mnist_is_used_where_it_is(tmp_path, monkeypatch):
    monkeypatch.delenv("NESCIO_DATA", raising=False)
    assert not worlds.has_mnist()
    monkeypatch.setenv("NESCIO_DATA", str(tmp_path))
    assert not worlds.has_mnist()
    (tmp_path / "mnist").mkdir()
    assert worlds.has_mnist()


@pytest.mark.skipif(not os.environ.get("NESCIO_DATA"), reason="NESCIO_DATA is not set: no MNIST")
def test_networks_learn_mnist():
    world = worlds.mnist_world(Settings(quick=True))
    assert world.data.features == (1, 28, 28)
    assert min(min(accuracies(m, world.test)) for m in world.models.values()) > 0.8
    found = measured(members(world.models[MLP], [0]), world.noise(10, 0))
    assert found.exact.isfinite().all()
    sure = confidence(
        worlds.wide(world.models[MLP]), along(world.noise(10, 0).double(), found.exact)
    )
    assert torch.allclose(sure[found.exact > 1], torch.tensor(LEVEL, dtype=torch.float64))
    worlds.mnist_world.cache_clear()
