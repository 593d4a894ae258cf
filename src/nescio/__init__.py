"""nescio: when a network does not know, and a proof where there is one."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from nescio.version import VERSION

__version__ = VERSION

if TYPE_CHECKING:
    from nescio import applications as applications
    from nescio import attacks as attacks
    from nescio import calibration as calibration
    from nescio import conformal as conformal
    from nescio import data as data
    from nescio import detectors as detectors
    from nescio import evaluation as evaluation
    from nescio import geometry as geometry
    from nescio import integrations as integrations
    from nescio import losses as losses
    from nescio import metrics as metrics
    from nescio import models as models
    from nescio import nets as nets
    from nescio.core import Categorical as Categorical
    from nescio.core import Dirichlet as Dirichlet
    from nescio.core import DoubleExponential as DoubleExponential
    from nescio.core import Gaussian as Gaussian
    from nescio.core import MultiLabel as MultiLabel
    from nescio.core import NescioError as NescioError
    from nescio.core import Prediction as Prediction
    from nescio.core import Results as Results
    from nescio.core import StudentT as StudentT
    from nescio.core import heads as heads
    from nescio.core import load as load
    from nescio.core import measures as measures
    from nescio.detectors import Activations as Activations
    from nescio.detectors.observe import scorer as scorer
    from nescio.detectors.observe.observe import observe as observe
    from nescio.detectors.recorded import recorded as recorded
    from nescio.evaluation import LabelAudit as LabelAudit
    from nescio.evaluation import audit_labels as audit_labels
    from nescio.evaluation.audit.audit import Audit as Audit
    from nescio.evaluation.audit.audit import audit as audit
    from nescio.evaluation.compare import Absent as Absent
    from nescio.evaluation.compare import AdversarialNoise as AdversarialNoise
    from nescio.evaluation.compare import AdversarialSamples as AdversarialSamples
    from nescio.evaluation.compare import Comparison as Comparison
    from nescio.evaluation.compare.compare import compare as compare
    from nescio.evaluation.leave_classes_out import leave_classes_out as leave_classes_out
    from nescio.guards import Guard as Guard
    from nescio.guards import LabelGuards as LabelGuards
    from nescio.guards import MapGuard as MapGuard
    from nescio.guards import RegressionGuard as RegressionGuard
    from nescio.guards import guard_labels as guard_labels
    from nescio.guards.guard import guard as guard
    from nescio.guards.score import score as score
    from nescio.integrations import GuardedClassifier as GuardedClassifier
    from nescio.models import Model as Model
    from nescio.monitoring import Monitor as Monitor
    from nescio.monitoring.monitor import monitor as monitor
    from nescio.training import recipes as recipes
    from nescio.training.stepper import Stepper as Stepper
    from nescio.training.stepper import stepper as stepper
    from nescio.training.train import train as train

# Everything is loaded when it is first asked for, so that `nescio --help` needs no torch.
ROOMS = (
    "applications attacks calibration cli conformal core data detectors evaluation geometry guards "
    "integrations losses metrics models monitoring nets report serving training"
)
MODULES = {room: room for room in ROOMS.split()}
MODULES |= {"heads": "core.heads", "measures": "core.measures", "recipes": "training.recipes"}
NAMES = {  # of modules, by the one that has them
    "core": "Categorical Dirichlet DoubleExponential Gaussian MultiLabel NescioError Prediction "
    "Results StudentT load",
    "detectors.activations": "Activations",
    "detectors.observe": "observe scorer",
    "detectors.recorded": "recorded",
    "evaluation": "Absent AdversarialNoise AdversarialSamples Audit Comparison LabelAudit audit "
    "audit_labels compare leave_classes_out",
    "guards": "Guard LabelGuards MapGuard RegressionGuard guard guard_labels",
    "guards.score": "score",
    "integrations": "GuardedClassifier",
    "models": "Model",
    "monitoring": "Monitor monitor",
    "training.stepper": "Stepper stepper",
    "training.train": "train",
}
HOMES = {name: module for module, names in NAMES.items() for name in names.split()}


def __getattr__(name: str) -> Any:
    if name in MODULES:
        return import_module(f"nescio.{MODULES[name]}")
    if name not in HOMES:
        raise AttributeError(f"module 'nescio' has no attribute {name!r}")
    found = globals()[name] = getattr(import_module(f"nescio.{HOMES[name]}"), name)
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *MODULES, *HOMES})
