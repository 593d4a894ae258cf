"""What holds for all partners: nothing is loaded early, and a missing package is named."""

import sys
from importlib import import_module

import pytest

import nescio
from nescio import integrations
from nescio.core import NescioError

NEEDED = {"lightning": "pytorch_lightning", "transformers": "transformers", "mlflow": "mlflow"}


@pytest.mark.parametrize("extra", NEEDED)
def test_a_missing_package_is_named_with_its_extra(extra, monkeypatch):
    name = f"nescio.integrations.{extra}"
    monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.setitem(sys.modules, "lightning.pytorch", None)
    monkeypatch.setitem(sys.modules, NEEDED[extra], None)
    with pytest.raises(NescioError, match=rf"pip install nescio\[{extra}\]"):
        import_module(name)


def test_the_names_are_those_that_are_listed():
    assert set(integrations.HOMES) <= set(dir(integrations))
    assert nescio.GuardedClassifier is integrations.GuardedClassifier
    with pytest.raises(AttributeError, match="no attribute 'Nothing'"):
        integrations.Nothing  # noqa: B018
