"""A word that does not exist gets the one that was meant: commands, options, choices, names."""

from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

Run = Callable[..., Result]
NET = ["NET", "--weights", "w.safetensors", "--data", "test.npz"]
WRONG = {  # by what is wrong: words, and the hint
    "a command": (["scroe"], "there is no command `nescio scroe`; did you mean 'score'?"),
    "a command by another word": (["verfiy"], "did you mean 'verify'?"),
    "a command that a group has": (["download"], "did you mean `nescio data download`?"),
    "a command that nothing is near": (["xyzzy"], "all commands: nescio --help"),
    "a command of a group": (
        ["label", "strat"],
        "there is no command `nescio label strat`; did you mean 'start'?",
    ),
    "a command beside a group": (["label", "score"], "did you mean `nescio score`?"),
    "an option of nescio": (["--verison"], "nescio has no option --verison; did you mean '--ver"),
    "an option": (
        ["audit", "--bugdet", "quick"],
        "nescio audit has no option --bugdet; did you mean '--budget'?",
    ),
    "an option with =": (["audit", "--bugdet=quick"], "did you mean '--budget'?"),
    "an option of a group": (["data", "list", "--foldr", "x"], "did you mean '--folder'?"),
    "an option of another command": (
        ["audit", "--calibration", "x.npz"],
        "nescio audit has no option --calibration; it is an option of `nescio guard`",
    ),
    "an option of several others": (
        ["predict", "--detector", "knn"],
        "it is an option of `nescio compare` and `nescio guard`",
    ),
    "an option of a command of a group": (
        ["score", "--acquisition", "bald"],
        "it is an option of `nescio label next`",
    ),
    "an option that nothing is near": (["diff", "--xyzzy"], "its options: nescio diff --help"),
    "a short option": (["train", "-x", "1"], "nescio train has no option -x"),
    "help": (["audit", "--hlep"], "did you mean '--help'?"),
    "a choice": (["audit", "--budget", "quik"], "did you mean 'quick'?"),
    "a choice of a group": (
        ["label", "export", "p", "--out", "x", "--format", "labelstudio"],
        "did you mean 'label-studio'?",
    ),
    "an argument with choices": (["completion", "fsh"], "did you mean 'fish'?"),
    "a schedule": (
        ["train", "single", "--data", "digits", "--run", "r", "--schedule", "cosin"],
        "did you mean 'cosine'?",
    ),
    "intervals": (["guard", "--intervals", "residuals"], "did you mean 'residual'?"),
    "a kind": (["list", "mesures"], "did you mean 'measures'?"),
    "an experiment": (["reproduce", "know-your-limit"], "did you mean 'know"),
    "a part": (["reproduce", "know-your-limits", "--part", "sofmax"], "did you mean 'softmax'?"),
    "a model": (["search", "mc-dropuot", "--out", "s"], "did you mean 'mc_dropout'?"),
    "a download": (["data", "download", "mnsit"], "did you mean 'mnist'?"),
    "a recipe": (
        ["train", "deep_ensembel", "--data", "digits", "--run", "r"],
        "did you mean 'deep_ensemble'?",
    ),
    "a data set": (["train", "single", "--data", "digts", "--run", "r"], "did you mean 'digits'?"),
    "a network": (
        ["train", "single", "--data", "digits", "--run", "r", "--net", "smal_cnn"],
        "did you mean 'small_cnn'?",
    ),
    "an optimizer": (
        ["train", "single", "--data", "digits", "--run", "r", "--optimizer", "adma"],
        "did you mean 'adam'?",
    ),
    "an augmentation": (
        ["train", "single", "--data", "digits", "--run", "r", "--augment", "crps"],
        "did you mean 'crops'?",
    ),
    "a calibration": (
        ["train", "single", "--data", "digits", "--run", "r", "--calibrate", "temprature"],
        "did you mean 'temperature'?",
    ),
    "a head": (
        ["train", "single", "--data", "digits", "--run", "r", "--head", "catgorical"],
        "did you mean 'categorical'?",
    ),
    "an option of a recipe": (
        ["train", "deep_ensemble", "--data", "digits", "--run", "r", "-o", "member=3"],
        "did you mean 'members'?",
    ),
    "a head of your network": (["audit", *NET, "--head", "gausian"], "did you mean 'gaussian'?"),
    "a section": (["audit", *NET, "--skip", "slice"], "did you mean 'slices'?"),
    "a limit": (["audit", *NET, "--require", "acuracy>0.9"], "did you mean 'accuracy'?"),
    "a remedy": (["audit", *NET, "--recipe", "actt"], "did you mean 'acet'?"),
    "a detector": (
        ["compare", *NET, "--ood", "o=other.npz", "--detector", "knnn"],
        "did you mean 'knn'?",
    ),
    "a detector of a guard": (
        ["guard", "NET", "--calibration", "test.npz", "--detector", "mahalanobi"],
        "did you mean 'mahalanobis'?",
    ),
    "an acquisition": (["label", "next", "pool", "--acquisition", "bld"], "did you mean 'bald'?"),
    "a recipe of a pool": (
        ["label", "start", "q", "unlabeled.npz", "--test", "test.npz", "--recipe", "dropuot"],
        "did you mean 'dropout'?",
    ),
}


@pytest.mark.parametrize("what", WRONG)
def test_a_wrong_word_gets_a_hint(
    what: str, folder: Path, nescio: Run, own: Callable[..., str]
) -> None:
    words, hint = WRONG[what]
    if "pool" in words:
        nescio("label", "start", "pool", "unlabeled.npz", "--test", "test.npz")
    result = nescio(*(own(folder) if word == "NET" else word for word in words))
    assert result.exit_code == 1, result.output
    assert hint in result.output.replace("\n", " "), result.output
    assert "Traceback" not in result.output
