"""Guards as a service: the decision log, the review queue, and watching what is decided.

What the names need (SQLAlchemy, FastAPI) is loaded when they are first asked for.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from nescio.serving.client import Client as Client
    from nescio.serving.decision_log import DecisionLog as DecisionLog
    from nescio.serving.decision_log import open_log as open_log
    from nescio.serving.exported import export_decisions as export_decisions
    from nescio.serving.keys import Keys as Keys
    from nescio.serving.log_records import Action as Action
    from nescio.serving.log_records import Entry as Entry
    from nescio.serving.log_records import KeptInput as KeptInput
    from nescio.serving.log_records import Label as Label
    from nescio.serving.log_records import Logged as Logged
    from nescio.serving.retention import Retention as Retention
    from nescio.serving.retention import retain as retain
    from nescio.serving.served_guards import version_of as version_of
    from nescio.serving.server import run_in_thread as run_in_thread
    from nescio.serving.server import serve as serve
    from nescio.serving.service import Service as Service
    from nescio.serving.service_settings import ServiceSettings as ServiceSettings
    from nescio.serving.watch import Watch as Watch
    from nescio.serving.watch_settings import WatchSettings as WatchSettings
    from nescio.serving.watch_states import saved_settings as saved_settings

NAMES = {  # of modules, by the one that has them
    "client": "Client",
    "decision_log": "DecisionLog open_log",
    "exported": "export_decisions",
    "keys": "Keys",
    "log_records": "Action Entry KeptInput Label Logged",
    "retention": "Retention retain",
    "served_guards": "version_of",
    "server": "run_in_thread serve",
    "service": "Service",
    "service_settings": "ServiceSettings",
    "watch": "Watch",
    "watch_settings": "WatchSettings",
    "watch_states": "saved_settings",
}
HOMES = {name: module for module, names in NAMES.items() for name in names.split()}


def __getattr__(name: str) -> Any:
    if name not in HOMES:
        raise AttributeError(f"module 'nescio.serving' has no attribute {name!r}")
    found = globals()[name] = getattr(import_module(f"nescio.serving.{HOMES[name]}"), name)
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *HOMES})
