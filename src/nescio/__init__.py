"""nescio: when a network does not know, and a proof where there is one."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from nescio import attacks as attacks
from nescio import calibration as calibration
from nescio import conformal as conformal
from nescio import data as data
from nescio import detectors as detectors
from nescio import losses as losses
from nescio import metrics as metrics
from nescio import models as models
from nescio import nets as nets
from nescio.core import heads as heads
from nescio.core import measures as measures
from nescio.core.errors import NescioError as NescioError
from nescio.core.files import load as load
from nescio.core.multilabel import MultiLabel as MultiLabel
from nescio.core.prediction import Categorical as Categorical
from nescio.core.prediction import Dirichlet as Dirichlet
from nescio.core.prediction import DoubleExponential as DoubleExponential
from nescio.core.prediction import Gaussian as Gaussian
from nescio.core.prediction import Prediction as Prediction
from nescio.core.results import Results as Results
from nescio.detectors.activations import Activations as Activations
from nescio.detectors.observe import observe as observe
from nescio.detectors.observe import scorer as scorer
from nescio.guards import Guard as Guard
from nescio.guards import LabelGuards as LabelGuards
from nescio.guards import guard as guard
from nescio.guards import guard_labels as guard_labels
from nescio.models.model import Model as Model
from nescio.monitoring import Monitor as Monitor
from nescio.monitoring import monitor as monitor
from nescio.training import recipes as recipes
from nescio.training.train import train as train
from nescio.version import VERSION

__version__ = VERSION

if TYPE_CHECKING:
    from nescio import evaluation as evaluation
    from nescio import geometry as geometry
    from nescio.evaluation.audit.audit import Audit as Audit
    from nescio.evaluation.audit.audit import audit as audit
    from nescio.evaluation.compare import Absent as Absent
    from nescio.evaluation.compare import AdversarialNoise as AdversarialNoise
    from nescio.evaluation.compare import AdversarialSamples as AdversarialSamples
    from nescio.evaluation.compare import Comparison as Comparison
    from nescio.evaluation.compare import compare as compare
    from nescio.evaluation.label_audit import LabelAudit as LabelAudit
    from nescio.evaluation.label_audit import audit_labels as audit_labels
    from nescio.evaluation.leave_classes_out import leave_classes_out as leave_classes_out

# Of `nescio.evaluation`, which is loaded when it is first asked for, as `nescio.geometry` is.
LATER = {"Absent", "AdversarialNoise", "AdversarialSamples", "Audit", "Comparison"}
LATER |= {"LabelAudit", "audit", "audit_labels", "compare", "leave_classes_out"}


def __getattr__(name: str) -> Any:
    if name not in ("evaluation", "geometry", *LATER):
        raise AttributeError(f"module 'nescio' has no attribute {name!r}")
    room = import_module(f"nescio.{'evaluation' if name in LATER else name}")
    return getattr(room, name) if name in LATER else room


def __dir__() -> list[str]:
    return sorted({*globals(), "evaluation", "geometry", *LATER})
