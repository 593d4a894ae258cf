"""What every acquisition of the registry keeps to."""

import inspect
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch

from nescio.applications.active_learning import pick
from nescio.core import Categorical, NescioError, NotFiniteError, generator
from nescio.core.registry import acquisitions, keyword_only

OTHER = {"batchbald": {"samples": 4}}  # another value of each option
SAMPLES, WIDTH = 60, 5


def draws(*shape, name="logits"):
    return torch.randn(*shape, generator=generator(0, name))


@pytest.fixture
def pool():
    return {
        "prediction": Categorical(2 * draws(9, SAMPLES, 4)),
        "features": draws(SAMPLES, WIDTH, name="features"),
        "labeled_features": draws(3, WIDTH, name="labeled"),
    }


@pytest.mark.parametrize("name", acquisitions)
def test_it_reads_candidates_and_its_options_are_keywords(name):
    parameters = list(inspect.signature(acquisitions[name]).parameters.values())
    assert parameters[0].name == "candidates"
    assert len(parameters) == 1 + len(keyword_only(acquisitions[name]))
    assert {p.name for p in parameters[1:]} == set(OTHER.get(name, {}))
    assert acquisitions[name].because


@pytest.mark.parametrize("name", acquisitions)
def test_a_batch_has_the_size_and_the_scores_fall(name, pool):
    chosen = pick(**pool, size=8, acquisition=name)
    assert chosen.index.shape == chosen.score.shape == chosen.predicted.shape == (8,)
    assert len(chosen.index.unique()) == 8
    assert chosen.index.dtype == torch.int64
    assert (chosen.score[1:] <= chosen.score[:-1] + 1e-6).all()
    assert len(chosen.why) == 8
    assert all(sentence.endswith(".") for sentence in chosen.why)
    prediction = pool["prediction"]
    torch.testing.assert_close(chosen.predicted, prediction.labels[chosen.index])
    torch.testing.assert_close(chosen.confidence, prediction.probs.amax(-1)[chosen.index])


@pytest.mark.parametrize("name", acquisitions)
def test_the_same_seed_gives_the_same_batch_from_every_thread(name, pool):
    first = pick(**pool, size=8, acquisition=name, seed=3)
    with ThreadPoolExecutor(4) as threads:
        again = list(
            threads.map(lambda _: pick(**pool, size=8, acquisition=name, seed=3), range(4))
        )
    for other in again:
        assert torch.equal(other.index, first.index)
        assert torch.equal(other.score, first.score)


@pytest.mark.parametrize("name", [name for name in acquisitions if name != "random"])
def test_the_order_of_the_pool_changes_nothing_but_the_index(name, pool):
    if name == "variation_ratio":  # without ties
        pool["prediction"] = _ladder()
    order = torch.randperm(SAMPLES, generator=generator(1, "order"))
    moved = {**pool, "prediction": pool["prediction"][order], "features": pool["features"][order]}
    here = pick(**pool, size=8, acquisition=name)
    there = pick(**moved, size=8, acquisition=name)
    assert torch.equal(order[there.index], here.index)
    torch.testing.assert_close(there.score, here.score)
    assert there.why == here.why


def _ladder():
    """Votes of 200 members, of which n differ from the others about sample n."""
    votes = (torch.arange(200)[:, None] < torch.arange(SAMPLES)).float()  # (M, N)
    return Categorical(torch.stack([votes, 1 - votes], -1))


@pytest.mark.parametrize("name", acquisitions)
def test_ties_are_broken_by_the_seed_and_not_by_position(name):
    """Of equal samples each is chosen equally often; 4 sigma of 100 draws of 1 in 4."""
    same = {
        "prediction": Categorical(draws(9, 1, 4).repeat(1, 4, 1)),
        "features": torch.zeros(4, WIDTH),
        "labeled_features": torch.ones(1, WIDTH),
    }
    first = [int(pick(**same, size=1, acquisition=name, seed=seed).index) for seed in range(100)]
    counts = torch.tensor(first).bincount(minlength=4)
    assert (counts - 25).abs().max() < 4 * (100 * 0.25 * 0.75) ** 0.5


@pytest.mark.parametrize("name", acquisitions)
def test_sizes_that_the_pool_cannot_give_are_refused(name, pool):
    with pytest.raises(NescioError, match="61 samples are asked for, and there are 60"):
        pick(**pool, size=SAMPLES + 1, acquisition=name)
    for size in (0, -1, 2.0, True):
        with pytest.raises(NescioError, match="size must be a whole number"):
            pick(**pool, size=size, acquisition=name)
    empty = {**pool, "prediction": pool["prediction"][:0], "features": pool["features"][:0]}
    with pytest.raises(NescioError, match="the pool is empty"):
        pick(**empty, size=1, acquisition=name)
    assert sorted(pick(**pool, size=SAMPLES, acquisition=name).index) == list(range(SAMPLES))


@pytest.mark.parametrize("name", acquisitions)
@pytest.mark.parametrize("dtype", [torch.float16, torch.float32, torch.float64])
def test_precisions_agree(name, dtype, pool):
    pool["prediction"] = Categorical(pool["prediction"].logits.half().to(dtype))
    reference = {**pool, "prediction": pool["prediction"].to(torch.float64)}
    found = pick(**pool, size=8, acquisition=name)
    torch.testing.assert_close(
        found.score.double(),
        pick(**reference, size=8, acquisition=name).score.double(),
        atol=1e-5,
        rtol=1e-4,
    )


@pytest.mark.parametrize("name", acquisitions)
def test_one_sample_and_one_class(name):
    one = Categorical(torch.zeros(3, 1, 1))
    features = torch.zeros(1, WIDTH)
    chosen = pick(one, 1, name, features=features, labeled_features=features)
    assert chosen.index.tolist() == [0]
    assert not chosen.score.isnan().any()


@pytest.mark.parametrize("name", acquisitions)
def test_gradients_and_inputs_are_left_alone(name, pool):
    logits = pool["prediction"].logits.clone().requires_grad_()
    before = logits.detach().clone()
    chosen = pick(**{**pool, "prediction": Categorical(logits)}, size=3, acquisition=name)
    assert not chosen.score.requires_grad
    assert torch.equal(logits.detach(), before)
    assert logits.grad is None


def test_predictions_with_nan_cannot_be_made():
    with pytest.raises(NotFiniteError, match="NaN"):
        pick(Categorical(torch.full((2, 3, 2), torch.nan)), 1, "bald")
