"""What `nescio audit` and `nescio compare` do without a network: a small one on 8x8 digits."""

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from torch import nn

from nescio import data, nets
from nescio.calibration import temperature
from nescio.cli.work.train import remedies_named, train_remedy
from nescio.core import NescioError
from nescio.data.ood import overlaid, patches, permuted, uniform
from nescio.evaluation import ATTACK_STEPS, Audit, Comparison, audit, check_attack, compare
from nescio.models import Predictor, mc_dropout, plain
from nescio.training import train

EPOCHS, DROPOUT, PASSES = 25, 0.25, 50


def audit_digits(
    *,
    seed: int = 0,
    members: int = 5,
    epochs: int = EPOCHS,
    recipe: Sequence[str] = (),
    run: str | Path | None = None,
    progress: bool | None = None,
    **audit_options: Any,
) -> Audit:
    """Train a small convolutional ensemble on digits and audit one member and all remedies.

    recipe: recipes to train as well, such as "acet", in folders within `run`.
    """
    check_attack(
        audit_options.get("attack_steps", ATTACK_STEPS), audit_options.get("attack_radius")
    )
    remedies = remedies_named(recipe, taken=["deep ensemble"])
    digits = data.digits(seed=seed)
    options: dict[str, Any] = {"epochs": epochs, "batch_size": 50, "learning_rate": 2e-3}
    options |= {"seed": seed, "progress": progress}
    ensemble = train(_make_net, digits.train, members=members, **options)
    assert digits.validation is not None
    assert digits.test is not None
    net = ensemble.member(0)
    predictors: dict[str, nn.Module | Predictor] = {"single network": plain(net)}
    with suppress(NescioError):  # a network without an error on validation data has no temperature
        predictors["temperature"] = temperature(net, digits.validation)
    predictors["MC dropout"] = mc_dropout(net, passes=PASSES, seed=seed)
    predictors["deep ensemble"] = ensemble
    for chosen in remedies:
        predictors[chosen.title] = train_remedy(chosen, _make_net, digits.train, run=run, **options)
    findings = audit(
        predictors,
        digits.test,
        train=digits.train,
        validation=digits.validation,
        **audit_options,
        run=run,
        seed=seed,
        progress=progress,
    )
    return findings if run is None else findings.bound_for(run)


def compare_digits(
    *,
    detector: Sequence[str] = (),
    passes: int | None = PASSES,
    resamples: int = 500,
    epochs: int = EPOCHS,
    seed: int = 0,
    progress: bool | None = None,
) -> Comparison:
    """Train a small network on digits and compare detectors on OOD inputs made of digits."""
    digits = data.digits(seed=seed)
    assert digits.test is not None
    options: dict[str, Any] = {"epochs": epochs, "batch_size": 50, "learning_rate": 2e-3}
    net = train(_make_net, digits.train, seed=seed, progress=progress, **options).member(0)
    x, count = digits.test[0], len(digits.test[0])
    ood = {
        "two digits in one": (overlaid(x, shift=1, seed=seed), count),
        "quarters of digits": (patches(x, grid=2, seed=seed), count),
        "negatives": 1 - x,
        "shuffled pixels": (permuted(x, seed=seed), count),
        "noise": (uniform(digits.features, seed=seed), count),
    }
    subjects: dict[str, Any] = {"network": net}
    if passes is not None:
        subjects["MC dropout"] = mc_dropout(net, passes=passes, seed=seed)
    return compare(
        subjects,
        digits.test,
        ood,
        train=digits.train,
        near=("two digits in one", "quarters of digits"),
        detectors=list(detector) or None,
        resamples=resamples,
        seed=seed,
        progress=progress,
    )


def _make_net() -> nn.Module:
    return nets.digit_cnn(dropout=DROPOUT)
