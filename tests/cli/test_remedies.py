"""Recipes beside an audited network: how they are read, trained and kept."""

from pathlib import Path

import pytest
import torch

from nescio import NescioError, data, load, nets
from nescio.cli.demo import audit_digits
from nescio.cli.train import remedies_named, remedy, train_remedy


@pytest.mark.parametrize(
    ("text", "title", "folder"),
    [
        ("acet", "ACET", "acet"),
        ("ceda,weight=0.5", "CEDA, weight=0.5", "ceda_weight=0.5"),
        (
            "outlier-exposure,ood=patches",
            "outlier exposure, ood=patches",
            "outlier_exposure_ood=patches",
        ),
        ("adversarial_training, steps=3", "adversarial training, steps=3", None),
        ("deep_ensemble", "deep ensemble", "deep_ensemble"),
    ],
)
def test_a_remedy_has_a_title_and_a_folder(text: str, title: str, folder: str | None) -> None:
    found = remedy(text)
    assert found.title == title
    assert folder is None or found.folder == folder
    assert "/" not in found.folder


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("acett", "unknown recipe 'acett'; did you mean 'acet'"),
        ("acet,radius", "NAME,OPTION=VALUE"),
        ("acet,size=3", "no option 'size'"),
        ("outlier-exposure", "needs outliers"),
        ("dropout", "nescio train dropout"),
        ("bayes_by_backprop", "nescio train bayes_by_backprop"),
    ],
)
def test_what_cannot_be_a_remedy_is_refused(text: str, said: str) -> None:
    with pytest.raises(NescioError, match=said):
        remedy(text)


def test_a_recipe_is_given_once() -> None:
    names = ["outlier-exposure,ood=patches", "acet", "acet,steps=2"]
    assert [one.title for one in remedies_named(names)][1:] == ["ACET", "ACET, steps=2"]
    for again in (["acet", "acet"], ["acet,steps=2", "acet, steps=2"]):
        with pytest.raises(NescioError, match="each recipe once, got 'ACET"):
            remedies_named(again)
    with pytest.raises(NescioError, match="got 'deep ensemble' again"):
        audit_digits(recipe=["deep_ensemble"])


def test_a_remedy_is_kept_where_it_can_be_used(tmp_path: Path) -> None:
    moons = data.half_moons()
    found = train_remedy(
        remedy("ceda,members=2"), lambda: nets.mlp(2, 2), moons.train, run=tmp_path, epochs=2
    )
    again = load(tmp_path / "ceda_members=2")
    assert torch.equal(found(moons.test[0]).probs, again(moons.test[0]).probs)
    assert found(moons.test[0]).members == 2
