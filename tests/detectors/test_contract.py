"""What every detector keeps: shape, sign, batches, options, files, ensembles, odd labels."""

import ast
import inspect
import json
from pathlib import Path

import pytest
import torch

import nescio
from nescio import detectors, load
from nescio.core import NescioError, load_manifest, load_tensors, save_tensors
from nescio.core.registry import detectors as registry
from nescio.detectors import Detector
from nescio.detectors.activations import Activations, View
from nescio.detectors.detector import SIGN
from nescio.metrics import auroc

SINGLE = ("measured",)  # one row for all networks
OUTPUTS = (
    "ash", "dice", "energy", "entropy", "generalized_entropy", "kl_matching", "max_logit",
    "measured", "msp", "odin", "openmax", "react", "she",
)  # fmt: skip
FAINT = ("ash", "dice")  # dense features look familiar to these, whatever they are; faint ones not
PAGES = ("detectors-list.md", "detectors-features.md", "detectors-tables.md")
READ_INPUTS = ("gower", "odin", "smoothed_density")  # and nothing else

# another value for every option of every detector; none may be left out
OTHER = {
    "ash": {"kind": "p", "percentile": 50.0},
    "combined": {"rule": "bonferroni", "weights": (0.9, 0.1)},
    "dice": {"sparsity": 0.5},
    "energy": {"temperature": 3.0},
    "entropy": {"temperature": 3.0},
    "gaussian_mixture": {
        "layer": "early", "covariance": "diagonal", "pooled": 0.9, "shrinkage": 0.5
    },
    "generalized_entropy": {"gamma": 0.5, "top": 2},
    "gower": {"columns": ..., "k": 20, "missing": ..., "unseen": ..., "bank": 50, "seed": ...},
    "kl_matching": {"by": ...},
    "knn": {"k": 10, "layer": "early", "normalize": False, "share": 0.5, "seed": ...},
    "mahalanobis": {"layers": "early", "shrinkage": 0.5},
    "max_logit": {},
    "measured": {"head": "dirichlet", "head_options": ..., "options": ...},
    "msp": {"temperature": 3.0},
    "odin": {"temperature": 1.0, "radius": 0.1, "scale": 0.1},
    "openmax": {"tail": 60, "alpha": 2, "distance": "cosine"},
    "react": {"percentile": 50.0},
    "relative_mahalanobis": {"layer": "early", "shrinkage": 0.5},
    "she": {"layer": "early", "similarity": "cosine"},
    "smoothed_density": {
        "columns": ..., "structure": "tree", "bandwidth": 3.0, "smoothing": ..., "bins": ...
    },
    "trust_score": {"alpha": 0.5, "k": ..., "layer": "early", "normalize": True},
    "vim": {"dim": 3},
}  # fmt: skip
# options that act only beside another one
BESIDE = {
    ("gower", "seed"): {"bank": 50, "seed": 1},
    ("knn", "seed"): {"share": 0.5, "seed": 1},
    ("smoothed_density", "smoothing"): {"structure": "tree", "smoothing": 30.0},
    ("smoothed_density", "bins"): {"structure": "tree", "bins": 3},
    ("trust_score", "k"): {"alpha": 0.5, "k": 3},
}
OPTIONS = [
    pytest.param(name, option, id=f"{name}-{option}")
    for name, options in OTHER.items()
    for option, value in options.items()
    if value is not ...  # in BESIDE, or shown on other data by the detector's own test
]


def make(name, train, **options):
    """The detector of that name, with what it needs besides options."""
    build = registry[name]
    if name == "measured":
        return build("mutual_information" if train.members > 1 else "predictive_entropy", **options)
    if name == "combined":
        parts = [detectors.energy(), detectors.knn(train)]
        return build(parts, train, **options)
    return build(train, **options) if "train" in inspect.signature(build).parameters else build(
        **options
    )  # fmt: skip


def off(name, toy, members=1):
    """Inputs that the detector of that name must find."""
    return toy.faint(members) if name in FAINT else toy.off(members)


@pytest.mark.parametrize("name", registry)
def test_every_option_has_another_value_here(name):
    parameters = inspect.signature(registry[name]).parameters.values()
    kinds = (inspect.Parameter.KEYWORD_ONLY, inspect.Parameter.VAR_KEYWORD)
    assert {p.name for p in parameters if p.kind in kinds} == set(OTHER[name])


@pytest.mark.parametrize("name", registry)
def test_scores_are_finite_and_larger_off_the_data(name, toy):
    detector = make(name, toy.train())
    in_dist, ood = detector(toy.test()), detector(off(name, toy))
    assert in_dist.shape == ood.shape == (120,)
    assert in_dist.isfinite().all()
    assert ood.isfinite().all()
    assert in_dist.dtype in (torch.float32, torch.float64)
    assert auroc(in_dist, ood) > 0.9


@pytest.mark.parametrize("name", registry)
def test_the_batch_does_not_matter(name, toy):
    detector, test = make(name, toy.train()), toy.test()
    whole = detector(test)
    for size in (1, 7, 119):
        parts = [detector(test[start : start + size]) for start in range(0, 120, size)]
        torch.testing.assert_close(torch.cat(parts), whole, rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize(("name", "option"), OPTIONS)
def test_every_option_changes_something(name, option, toy):
    train, test = toy.train(), toy.test()
    plain = make(name, train)(test)
    other = make(name, train, **{option: OTHER[name][option]})(test)
    assert not torch.allclose(plain.double(), other.double(), atol=1e-10)


@pytest.mark.parametrize(("name", "option"), BESIDE, ids="-".join)
def test_options_that_act_beside_another_one_do(name, option, toy):
    train, test, given = toy.train(), toy.test(), BESIDE[name, option]
    without = {other: value for other, value in given.items() if other != option}
    plain, changed = (make(name, train, **options)(test) for options in (without, given))
    assert not torch.allclose(plain.double(), changed.double())


@pytest.mark.parametrize("name", registry)
def test_saved_and_loaded_it_scores_the_same(name, toy, tmp_path):
    detector, test = make(name, toy.train()), toy.test()
    path = detector.save(tmp_path / "detector.safetensors")
    again = load(path)
    assert torch.equal(again(test), detector(test))
    assert torch.equal(again.to("cpu")(test), detector(test))
    assert (again.name, again.layers) == (detector.name, detector.layers)
    assert again.options == json.loads(json.dumps(dict(detector.options)))
    assert again.about == json.loads(json.dumps(dict(detector.about)))
    manifest = load_manifest(path, "detector")
    assert manifest["sign"] == SIGN
    assert manifest["layers"] == list(detector.layers)


@pytest.mark.parametrize("name", registry)
def test_it_knows_the_inputs_it_was_fitted_on(name, toy, tmp_path):
    train = toy.train()
    detector = make(name, train)
    if "train" not in str(inspect.signature(registry[name])) and name != "combined":
        assert detector.fitted_on is None
        return
    assert torch.equal(detector.fitted_on.unique(), train.hashes.unique())
    again = load(detector.save(tmp_path / "detector.safetensors"))
    assert torch.equal(again.fitted_on, detector.fitted_on)


@pytest.mark.parametrize("name", registry)
def test_an_ensemble_is_scored_by_member_in_the_mean_and_as_a_mean(name, toy):
    train, test = toy.train(members=3), toy.test(members=3)
    detector = make(name, train)
    each = detector.each(test)
    assert each.shape == ((1 if name in SINGLE else 3), 120)
    torch.testing.assert_close(detector(test), each.mean(0))
    assert auroc(detector(test), detector(off(name, toy, 3))) > 0.9
    if name not in (*READ_INPUTS, *SINGLE):
        assert not torch.equal(each[0], each[1])
        alone = make(name, toy.train())(toy.test())
        torch.testing.assert_close(each[0], alone, rtol=1e-4, atol=1e-4)
    if name != "odin":  # the mean of networks is no network that could be asked
        mean = make(name, train.mean())(test.mean())
        assert mean.shape == (120,)
        assert mean.isfinite().all()


@pytest.mark.parametrize("name", registry)
def test_labels_may_have_gaps_and_a_class_a_single_sample(name, toy):
    train = toy.train()
    keep = (train.labels != 1) & ((train.labels != 2) | (torch.arange(400) == 2))
    detector = make(name, train[keep])
    scores = detector(toy.test())
    assert scores.shape == (120,)
    assert scores.isfinite().all()


@pytest.mark.parametrize("name", registry)
def test_half_precision_is_read_as_single(name, toy):
    half = torch.float16
    scores = make(name, toy.train(dtype=half))(toy.test(dtype=half))
    assert scores.dtype in (torch.float32, torch.float64)
    plain = make(name, toy.train())(toy.test())
    torch.testing.assert_close(scores.double(), plain.double(), rtol=0.1, atol=0.1)


@pytest.mark.parametrize("name", [name for name in registry if name not in READ_INPUTS])
def test_nan_is_refused_and_counted(name, toy):
    train, test = toy.train(), toy.test()
    detector = make(name, train)
    logits, late = test.logits.clone(), test.features["late"].clone()
    logits[0, 3:5] = late[0, 3:5] = torch.nan
    with pytest.raises(NescioError, match="2 of 120"):
        Activations(logits=logits, features={"late": late})
    slipped = Activations(logits=logits, features={"late": late}, checked=True)
    message = "contains NaN" if name == "measured" else f"{name}: 2 of 120 scores are NaN"
    with pytest.raises(NescioError, match=message):
        detector(slipped)


@pytest.mark.parametrize("name", registry)
def test_scores_have_gradients_with_respect_to_inputs(name, toy):
    detector, net = make(name, toy.train()), toy.make_net()
    x = toy.draw(10, 5)[0].requires_grad_()
    early = net[0](x)
    features = {"early": early, "late": early.relu()}
    wanted = {layer: features[layer] for layer in detector.layers}
    view = View(net(x), wanted, x, net[2].weight, net[2].bias, net)
    scores = detector.rows([view])
    assert scores.shape == (1, 10)
    torch.testing.assert_close(
        scores[0].detach().double(), detector(toy.look(x.detach())).double(), rtol=1e-4, atol=1e-4
    )
    (slope,) = torch.autograd.grad(scores.sum(), x)
    assert slope.isfinite().all()
    assert slope.any()


@pytest.mark.parametrize(
    "name", [n for n in registry if "train" in str(inspect.signature(registry[n]))]
)
def test_what_was_fitted_on_one_network_is_not_used_for_three(name, toy):
    detector = make(name, toy.train())
    with pytest.raises(NescioError, match=r"one network|1 network"):
        detector(toy.test(members=3))


def rows_of(name):
    """The rows of the methods pages that describe a detector, as cells."""
    folder = Path(nescio.__file__).parents[2] / "docs" / "methods"
    lines = [line for page in PAGES for line in (folder / page).read_text().splitlines()]
    rows = [line.strip("| ").split(" | ") for line in lines if line.startswith(f"| `{name}(")]
    assert all(len(row) == 4 and all(row) for row in rows), "detector, score, when it fails, cost"
    return rows


@pytest.mark.parametrize("name", sorted(OTHER))
def test_every_detector_has_one_row_in_the_docs_with_its_own_options(name):
    ((call, *_),) = rows_of(name)
    said = ast.parse(call.split("`")[1], mode="eval").body
    options = inspect.signature(registry[name]).parameters
    assert [argument.id for argument in said.args] == [
        key for key, option in options.items() if option.kind is option.POSITIONAL_OR_KEYWORD
    ]
    for option in said.keywords:
        assert ast.literal_eval(option.value) == options[option.arg].default, option.arg


@pytest.mark.parametrize("name", OUTPUTS)
def test_detectors_of_outputs_are_on_the_page_of_outputs(name):
    page = Path(nescio.__file__).parents[2] / "docs" / "methods" / PAGES[0]
    assert f"| `{name}(" in page.read_text()


def test_a_fitted_nan_is_refused():
    with pytest.raises(NescioError, match=r"react: 1 of the 2 numbers fitted as 'limit' are NaN"):
        Detector(name="react", states=({"limit": torch.tensor([1.0, torch.nan])},))


def test_a_file_that_does_not_fit_together_is_refused(toy, tmp_path):
    path = detectors.knn(toy.train()).save(tmp_path / "knn.safetensors")
    tensors, manifest = load_tensors(path, "detector")
    for key, value in {"networks": 0, "sign": "smaller", "layers": None, "name": "knnn"}.items():
        save_tensors(path, tensors, {**manifest, key: value})
        with pytest.raises(NescioError, match="damaged|another sign|unknown detector"):
            load(path)


WRONG = {
    "options": {},
    "about": {},
    "layers": [],
    "networks": 2,
    "name": "vim",
}


@pytest.mark.parametrize("key", WRONG)
@pytest.mark.parametrize("name", ["knn", "mahalanobis", "combined", "relative_mahalanobis"])
def test_parts_of_a_file_that_do_not_fit_are_refused_on_load(name, key, toy, tmp_path):
    path = make(name, toy.train()).save(tmp_path / "d.safetensors")
    tensors, manifest = load_tensors(path, "detector")
    if (name, key) in {("mahalanobis", "options"), ("relative_mahalanobis", "options")}:
        return  # their options served the fit alone
    save_tensors(path, tensors, {**manifest, key: WRONG[key]})
    with pytest.raises(NescioError, match="do not fit together"):
        load(path)


@pytest.mark.parametrize("name", registry)
def test_it_is_shown_in_a_line(name, toy):
    shown = repr(make(name, toy.train(members=2)))
    assert shown.startswith(f"Detector({name}")
    assert "tensor" not in shown
    assert len(shown) < 400


def test_raw_inputs_are_refused_with_what_to_do():
    for given in (torch.zeros(3, 2), [[0.0, 1.0]]):
        with pytest.raises(NescioError, match="reads activations, got a .*nescio.scorer"):
            detectors.energy()(given)
