"""The words of the command line: what they are read as, and what is said about wrong ones."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from nescio import NescioError, data
from nescio.cli.data_names import dataset_named, inputs_named, labeled, named, ood_data, outliers
from nescio.cli.work.train import augments
from nescio.core.registry import options_for, recipes
from nescio.data import ood


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Color images in one file, ready parts of gray ones in another; the current folder."""
    monkeypatch.chdir(tmp_path)
    draw = np.random.default_rng(0)
    images = draw.integers(0, 256, (20, 3, 12, 10), dtype=np.uint8)
    labels = np.arange(20) % 3
    np.savez("colors.npz", x=images, y=labels)
    np.savez("inputs.npz", x=images)
    parts = {"x_train": images[:12, :1], "y_train": labels[:12]}
    np.savez("parts.npz", **parts, x_test=images[12:, :1], y_test=labels[12:])
    np.savez("untested.npz", **parts)
    return tmp_path


def test_a_name_has_changes_and_options_behind_colons() -> None:
    found = named("cifar10:gray:crop=28:validation=100:folder=here")
    assert found.source == "cifar10"
    assert found.options == {"validation": 100, "folder": "here"}
    assert found.changes == (("gray", ()), ("crop", ((28, 28),)))
    assert named("letters:without=OISZ").options == {"without": "OISZ"}
    assert named("x.npz:pad=30x32").changes == (("pad", ((30, 32),)),)
    assert named("cifar100:coarse=true").options == {"coarse": True}


def test_a_file_with_a_colon_in_its_name_is_a_file(files: Path) -> None:
    (files / "colors.npz").rename(files / "a:gray")
    assert named("a:gray").source == "a:gray"


@pytest.mark.parametrize(
    "text", ["digits:", "digits:gray=1", "digits:crop", "digits:size", "digits:=3"]
)
def test_a_word_that_cannot_be_read_is_named(text: str) -> None:
    with pytest.raises(NescioError, match="cifar10:gray:crop=28"):
        named(text)


@pytest.mark.parametrize("size", ["a", "28x", "1x2x3", "-3"])
def test_a_size_is_in_pixels(size: str) -> None:
    with pytest.raises(NescioError, match="28x32"):
        named(f"digits:crop={size}")


def test_changes_are_the_functions_of_data(files: Path) -> None:
    x = torch.from_numpy(np.load("colors.npz")["x"])
    expected = data.crop(data.gray(x), (8, 6))
    assert torch.equal(inputs_named("colors.npz:gray:crop=8x6"), expected)
    images, labels = labeled("colors.npz:gray:crop=8x6")
    assert torch.equal(images, expected)
    assert labels.tolist() == [i % 3 for i in range(20)]
    assert torch.equal(inputs_named("inputs.npz:pad=14"), data.pad(x, 14))


@pytest.mark.parametrize("read", [labeled, inputs_named, outliers])
def test_options_of_a_whole_file_are_refused(files: Path, read: Callable[[str], object]) -> None:
    for text, said in (("nonsense=3", "nonsense=3"), ("gray:seed=1:a=b", "seed=1, a=b")):
        with pytest.raises(NescioError, match=f"taken as a whole here, .* with {said}; leave it"):
            read(f"colors.npz:{text}")
    with pytest.raises(NescioError, match="has no option nonsense; its options: seed"):
        dataset_named("colors.npz:nonsense=3")
    split = dataset_named("colors.npz:seed=1")  # where it is split, it has one
    assert not torch.equal(split.train[0], dataset_named("colors.npz").train[0])


def test_every_part_of_a_data_set_is_changed(files: Path) -> None:
    whole = dataset_named("parts.npz:color:pad=12")
    assert whole.features == (3, 12, 12)
    assert whole.test is not None
    assert tuple(whole.test[0].shape) == (8, 3, 12, 12)
    assert whole.validation is None
    assert dataset_named("digits:crop=6").features == (1, 6, 6)


def test_parts_are_for_training_and_for_testing(files: Path) -> None:
    assert len(labeled("parts.npz")[0]) == 8
    assert len(labeled("parts.npz", "train")[0]) == 12
    assert len(labeled("digits", "train")[0]) == 1000
    assert len(labeled("colors.npz", "train")[0]) == 20  # a file that nobody has split
    with pytest.raises(NescioError, match="no test part"):
        labeled("untested.npz")
    with pytest.raises(NescioError, match="no labels"):
        labeled("inputs.npz")


def test_ood_data_have_a_name_or_are_their_own(files: Path) -> None:
    for text, name in (
        ("others=colors.npz", "others"),
        ("colors.npz", "colors.npz"),
        ("colors.npz:crop=12x10", "colors.npz:crop=12x10"),
        ("cut=colors.npz:crop=12x10", "cut"),
    ):
        found, x = ood_data(text, (3, 12, 10))
        assert found == name
        assert tuple(x.shape) == (20, 3, 12, 10)


@pytest.mark.parametrize(
    ("text", "shape", "said"),
    [
        ("colors.npz", (1, 12, 10), "say colors.npz:gray$"),
        ("colors.npz", (1, 8, 8), "say colors.npz:gray:crop=8$"),
        ("z=parts.npz", (3, 14, 12), "say parts.npz:color:pad=14x12$"),
        ("colors.npz", (3, 14, 8), "no change of nescio"),
        ("colors.npz", (2, 12, 10), "no change of nescio"),
        ("colors.npz", (5,), "no change of nescio"),
    ],
)
def test_the_change_that_makes_data_fit_is_said(
    files: Path, text: str, shape: tuple[int, ...], said: str
) -> None:
    with pytest.raises(NescioError, match=said):
        ood_data(text, shape)
    if "say " in said:  # and it does
        assert ood_data(said.removeprefix("say ").removesuffix("$"), shape)


def test_outliers_are_training_parts_or_made_of_the_inputs(files: Path) -> None:
    x = torch.rand(5, 1, 8, 8)
    assert outliers("patches") is ood.patches
    assert outliers("permuted")(x).description == ood.permuted(x).description  # type: ignore
    parts = outliers("parts.npz")
    assert isinstance(parts, data.OODSource)
    assert parts.size == 12
    assert outliers("inputs.npz:gray").shape == (1, 12, 10)
    with pytest.raises(NescioError, match=r"Made of the training inputs: .*overlaid.*patches"):
        outliers("patchez")


def test_outliers_of_a_set_without_training_part_are_its_test_part(files: Path) -> None:
    folder = files / "letters-az"
    folder.mkdir()
    x = np.zeros((52, 28, 28), np.uint8)
    np.savez(folder / "letters.npz", x=x, y=np.arange(52) % 26)
    found = outliers(f"letters:folder={files}:without=OISZ")
    assert found.size == 44
    assert len(inputs_named(f"letters:folder={files}")) == 52


def test_augmentations_by_name() -> None:
    assert [step.description for step in augments("crops,mirrors")] == ["crops(4)", "mirrors()"]
    assert [step.description for step in augments("crops=2")] == ["crops(2)"]
    assert augments(None) == ()
    with pytest.raises(NescioError, match="did you mean 'mirrors'"):
        augments("mirror")
    with pytest.raises(NescioError, match="crops=PIXELS"):
        augments("mirrors=2")


def test_settings_are_what_the_defaults_are() -> None:
    read = options_for(
        recipes["acet"],
        {"steps": "5", "radius": "0.1", "keep": "no", "ood": "faded"},
        {"ood": outliers},
    )
    assert read == {"steps": 5, "radius": 0.1, "keep": False, "ood": ood.faded}
    assert type(read["steps"]) is int
    for form in ("max", "uniform", None):
        assert options_for(recipes["acet"], {"form": str(form)}) == {"form": form}
    for key, text, said in (
        ("steps", "2.5", "expected a whole number"),
        ("keep", "maybe", "expected 1 or 0"),
        ("form", "large", "expected one of max, uniform, flat"),
        ("size", "3", "no option 'size'; its options: ood=None, weight=1.0"),
    ):
        with pytest.raises(NescioError, match=said):
            options_for(recipes["acet"], {key: text})
