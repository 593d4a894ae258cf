"""Requests that Schemathesis makes up from /openapi.json: every answer is one that it describes."""

import pytest
import torch

import nescio
from nescio import nets

schemathesis = pytest.importorskip("schemathesis")
pytest.importorskip("fastapi")

from hypothesis import HealthCheck, Phase, given, settings  # noqa: E402
from schemathesis.specs.openapi.checks import positive_data_acceptance  # noqa: E402

FEW = settings(
    max_examples=12,
    deadline=None,
    derandomize=True,
    database=None,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=list(HealthCheck),
)


@pytest.fixture(scope="module")
def url(tmp_path_factory):
    from nescio.serving.server import run_in_thread

    folder = tmp_path_factory.mktemp("service")
    torch.manual_seed(0)
    net, x = nets.mlp(3, 2, widths=(4,)).eval(), torch.randn(200, 3)
    with torch.no_grad():
        y = torch.multinomial((8 * net(x)).softmax(1), 1)[:, 0]
    guard = nescio.guard(net, (x, y), detector="energy", risk=0.5, progress=False)
    guard.save(folder / "guard.safetensors", weights=True)
    with run_in_thread(folder / "guard.safetensors", log=folder / "decisions.db") as running:
        yield running.url


def test_every_answer_is_described(url):
    described = schemathesis.openapi.from_url(f"{url}/openapi.json")
    asked = 0
    for found in described.get_all_operations():

        @FEW
        @given(case=found.ok().as_strategy())
        def ask(case):
            answer = case.call_and_validate(excluded_checks=[positive_data_acceptance])
            assert answer.status_code < 500 or answer.status_code in (503, 507)

        ask()
        asked += 1
    assert asked >= 10
