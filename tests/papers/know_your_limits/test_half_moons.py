"""The half-moons experiment: its machinery against closed forms, its parts in quick mode."""

import copy
import json
import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from matplotlib.lines import Line2D
from sklearn.metrics import roc_auc_score

from nescio import losses, nets
from nescio.core import categorical
from nescio.models import mc_dropout
from nescio.models.model import Model
from nescio.nets.stack import stack
from nescio_papers import Settings, named, run_experiment
from nescio_papers.know_your_limits import models as world_models
from nescio_papers.know_your_limits.accuracy import _figure as accuracy_figure
from nescio_papers.know_your_limits.blob_claims import blob_claims
from nescio_papers.know_your_limits.blobs import blobs, trained_blobs
from nescio_papers.know_your_limits.half_moons import (
    CHOSEN,
    HARD,
    _captions,
    _comparisons,
    _Drawing,
    maps,
    panel_numbers,
)
from nescio_papers.know_your_limits.models import (
    BAYES,
    DROPOUT,
    END,
    ENSEMBLE,
    MANY,
    MIXTURE,
    PAPER,
    PLAIN,
    PLATT,
    SINGLE,
    Network,
    calibrated,
    choose,
    thinned,
    trained,
    world,
)
from nescio_papers.know_your_limits.piece_figures import figure_of_pieces
from nescio_papers.know_your_limits.piece_figures import found as found_pieces
from nescio_papers.know_your_limits.rays import counter_example, ray_numbers, scaled
from nescio_papers.know_your_limits.statistics import names_of, statistics
from nescio_papers.know_your_limits.surfaces import (
    ENTROPY,
    INFORMATION,
    LEAST,
    OF_MANY,
    VARIANCE,
    Grid,
    boundary,
    fields,
    slopes,
    top,
)

QUICK = Settings(quick=True)
PARTS = ["models", "rays", "softmax", "flow-chart"]


def short(settings, budget, rate, loss):
    """Enough training to tell the moons apart, in a second."""
    del settings, rate, loss
    return {"epochs": 2 if budget == PAPER else 20, "learning_rate": 1e-2}


@pytest.fixture(scope="module", autouse=True)
def _short_training():
    caches = (trained, world_models.with_activation, statistics)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(world_models, "_budget", short)
        yield
    for cache in caches:
        cache.cache_clear()


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("limits")
    run_experiment(named("know-your-limits"), folder, settings=QUICK, only=PARTS, show=False)
    return folder


def linear(matrix, shift=None):
    """One linear layer as a network."""
    layer = torch.nn.Linear(2, len(matrix)).double()
    layer.weight.data = torch.tensor(matrix, dtype=torch.float64)
    layer.bias.data = torch.tensor(shift or [0.0] * len(matrix), dtype=torch.float64)
    return layer


def network(*matrices):
    return Network(Model(linear(matrices[0]), stack([linear(m) for m in matrices]), categorical()))


def record(folder, part):
    return json.loads((folder / f"{part}.json").read_text())


def test_figures_claims_and_summary_are_written(folder):
    summary = (folder / "summary.md").read_text()
    judged = json.loads((folder / "results.json").read_text())["parts"]
    for part in PARTS:
        found = record(folder, part)
        for name, caption in found["figures"].items():
            assert (folder / name).read_bytes().startswith(b"\x89PNG")
            assert len(caption) > 40
            assert name in summary
        assert bool(judged[part]["claims"]) == (part != "flow-chart")
        for claim in judged[part]["claims"]:
            assert claim["verdict"] == "open"  # a quick run judges nothing
            assert claim["facts"]
            assert any(letter.isdigit() for letter in claim["measured"])
    left_out = "blobs, pieces, surfaces, assumptions, exact-limits, activations, statements"
    assert f"Not run: {left_out}, medical, other-inputs." in summary


def test_done_parts_are_not_run_again(folder):
    def refuse(settings, done):
        raise AssertionError("this part is done")

    experiment = named("know_your_limits")
    parts = tuple(replace(part, run=refuse) for part in experiment.parts)
    before = (folder / "results.json").read_text()
    run_experiment(replace(experiment, parts=parts), folder, settings=QUICK, only=PARTS, show=False)
    assert (folder / "results.json").read_text() == before


def test_models_are_compared_with_both_budgets(folder):
    numbers = record(folder, "models")["numbers"]
    for budget in (PAPER, END):
        assert list(numbers[budget]) == [*SINGLE, *MANY, MIXTURE]
    plain = numbers[END][PLAIN]
    assert (
        plain["validation accuracy"]["mean"] > 0.9 > numbers[PAPER][PLAIN]["fresh accuracy"]["low"]
    )
    assert plain["validation accuracy"]["low"] <= plain["validation accuracy"]["high"]
    # Platt scaling keeps the order of samples, so also the area under the curve
    same, kept = (one["validation auroc"]["values"] for one in (numbers[END][PLATT], plain))
    assert same == pytest.approx(kept)


def test_every_value_converges_along_rays(folder):
    numbers = record(folder, "rays")["numbers"]
    for name in (*SINGLE, *MANY):
        for kind in names_of(name):
            assert numbers[name][kind]["still"]["mean"] > 0.95
        limits = numbers[name]["limits"]
        assert limits["winner by slope, x_d above 0"]["mean"] > 0.99
        assert limits["winner by slope, x_d below 0"]["mean"] > 0.99
    assert numbers[PLAIN]["limits"]["winner by the paper's rule, x_d below 0"]["mean"] < 0.01


def test_the_counter_example_keeps_its_gradient():
    found = counter_example()
    assert found["probabilities"] == pytest.approx([0.6457, 0.3543], abs=1e-4)
    assert found["gradients"] == pytest.approx([0.4576] * 3, abs=1e-4)
    assert found["moved"] < 1e-9  # 1e6 + 0.3 has that much rounding
    # the same by the machinery that the rays use
    x = torch.tensor([[1.0, 0.3]])
    limits = ray_numbers([network([[1.0, 1.0], [1.0, -1.0]])], x, [LEAST], math.e)["limits"]
    assert limits["tie"]["mean"] == 0.5  # along the first axis, not along the second
    assert limits["zero entry"]["mean"] == 0.0


def test_the_flow_chart_gives_a_verdict_for_every_statement(folder):
    verdicts = record(folder, "flow-chart")["numbers"]["verdicts"]
    assert len(verdicts) == 13
    assert verdicts["prop1"] == "false as printed"
    assert verdicts["theorem"] == "holds as printed"
    assert set(verdicts.values()) == {
        "holds as printed", "holds with a correction", "false as printed"
    }  # fmt: skip


def test_softmax_agrees_with_its_closed_form(folder):
    numbers = record(folder, "softmax")["numbers"]
    assert numbers["derivatives of a wrong sign"] == 0
    assert numbers["error of the value"] < 1e-12
    assert numbers["error of the gradient"] < 1e-12
    assert numbers["largest gradient"] == pytest.approx(math.sqrt(2) / 4)
    assert numbers["gradient on the diagonal"] == pytest.approx(math.sqrt(2) / 4)


def test_measures_of_sampling_models_are_not_flat():
    numbers = statistics(QUICK)
    for name in (DROPOUT, ENSEMBLE, BAYES):
        assert numbers[END][name][INFORMATION]["maximum"]["low"] > 0.01
        assert numbers[END][name][VARIANCE]["maximum"]["low"] > 0.001
        for kind in OF_MANY:
            assert numbers[END][name][kind]["maximum"]["high"] <= top(kind, math.e) + 1e-9
    released = numbers["released"]
    assert 4 <= released["lowest"] <= released["highest"] <= 5
    assert released["right, highest"] <= 1


def test_maps_are_drawn_for_the_chosen_models():
    grid = Grid((-6, 6, -6, 6), 2.0)
    grids = {False: grid, True: grid}
    found = {budget: maps(QUICK, grid, budget) for budget in (PAPER, END)}
    drawn = {b: panel_numbers(QUICK, b, grid, found[b]) for b in found}
    drawing = _Drawing(QUICK, grids, found, found, {**statistics(QUICK), "drawn": drawn})
    figure = drawing.selection()
    maps_drawn = [axis for axis in figure.axes if axis.images]
    assert len(maps_drawn) == 4 * len(CHOSEN)  # values and gradients, with both budgets
    for axis, (model, _) in zip(maps_drawn, CHOSEN, strict=False):
        assert axis.get_title(loc="left").endswith(model)
    sides = [axis.get_ylabel().split("\n")[0] for axis in maps_drawn[:: len(CHOSEN)]]
    assert sides == [PAPER, END, f"{PAPER}, gradient", f"{END}, gradient"]
    for i, axis in enumerate(maps_drawn):
        model, measure = CHOSEN[i % len(CHOSEN)]
        numbers = drawn[(PAPER, END)[i // len(CHOSEN) % 2]][model]
        (note,) = [text.get_text() for text in axis.texts]
        assert note == f"AUC-ROC {numbers[HARD]:.2f}\nfar points {numbers[measure]:.2f}"


def test_numbers_of_a_panel_are_those_of_scikit_learn():
    grid = Grid((-6, 6, -6, 6), 2.0)
    found = maps(QUICK, grid, END)
    numbers = panel_numbers(QUICK, END, grid, found)[DROPOUT]
    network, data = trained(QUICK, END)[DROPOUT][0], world(0)
    labels = network(data.train[0]).probs.argmax(1)
    assert numbers[HARD] == pytest.approx(roc_auc_score(data.train[1], labels))
    far = torch.cdist(grid.points, data.train[0].double()).amin(1).numpy() >= 3
    held = fields(network, data.validation[0], [VARIANCE], math.e)[VARIANCE].value
    away = found[DROPOUT][VARIANCE].value[far]
    truth = [0] * len(held) + [1] * len(away)
    assert numbers[VARIANCE] == pytest.approx(roc_auc_score(truth, [*held, *away]))


def test_published_areas_stand_beside_ours():
    areas = {model: {HARD: 0.9} for model in (*SINGLE, *MANY)}
    numbers = {**statistics(QUICK), "drawn": {PAPER: areas, END: areas}}
    rows = {row.what: row for row in _comparisons(numbers)}
    assert rows["figure 3b: AUC-ROC in the panel, MC dropout"].published == 0.970
    assert rows["figure 3c: AUC-ROC in the panel, ensemble"].published is None


def test_the_caption_of_the_gradients_says_how_much_is_flat():
    areas = {model: dict.fromkeys((HARD, *OF_MANY), 0.9) for model in (*SINGLE, *MANY)}
    numbers = {**copy.deepcopy(statistics(QUICK)), "drawn": {PAPER: areas, END: areas}}
    for share, kind in ((0.61, VARIANCE), (0.05, ENTROPY), (0.32, INFORMATION)):
        numbers[PAPER][ENSEMBLE][kind]["far and flat"]["mean"] = share
        numbers[END][ENSEMBLE][kind]["far and flat"]["mean"] = share + 0.2
    caption = _captions(numbers, QUICK)["figure-6-gradients.png"]
    assert "; ensemble 5.0 % to 61 % and 25 % to 81 %;" in caption
    assert all(model in caption for model in MANY)


def test_the_legend_of_accuracies_lies_outside_the_plot():
    row = {"validation accuracy": {"mean": 0.9, "low": 0.8, "high": 1.0}}
    numbers = {budget: dict.fromkeys((*SINGLE, *MANY), row) for budget in (PAPER, END)}
    figure = accuracy_figure(numbers)
    figure.draw_without_rendering()
    (axis,), (legend,) = figure.axes, figure.legends
    assert axis.get_legend() is None
    assert not legend.get_window_extent().overlaps(axis.get_tightbbox())
    assert [text.get_text() for text in legend.get_texts()][:2] == [PAPER, END]


def test_blobs_count_zero_entries_and_find_the_boundary():
    found = blobs(QUICK)
    assert found.numbers["accuracy"] > 0.85
    assert found.numbers["gradient_ring"] < found.numbers["gradient_box"]
    assert len(found.numbers["zero_of_starts"]) == 5
    assert list(found.figures) == ["figure-1.png"]
    (legend,) = found.figures["figure-1.png"].legends
    assert isinstance(legend.legend_handles[-1], Line2D)  # a boundary is a line
    assert len(found.numbers["starts"]["gradient_ratio"]["values"]) == 5
    verdicts = [claim.verdict for claim in blob_claims(found.numbers)]
    assert verdicts[0] == "holds"  # certain beyond the data, over five starts
    assert len(verdicts) == 4


def test_the_boundary_between_pieces_is_a_line_in_the_legend():
    model, data = trained_blobs(0, 5)
    counts = ("pieces in the box", "merged in the box", "unbounded in the box")
    shown = [(i, found_pieces(model.member(i))) for i in range(2)]
    figure = figure_of_pieces(shown, [dict.fromkeys(counts, 9)], data)
    (legend,) = figure.legends
    assert isinstance(legend.legend_handles[-1], Line2D)
    assert legend.get_texts()[-1].get_text() == "decision boundary"


def test_parts_are_deterministic_and_named():
    experiment = named("know-your-limits")
    names = [part.name for part in experiment.parts]
    assert names[:5] == ["blobs", "pieces", "models", "surfaces", "rays"]
    assert {"activations", "softmax", "statements", "flow-chart"} < set(names)
    first = trained(QUICK, PAPER)[PLAIN][0].model.tensors
    second = trained.__wrapped__(QUICK, PAPER)[PLAIN][0].model.tensors
    assert all(torch.equal(first[name], second[name]) for name in first)


def test_thinned_networks_are_mc_dropout():
    torch.manual_seed(0)
    net = nets.mlp(2, 2, widths=(7, 5), dropout=0.4)
    model = Model(net, stack([net]), categorical())
    x = torch.randn(11, 2)
    expected = mc_dropout(net, passes=6, seed=3).outputs(x)
    found = Network(thinned(model, 6, seed=3)).model.outputs(x)
    assert torch.allclose(found, expected, atol=1e-6)
    assert expected.std(0).max() > 0.01


def test_fields_are_measures_and_their_gradients():
    torch.manual_seed(1)
    made = [nets.mlp(2, 2, widths=(6,)).double() for _ in range(3)]
    several = Network(Model(made[0], stack(made), categorical()), 1.7, (0.0, 0.4))
    x = torch.randn(9, 2, dtype=torch.float64)
    found = fields(several, x, OF_MANY, 2.0)
    near = 1e-6
    for kind in OF_MANY:
        parts = []
        for axis in range(2):
            step = torch.zeros(2, dtype=torch.float64)
            step[axis] = near
            up, down = (fields(several, x + s * step, [kind], 2.0)[kind].value for s in (1, -1))
            parts.append((up - down) / (2 * near))
        assert np.allclose(np.hypot(*parts), found[kind].slope, atol=1e-6)
        assert (found[kind].value <= top(kind, 2.0) + 1e-12).all()


def test_entropy_and_slope_of_a_linear_network():
    x = torch.tensor([[0.0, 1.0], [30.0, 0.0], [900.0, 0.0]], dtype=torch.float64)
    matrix = [[1.0, 0.0], [-1.0, 0.0]]
    found = fields(network(matrix), x, [ENTROPY, LEAST], math.e)
    assert found[ENTROPY].value[0] == pytest.approx(math.log(2))
    assert found[LEAST].slope[1] == pytest.approx(2 * math.exp(-60), rel=1e-6)
    assert found[ENTROPY].slope[1] == pytest.approx(120 * math.exp(-60), rel=1e-6)
    assert found[ENTROPY].slope[2] == 0.0
    assert torch.equal(slopes(network(matrix), x)[0, 1], torch.tensor(matrix, dtype=torch.float64))


def test_rays_move_one_coordinate():
    x = torch.tensor([[1.0, 2.0], [-3.0, 4.0]])
    assert scaled(x, 0, 10.0).tolist() == [[10.0, 2.0], [-30.0, 4.0]]


def test_the_boundary_is_where_any_label_changes():
    grid = Grid((0, 2, 0, 1), 1.0)
    labels = np.array([[0, 0, 1, 0, 0, 1], [0, 0, 0, 1, 0, 0]])
    found = boundary(grid, labels).tolist()
    assert found == [[0.0, 0.0], [1.0, 0.0], [0.0, 1.0], [1.0, 1.0]]


def test_platt_scaling_where_all_samples_are_right_is_finite():
    x = torch.tensor([[1.0, 0.0], [2.0, 0.0], [-1.0, 0.0], [-2.0, 0.0]] * 5)
    y = (x[:, 0] > 0).long()
    found = calibrated(network([[-1.0, 0.0], [1.0, 0.0]]), (x, y))
    target = torch.where(y == 1, 11 / 12, 1 / 12)
    gap = found(x).probs[:, 1] - target
    assert 0 < found.slope < 10
    assert (gap * x[:, 0]).sum().item() == pytest.approx(0, abs=1e-4)  # the best slope
    assert gap.sum().item() == pytest.approx(0, abs=1e-4)  # the best intercept


def test_the_world_is_the_papers():
    from sklearn.datasets import make_moons

    data = world(0)
    x, y = make_moons(750, noise=0.125, random_state=123)
    assert torch.equal(data.train[0], torch.from_numpy(x[:500]).float())
    assert torch.equal(data.validation[1], torch.from_numpy(y[500:]).long())
    assert len(data.fresh[0]) == 2000


def test_members_are_chosen():
    made = [nets.mlp(2, 2, widths=(3,)) for _ in range(4)]
    model = Model(made[0], stack(made), losses.nll().head)
    x = torch.randn(5, 2)
    assert torch.equal(choose(model, [2]).outputs(x)[0], model.outputs(x)[2])
