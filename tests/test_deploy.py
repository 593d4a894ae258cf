"""The files in deploy/: valid for what reads them, and in keep with the service they run."""

import configparser
import json
import re
import shlex
import sys
from pathlib import Path

import pytest
import torch

import nescio
from nescio import nets
from nescio.cli.main import main
from nescio.core import NescioError

pytest.importorskip("fastapi")
kubernetes_validate = pytest.importorskip("kubernetes_validate")
yaml = pytest.importorskip("yaml")

ROOT = Path(__file__).parent.parent
DEPLOY = ROOT / "deploy"
KUBERNETES = [p for p in sorted((DEPLOY / "kubernetes").glob("*.yaml")) if p.stem != "kserve"]
VERSION = "1.32"  # from which on pods of a StatefulSet have the label pod-index for good
SPECIAL = re.compile(r"\b(nescio_\w+?)(?:_bucket|_sum|_count)?\b(?=[{\[)\s=<>!]|$)")


def documents(path):
    return [one for one in yaml.safe_load_all(path.read_text()) if one]


def pods():
    """The pod specifications of all manifests, by name."""
    found = {}
    for path in KUBERNETES:
        for one in documents(path):
            if one["kind"] in ("Deployment", "StatefulSet"):
                found[path.stem] = one["spec"]["template"]["spec"]
    (service,) = documents(DEPLOY / "kubernetes" / "kserve.yaml")
    predictor = service["spec"]["predictor"]
    found["kserve"] = {key: predictor[key] for key in ("containers", "volumes")}
    (ray,) = documents(DEPLOY / "ray-serve" / "rayservice.yaml")
    cluster = ray["spec"]["rayClusterConfig"]
    groups = [cluster["headGroupSpec"], *cluster["workerGroupSpecs"]]
    for number, group in enumerate(groups):
        found[f"ray {number}"] = group["template"]["spec"]
    return found


PODS = pods()
OURS = {name: spec for name, spec in PODS.items() if "ray" not in name}


def commands():
    """The words after `nescio` of every file that starts it."""
    found = {name: spec["containers"][0]["args"] for name, spec in OURS.items()}
    text = (DEPLOY / "Dockerfile").read_text().replace("\\\n", " ")
    assert re.search(r'^ENTRYPOINT \["nescio"\]$', text, re.MULTILINE)
    found["docker"] = json.loads(re.search(r"^CMD (\[.*\])$", text, re.MULTILINE)[1])
    unit = (DEPLOY / "systemd" / "nescio@.service").read_text().replace("\\\n", " ")
    line = (
        re.search(r"^ExecStart=(.*)$", unit, re.MULTILINE)[1]
        .replace("%i", "0")
        .replace("${REPLICAS}", "1")
    )
    found["systemd"] = shlex.split(line)[1:]
    return found


@pytest.fixture(scope="module")
def guard_file(tmp_path_factory):
    path = tmp_path_factory.mktemp("deploy") / "guard.safetensors"
    torch.manual_seed(0)
    net, x = nets.mlp(3, 2, widths=(4,)).eval(), torch.randn(200, 3)
    with torch.no_grad():
        labels = torch.multinomial((8 * net(x)).softmax(1), 1)[:, 0]
    nescio.guard(net, (x, labels), detector="energy", risk=0.5, progress=False).save(
        path, weights=True
    )
    return path


@pytest.fixture(scope="module")
def service(guard_file):
    from nescio.serving.server import build_service

    return build_service(str(guard_file), log=None)


@pytest.mark.parametrize("path", KUBERNETES, ids=lambda path: path.name)
def test_kubernetes_takes_the_manifests(path):
    for one in documents(path):
        kubernetes_validate.validate(one, VERSION, strict=True)


@pytest.mark.parametrize("name", PODS)
def test_kubernetes_takes_the_pods_of_others(name):
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x"}, "spec": PODS[name]}
    kubernetes_validate.validate(pod, VERSION, strict=True)


@pytest.mark.parametrize("name", OURS)
def test_a_pod_has_few_rights_and_says_what_it_needs(name):
    spec = OURS[name]
    (container,) = spec["containers"]
    rights = spec.get("securityContext", {}) | container["securityContext"]
    assert rights["runAsNonRoot"]
    assert rights["runAsUser"] == 10001
    assert rights["readOnlyRootFilesystem"]
    assert not rights["allowPrivilegeEscalation"]
    assert rights["capabilities"] == {"drop": ["ALL"]}
    assert {"requests", "limits"} <= set(container["resources"])
    mounted = {one["name"] for one in container["volumeMounts"]}
    assert mounted == {one["name"] for one in spec["volumes"]}


@pytest.mark.parametrize("name", ["one", "replicas"])
def test_a_pod_is_asked_whether_it_lives_and_ends_in_time(name):
    spec = OURS[name]
    (container,) = spec["containers"]
    asked = {kind: container[kind]["httpGet"]["path"] for kind in container if "Probe" in kind}
    assert asked == {
        "startupProbe": "/ready",
        "readinessProbe": "/ready",
        "livenessProbe": "/health",
    }
    drain = next(int(a.partition("=")[2]) for a in container["args"] if a.startswith("--drain"))
    assert spec["terminationGracePeriodSeconds"] >= drain + 45  # and what was accepted


@pytest.mark.parametrize("name", OURS)
def test_the_paths_that_are_asked_exist(name, service):
    from nescio.serving.app import make_app

    routes = make_app(service).app.openapi()["paths"]
    (container,) = OURS[name]["containers"]
    for kind in container:
        if "Probe" in kind:
            assert container[kind]["httpGet"]["path"] in routes
    assert "/v2/models/{name}/infer" in routes


def test_selectors_and_secrets_fit():
    every = {one["kind"]: one for path in KUBERNETES for one in documents(path)}
    labels = every["StatefulSet"]["spec"]["template"]["metadata"]["labels"]
    assert every["Service"]["spec"]["selector"].items() <= labels.items()
    assert every["PodDisruptionBudget"]["spec"]["selector"]["matchLabels"].items() <= labels.items()
    scaled = every["HorizontalPodAutoscaler"]["spec"]["scaleTargetRef"]
    assert (scaled["kind"], scaled["name"]) == (
        "StatefulSet",
        every["StatefulSet"]["metadata"]["name"],
    )
    most = every["HorizontalPodAutoscaler"]["spec"]["maxReplicas"]
    assert f"--replica=$(REPLICA)/{most}" in OURS["replicas"]["containers"][0]["args"]
    keys = set(every["Secret"]["stringData"])
    for spec in PODS.values():
        text = json.dumps(spec)
        assert set(re.findall(r'"secretName": "([^"]+)"', text)) <= {"digits-guard"}
        assert set(re.findall(r'"key": "([^"]+)"', text)) <= keys


@pytest.mark.parametrize("name", commands())
def test_nescio_has_the_options_of_the_commands(name):
    verb, *words = commands()[name]
    with main.make_context("nescio", [verb]) as context:
        command = main.get_command(context, verb)
        with command.make_context(verb, words, parent=context) as parsed:
            assert parsed.params["guards"]
            assert parsed.params["keys"]
            assert "password" not in parsed.params["log"]


def test_the_dockerfile_is_that_of_the_page():
    text = (DEPLOY / "Dockerfile").read_text()
    page = (ROOT / "docs" / "how-to" / "docker.md").read_text()
    assert f"```dockerfile\n{text}```" in page
    assert "\nUSER 10001\n" in text
    assert '"nescio[serve]"' in text


def test_the_unit_can_be_read():
    unit = configparser.ConfigParser(strict=False, interpolation=None)
    unit.optionxform = str
    unit.read_string((DEPLOY / "systemd" / "nescio@.service").read_text())
    assert set(unit.sections()) == {"Unit", "Service", "Install"}
    assert unit["Service"]["DynamicUser"] == unit["Service"]["NoNewPrivileges"] == "yes"
    assert int(unit["Service"]["TimeoutStopSec"]) >= 45


def expressions():
    rules = documents(DEPLOY / "prometheus" / "rules.yaml")[0]
    for group in rules["groups"]:
        for rule in group["rules"]:
            assert {"alert", "expr", "labels", "annotations"} <= set(rule)
            yield rule["expr"]
    board = json.loads((DEPLOY / "grafana" / "dashboard.json").read_text())
    for panel in board["panels"]:
        yield from (one["expr"] for one in panel["targets"])


def test_alerts_and_the_dashboard_name_metrics_that_exist(service):
    known = {
        one.name: one.labels if hasattr(one, "labels") else () for one in service.metrics.every
    }
    seen = set()
    for expression in expressions():
        for name in SPECIAL.findall(expression):
            assert name in known, expression
            seen.add(name)
        for name, chosen in re.findall(r"\b(nescio_\w+)\{([^}]*)\}", expression):
            assert set(re.findall(r"(\w+)\s*[=!]", chosen)) <= set(known[name]), expression
        assert expression.count("(") == expression.count(")")
    assert len(seen) >= 10


def test_what_prometheus_reads_is_the_text_of_the_metrics(service):
    pytest.importorskip("prometheus_client")
    from prometheus_client.parser import text_string_to_metric_families

    families = list(text_string_to_metric_families(service.metrics.text()))
    assert len(families) == len(service.metrics.every)
    scrape = documents(DEPLOY / "prometheus" / "scrape.yaml")[0]
    assert {one["job_name"] for one in scrape["scrape_configs"]} == {"nescio", "nescio-pods"}


def test_ray_serve_takes_the_configurations():
    schema = pytest.importorskip("ray.serve.schema").ServeDeploySchema
    plain = documents(DEPLOY / "ray-serve" / "config.yaml")[0]
    (ray,) = documents(DEPLOY / "ray-serve" / "rayservice.yaml")
    inner = yaml.safe_load(ray["spec"]["serveConfigV2"])
    assert inner["applications"] == plain["applications"]
    for one in (plain, inner):
        (application,) = schema.model_validate(one).applications
        assert application.import_path == "guard_app:app"
        scaling = one["applications"][0]["deployments"][0]["autoscaling_config"]
        assert application.args["replicas"] == scaling["max_replicas"]


def test_the_application_of_ray_serve_answers(guard_file, tmp_path, monkeypatch):
    pytest.importorskip("ray.serve")
    from fastapi.testclient import TestClient

    monkeypatch.syspath_prepend(str(DEPLOY / "ray-serve"))
    import guard_app

    options = {"guards": {"digits": str(guard_file)}, "log": str(tmp_path / "decisions.db")}
    with pytest.raises(NescioError, match="keys are needed"):
        guard_app.asgi_app(options, "1/2")
    options["settings"] = {"host": "127.0.0.1"}
    assert guard_app.app(options) is not None  # `python -m benchmarks.serving ray` starts it
    made = guard_app.asgi_app(options, "1/2")
    with TestClient(made, base_url="http://localhost") as client:
        answer = client.post("/v1/predict", json=[[0.0, 1.0, 2.0]])
        assert answer.status_code == 200
        assert len(answer.json()["decisions"]) == 1
    from nescio.serving.decision_log import open_log

    with open_log(tmp_path / "decisions.db") as log:
        assert [one.replica for one in log.decisions()] == ["1/2"]
    sys.modules.pop("guard_app")
