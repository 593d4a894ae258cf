"""nescio in other packages; each of them is imported where its part is first asked for."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from nescio.integrations.lightning import LightningCallback as LightningCallback
    from nescio.integrations.mlflow import NescioEvaluator as NescioEvaluator
    from nescio.integrations.pytest_plugin import assert_guarded as assert_guarded
    from nescio.integrations.pytest_plugin import assert_limit as assert_limit
    from nescio.integrations.sklearn import GuardedClassifier as GuardedClassifier
    from nescio.integrations.transformers import TransformersCallback as TransformersCallback

HOMES = {
    "GuardedClassifier": "sklearn",
    "assert_guarded": "pytest_plugin",
    "assert_limit": "pytest_plugin",
    "LightningCallback": "lightning",
    "NescioEvaluator": "mlflow",
    "TransformersCallback": "transformers",
}


def __getattr__(name: str) -> Any:
    if name not in HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = globals()[name] = getattr(import_module(f"{__name__}.{HOMES[name]}"), name)
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *HOMES})
