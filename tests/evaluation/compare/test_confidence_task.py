"""The numbers of a comparison against closed forms, scikit-learn and attacks done by hand."""

import math
import sys
from functools import partial

import numpy as np
import pytest
import torch
from sklearn.metrics import roc_auc_score

from nescio import NescioError, attacks, measures, metrics, models, nets
from nescio.data.ood import another, uniform
from nescio.evaluation import compare as compare_all
from nescio.evaluation.compare import Absent, AdversarialNoise, AdversarialSamples
from nescio.evaluation.compare.confidence_task import still_right
from nescio.evaluation.compare.ood_inputs import describe
from nescio.evaluation.compare.subjects import Answers

OUT = torch.tensor([[0.5, 1.0], [-0.25, 2.0], [9.0, 0.0], [0.0, 0.0]])


COUNTS = ("samples", "blind")


def compare(*arguments, **options):
    return compare_all(*arguments, task="confidence", **options)


def cell(comparison, row, name="network"):
    """The numbers of one subject on one data set; why there are none as "skipped"."""
    rows = [one for one in comparison.rows if (one.subject, one.data) == (name, row)]
    numbers = {
        one.metric: one.value
        if one.metric in COUNTS
        else {"value": one.value, "low": one.low, "high": one.high}
        for one in rows
    }
    why = [one.note for one in rows if one.metric == "samples" and one.note]
    return numbers | ({"skipped": why[0]} if why else {})


def data_set(comparison, name):
    (found,) = [one for one in comparison.sets if one.name == name]
    return found


def values(found):
    return {key: part["value"] for key, part in found.items() if isinstance(part, dict)}


def test_the_numbers_of_a_row_are_those_of_the_metrics(linear, labeled):
    x, _ = labeled
    found = compare(linear(), labeled, {"out": OUT}, resamples=50)
    sure, other = torch.sigmoid(x[:, 0].abs().double()), torch.sigmoid(OUT[:, 0].abs().double())
    assert values(cell(found, "test")) == pytest.approx(
        {"error": 2 / 40, "mean_max_confidence": sure.mean().item()}
    )
    truth = np.r_[np.ones(40), np.zeros(4)]  # the paper: inside is positive, ranked by confidence
    assert values(cell(found, "out")) == pytest.approx(
        {
            "mean_max_confidence": other.mean().item(),
            "auroc": roc_auc_score(truth, np.r_[sure, other]),
            "fpr_at_95_tpr": metrics.fpr_at_tpr(-sure, -other, positive="in_dist"),
        }
    )
    assert [cell(found, row)["samples"] for row in ("test", "out")] == [40, 4]


def test_intervals_are_those_of_the_bootstrap(linear, labeled):
    options = {"level": 0.8, "resamples": 70, "seed": 5}
    found = compare(linear(), labeled, {"out": OUT}, **options)
    x, y = labeled
    sure = torch.sigmoid(x[:, 0].abs().double())
    wrong = metrics.bootstrap_mean(((x[:, 0] < 0).long() != y).numpy(), **options)
    assert cell(found, "test")["error"] == pytest.approx(vars(wrong))
    expected = metrics.bootstrap_mean(sure, **options)
    assert cell(found, "test")["mean_max_confidence"] == pytest.approx(vars(expected))
    odds = [-z[:, 0].abs().double() for z in (x, OUT)]  # log-odds of two classes
    ranked = metrics.bootstrap_ranking(*odds, positive="in_dist", **options)
    assert cell(found, "out")["auroc"] == pytest.approx(vars(ranked["auroc"]))
    assert cell(found, "out")["fpr_at_95_tpr"] == pytest.approx(vars(ranked["fpr_at_tpr"]))


def test_without_resamples_there_are_values_only(linear, labeled):
    bare = compare(linear(), labeled, {"out": OUT}, resamples=0)
    full = compare(linear(), labeled, {"out": OUT}, resamples=20)
    assert values(cell(bare, "out")) == values(cell(full, "out"))
    assert {part["low"] for part in cell(bare, "out").values() if isinstance(part, dict)} == {None}


def test_ranking_does_not_saturate_where_probabilities_do(linear, labeled):
    x, y = labeled
    far = torch.stack([torch.linspace(5, 9, 20), torch.zeros(20)], dim=1)
    found = compare(linear(1e5), (x, y), {"far": far}, resamples=0)
    assert values(cell(found, "far"))["auroc"] == 0.0  # all surer than the in-distribution data
    assert values(cell(found, "far"))["mean_max_confidence"] == 1.0
    sure = [torch.sigmoid(1e5 * z[:, 0].abs()) for z in (x, far)]
    assert metrics.auroc(-sure[0], -sure[1]) == 0.5  # what probabilities would say


def test_an_ensemble_is_ranked_by_the_measure_that_is_asked_for(labeled):
    x, y = labeled
    model = models.ensemble([nets.mlp(2, 2, widths=(8,)) for _ in range(3)])
    found = compare({"a": model}, (x, y), {"out": OUT}, measures="mutual_information", resamples=0)
    scores = [measures.mutual_information(model(z).to(torch.float64)) for z in (x, OUT)]
    assert values(cell(found, "out", "a"))["auroc"] == metrics.auroc(*scores)


def test_an_out_distribution_is_made_in_pieces_and_equals_its_inputs(linear, labeled, monkeypatch):
    noise = uniform((2,), seed=3)
    whole = compare(linear(), labeled, {"noise": noise.take(50)}, resamples=20)
    monkeypatch.setattr(sys.modules["nescio.evaluation.compare.ood_inputs"], "SAMPLES", 7)
    pieces = compare(linear(), labeled, {"noise": (noise, 50)}, resamples=20)
    assert cell(pieces, "noise") == cell(whole, "noise")
    assert data_set(pieces, "noise").description == f"50 of {noise.description}"


def test_bytes_are_images_whose_255_is_1():
    bytes_in = torch.randint(0, 256, (30, 1, 2, 2), dtype=torch.uint8)
    bytes_out = torch.randint(0, 256, (20, 1, 2, 2), dtype=torch.uint8)
    net = nets.mlp((1, 2, 2), 3, widths=(5,))
    labels = torch.arange(30) % 3
    ours = compare(net, (bytes_in, labels), {"out": bytes_out}, resamples=0)
    floats = compare(net, (bytes_in / 255, labels), {"out": bytes_out / 255}, resamples=0)
    assert ours.rows == floats.rows


def test_detectors_have_scores_only(labeled):
    x, _ = labeled
    found = compare({}, (x, None), {"out": OUT}, scores={"y": lambda z: z[:, 1]}, resamples=0)
    assert cell(found, "test", "y") == {"samples": 40}
    assert values(cell(found, "out", "y")) == {"auroc": 0.75, "fpr_at_95_tpr": 0.5}


def test_predictors_and_detectors_stand_side_by_side(linear, labeled):
    found = compare(
        {"one": linear(1.0), "two": models.plain(linear(2.0))},
        labeled,
        {"out": OUT, "more": 2 * OUT},
        scores={"norm": lambda z: z.norm(dim=1).numpy()},
        resamples=0,
    )
    assert found.subjects == ["one", "two", "norm"]
    assert len({(row.data, row.subject) for row in found.rows}) == 9


def test_adversarial_noise_is_the_attack_of_each_predictor():
    noise, x = uniform((2,), seed=1), torch.rand(30, 2)
    nets_by_name = {name: nets.mlp(2, 3, widths=(8,)) for name in "ab"}
    row = AdversarialNoise(noise, 40, steps=6, step=0.04, radius=0.1, restarts=2, seed=4)
    found = compare(nets_by_name, (x, torch.arange(30) % 3), {"adv": row}, resamples=0)
    for name, net in nets_by_name.items():
        moved = attacks.pgd(
            attacks.confidence(net), noise.take(40), radius=0.1, steps=6, step=0.04, restarts=2,
            seed=4,
        )  # fmt: skip
        expected = models.plain(net)(moved.x).probs.amax(-1).mean().item()
        assert values(cell(found, "adv", name))["mean_max_confidence"] == pytest.approx(expected)
    text = data_set(found, "adv").description
    assert data_set(found, "adv").kind == "adversarial"
    assert "radius=0.1, steps=6, step=0.04, restarts=2, seed=4" in text
    assert noise.description in text


@pytest.mark.parametrize("make", [partial(AdversarialNoise, uniform((2,)), 5), AdversarialSamples])
def test_few_steps_are_long_enough_to_cross_the_ball(make):
    few, usual = make(radius=0.3, steps=20, step=0.0075), make(radius=0.3, steps=80, step=0.0075)
    assert few.length == pytest.approx(0.03)
    assert "step=0.03," in few.description
    assert usual.length == 0.0075
    assert make(radius=0.3, steps=20, step=None).length is None
    assert make(radius=None, steps=20, step=0.0075).length == 0.0075  # there is no ball


def test_few_steps_reach_the_far_side_from_any_start():
    """The most confident point of a ball is at an edge, whatever the start."""
    net = torch.nn.Sequential(torch.nn.Linear(1, 2))
    with torch.no_grad():
        net[0].weight.copy_(torch.tensor([[5.0], [-5.0]]))
        net[0].bias.copy_(torch.tensor([0.0, 1.0]))  # class 0 from 0.1 on
    row = AdversarialNoise(another(torch.full((20, 1), 0.5), "gray"), 20, steps=5, radius=0.3)
    torch.testing.assert_close(row.near(net).x, torch.full((20, 1), 0.8))


def test_adversarial_noise_of_a_detector_brings_its_score_down():
    noise, x = uniform((2,), seed=1), torch.rand(30, 2)
    row = AdversarialNoise(noise, 40, steps=20, radius=0.2, options={"start": "input"})
    found = compare({}, (x, None), {"adv": row}, scores={"sum": lambda z: z.sum(1)}, resamples=0)
    lowered = (noise.take(40) - 0.2).clamp(min=0)  # 20 steps of 0.0075 would stop before the edge
    assert values(cell(found, "adv", "sum"))["auroc"] == metrics.auroc(x.sum(1), lowered.sum(1))


def test_an_attack_without_a_ball_searches_the_whole_box():
    noise, x = uniform((2,)), torch.rand(20, 2)
    net = nets.mlp(2, 3, widths=(8,))
    row = AdversarialNoise(noise, 10, radius=None, steps=5)
    found = compare(
        {"net": net}, (x, torch.arange(20) % 3), {"adv": row},
        scores={"sum": lambda z: z.sum(1)}, resamples=0,
    )  # fmt: skip
    moved = attacks.adversarial_noise(net, noise.take(10), radius=None, steps=5)
    expected = models.plain(net)(moved.x).probs.amax(-1).mean().item()
    assert values(cell(found, "adv", "net"))["mean_max_confidence"] == pytest.approx(expected)
    assert values(cell(found, "adv", "sum"))["auroc"] <= 0.1  # the corner at 0


def test_adversarial_samples_have_a_row_of_all_and_one_of_the_misclassified():
    # p of the label rises with |x|; the attack moves x by 0.3 towards the other class
    x = torch.tensor([[0.9, 0.0], [0.1, 0.0], [0.2, 0.0], [0.8, 0.0]])
    y = torch.tensor([0, 0, 0, 1])
    net = torch.nn.Sequential(torch.nn.Linear(2, 2))
    with torch.no_grad():
        net[0].weight.copy_(torch.tensor([[8.0, 0.0], [0.0, 0.0]]))
        net[0].bias.copy_(torch.tensor([-4.0, 0.0]))  # class 0 where x > 0.5
    row = AdversarialSamples(radius=0.3, steps=50, step=0.01, options={"start": "input"})
    found = compare(net, (x, y), {"adv": row}, resamples=0)
    moved = np.array([0.6, 0.0, 0.0, 1.0])  # the first stays right
    sure = 1 / (1 + np.exp(-np.abs(8 * moved - 4)))
    expected = {"adv": sure, "adv, misclassified": sure[1:]}
    for name, left in expected.items():
        assert cell(found, name)["samples"] == len(left)
        mean = values(cell(found, name))["mean_max_confidence"]
        assert mean == pytest.approx(left.mean(), abs=1e-6)
    labeled = 1 / (1 + np.exp(-np.abs(8 * x[:, 0].numpy() - 4)))
    truth = np.r_[np.ones(4), np.zeros(3)]
    area = roc_auc_score(truth, np.r_[labeled, sure[1:]])
    assert values(cell(found, "adv, misclassified"))["auroc"] == pytest.approx(area)


@pytest.mark.parametrize(
    ("confidence", "label", "kept"),
    [
        (0.9, 1, False),  # still right
        (0.9, 0, True),  # another class
        (1.009 / 4, 1, True),  # the right class, but by a near tie: it counts as rejected
        (1.01 / 4, 1, False),  # the reject class loses a tie
        (0.25, 1, True),
    ],
)
def test_the_filter_is_that_of_the_reference_code(confidence, label, kept):
    probs = np.full((1, 4), (1 - confidence) / 3)
    probs[0, 1] = confidence
    with_reject = np.insert(probs, 4, 1.01 / 4, axis=1)  # the rule there: argmax over C + 1
    assert (with_reject.argmax(1)[0] != label) == kept
    seen = Answers(np.zeros(1), probs.max(1), np.array([1]), 4)
    assert bool(~still_right(seen, np.array([label]))[0]) == kept


def test_where_the_filter_leaves_nothing_there_is_only_the_count(linear):
    x = torch.tensor([[0.9, 0.0], [0.8, 0.0]])
    row = AdversarialSamples(radius=0.1, steps=5, step=0.05)
    found = compare(linear(), (x, torch.tensor([0, 0])), {"adv": row})
    assert cell(found, "adv, misclassified") == {"samples": 0, "blind": 0.0}
    assert cell(found, "adv")["samples"] == 2


def test_samples_are_taken_at_even_distances():
    assert AdversarialSamples(4).chosen(10).tolist() == [0, 2, 5, 7]
    assert AdversarialSamples().chosen(3).tolist() == [0, 1, 2]
    with pytest.raises(NescioError, match="4 adversarial samples of 3 inputs"):
        AdversarialSamples(4).chosen(3)


def test_what_cannot_be_attacked_says_why_and_the_rest_is_measured(linear):
    x = torch.rand(20, 2)
    net = models.plain(linear())
    rows = {"noise": AdversarialNoise(uniform((2,)), 5, steps=2), "samples": AdversarialSamples(5)}
    found = compare(
        {"function": lambda z: net(z), "net": net},
        (x, torch.arange(20) % 2),
        rows,
        scores={"rounded": lambda z: z.detach().sum(1), "sum": lambda z: z.sum(1)},
        resamples=0,
    )
    skipped = {
        (row.subject, row.data): row.note
        for row in found.rows
        if row.metric == "samples" and row.note
    }
    no_label = "a detector has no label to get wrong"
    assert skipped == {
        ("function", "noise"): "a function has no method answer(x) with gradients",
        ("function", "samples"): "a function has no method answer(x) with gradients",
        ("function", "samples, misclassified"): "a function has no method answer(x) with gradients",
        ("rounded", "noise"): "its scores have no gradient",
        **{
            (name, row): no_label
            for name in ("rounded", "sum")
            for row in ("samples", "samples, misclassified")
        },
    }
    assert cell(found, "noise", "net")["samples"] == 5


def test_an_absent_row_keeps_its_place(linear, labeled):
    found = compare(linear(), labeled, {"LSUN": Absent("no files"), "out": OUT}, resamples=0)
    assert [one.name for one in found.sets] == ["test", "LSUN", "out"]
    assert data_set(found, "LSUN").absent == "no files"
    assert "LSUN" not in {row.data for row in found.rows}


def test_one_sample_and_equal_scores_are_measured_too(linear):
    point, label = torch.tensor([[1.0, 0.0]]), torch.tensor([0])
    one = compare(linear(), (point, label), {"out": torch.tensor([[0.5, 0.0]])}, resamples=10)
    assert cell(one, "out")["auroc"] == {"value": 1.0, "low": 1.0, "high": 1.0}
    same = compare(linear(0.0), (point, label), {"out": OUT}, resamples=10)
    assert values(cell(same, "out")) == {
        "mean_max_confidence": 0.5, "auroc": 0.5, "fpr_at_95_tpr": 1.0,
    }  # fmt: skip


def test_infinite_scores_of_a_detector_have_a_rank(labeled):
    x, _ = labeled
    found = compare(
        {}, (x, None), {"out": OUT}, scores={"d": lambda z: -1 / z[:, 1].abs()}, resamples=0
    )
    assert values(cell(found, "out", "d"))["auroc"] == (2 * 1 + 2 * 0.5) / 4
    assert math.isfinite(values(cell(found, "out", "d"))["fpr_at_95_tpr"])


def test_equal_descriptions_mean_equal_inputs():
    noise, x = uniform((2,)), torch.rand(5, 2)
    other = x.clone()
    other[4, 1] += 0.5
    rows = [
        x, other, x[:4], (noise, 5), (noise, 6), (uniform((2,), seed=1), 5),
        AdversarialNoise(noise, 5), AdversarialNoise(noise, 6), AdversarialNoise(noise, 5, seed=1),
        AdversarialNoise(noise, 5, options={"norm": "l2"}), AdversarialSamples(),
        AdversarialSamples(5), AdversarialSamples(5, radius=0.1), Absent("no files"),
    ]  # fmt: skip
    assert len({describe(row) for row in rows}) == len(rows)
    assert describe(x) == describe(x.clone())
    assert describe(AdversarialNoise(noise, 5)) == describe(AdversarialNoise(uniform((2,)), 5))


X, Y = torch.rand(12, 2), torch.arange(12) % 2
NET = torch.nn.Linear(2, 2)
NOISE = uniform((2,))


@pytest.mark.parametrize(
    ("arguments", "options", "said"),
    [
        (({}, (X, Y), {"out": OUT}), {}, "no predictor and no detector"),
        ((NET, (X, Y), {}), {}, "there are no OOD data"),
        ((NET, (X, Y), OUT), {}, "OOD data come by name"),
        ((NET, (X[:0], Y[:0]), {"out": OUT}), {}, r"inputs are empty, shape \(0, 2\)"),
        ((NET, (X, Y), {"out": OUT[:0]}), {}, "OOD data 'out': inputs are empty"),
        ((NET, (X, Y[:5]), {"out": OUT}), {}, "12 inputs but 5 labels"),
        ((NET, (X, Y + 1), {"out": OUT}), {}, r"labels must lie in 0\.\.1"),
        ((NET, (X, None), {"out": OUT}), {}, "predictors need labels"),
        (
            (NET, (X, Y), {"out": torch.rand(4, 3)}),
            {},
            r"shape \(3,\) per sample, the in-distribution data \(2,\)",
        ),
        ((NET, (X, Y), {"out": (uniform((3,)), 5)}), {}, r"shape \(3,\) per sample"),
        (
            (NET, (X, Y), {"out": AdversarialNoise(uniform((3,)), 5)}),
            {},
            r"shape \(3,\) per sample",
        ),
        ((NET, (X, Y), {"out": NOISE}), {}, r"endless; say how many inputs to take"),
        ((NET, (X, Y), {"out": (NOISE, 0)}), {}, "a whole number from 1 up, got 0"),
        ((NET, (X, Y), {"out": (OUT, Y)}), {}, "4 inputs but 12 labels"),
        ((NET, (X, Y), {"out": OUT * math.nan}), {}, "OOD data 'out': .* contain NaN"),
        ((NET, (X, Y), {"test": OUT}), {}, "the name 'test' is taken"),
        (
            (NET, (X, Y), {"adv": AdversarialSamples(3), "adv, misclassified": OUT}),
            {},
            "the name 'adv, misclassified' is taken",
        ),
        (({"a": NET}, (X, Y), {"out": OUT}), {"scores": {"a": len}}, "'a' is given twice"),
        (({"a": 3}, (X, Y), {"out": OUT}), {}, "'a' must be a network or a function"),
        ((NET, (X, Y), {"out": OUT}), {"scores": [len]}, "scores are functions of inputs by name"),
        ((lambda z: z, (X, Y), {"out": OUT}), {}, "expected class probabilities, got a Tensor"),
        ((NET, (X, Y), {"out": OUT}), {"measures": "entropy"}, "unknown measure 'entropy'"),
        ((NET, (X, Y), {"out": OUT}), {"level": 95}, "`level` must be between 0 and 1"),
        ((NET, (X, Y), {"out": OUT}), {"resamples": 1}, "`resamples` must be"),
        (
            (NET, (X + 1.5, Y), {"adv": AdversarialSamples(3)}),
            {},
            r'the in-distribution data .* outside the box \[0.0, 1.0\]; .* options=\{"low": \.\.\.',
        ),
        (
            (NET, (X, Y), {"adv": AdversarialNoise(uniform((2,), high=3.0), 20, steps=1)}),
            {},
            r"inputs of 'uniform' range .* outside the box .* options=\{",
        ),
    ],
)
def test_bad_input_is_refused(arguments, options, said):
    with pytest.raises(NescioError, match=said):
        compare(*arguments, **options)


@pytest.mark.parametrize(
    ("x", "samples"), [(X + 1.5, AdversarialSamples(3)), (X, AdversarialSamples(len(X) + 1))]
)
def test_samples_that_cannot_be_made_are_refused_before_the_first_row(x, samples):
    asked, model = [], models.plain(NET)

    class Counted:
        answer = staticmethod(model.answer)

        def __call__(self, z):
            asked.append(len(z))
            return model(z)

    rows = {"out": OUT, "adv": samples}
    with pytest.raises(NescioError, match="outside the box|adversarial samples of"):
        compare(Counted(), (x, Y), rows)
    assert not asked
    scores = {"sum": lambda z: z.sum(1)}  # has no label to get wrong
    found = compare({}, (x, None), rows, scores=scores, resamples=0)
    assert "skipped" in cell(found, "adv", "sum")
    wide = AdversarialSamples(3, steps=2, options={"low": 0.0, "high": 4.0})
    assert cell(compare(NET, (x, Y), {"adv": wide}, resamples=0), "adv")["samples"] == 3


@pytest.mark.parametrize(
    ("detector", "said"),
    [
        (lambda z: z, r"detector 'd' on 'test': `scores` must be one-dimensional, got shape"),
        (lambda z: z.sum(1)[:-1], "gave 11 scores for 12 inputs"),
        (lambda z: z.sum(1) * math.nan, "detector 'd' on 'test' gave NaN"),
        (lambda z: ["a"] * len(z), "must hold real numbers"),
        (lambda z: 1.0, "must be one-dimensional"),
    ],
)
def test_a_detector_gives_one_number_an_input(detector, said):
    with pytest.raises(NescioError, match=said):
        compare({}, (X, None), {"out": OUT}, scores={"d": detector})


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: AdversarialNoise(OUT), "takes an OOD source .* got a Tensor"),
        (lambda: AdversarialNoise(NOISE, 0), "a whole number from 1 up, got 0"),
        (lambda: AdversarialSamples(2.5), "a whole number from 1 up, got 2.5"),
    ],
)
def test_a_row_checks_itself(call, said):
    with pytest.raises(NescioError, match=said):
        call()


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
def test_attacks_of_a_comparison_have_gradients_whatever_the_caller_is_in(mode, linear):
    x, y = torch.rand(20, 2), torch.arange(20) % 2
    rows = {"noise": AdversarialNoise(uniform((2,)), 5, steps=2), "samples": AdversarialSamples(5)}
    options = {"scores": {"sum": lambda z: z.sum(1)}, "resamples": 0}
    truth = compare(linear(), (x, y), rows, **options)
    with mode():
        found = compare(linear(), (x.clone(), y), rows, **options)
    assert found.to_json() == truth.to_json()


def test_detectors_by_name_read_the_first_network(labeled):
    from nescio import detectors, observe, scorer

    net = torch.nn.Sequential(torch.nn.Linear(2, 4), torch.nn.ReLU(), torch.nn.Linear(4, 2))
    given = {"near": "knn,k=3", "energy": detectors.energy()}
    found = compare(
        {"net": net}, labeled, {"out": OUT}, detectors=given, train=labeled, resamples=0
    )
    assert found.subjects == ["net", "near", "energy"]
    near = scorer(net, detectors.knn(observe(net, labeled), k=3))
    area = metrics.auroc(near(labeled[0]), near(OUT))
    assert values(cell(found, "out", "near"))["auroc"] == pytest.approx(area)
    with pytest.raises(NescioError, match="knn is fitted on training data"):
        compare(net, labeled, {"out": OUT}, detectors=["knn"])
    with pytest.raises(NescioError, match="give one as the first subject"):
        compare({}, labeled, {"out": OUT}, detectors=["energy"])


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"near": ["out"]}, "near= has no meaning in the task 'confidence'"),
        ({"measures": ["log_odds"]}, 'ranks by one measure: measures="log_odds"'),
    ],
)
def test_options_of_other_tasks_are_refused(options, said):
    with pytest.raises(NescioError, match=said):
        compare(NET, (X, Y), {"out": OUT}, **options)


def test_an_unknown_task_is_refused():
    with pytest.raises(NescioError, match="did you mean 'errors'"):
        compare_all(NET, (X, Y), {"out": OUT}, task="error")
