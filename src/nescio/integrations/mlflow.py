"""An evaluator for MLflow: `mlflow.models.evaluate(..., evaluators="nescio")` runs an audit."""

import json
import re
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from nescio.core import NescioError
from nescio.detectors import Activations, recorded
from nescio.evaluation import audit
from nescio.integrations.checkup import audit_numbers, guard_numbers

try:
    from mlflow import MlflowClient
    from mlflow.models import EvaluationArtifact, EvaluationResult
    from mlflow.models.evaluation import ModelEvaluator
except ImportError:
    raise NescioError("this evaluator needs MLflow: pip install nescio[mlflow]") from None

OUTPUTS = ("logits", "probabilities")
FOLDER = "nescio"  # of the artifacts of a run
OPTIONS = ("output", "ood", "features", "budget", "require", "skip", "seed", "class_names")


class NescioEvaluator(ModelEvaluator):  # type: ignore[misc]
    """Audits a classifier by what it answers; metrics and the page go to the run.

    The key `output` of `evaluator_config` says what the model returns, "logits" or "probabilities",
    one column per class; without it this evaluator leaves the model to others. Other keys are
    `ood`, inputs by name; `features`, whether the columns are features for the detector of OOD
    inputs (default True, if they are numbers); and `budget`, `require`, `skip`, `seed` and
    `class_names` as for `nescio.audit`.
    """

    @classmethod
    def can_evaluate(
        cls, *, model_type: str, evaluator_config: Mapping[str, Any], **_: Any
    ) -> bool:
        """Whether this evaluator takes the model: a classifier of which it knows what it returns.

        model_type: kind of the model, as MLflow names it.
        evaluator_config: the configuration.
        """
        return model_type == "classifier" and "output" in evaluator_config

    def evaluate(
        self,
        *,
        dataset: Any,
        run_id: str,
        evaluator_config: Mapping[str, Any],
        model: Any = None,
        **_: Any,
    ) -> EvaluationResult:
        """Audit the answers; log the numbers and the files of the audit.

        dataset: data set of MLflow, with features and labels, and without a model with predictions.
        run_id: run that numbers and files are logged to.
        evaluator_config: the configuration.
        model: model that predicts; None: the predictions of the data set are read.
        """
        config = _checked(evaluator_config)
        features = config.pop("features", True)
        ood, output = config.pop("ood", {}), config.pop("output")
        outputs = (
            dataset.predictions_data if model is None else model.predict(dataset.features_data)
        )
        labels = np.asarray(dataset.labels_data)
        table = _table(dataset.features_data) if features else None
        known = _answers(outputs, output, table, labels)
        others = {
            name: _answers(model.predict(x), output, None if table is None else _table(x))
            for name, x in ood.items()
        }
        found = audit(None, known, ood=others or None, **config)
        numbers = {_key(name): value for name, value in audit_numbers(found).items()}
        if found.guard is not None:
            numbers |= {_key(name): value for name, value in guard_numbers(found.guard).items()}
        return EvaluationResult(numbers, _logged(found, numbers, run_id), run_id)


class AuditArtifact(EvaluationArtifact):  # type: ignore[misc]
    """The file audit.json of a run."""

    def _load_content_from_file(self, local_artifact_path: str) -> Any:
        return json.loads(Path(local_artifact_path).read_text())

    def _save(self, output_artifact_path: str) -> None:
        Path(output_artifact_path).write_text(json.dumps(self.content))


def _checked(config: Mapping[str, Any]) -> dict[str, Any]:
    wrong = sorted(set(config) - set(OPTIONS))
    if wrong:
        raise NescioError(f"unknown in evaluator_config: {', '.join(wrong)}; known: {OPTIONS}")
    if config["output"] not in OUTPUTS:
        raise NescioError(f"output must be one of {OUTPUTS}, got {config['output']!r}")
    return dict(config)


def _answers(outputs: Any, kind: str, table: Any, labels: Any = None) -> Activations:
    """What a model returned, one column per class, as activations."""
    rows = np.asarray(outputs)
    if rows.dtype == object:  # a column of lists
        rows = np.stack([np.asarray(row, dtype=np.float64) for row in rows.ravel()])
    if rows.ndim != 2:
        raise NescioError(
            f"the model must return {kind} of shape (samples, classes), got {rows.shape}; labels "
            "alone do not say how confident it is"
        )
    return recorded(**{kind: rows}, features=table, labels=labels)


def _table(data: Any) -> Any:
    """The inputs as a table of numbers; None: they are not."""
    try:
        found = np.asarray(data, dtype=np.float64)
    except (TypeError, ValueError):
        return None
    return found if found.ndim == 2 and np.isfinite(found).all() else None


def _key(name: str) -> str:
    """A name that MLflow takes."""
    return f"nescio/{re.sub(r'[^0-9A-Za-z_. /-]', '_', name)}"


def _logged(found: Any, numbers: Mapping[str, float], run_id: str) -> dict[str, Any]:
    """Log metrics and files; the artifacts by name."""
    client = MlflowClient()
    for name, value in numbers.items():
        client.log_metric(run_id, name, value)
    with TemporaryDirectory() as folder:
        found.save(folder)
        client.log_artifacts(run_id, folder, FOLDER)
    uri = f"{client.get_run(run_id).info.artifact_uri}/{FOLDER}/audit.json"
    return {"nescio/audit.json": AuditArtifact(uri=uri, content=found.to_json())}
