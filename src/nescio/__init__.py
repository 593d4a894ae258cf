"""nescio: when a network does not know, and a proof where there is one."""

from typing import TYPE_CHECKING, Any

from nescio import attacks as attacks
from nescio import augmentation as augmentation
from nescio import calibration as calibration
from nescio import conformal as conformal
from nescio import data as data
from nescio import detectors as detectors
from nescio import failing as failing
from nescio import heads as heads
from nescio import losses as losses
from nescio import measures as measures
from nescio import metrics as metrics
from nescio import nets as nets
from nescio import predictors as predictors
from nescio import recipes as recipes
from nescio import shifting as shifting
from nescio.activations import Activations as Activations
from nescio.auditing import Audit as Audit
from nescio.auditing import audit as audit
from nescio.comparing import Absent as Absent
from nescio.comparing import AdversarialNoise as AdversarialNoise
from nescio.comparing import AdversarialSamples as AdversarialSamples
from nescio.comparing import Comparison as Comparison
from nescio.comparing import compare as compare
from nescio.detecting import DetectorComparison as DetectorComparison
from nescio.detecting import LeftOut as LeftOut
from nescio.detecting import compare_detectors as compare_detectors
from nescio.detecting import leave_classes_out as leave_classes_out
from nescio.errors import NescioError as NescioError
from nescio.guarding import Guard as Guard
from nescio.guarding import guard as guard
from nescio.model import Model as Model
from nescio.monitoring import Monitor as Monitor
from nescio.monitoring import monitor as monitor
from nescio.observing import observe as observe
from nescio.observing import scorer as scorer
from nescio.prediction import Categorical as Categorical
from nescio.prediction import Dirichlet as Dirichlet
from nescio.prediction import DoubleExponential as DoubleExponential
from nescio.prediction import Gaussian as Gaussian
from nescio.prediction import Prediction as Prediction
from nescio.saving import load as load
from nescio.training import train as train
from nescio.version import VERSION

__version__ = VERSION

if TYPE_CHECKING:
    from nescio import geometry as geometry


def __getattr__(name: str) -> Any:
    """`nescio.geometry` is loaded when it is first asked for."""
    if name != "geometry":
        raise AttributeError(f"module 'nescio' has no attribute {name!r}")
    from importlib import import_module

    return import_module("nescio.geometry")
