"""`nescio list`."""

from collections.abc import Callable

import pytest
from click.testing import Result

from nescio.core import registry
from nescio.evaluation import limits

NAME = "guarded_module_of_tests"
DEFAULT = f"{NAME}:make_net"
KINDS = [name for name, one in vars(registry).items() if isinstance(one, registry.Registry)]


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


def test_list_explains_one_part_and_its_options(nescio: Callable[..., Result]) -> None:
    output = nescio("list", "recipes", "acet").output
    assert output.startswith("A network with low confidence around noise")
    assert "  weight=1.0\n    weight of the confidence on OOD inputs, in the loss." in output
    assert "\n  radius=None\n    radius of the attack, as a share of the range; " in output
    assert "head: " not in output  # not an option
    assert nescio("list", "recipes", "deep-ensemble").output.count("\n  ") == 4
    assert "did you mean 'acet'" in nescio("list", "recipes", "acte").output


def test_list_shows_one_limit_and_one_audit_section(nescio: Callable[..., Result]) -> None:
    assert nescio("list", "limits", "ece").output.startswith("ece  <=0.05")
    assert "unknown limit" in nescio("list", "limits", "ecce").output
    assert nescio("list", "limits", "above-chance").output.startswith("above_chance")
    assert "single samples" in nescio("list", "audit-sections", "answers").output
    for name in ("label-errors", "label errors", "label_errors"):
        assert nescio("list", "audit_sections", name).exit_code == 0
    assert "\n  radius=... (required)\n" in nescio("list", "attacks", "pgd").output


@pytest.mark.parametrize("kind", KINDS)
def test_every_option_of_every_part_is_explained(kind: str) -> None:
    for name, part in getattr(registry, kind).items():
        assert registry.described(part), name
        options = {option.name for option in registry.keyword_only(part)}
        assert registry.meanings(part).keys() == options, name
        assert not [one for one in map(registry.written, registry.keyword_only(part)) if "<" in one]
