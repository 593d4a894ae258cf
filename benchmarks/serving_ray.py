"""Ray Serve with the application of deploy/ray-serve, as `benchmarks.serving ray` tries it."""

import json
import os
import sys
import time
import urllib.request
from importlib import import_module
from pathlib import Path
from typing import Any

from benchmarks.serving_networks import Served
from benchmarks.serving_sides import JSON, free_port
from benchmarks.timing import ROOT

ROWS = 20


def answers(served: Served, folder: Path) -> dict[str, Any]:
    """Start Ray Serve, ask for decisions, and compare them with those of the guard itself."""
    place = str(ROOT / "deploy" / "ray-serve")
    paths = [place, str(ROOT / "src"), str(ROOT), os.environ.get("PYTHONPATH", "")]
    os.environ["PYTHONPATH"] = os.pathsep.join(paths)  # of the workers
    sys.path.insert(0, place)
    import ray
    from ray import serve

    import nescio
    from nescio.cli.networks import factory_named

    guard_app = import_module("guard_app")
    began, port, log = time.perf_counter(), free_port(), folder / "decisions.db"
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, logging_level="error")
    try:
        serve.start(http_options={"host": "127.0.0.1", "port": port})
        options = {"guards": {"digits": str(served.guard)}, "nets": {"digits": served.factory}}
        options["settings"] = {"host": "127.0.0.1"}  # needs no keys
        serve.run(guard_app.app({**options, "log": str(log), "replicas": 1}))
        ready = time.perf_counter() - began
        body = json.dumps({"inputs": served.rows[:ROWS].tolist()}).encode()
        asked = urllib.request.Request(f"http://127.0.0.1:{port}/v1/predict", body, JSON)
        with urllib.request.urlopen(asked) as answer:
            found = json.load(answer)["decisions"]
    finally:
        serve.shutdown()
        ray.shutdown()
    guard = nescio.load(served.guard, net=factory_named(served.factory))
    columns = guard(served.rows[:ROWS]).columns()
    same = [one["decision"] for one in found] == columns["decision"].tolist()
    same = same and [one["label"] for one in found] == columns["label"].tolist()
    from nescio.serving.decision_log import open_log

    with open_log(log, create=False) as opened:
        logged = [(one.id, one.replica) for one in opened.decisions()]
    same = same and logged == [(one["id"], "0/1") for one in found]
    print(f"Ray Serve {ray.__version__}: ready after {ready:.1f} s, {ROWS} decisions, same: {same}")
    return {"ready_seconds": ready, "decisions": len(found), "same": same}
