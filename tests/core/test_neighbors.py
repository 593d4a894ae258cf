"""Names that were nearly right: singular and plural, signs, beginnings, other words for a thing."""

import pytest
from click.testing import CliRunner

import nescio
from nescio.cli.main import main
from nescio.core import NescioError
from nescio.core.errors import quoted
from nescio.core.registry import calibrators, datasets, detectors, recipes
from nescio.spelling import nearest


@pytest.mark.parametrize(
    ("registry", "given", "meant"),
    [
        (detectors, "k-nn", "knn"),
        (detectors, "k_nn", "knn"),
        (detectors, "KNN", "knn"),
        (detectors, "softmax", "msp"),
        (detectors, "energies", "energy"),
        (datasets, "fashion", "fashion_mnist"),
        (datasets, "fashion-mnist", "fashion_mnist"),
        (datasets, "fmnist", "fashion_mnist"),
        (datasets, "digit", "digits"),
        (recipes, "ensembles", "deep_ensemble"),
        (recipes, "deep-ensembles", "deep_ensemble"),
        (calibrators, "temperatures", "temperature"),
        (calibrators, "temperature_scaling", "temperature"),
    ],
)
def test_the_name_that_was_meant(registry, given, meant):
    with pytest.raises(NescioError, match=f"did you mean '{meant}'"):
        registry[given]


def test_a_beginning_is_nearer_than_other_letters():
    parts = ["far-field", "figures", "table-1-cifar10", "table-1-mnist", "table-2"]
    assert nearest("table1", parts) == "table-1-cifar10"
    assert nearest("table-1", parts) == "table-1-cifar10"
    assert nearest("table2", parts) == "table-2"


def test_nothing_is_meant_by_something_else():
    assert nearest("zebra", ["knn", "energy"]) is None
    assert nearest("", ["knn"]) is None


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["audit", "--class-name", "a"], "--class-names"),
        (["guard", "n:f", "--detectors", "knn"], "--detector"),
        (["scores", "g"], "did you mean 'score'"),
        (["compares"], "did you mean 'compare'"),
    ],
)
def test_the_command_line_says_what_was_meant(words, said):
    found = CliRunner().invoke(main, words)
    assert found.exit_code == 1
    assert said in found.output


def test_options_are_suggested_too():
    with pytest.raises(NescioError, match="knn has no option 'ks'; did you mean 'k'"):
        detectors.built("knn,ks=3")
    with pytest.raises(NescioError, match="no option seeds; did you mean 'seed'"):
        nescio.data.load("half_moons", seeds=3)


def test_messages_have_a_limit():
    text = str(NescioError("begin " + "x" * 100_000 + " end"))
    assert len(text) < 2_100
    assert text.startswith("begin ")
    assert text.endswith(" end")
    assert len(quoted("y" * 1000)) < 260
    with pytest.raises(NescioError) as caught:
        detectors["z" * 50_000]
    assert len(str(caught.value)) < 2_100


def test_detectors_with_options_are_named_in_python():
    x, y = nescio.data.digits().test
    model = nescio.train(
        lambda: nescio.nets.mlp((1, 8, 8), 10), nescio.data.digits().train, epochs=3
    )
    made = nescio.guard(
        model, (x, y), train=nescio.data.digits().train, detector="knn,k=3", risk=0.3
    )
    assert made.detector.options["k"] == 3
    scores = nescio.scorer(model, "odin,temperature=10")(x[:5])
    odin = nescio.scorer(model, nescio.detectors.odin(temperature=10))(x[:5])
    assert scores.tolist() == odin.tolist()
    with pytest.raises(NescioError, match="knn needs train"):
        nescio.scorer(model, "knn,k=1")
