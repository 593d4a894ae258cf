"""The embedded default of `nescio audit`: a small network on 8x8 digits, and what helps it."""

from contextlib import suppress
from typing import Any

from torch import nn

from nescio import data, nets
from nescio.auditing import RAYS, Audit, audit
from nescio.calibration import temperature
from nescio.errors import NescioError
from nescio.predictors import Predictor, mc_dropout, plain
from nescio.recipes import deep_ensemble
from nescio.training import train

EPOCHS, DROPOUT, PASSES = 25, 0.25, 50


def audit_digits(
    *,
    seed: int = 0,
    members: int = 5,
    epochs: int = EPOCHS,
    rays: int = RAYS,
    progress: bool | None = None,
) -> Audit:
    """Train a small convolutional ensemble on digits and audit one member and all remedies."""
    digits = data.digits(seed=seed)
    recipe = deep_ensemble(members=members)
    options: dict[str, Any] = {"epochs": epochs, "batch_size": 50, "learning_rate": 2e-3}
    ensemble = train(
        lambda: nets.digit_cnn(dropout=DROPOUT),
        digits.train,
        loss=recipe.loss,
        members=recipe.members,
        seed=seed,
        progress=progress,
        **options,
    )
    assert digits.validation is not None
    assert digits.test is not None
    net = ensemble.member(0)
    predictors: dict[str, nn.Module | Predictor] = {"single network": plain(net)}
    with suppress(NescioError):  # a network without an error on held-out data has no temperature
        predictors["temperature"] = temperature(net, digits.validation)
    predictors["MC dropout"] = mc_dropout(net, passes=PASSES, seed=seed)
    predictors["deep ensemble"] = ensemble
    return audit(
        predictors, digits.test, train=digits.train, rays=rays, seed=seed, progress=progress
    )
