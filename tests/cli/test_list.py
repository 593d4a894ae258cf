"""`nescio list`."""

from collections.abc import Callable

from click.testing import Result

from nescio.core import registry

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
