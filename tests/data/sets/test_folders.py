"""Folders of image files that are written here."""

import numpy as np
import pytest
import torch
from PIL import Image

from nescio.core import NescioError
from nescio.data import image_folder, imagenet_minus, load, lsun_classroom

RNG = np.random.default_rng(0)


def write(path, shape=(5, 4, 3)):
    path.parent.mkdir(parents=True, exist_ok=True)
    pixels = RNG.integers(0, 256, shape, dtype=np.uint8)
    Image.fromarray(pixels).save(path)
    return pixels


def test_classes_are_folders_in_the_order_of_their_names(tmp_path):
    written = {}
    for name in ("zebra", "ant", "Cat"):
        for number in range(10):
            ending = "png" if number % 2 else "BMP"
            pixels = write(tmp_path / name / f"{number}.{ending}")
            written[pixels.tobytes()] = ["Cat", "ant", "zebra"].index(name)
    (tmp_path / "ant" / "notes.txt").write_text("not an image")
    (tmp_path / "empty").mkdir()
    made = load(str(tmp_path), seed=2)
    parts = (made.train, made.validation, made.test)
    assert [len(part[0]) for part in parts] == [24, 3, 3]
    assert made.classes == 3
    assert made.name == tmp_path.name
    for x, y in parts:
        assert x.dtype == torch.uint8
        for image, label in zip(x, y, strict=True):
            assert written.pop(image.permute(1, 2, 0).numpy().tobytes()) == label
    assert not written
    assert not torch.equal(image_folder(folder=str(tmp_path), seed=3).train[1], made.train[1])


def test_ready_parts_are_taken(tmp_path):
    for part, count in (("train", 3), ("test", 2)):
        for name in ("a", "b"):
            for number in range(count):
                write(tmp_path / part / name / f"{number}.png", (6, 7))
    made = image_folder(folder=str(tmp_path))
    assert made.train[0].shape == (6, 1, 6, 7)
    assert made.validation is None
    assert made.test[1].tolist() == [0, 0, 1, 1]
    write(tmp_path / "test" / "c" / "0.png", (6, 7))
    with pytest.raises(NescioError, match=r"test has the class 'c', which the train folder"):
        image_folder(folder=str(tmp_path))


def test_a_folder_val_holds_the_validation_part_and_no_other_is_left_out(tmp_path):
    for part, count in (("train", 3), ("val", 2), ("test", 1)):
        for name in ("a", "b"):
            for number in range(count):
                write(tmp_path / part / name / f"{number}.png", (6, 7))
    (tmp_path / "notes").mkdir()
    made = load(str(tmp_path))
    assert [len(part[0]) for part in (made.train, made.validation, made.test)] == [6, 4, 2]
    assert made.validation[1].tolist() == [0, 0, 1, 1]
    (tmp_path / "validation").mkdir()
    with pytest.raises(NescioError, match="both val and validation"):
        load(str(tmp_path))
    (tmp_path / "validation").rmdir()
    for place in ("dev/a", "dev"):
        path = tmp_path / place / "0.png"
        write(path, (6, 7))
        with pytest.raises(NescioError, match=r"images in 'dev' beside 'train'; .* rename it"):
            load(str(tmp_path))
        path.unlink()


def test_mixed_sizes_name_two_files_and_size_makes_them_one(tmp_path):
    for name in ("a", "b"):
        write(tmp_path / name / "0.png", (8, 6, 3))
    pixels = write(tmp_path / "b" / "1.png", (9, 6, 3))
    with pytest.raises(NescioError, match=r"mixed sizes: .*a/0.png is 8 x 6, .*b/1.png is 9 x 6"):
        image_folder(folder=str(tmp_path))
    made = image_folder(folder=str(tmp_path), size=(4, 3))
    assert made.train[0].shape == (3, 3, 4, 3)
    theirs = np.asarray(Image.fromarray(pixels).resize((3, 4), Image.Resampling.BILINEAR))
    rows = [x.permute(1, 2, 0).numpy().tobytes() for x in made.train[0]]
    assert theirs.tobytes() in rows


def test_resizing_is_antialiased(tmp_path):
    stripes = np.zeros((32, 32), np.uint8)
    stripes[:, ::2] = 255
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        Image.fromarray(stripes).save(tmp_path / name / "0.png")
    x = image_folder(folder=str(tmp_path), size=4).train[0]
    assert x.shape == (2, 1, 4, 4)
    assert (x.double() - 127.5).abs().max() < 10  # plain sampling would give 0 or 255


def test_mixed_modes_name_two_files_and_mode_makes_them_one(tmp_path):
    write(tmp_path / "a" / "0.png", (5, 4))
    pixels = write(tmp_path / "b" / "0.png", (5, 4, 3))
    with pytest.raises(NescioError, match=r"mixed modes: .*a/0.png is gray, .*b/0.png is color"):
        image_folder(folder=str(tmp_path))
    gray = image_folder(folder=str(tmp_path), mode="gray").train
    theirs = np.asarray(Image.fromarray(pixels).convert("L"))
    own = gray[0][gray[1].tolist().index(1), 0].numpy()
    assert np.array_equal(own, theirs)
    assert image_folder(folder=str(tmp_path), mode="color").train[0].shape == (2, 3, 5, 4)
    with pytest.raises(NescioError, match="`mode` must be gray, color or None, got 'RGB'"):
        image_folder(folder=str(tmp_path), mode="RGB")


@pytest.mark.parametrize("stored", ["P", "RGBA", "1", "LA"])
def test_other_modes_are_converted_only_when_asked(tmp_path, stored):
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        Image.new(stored, (4, 5)).save(tmp_path / name / "0.png")
    with pytest.raises(NescioError, match=rf"stored as {stored}, expected .* mode=\"gray\""):
        image_folder(folder=str(tmp_path))
    assert image_folder(folder=str(tmp_path), mode="color").train[0].shape == (2, 3, 5, 4)


def test_sixteen_bits_are_refused(tmp_path):
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        Image.fromarray(np.full((4, 5), 40000, np.uint16)).save(tmp_path / name / "0.png")
    for mode in (None, "gray"):
        with pytest.raises(NescioError, match="stored as I;16"):
            image_folder(folder=str(tmp_path), mode=mode)


def test_what_is_wrong_is_said(tmp_path):
    with pytest.raises(NescioError, match="say which folder"):
        load("image_folder")
    with pytest.raises(NescioError, match="there is no folder .*nowhere"):
        image_folder(folder=str(tmp_path / "nowhere"))
    write(tmp_path / "a" / "0.png")
    with pytest.raises(NescioError, match=r"holds 1 folder\(s\) with image files"):
        image_folder(folder=str(tmp_path))
    write(tmp_path / "b" / "0.png")
    for size in (0, (3,), "4"):
        with pytest.raises(NescioError, match="`size` must be a positive number"):
            image_folder(folder=str(tmp_path), size=size)
    path = tmp_path / "b" / "1.jpg"
    path.write_bytes(b"no image")
    with pytest.raises(NescioError, match=r"cannot read the image .*b/1.jpg"):
        image_folder(folder=str(tmp_path))
    whole = tmp_path / "b" / "0.png"
    path.unlink()
    whole.write_bytes(whole.read_bytes()[:-30])
    with pytest.raises(NescioError, match=r"cannot read the image .*b/0.png"):
        image_folder(folder=str(tmp_path))


def test_classrooms_are_image_files_or_an_archive(tmp_path):
    where = tmp_path / "lsun-classroom"
    where.mkdir()
    with pytest.raises(NescioError, match=r"lacks image files; .* classroom_train_lmdb"):
        lsun_classroom(folder=str(tmp_path))
    pixels = RNG.integers(0, 256, (3, 32, 32, 3), dtype=np.uint8)
    for x in (pixels, pixels.transpose(0, 3, 1, 2)):
        np.savez(where / "some.npz", x=x)
        made = lsun_classroom(folder=str(tmp_path))
        assert np.array_equal(made.test[0].permute(0, 2, 3, 1).numpy(), pixels)
        assert made.test[1].tolist() == [3, 3, 3]
    write(where / "0.png", (40, 50, 3))
    write(where / "1.png", (64, 48))
    made = lsun_classroom(folder=str(tmp_path))
    assert made.test[0].shape == (2, 3, 32, 32)
    assert len(made.train[0]) == 0


def test_imagenet_minus_is_folders_or_an_archive(tmp_path):
    where = tmp_path / "imagenet-minus"
    for name in ("n02", "n01"):
        write(where / name / "0.png", (40, 50, 3))
    made = imagenet_minus(folder=str(tmp_path), size=8)
    assert made.test[0].shape == (2, 3, 8, 8)
    assert made.classes == 2
    np.savez(where / "all.npz", x=np.zeros((4, 32, 32, 3), np.uint8), y=np.array([5, 7, 5, 0]))
    made = imagenet_minus(folder=str(tmp_path))
    assert made.test[1].tolist() == [5, 7, 5, 0]
    np.savez(where / "all.npz", x=np.zeros((4, 32, 32, 3), np.uint8), y=np.array([5, 7]))
    with pytest.raises(NescioError, match=r"as many labels .* \(4, 32, 32, 3\) and \(2,\)"):
        imagenet_minus(folder=str(tmp_path))
    np.savez(where / "all.npz", x=np.zeros((4, 32, 32, 3)), y=np.arange(4))
    with pytest.raises(NescioError, match="expected uint8 images"):
        imagenet_minus(folder=str(tmp_path))
