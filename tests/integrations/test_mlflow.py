"""The evaluator in MLflow: metrics and files of the audit are in the run."""

import json
import tomllib
import warnings
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest

mlflow = pytest.importorskip("mlflow")
pandas = pytest.importorskip("pandas")

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def evaluate(tmp_path_factory):
    """A function that evaluates in a store of this module, with the evaluator registered."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # MLflow warns of its own models
        from mlflow.models.evaluation.evaluator_registry import _model_evaluation_registry
    from nescio.integrations import NescioEvaluator

    _model_evaluation_registry.register("nescio", NescioEvaluator)  # as the entry point does
    folder = tmp_path_factory.mktemp("mlflow")
    patch = pytest.MonkeyPatch()
    patch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")  # files are quicker than a database
    patch.setenv("MLFLOW_DISABLE_TELEMETRY", "true")

    def run(model, data, **config):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            mlflow.set_tracking_uri(folder.as_uri())
            mlflow.set_experiment("nescio")
            return mlflow.models.evaluate(
                model,
                data,
                targets="label",
                model_type="classifier",
                evaluators="nescio",
                evaluator_config=config,
            )

    yield run
    patch.undo()


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    labels = np.arange(900) % 3
    x = rng.normal(size=(900, 3)) + 3 * np.eye(3)[labels]
    return pandas.DataFrame(x, columns=["a", "b", "c"]).assign(label=labels)


def logits(frame):
    """The Bayes classifier of Gaussians with means 3 e_k, as logits."""
    return 3 * np.asarray(frame[["a", "b", "c"]])


def test_metrics_and_files_are_in_the_run(evaluate, data, tmp_path):
    far = data.drop(columns="label") + 20
    found = evaluate(logits, data, output="logits", ood={"far <away>": far}, budget="quick")
    right = (logits(data).argmax(1) == data["label"]).mean()
    assert found.metrics["nescio/test_accuracy"] == pytest.approx(right)
    assert found.metrics["nescio/verdict"] in (0, 2, 3)
    stored = mlflow.get_run(found.run_id).data.metrics
    assert stored["nescio/test_ece"] == pytest.approx(found.metrics["nescio/test_ece"])
    names = [one.path for one in mlflow.MlflowClient().list_artifacts(found.run_id, "nescio")]
    assert {"nescio/audit.html", "nescio/audit.json"} <= set(names)
    content = found.artifacts["nescio/audit.json"].content
    assert content["format"] == "nescio audit"
    found.save(tmp_path / "saved")
    assert json.loads((tmp_path / "saved/artifacts/audit.json").read_text()) == content


def test_probabilities_give_the_same_accuracy(evaluate, data):
    def probabilities(frame):
        odds = np.exp(logits(frame) - logits(frame).max(1, keepdims=True))
        return odds / odds.sum(1, keepdims=True)

    found = evaluate(probabilities, data, output="probabilities", budget="quick", features=False)
    assert found.metrics["nescio/test_accuracy"] == pytest.approx(
        (logits(data).argmax(1) == data["label"]).mean()
    )


@pytest.mark.parametrize(
    ("model", "config", "words"),
    [
        (lambda frame: logits(frame).argmax(1), {"output": "logits"}, "labels alone"),
        (logits, {"output": "labels"}, "output must be one of"),
        (logits, {"output": "logits", "colour": 1}, "unknown in evaluator_config: colour"),
    ],
)
def test_what_it_cannot_read_is_said(evaluate, data, model, config, words):
    with pytest.raises(Exception, match=words):
        evaluate(model, data, **config)


def test_it_leaves_models_to_others_unless_it_is_told_the_output():
    from nescio.integrations import NescioEvaluator

    can = NescioEvaluator.can_evaluate
    assert can(model_type="classifier", evaluator_config={"output": "logits"})
    assert not can(model_type="classifier", evaluator_config={})
    assert not can(model_type="regressor", evaluator_config={"output": "logits"})


def test_the_entry_point_leads_to_it():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    module, _, name = project["entry-points"]["mlflow.model_evaluator"]["nescio"].partition(":")
    assert getattr(import_module(module), name).__name__ == "NescioEvaluator"
