"""`nescio list`."""

from collections.abc import Callable

from click.testing import Result

from nescio.core import registry
from nescio.evaluation import limits

NAME = "guarded_module_of_tests"
DEFAULT = f"{NAME}:make_net"


def test_list_shows_every_part(nescio: Callable[..., Result]) -> None:
    output = nescio("list").output
    for kind in ("measures", "losses", "recipes", "predictors", "datasets", "metrics"):
        for name in getattr(registry, kind):
            assert name in output
    only = nescio("list", "losses").output
    assert "adversarial" in only
    assert "half_moons" not in only
    assert "unknown kind" in nescio("list", "lossses").output


def test_list_shows_every_limit(nescio: Callable[..., Result]) -> None:
    output = nescio("list", "limits").output
    for name in limits:
        assert f"\n  {name} " in output
    assert "<=0.05, fails >0.15" in output
    assert "half_moons" not in output
    assert "did you mean 'limits'" in nescio("list", "limit").output
