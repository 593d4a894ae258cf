"""Recipes: every one trains, and those with an OOD source do what they promise."""

import pytest
import torch

from nescio import NescioError, StudentT, data, heads, losses, nets, recipes, train
from nescio.attacks import Ascent
from nescio.core.registry import keyword_only
from nescio.core.registry import recipes as registry
from nescio.data import ood as ood_sources
from nescio.evaluation.answers import see

MOONS = data.half_moons()
OOD = ("ceda", "acet", "outlier_exposure")


def options(name: str) -> dict:
    return {"ood": ood_sources.another(10 + MOONS.test[0], "far")} if "outlier" in name else {}


@pytest.mark.parametrize("name", [name for name in registry if name != "evidential_regression"])
def test_every_recipe_trains_and_predicts(name: str) -> None:
    recipe = registry[name](**options(name))
    make = nets.bayesian_mlp if recipe.net == "bayesian_mlp" else nets.mlp
    model = train(
        lambda: make(2, 2, widths=(8,), dropout=recipe.dropout),
        MOONS.train,
        loss=recipe.loss_for(MOONS.train[0]),
        members=recipe.members,
        epochs=2,
        unlabeled=MOONS.validation[0],
    )
    probs = recipe.predictor(model)(MOONS.test[0]).probs
    assert torch.allclose(probs.sum(-1), torch.ones(250))


def test_evidential_regression_learns_noise_and_evidence() -> None:
    x, y = (part[:200] for part in data.cubic().train)
    recipe = recipes.evidential_regression(heads.gaussian(), members=2)
    model = train(
        lambda: nets.mlp(1, 4, widths=(30,)),
        (x, y / y.std()),
        loss=recipe.loss,
        members=2,
        epochs=60,
        learning_rate=0.02,
    )
    prediction = model(x)
    assert isinstance(prediction, StudentT)
    gap = (prediction.mixture_mean - y / y.std()).square().mean()
    assert gap < 0.1
    assert (prediction.epistemic > 0).all()
    assert 0.1 * gap < prediction.mixture_variance.median() < 10 * gap
    with pytest.raises(NescioError, match="for targets; for classes there is `evidential`"):
        recipes.evidential_regression(heads.categorical())


@pytest.mark.parametrize(
    "name", [name for name in registry if name not in ("bayes_by_backprop", "anchored_ensemble")]
)
def test_weight_decay_is_an_option_where_there_is_no_prior(name: str) -> None:
    decayed = registry[name](weight_decay=0.01, **options(name)).loss_for(MOONS.train[0])
    assert decayed.description.startswith("weight_decay(")
    assert "strength=0.01" in decayed.description
    plain = registry[name](**options(name)).loss_for(MOONS.train[0])
    assert "weight_decay" not in plain.description
    defaults = {p.name: p.default for p in keyword_only(registry[name])}
    assert defaults["weight_decay"] == 0.0


def test_on_images_in_the_unit_range_a_recipe_is_the_loss_itself() -> None:
    x = torch.rand(10, 1, 8, 8)
    noise = ood_sources.paper_noise(x)
    base = losses.nll()
    expected = {
        "ceda": losses.ceda(base, noise, weight=0.7),
        "acet": losses.acet(
            base, noise, weight=0.7, attack=Ascent(radius=0.3, steps=0, step=0.3, best=False)
        ),
    }
    for name, loss in expected.items():
        assert registry[name](weight=0.7).loss_for(x).description == loss.description
    images = ood_sources.another(x, "others")
    found = registry["outlier_exposure"](ood=images).loss_for(x)
    assert found.description == losses.outlier_exposure(base, images).description
    attack = Ascent(radius=0.3, steps=10, step=0.075, best=False)
    trained = losses.adversarial_training(base, attack=attack)
    assert registry["adversarial_training"]().loss_for(x).description == trained.description


def test_the_papers_attack_is_an_option() -> None:
    text = recipes.acet(steps=40, keep=False).loss_for(torch.rand(10, 1, 8, 8)).description
    assert Ascent(radius=0.3, steps=40, step=0.0075).description in text
    assert "free=0.0, ramp=0.0" in text
    assert "keep=False" in text


def test_acet_beside_ceda_is_the_sum_of_both() -> None:
    x = torch.rand(10, 1, 8, 8)
    text = recipes.acet(share=0.5, pool=4, ceda_share=0.25).loss_for(x).description
    assert text.startswith("ceda(acet(")
    assert "keep=True, share=0.5, pool=4)" in text
    assert text.endswith("form='uniform', share=0.25, pool=None)")
    assert recipes.acet().loss_for(x).description.startswith("acet(")


@pytest.mark.parametrize("name", OOD)
def test_the_out_distribution_may_be_made_of_the_inputs(name: str) -> None:
    x = torch.rand(10, 1, 8, 8)
    text = registry[name](ood=ood_sources.patches).loss_for(x).description
    assert ood_sources.patches(x).description in text


def trained(name: str, **given: object) -> torch.Tensor:
    """Confidence on the test data, in the range of the data, and far beyond it."""
    loss = registry[name](**given).loss_for(MOONS.train[0])
    model = train(
        lambda: nets.mlp(2, 2, widths=(40, 40)),
        MOONS.train,
        loss=loss,
        epochs=60,
        learning_rate=0.01,
        schedule="cosine",
    )
    x, y = MOONS.test
    assert (model(x).labels == y).double().mean() > 0.95
    wide = data.uniform_noise(500, (2,), low=torch.tensor([-3.0, -2.0]), high=4.0 * torch.ones(2))
    return torch.stack([see(model, inputs).confidence.mean() for inputs in (x, wide)])


def test_half_moons_with_noise_around_them_are_left_in_failure_score() -> None:
    plain, ceda, acet = trained("single"), trained("ceda"), trained("acet")
    assert plain[1] > 0.95  # as sure off the data as on it
    for found in (ceda, acet):
        assert found[0] > 0.75
        assert found[1] < 0.65  # 0.5 is "I do not know"


def test_features_of_any_range_do() -> None:
    """The moons in other units: the same noise, the same attack."""
    x, y = MOONS.train
    scale, shift = torch.tensor([1000.0, 0.01]), torch.tensor([50.0, -3.0])
    options = {"epochs": 10, "learning_rate": 0.01, "standardize": True}
    make = lambda: nets.mlp(2, 2, widths=(20,))  # noqa: E731
    found = []
    for inputs, held in ((x, MOONS.test[0]), (x * scale + shift, MOONS.test[0] * scale + shift)):
        model = train(make, (inputs, y), loss=recipes.acet().loss_for(inputs), **options)
        found.append(model(held).probs)
    assert torch.allclose(found[0], found[1], atol=0.05)


@pytest.mark.parametrize("endless", [False, True])
def test_vectors_far_from_the_data_can_be_attacked(endless: bool) -> None:
    """The ball bounds the attack: an OOD set may lie anywhere."""
    x, y = MOONS.train
    far = ood_sources.uniform((2,), low=20.0, high=30.0, seed=1)
    given = far if endless else ood_sources.another(far.take(300), "far")
    recipe = recipes.acet(ood=given)
    options = {"epochs": 30, "learning_rate": 0.01, "progress": False}
    make = lambda: nets.mlp(2, 2, widths=(20,))  # noqa: E731
    model = train(make, (x, y), loss=recipe.loss_for(x), **options)
    assert see(model, far.take(200, start=500)).confidence.mean() < 0.6
    assert see(model, x).confidence.mean() > 0.75


def test_images_beyond_the_training_images_are_to_be_scaled() -> None:
    x = torch.rand(40, 1, 8, 8)
    bright = ood_sources.another(3 * x, "bright")
    loss = recipes.acet(ood=bright).loss_for(x)
    make = lambda: nets.mlp((1, 8, 8), 2)  # noqa: E731
    with pytest.raises(NescioError, match="inputs of 'bright' range .* scale them"):
        train(make, (x, torch.arange(40) % 2), loss=loss, epochs=1, batch_size=10, progress=False)


def test_outlier_exposure_asks_for_outliers() -> None:
    with pytest.raises(NescioError, match="needs outliers: ood=fashion_mnist"):
        recipes.outlier_exposure()


@pytest.mark.parametrize("name", ["acet", "adversarial_training"])
def test_a_radius_beyond_the_box_is_refused(name: str) -> None:
    with pytest.raises(NescioError, match="leaves the box"):
        registry[name](radius=2.5).loss_for(MOONS.train[0])


def test_regression_has_no_class_to_be_unsure_of() -> None:
    from nescio.core.heads import gaussian

    with pytest.raises(NescioError, match="class logits"):
        recipes.ceda(gaussian()).loss_for(MOONS.train[0])


@pytest.mark.parametrize("name", ["dirichlet_ood", "evidential_ood", "posterior_network"])
def test_dirichlet_recipes_resume_to_the_same_bits(name: str, tmp_path, monkeypatch) -> None:
    from nescio.training import loop

    recipe = registry[name]()
    make = nets.posterior_network if recipe.net else nets.mlp
    own = {"loss": recipe.loss_for(MOONS.train[0]), "members": 2, "epochs": 3, "batch_size": 50}
    own |= {"progress": False}
    whole = train(lambda: make(2, 2, widths=(8,)), MOONS.train, **own)
    real, steps = loop.Saver.after_step, []

    def stop(saver, state) -> None:
        steps.append(1)
        saver.stop = len(steps) == 7  # in the second epoch, while the penalty grows
        real(saver, state)

    monkeypatch.setattr(loop.Saver, "after_step", stop)
    with pytest.raises(KeyboardInterrupt):
        train(lambda: make(2, 2, widths=(8,)), MOONS.train, run=tmp_path, **own)
    monkeypatch.setattr(loop.Saver, "after_step", real)
    resumed = train(lambda: make(2, 2, widths=(8,)), MOONS.train, run=tmp_path, **own)
    for key, weight in whole.tensors.items():
        assert torch.equal(weight, resumed.tensors[key])
