"""What every kind of prediction set and interval keeps: shapes, batches, options, files."""

import inspect
import json
from pathlib import Path

import pytest
import torch

import nescio
from nescio import conformal
from nescio.conformal import Intervals, Sets
from nescio.conformal.prediction_intervals import bands
from nescio.conformal.sets import scores
from nescio.core import load_manifest
from nescio.core.registry import conformal_methods

SETS, INTERVALS = sorted(scores), sorted(bands)

# another value for every option of every kind; none may be left out
OTHER = {"miscoverage": 0.4, "by": "groups", "randomize": True, "seed": 1}
OWN = {"never_empty": True, "penalty": 1.0, "free": 0, "noise": 2.0}
BESIDE = {"seed": {"randomize": True}, "never_empty": {"randomize": True, "miscoverage": 0.6}}


def samples(name, count=120, seed=0):
    """A prediction and its truth, for sets or for intervals."""
    draw = torch.Generator().manual_seed(seed)
    if name in SETS:
        logits = 2 * torch.randn(2, count, 8, generator=draw)
        probs = nescio.Categorical(logits).probs
        return nescio.Categorical(logits), torch.multinomial(probs, 1, generator=draw)[:, 0]
    mean, noise = torch.randn(2, 1, count, 2, generator=draw)
    spread = 0.3 + torch.rand(1, count, 2, generator=draw)
    if name == "spread":  # the only kind that needs two members
        apart = mean + torch.randn(1, count, 2, generator=draw)
        both = torch.cat([mean, apart])
        return nescio.Gaussian(both, spread.expand_as(both)), mean[0] + noise[0]
    return nescio.Gaussian(mean, spread), mean[0] + noise[0]


def make(name, **options):
    prediction, truth = samples(name)
    if options.get("by") == "groups":
        options["by"] = torch.arange(len(truth)) % 2
    return conformal_methods[name](prediction, truth, **options)


def call(fitted, prediction, first=0):
    """What a call gives, as one tensor."""
    groups = None
    if fitted.options["by"] == "group":
        groups = (first + torch.arange(len(prediction))) % 2
    found = fitted(prediction, groups)
    return found if isinstance(found, torch.Tensor) else torch.stack(found, -1)


def test_every_kind_has_its_score_or_band():
    assert sorted(conformal_methods) == sorted(SETS + INTERVALS)


def test_every_file_with_a_kind_is_imported():
    folder = Path(conformal.__file__).parent
    registered = sum(p.read_text().count("conformal_methods.register") for p in folder.glob("*.py"))
    assert registered == len(conformal_methods)
    assert all(getattr(conformal, name) is conformal_methods[name] for name in conformal_methods)


@pytest.mark.parametrize("name", conformal_methods)
def test_shapes_and_types(name):
    fitted, (new, _) = make(name), samples(name, 30, seed=1)
    if name in SETS:
        assert isinstance(fitted, Sets)
        assert fitted(new).shape == (30, 8)
        assert fitted(new).dtype == torch.bool
    else:
        low, high = fitted(new)
        assert isinstance(fitted, Intervals)
        assert low.shape == high.shape == (30, 2)
        assert (low <= high).all()
    assert all(t.dtype in (torch.float64, torch.int64) for t in fitted.state.values())
    assert conformal_methods.summary(name).endswith((".", "samples", "sets"))


@pytest.mark.parametrize("randomize", [False, True])
@pytest.mark.parametrize("name", conformal_methods)
def test_batches_are_as_the_whole(name, randomize):
    fitted, (new, _) = make(name, randomize=randomize, by="groups"), samples(name, 31, seed=1)
    parts = [call(fitted, new[place : place + 7], place) for place in range(0, 31, 7)]
    assert torch.equal(torch.cat(parts), call(fitted, new))


@pytest.mark.parametrize("name", conformal_methods)
def test_one_sample_at_a_time_draws_by_its_input(name):
    fitted, (new, _) = make(name, randomize=True), samples(name, 1000, seed=1)
    x = torch.randn(1000, 3)
    whole = fitted(new, inputs=x)
    stack = lambda found: found if isinstance(found, torch.Tensor) else torch.stack(found)  # noqa: E731
    for index in range(20):
        alone = fitted(new[index : index + 1], inputs=x[index : index + 1])
        assert torch.equal(stack(alone).squeeze(), stack(whole)[..., index, :].squeeze())
    assert not torch.equal(stack(fitted(new, inputs=x + 1)), stack(whole))
    with pytest.raises(nescio.NescioError, match=r"shape \(1000, 3\), expected 1 rows"):
        fitted(new[:1], inputs=x)


@pytest.mark.parametrize("name", SETS)
def test_chunks_do_not_show(name, monkeypatch):
    whole = call(make(name, randomize=True), samples(name, 31, seed=1)[0])
    monkeypatch.setattr("nescio.conformal.sets.CHUNK", 40)
    assert torch.equal(call(make(name, randomize=True), samples(name, 31, seed=1)[0]), whole)


@pytest.mark.parametrize("name", conformal_methods)
def test_every_option_changes_something(name):
    known = set(list(inspect.signature(conformal_methods[name]).parameters)[2:])
    options = {option: value for option, value in {**OTHER, **OWN}.items() if option in known}
    assert set(options) == known
    new, _ = samples(name, 200, seed=1)
    for option, value in options.items():
        beside = BESIDE.get(option, {})
        before, after = make(name, **beside), make(name, **beside, **{option: value})
        assert not torch.equal(call(before, new), call(after, new)), option


@pytest.mark.parametrize("options", [{}, {"by": "groups", "randomize": True, "seed": 3}])
@pytest.mark.parametrize("name", conformal_methods)
def test_files_hold_all_of_it(name, options, tmp_path):
    fitted, (new, _) = make(name, **options), samples(name, 30, seed=1)
    path = fitted.save(tmp_path / "fitted.safetensors")
    again = nescio.load(path)
    assert torch.equal(call(again, new), call(fitted, new))
    assert again.guarantee == fitted.guarantee
    assert load_manifest(path, fitted.manifest()["kind"])["guarantee"] == fitted.guarantee
    parts = json.loads(json.dumps(fitted.manifest())), dict(fitted.state)
    assert torch.equal(call(type(fitted).from_manifest(*parts), new), call(fitted, new))


@pytest.mark.parametrize("name", conformal_methods)
def test_what_was_calibrated_does_not_follow_its_data(name):
    prediction, truth = samples(name)
    fitted = conformal_methods[name](prediction, truth)
    before = {key: value.clone() for key, value in fitted.state.items()}
    for tensor in prediction._tensors():
        tensor.zero_()
    truth.zero_()
    assert all(torch.equal(fitted.state[key], value) for key, value in before.items())


@pytest.mark.parametrize("name", conformal_methods)
def test_it_is_short_to_look_at(name):
    fitted = make(name, by="groups", miscoverage=0.2)
    kind = type(fitted).__name__
    assert str(fitted) == f"{kind}({name}, miscoverage=0.2)\n- {fitted.guarantee}"
    assert "at least 80 %, for each group by itself" in str(fitted)
    assert repr(fitted).startswith(f"{kind}(name='{name}', options={{")
    assert "tensor" not in repr(fitted)
    assert len(repr(fitted)) < 300
