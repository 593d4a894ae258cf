"""`nescio audit --group`."""

import json

import numpy as np
import pytest
import torch
from click.testing import CliRunner

from nescio import NescioError
from nescio.cli.group_labels import columns_aside, groups_named
from nescio.cli.main import main

NET = """
import torch
def net():
    made = torch.nn.Linear(2, 2)
    with torch.no_grad():
        made.weight.copy_(torch.tensor([[-3.0, 0], [3, 0]]))
        made.bias.zero_()
    return made
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    rng = np.random.default_rng(0)
    x, site = rng.normal(size=(800, 2)), rng.choice(["north", "south"], 800)
    y = (x[:, 0] > 0) ^ ((site == "north") & (rng.random(800) < 0.3))
    each = zip(x, site, y, strict=True)
    rows = ["age,dose,site,sick", *(f"{a},{b},{s},{int(t)}" for (a, b), s, t in each)]
    (tmp_path / "test.csv").write_text("\n".join(rows) + "\n")
    np.savez(tmp_path / "test.npz", x=x.astype(np.float32), y=y.astype(np.int64), site=site)
    np.save(tmp_path / "site.npy", site)
    np.save(tmp_path / "code.npy", (site == "north").astype(np.float64))
    np.save(tmp_path / "objects.npy", np.array(["a", None], dtype=object), allow_pickle=True)
    (tmp_path / "grouped_net.py").write_text(NET)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    "words",
    [
        ("--data", "test.csv", "--target", "sick", "--group", "site"),
        ("--data", "test.npz", "--group", "site"),
        ("--data", "test.npz", "--group", "site=site.npy"),
    ],
)
def test_a_column_an_array_or_a_file_names_groups(folder, words):
    less = ["--rays", "0", "--attack-steps", "0", "--skip", "guard", "--skip", "shift"]
    command = ["audit", "grouped_net:net", *words, "--budget", "quick", *less, "--out", "out"]
    ran = CliRunner().invoke(main, command)
    assert ran.exit_code in (0, 2, 3), ran.output
    stored = json.loads((folder / "out" / "audit.json").read_text())
    table = stored["sections"]["groups"]["tables"]["site"]
    assert table["rows"][0]["name"] == "north"
    assert table["rows"][0]["p"] < 0.001
    if words[1] == "test.csv":  # the group is not an input
        assert stored["columns"] == ["age", "dose"]


def test_arrays_have_groups_from_files(folder):
    given = np.load("test.npz")
    np.save("z.npy", np.stack([-3 * given["x"][:, 0], 3 * given["x"][:, 0]], axis=1))
    np.save("labels.npy", given["y"])
    command = ["audit", "--logits", "z.npy", "--labels", "labels.npy", "--group", "site.npy",
               "--skip", "guard", "--out", "out"]  # fmt: skip
    ran = CliRunner().invoke(main, command)
    assert ran.exit_code in (0, 2, 3), ran.output
    stored = json.loads((folder / "out" / "audit.json").read_text())
    assert stored["sections"]["groups"]["tables"]["site"]["rows"][0]["name"] == "north"
    found = stored["sections"]["slices"]["searches"][0]
    assert found["columns"] == ["predicted class", "site"]
    assert "north" in [one["value"] for one in found["found"][0]["conditions"]]


def test_groups_are_words(folder):
    found = groups_named(["code.npy", "here=site.npy"], None)
    assert set(found["code"]) == {"0", "1"}
    assert set(found["here"]) == {"north", "south"}
    assert groups_named([], None) is None
    assert columns_aside(["site", "code.npy", "here=site.npy"]) == ["site"]


@pytest.mark.parametrize(
    ("text", "data", "words"),
    [
        ("hospital", "test.csv", "unknown column 'hospital'"),
        ("hospital", "test.npz", "no array 'hospital'"),
        ("site", "mnist", "NAME=FILE.npy"),
        ("site", None, "NAME=FILE.npy"),
        ("site=gone.npy", "test.npz", "there is no file gone.npy"),
        ("site=site.txt", "test.npz", "reads .npy files"),
        ("site=objects.npy", "test.npz", "as an array of text"),
        ("x", "test.npz", "one number or word per sample"),
    ],
)
def test_bad_groups(folder, text, data, words):
    with pytest.raises(NescioError, match=words):
        groups_named([text], data)


def test_groups_of_another_length_are_refused(folder):
    import nescio

    with pytest.raises(NescioError, match="each of the 4 test samples"):
        nescio.audit(
            torch.nn.Linear(2, 2), (torch.randn(4, 2), torch.tensor([0, 1, 0, 1])), groups=["a"]
        )
