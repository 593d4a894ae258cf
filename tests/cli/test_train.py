"""`nescio train` and recipes beside an audited network."""

import json
import lzma
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from click.testing import Result

from nescio import NescioError, data, load, nets
from nescio.cli.demo import audit_digits
from nescio.cli.work.train import remedies_named, remedy, train_remedy

NAME = "guarded_module_of_tests"
DEFAULT = f"{NAME}:make_net"


def test_train_predict_and_audit_a_recipe(folder: Path, nescio: Callable[..., Result]) -> None:
    words = ["train", "deep_ensemble", "--data", "half_moons", "--run", "run", "--epochs", "3"]
    first = nescio(*words, "-o", "members=2", "--calibrate", "temperature")
    assert first.exit_code == 0, first.output
    assert "accuracy" in first.output
    stamp = (folder / "run" / "model.safetensors").read_bytes()
    assert nescio(*words, "-o", "members=2", "--calibrate", "temperature").exit_code == 0
    assert (folder / "run" / "model.safetensors").read_bytes() == stamp
    assert nescio("predict", "run", "--data", "test.npz", "--out", "p.npz").exit_code == 0
    with np.load(folder / "p.npz") as table:
        assert table["mutual_information"].max() > 0
    audit = nescio("audit", "run", "--data", "half_moons", "--out", "a")
    assert audit.exit_code in (0, 2, 3), audit.output
    pieces = nescio("pieces", "run", "--data", "half_moons", "--out", "p")
    assert pieces.exit_code == 0, pieces.output
    assert "member 1" in pieces.output
    other = nescio(*words, "-o", "members=3")
    assert other.exit_code == 1
    assert "belongs to another run" in other.output


def test_fine_tuning_starts_from_the_weights_of_a_run(
    folder: Path, nescio: Callable[..., Result]
) -> None:
    words = ["train", "single", "--data", "half_moons", "--epochs", "1"]
    assert nescio(*words, "--run", "first").exit_code == 0
    still = [*words, "--learning-rate", "1e-30"]
    done = nescio(*still, "--run", "second", "--start", "first", "--seed", "1")
    assert done.exit_code == 0, done.output
    first, second = (load(folder / name).tensors for name in ("first", "second"))
    assert all(torch.equal(first[name], second[name]) for name in first)
    nescio(*still, "--run", "third", "--seed", "1")
    third = load(folder / "third").tensors
    assert not any(torch.equal(first[name], third[name]) for name in first if "weight" in name)
    other = nescio(*words, "--run", "fourth", "--start", "nowhere")
    assert other.exit_code == 1
    assert "--start takes the folder of a finished run" in other.output


def test_averaged_weights_and_targets_in_their_units(
    folder: Path, nescio: Callable[..., Result]
) -> None:
    words = ["train", "single", "--data", "cubic", "--run", "run", "--epochs", "3"]
    done = nescio(*words, "--average", "0.9", "--standardize-targets")
    assert done.exit_code == 0, done.output
    model = load(folder / "run")
    assert model.notes["average"] == 0.9
    _, y = data.cubic().train
    assert model.head.options["units"]["mean"] == [[pytest.approx(y.mean().item(), rel=1e-5)]]
    wrong = nescio(*words[:-3], "other", "--average", "2")
    assert wrong.exit_code == 1
    assert "decay between 0 and 1" in wrong.output
    wrong = nescio("train", "single", "--data", "digits", "--run", "third", "--standardize-targets")
    assert "for a regression" in wrong.output


def test_few_labels_and_unlabeled_inputs(folder: Path, nescio: Callable[..., Result]) -> None:
    words = ["train", "mean_teacher", "--data", "half_moons", "--labels", "6", "--run", "run"]
    more = ["--epochs", "3", "--batch-size", "0", "--augment", "noise=0.1"]
    done = nescio(*words, *more, "--unlabeled", "half_moons", "--unlabeled-size", "40")
    assert done.exit_code == 0, done.output
    assert "of the training part of half_moons, without their labels" in done.output
    notes = load(folder / "run").notes
    assert notes["loss"].startswith("mean_teacher(nll(categorical()), weight=100.0")
    assert (notes["unlabeled_size"], notes["augment"]) == (40, ["noise(0.1)"])
    x, y = data.half_moons().train
    np.savez(folder / "labeled.npz", x=x.numpy(), y=y.numpy())
    np.savez(folder / "inputs.npz", x=x.numpy())
    refused = {
        ("--unlabeled", "labeled.npz"): "has labels, an array y; --unlabeled takes inputs alone",
        ("--labels", "7"): "a multiple of the 2 classes",
        (): "mean_teacher learns from inputs without labels, and there are none",
        ("--augment", "noise=much"): "noise=DEVIATION, or these without a number, got 'noise=much'",
    }
    for option, message in refused.items():
        wrong = nescio(*words[:-1], "other", *more, *option)
        assert wrong.exit_code == 1, wrong.output
        assert message in wrong.output
    alone = nescio(*words[:-1], "third", *more, "--unlabeled", "inputs.npz")
    assert alone.exit_code == 0, alone.output


def test_unlabeled_rows_of_a_table(folder: Path, nescio: Callable[..., Result]) -> None:
    rows = [f"{i % 7},{i % 5},{'ab'[i % 2]}" for i in range(60)]
    (folder / "rows.csv").write_text("\n".join(["one,two,kind", *rows]))
    (folder / "others.csv").write_text("\n".join(["two,one", *(r[2::-1] for r in rows)]))
    words = ["train", "pi_model", "--data", "rows.csv", "--target", "kind", "--epochs", "2"]
    done = nescio(*words, "--unlabeled", "others.csv", "--run", "run")
    assert done.exit_code == 0, done.output
    wrong = nescio(*words, "--unlabeled", "rows.csv", "--run", "other")
    assert "has the column 'kind', which is the label" in wrong.output
    again = nescio(*words, "--unlabeled", "rows.csv:without=kind", "--run", "third")
    assert again.exit_code == 0, again.output


def test_a_run_on_ones_own_network_is_used_with_net(
    folder: Path, nescio: Callable[..., Result], own: Callable[..., str]
) -> None:
    net = own(folder)
    words = ["train", "single", "--data", "test.npz", "--net", net, "--run", "r", "--epochs", "2"]
    done = nescio(*words)
    assert done.exit_code == 0, done.output
    assert f"nescio predict r --net {net}" in done.output
    assert (
        "--net package.module:factory"
        in nescio("predict", "r", "--data", "test.npz", "--out", "p.csv").output
    )
    assert (
        nescio("predict", "r", "--net", net, "--data", "test.npz", "--out", "p.csv").exit_code == 0
    )
    audit = nescio("audit", "r", "--net", net, "--data", "test.npz", "--out", "a")
    assert audit.exit_code in (0, 2, 3), audit.output
    assert (
        "a run folder has its own"
        in nescio(
            "predict", "r", "--weights", "w.pt", "--data", "test.npz", "--out", "p.csv"
        ).output
    )


def test_train_regression_and_dropout(folder: Path, nescio: Callable[..., Result]) -> None:
    words = ["train", "anchored_ensemble", "--data", "cubic", "--run", "c", "--epochs", "5"]
    options = ["-o", "members=2", "-o", "noise=9", "-o", "prior_variance=2", "--standardize"]
    run = nescio(*words, *options)
    assert run.exit_code == 0, run.output
    assert "rmse" in run.output
    np.savez(folder / "x.npz", x=np.zeros((4, 1), np.float32))
    assert nescio("predict", "c", "--data", "x.npz", "--out", "p.csv").exit_code == 0
    header = (folder / "p.csv").read_text().splitlines()[0]
    assert header.startswith("sample,mean_0,variance_0")
    words = ["train", "dropout", "--data", "half_moons", "--run", "d", "--epochs", "2"]
    assert nescio(*words, "-o", "passes=7").exit_code == 0
    out = nescio("predict", "d", "--data", "half_moons", "--out", "p.npz").output
    assert "7 member(s)" in out


def test_dirichlet_recipes_are_trained_and_used(
    folder: Path, nescio: Callable[..., Result]
) -> None:
    for recipe in ("dirichlet", "evidential_ood", "posterior_network"):
        words = ["train", recipe, "--data", "half_moons", "--run", recipe, "--epochs", "1"]
        run = nescio(*words)
        assert run.exit_code == 0, run.output
        assert nescio("predict", recipe, "--data", "half_moons", "--out", "p.npz").exit_code == 0
        with np.load(folder / "p.npz") as table:
            assert np.isfinite(table["negative_log_precision"]).all()
            assert (table["mutual_information"] > 0).all()
    listed = nescio("list", "recipes").output
    assert "dirichlet_ood" in listed
    refused = nescio(*words[:1], "dirichlet", *words[2:], "--head", "binary")
    assert refused.exit_code == 1
    assert "needs a dirichlet head" in refused.output


@pytest.mark.parametrize(("size", "net"), [(8, "digit_cnn"), (28, "small_cnn")])
def test_images_are_trained_with_convolutions_augmentation_and_outliers(
    folder: Path, size: int, net: str, nescio: Callable[..., Result]
) -> None:
    draw = np.random.default_rng(0)
    images = draw.integers(0, 256, (40, 3, size + 2, size + 2), dtype=np.uint8)
    np.savez("images.npz", x=images, y=np.arange(40) % 4)
    np.savez("others.npz", x=images[:, :1])
    words = ["train", "outlier_exposure", "--data", f"images.npz:gray:crop={size}", "--run", "r"]
    words += ["-o", f"ood=others.npz:crop={size}", "-o", "weight_decay=1e-4"]
    words += ["--epochs", "1", "--augment", "mirrored-crops=2,mirrors", "--optimizer", "sgd"]
    result = nescio(*words)
    assert result.exit_code == 0, result.output
    notes = json.loads((folder / "r" / "manifest.json").read_text())
    assert notes["net"]["net"] == net
    assert notes["notes"]["augment"] == ["crops(2, edge='mirror')", "mirrors()"]
    assert notes["notes"]["optimizer"] == "sgd"
    assert "others.npz" in notes["notes"]["loss"]
    assert "strength=0.0001" in notes["notes"]["loss"]


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


def test_label_maps_are_trained_and_predicted(folder: Path, nescio: Callable[..., Result]) -> None:
    x = np.random.default_rng(0).random((20, 1, 6, 7), np.float32)
    y = (3 * x[:, 0]).astype(np.uint8)
    y[:, :2] = 255
    np.savez(folder / "maps.npz", x=x, y=y)
    words = ["train", "deep_ensemble", "--data", "maps.npz", "--run", "run", "--epochs", "2"]
    words += ["-o", "members=2", "--ignore-index", "255", "--augment", "crops=1,mirrors"]
    done = nescio(*words, "--calibrate", "temperature")
    assert done.exit_code == 0, done.output
    assert "3 classes, label maps (6, 7)" in done.output
    assert "--out predictions.npz" in done.output
    assert nescio("predict", "run", "--data", "maps.npz", "--out", "p.npz").exit_code == 0
    with np.load(folder / "p.npz") as table:
        assert table["label"].shape == (20, 6, 7)
        assert table["probs"].shape == (20, 6, 7, 3)
        assert table["mutual_information"].max() > 0
    refused = {
        "write them to an .npz file": ["predict", "run", "--data", "maps.npz", "--out", "p.csv"],
        "docs/methods/segmentation.md": ["audit", "run", "--data", "maps.npz", "--out", "a"],
        "ignore_index=1 is a class": [*words, "--ignore-index", "1"],
        "labels in an .npz file": [*words, "--data", "half_moons"],
    }
    for message, command in refused.items():
        result = nescio(*command)
        assert result.exit_code == 1
        assert message in result.output


def test_a_data_set_with_a_name_knows_what_to_ignore(
    folder: Path, nescio: Callable[..., Result], monkeypatch: pytest.MonkeyPatch
) -> None:
    home = folder / "shared" / "camvid"
    home.mkdir(parents=True)
    rng = np.random.default_rng(0)
    for part in ("train", "val"):
        with lzma.open(home / f"camvid_{part}_7x6_x.npy.xz", "wb") as file:
            np.save(file, rng.integers(0, 256, (9, 6, 7, 3), dtype=np.uint8))
        labels = rng.choice([0, 1, 2, 11], (9, 6, 7)).astype(np.uint8)
        np.savez(home / f"camvid_{part}_7x6_y.npz", labels=labels)
    monkeypatch.setenv("NESCIO_DATA", str(home.parent))
    words = ["train", "dropout", "--data", "camvid", "--net", "unet", "--run", "run"]
    words += ["--head", "gaussian_logits", "--augment", "mirrors,colors=0.1,affine=5"]
    done = nescio(*words, "--epochs", "1")
    assert done.exit_code == 0, done.output
    assert "11 classes, of which 3, 4, 5, 6, 7 and 3 others never occur in training" in done.output
    assert "mean_iou" in done.output
    assert nescio("predict", "run", "--data", "camvid", "--out", "p.npz").exit_code == 0
    with np.load(folder / "p.npz") as table:
        assert table["probs"].shape == (9, 6, 7, 11)
        assert table["mutual_information"].max() > 0
    words = ["guard", "run", "--calibration", "camvid", "--risk", "0.9", "--out", "g.safetensors"]
    done = nescio(*words)
    assert done.exit_code == 0, done.output


def test_a_recipe_with_a_network_of_its_own_takes_no_other(
    folder: Path, nescio: Callable[..., Result]
) -> None:
    words = ["train", "posterior_network", "--data", "half_moons", "--run", "run", "--epochs", "1"]
    found = nescio(*words, "--net", "mlp")
    assert found.exit_code == 1
    assert "the recipe needs a posterior_network, got mlp" in found.output


def test_a_refused_training_leaves_no_folder(folder: Path, nescio: Callable[..., Result]) -> None:
    words = ["train", "single", "--data", "half_moons", "--run", "r", "--epochs", "1"]
    refused = nescio(*words, "--augment", "crops")
    assert refused.exit_code == 1
    assert "needs images" in refused.output
    assert not (folder / "r").exists()
