"""Guards behind Ray Serve: `serve run config.yaml`, or a RayService of KubeRay.

Each replica is a whole service, with its own batches; its rank is its name in the decision log,
which is a PostgreSQL database that all of them write to.
"""

import os
from typing import Any

from ray import serve
from ray.serve import Application

EVERYWHERE = "0.0.0.0"  # where Ray Serve may listen: then keys are needed


def app(options: dict[str, Any]) -> Application:
    """The application that `config.yaml` names.

    options: `guards`, files by name; `nets`, their networks as module:function, where nescio cannot
      build them; `log`, the URL of the decision log; `keys`, the file of the keys; `replicas`,
      how many replicas there are at most; `settings`, other settings of a service by name:
      {"host": "127.0.0.1"}, where Ray Serve listens nowhere else, needs no keys.
    """
    guarded = serve.ingress(lambda: asgi_app(options, replica(options.get("replicas", 1))))()
    return serve.deployment(name="Guards")(guarded).bind()


def asgi_app(options: dict[str, Any], replica: str) -> Any:
    """The service of one replica.

    options: those of `app`.
    replica: its name in the log.
    """
    os.environ.setdefault("MKL_CBWR", "AUTO")  # as the command line: the same bits in any batch
    import nescio
    from nescio.cli.networks import factory_named
    from nescio.serving.app import make_app
    from nescio.serving.server import build_service
    from nescio.serving.service_settings import ServiceSettings

    def reader(name: str) -> Any:
        return lambda path: nescio.load(path, net=factory_named(options["nets"][name]))

    settings = options.get("settings", {})
    service = build_service(
        options["guards"],
        log=options.get("log"),
        keys=options.get("keys"),
        settings=ServiceSettings(**{"host": EVERYWHERE, "replica": replica, **settings}),
        readers={name: reader(name) for name in options.get("nets", {})},
    )
    return make_app(service)


def replica(count: int) -> str:
    """The name of this replica, which a new one in its place has again: its rank among `count`."""
    rank = serve.get_replica_context().rank
    return f"{getattr(rank, 'rank', rank)}/{count}"
