"""The words of the command line: what they are read as, and what is said about wrong ones."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from nescio import NescioError, data
from nescio.arguments import (
    augments,
    dataset_named,
    inputs_named,
    labelled,
    named,
    outliers,
    outside_data,
    settings,
)
from nescio.data import outside


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Colour images in one file, ready parts of grey ones in another; the current folder."""
    monkeypatch.chdir(tmp_path)
    draw = np.random.default_rng(0)
    images = draw.integers(0, 256, (20, 3, 12, 10), dtype=np.uint8)
    labels = np.arange(20) % 3
    np.savez("colours.npz", x=images, y=labels)
    np.savez("inputs.npz", x=images)
    parts = {"x_train": images[:12, :1], "y_train": labels[:12]}
    np.savez("parts.npz", **parts, x_test=images[12:, :1], y_test=labels[12:])
    np.savez("untested.npz", **parts)
    return tmp_path


def test_a_name_has_changes_and_options_behind_colons() -> None:
    found = named("cifar10:grey:crop=28:validation=100:folder=here")
    assert found.source == "cifar10"
    assert found.options == {"validation": 100, "folder": "here"}
    assert found.changes == (("grey", ()), ("crop", ((28, 28),)))
    assert named("letters:without=OISZ").options == {"without": "OISZ"}
    assert named("x.npz:pad=30x32").changes == (("pad", ((30, 32),)),)
    assert named("cifar100:coarse=true").options == {"coarse": True}


def test_a_file_with_a_colon_in_its_name_is_a_file(files: Path) -> None:
    (files / "colours.npz").rename(files / "a:grey")
    assert named("a:grey").source == "a:grey"


@pytest.mark.parametrize(
    "text", ["digits:", "digits:grey=1", "digits:crop", "digits:size", "digits:=3"]
)
def test_a_word_that_cannot_be_read_is_named(text: str) -> None:
    with pytest.raises(NescioError, match="cifar10:grey:crop=28"):
        named(text)


@pytest.mark.parametrize("size", ["a", "28x", "1x2x3", "-3"])
def test_a_size_is_in_pixels(size: str) -> None:
    with pytest.raises(NescioError, match="28x32"):
        named(f"digits:crop={size}")


def test_changes_are_the_functions_of_data(files: Path) -> None:
    x = torch.from_numpy(np.load("colours.npz")["x"])
    expected = data.crop(data.grey(x), (8, 6))
    assert torch.equal(inputs_named("colours.npz:grey:crop=8x6"), expected)
    images, labels = labelled("colours.npz:grey:crop=8x6")
    assert torch.equal(images, expected)
    assert labels.tolist() == [i % 3 for i in range(20)]
    assert torch.equal(inputs_named("inputs.npz:pad=14"), data.pad(x, 14))


@pytest.mark.parametrize("read", [labelled, inputs_named, outliers])
def test_options_of_a_whole_file_are_refused(files: Path, read: Callable[[str], object]) -> None:
    for text, said in (("nonsense=3", "nonsense=3"), ("grey:seed=1:a=b", "seed=1, a=b")):
        with pytest.raises(NescioError, match=f"taken as a whole here, .* with {said}; leave it"):
            read(f"colours.npz:{text}")
    with pytest.raises(NescioError, match="has no option nonsense; its options: seed"):
        dataset_named("colours.npz:nonsense=3")
    split = dataset_named("colours.npz:seed=1")  # where it is split, it has one
    assert not torch.equal(split.train[0], dataset_named("colours.npz").train[0])


def test_every_part_of_a_data_set_is_changed(files: Path) -> None:
    whole = dataset_named("parts.npz:colour:pad=12")
    assert whole.features == (3, 12, 12)
    assert whole.test is not None
    assert tuple(whole.test[0].shape) == (8, 3, 12, 12)
    assert whole.validation is None
    assert dataset_named("digits:crop=6").features == (1, 6, 6)


def test_parts_are_for_training_and_for_testing(files: Path) -> None:
    assert len(labelled("parts.npz")[0]) == 8
    assert len(labelled("parts.npz", "train")[0]) == 12
    assert len(labelled("digits", "train")[0]) == 1000
    assert len(labelled("colours.npz", "train")[0]) == 20  # a file that nobody has split
    with pytest.raises(NescioError, match="no test part"):
        labelled("untested.npz")
    with pytest.raises(NescioError, match="no labels"):
        labelled("inputs.npz")


def test_outside_data_have_a_name_or_are_their_own(files: Path) -> None:
    for text, name in (
        ("others=colours.npz", "others"),
        ("colours.npz", "colours.npz"),
        ("colours.npz:crop=12x10", "colours.npz:crop=12x10"),
        ("cut=colours.npz:crop=12x10", "cut"),
    ):
        found, x = outside_data(text, (3, 12, 10))
        assert found == name
        assert tuple(x.shape) == (20, 3, 12, 10)


@pytest.mark.parametrize(
    ("text", "shape", "said"),
    [
        ("colours.npz", (1, 12, 10), "say colours.npz:grey$"),
        ("colours.npz", (1, 8, 8), "say colours.npz:grey:crop=8$"),
        ("z=parts.npz", (3, 14, 12), "say parts.npz:colour:pad=14x12$"),
        ("colours.npz", (3, 14, 8), "no change of nescio"),
        ("colours.npz", (2, 12, 10), "no change of nescio"),
        ("colours.npz", (5,), "no change of nescio"),
    ],
)
def test_the_change_that_makes_data_fit_is_said(
    files: Path, text: str, shape: tuple[int, ...], said: str
) -> None:
    with pytest.raises(NescioError, match=said):
        outside_data(text, shape)
    if "say " in said:  # and it does
        assert outside_data(said.removeprefix("say ").removesuffix("$"), shape)


def test_outliers_are_training_parts_or_made_of_the_inputs(files: Path) -> None:
    x = torch.rand(5, 1, 8, 8)
    assert outliers("patches") is outside.patches
    assert outliers("permuted")(x).description == outside.permuted(x).description  # type: ignore
    parts = outliers("parts.npz")
    assert isinstance(parts, data.Outside)
    assert parts.size == 12
    assert outliers("inputs.npz:grey").shape == (1, 12, 10)
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
    read = settings("acet", {"steps": "5", "radius": "0.1", "keep": "no", "outside": "faded"})
    assert read == {"steps": 5, "radius": 0.1, "keep": False, "outside": outside.faded}
    assert type(read["steps"]) is int
    for key, text, said in (
        ("steps", "2.5", "must be a number"),
        ("keep", "maybe", "must be 1 or 0"),
        ("size", "3", "no option 'size'; its options: outside=None, weight=1.0"),
    ):
        with pytest.raises(NescioError, match=said):
            settings("acet", {key: text})
