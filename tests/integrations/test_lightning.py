"""The callback in a real Trainer: the numbers it logs, the guard it leaves, early errors."""

import warnings

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import nescio
from nescio.core import NescioError, NescioWarning

lightning = pytest.importorskip("pytorch_lightning")


class Module(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Flatten(), nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10))

    def forward(self, x):
        return self.net(x)

    def training_step(self, batch, index):
        return nn.functional.cross_entropy(self(batch[0]), batch[1])

    def validation_step(self, batch, index):
        self.log("loss", nn.functional.cross_entropy(self(batch[0]), batch[1]))

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), 1e-2)


class Recorder(lightning.loggers.logger.DummyLogger):
    def __init__(self):
        super().__init__()
        self.found = {}

    def log_metrics(self, metrics, step=None):
        self.found |= metrics


@pytest.fixture(scope="module")
def digits():
    return nescio.data.digits()


def fitted(digits, callback, folder, validation=None):
    """A module, and what it logged."""
    logger = Recorder()
    parts = {"train": digits.train, "validation": validation or digits.validation}
    loaders = [DataLoader(TensorDataset(*part), batch_size=64) for part in parts.values()]
    module = Module()
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*(num_workers|log_every_n_steps|LeafSpec).*")
        trainer = lightning.Trainer(
            max_epochs=3,
            callbacks=[callback],
            logger=logger,
            accelerator="cpu",
            enable_checkpointing=False,
            enable_progress_bar=False,
            enable_model_summary=False,
            default_root_dir=folder,
        )
        trainer.fit(module, *loaders)
    return module, trainer, logger.found


def test_the_quality_is_logged_and_the_guard_is_made(digits, tmp_path):
    from nescio.integrations import LightningCallback

    check = LightningCallback(
        digits.test,
        train=digits.train,
        network=lambda module: module.net,
        folder=tmp_path / "out",
        risk=0.1,
    )
    module, trainer, logged = fitted(digits, check, tmp_path)
    metrics = trainer.callback_metrics
    assert float(metrics["nescio/nll"]) == pytest.approx(float(metrics["loss"]), abs=1e-5)
    x, y = digits.validation
    right = float((module(x).argmax(1) == y).double().mean())
    assert float(metrics["nescio/accuracy"]) == pytest.approx(right)
    assert logged["nescio/guard_coverage"] == check.numbers["guard_coverage"] > 0.5
    assert check.guard.risk == 0.1
    loaded = nescio.load(tmp_path / "out" / "guard.safetensors", net=module.net)
    assert (loaded(x).decision == check.guard(x).decision).all()


def test_with_test_data_the_network_is_audited(digits, tmp_path):
    from nescio.integrations import LightningCallback

    (x, y), network = digits.test, lambda module: module.net
    check = LightningCallback(
        (x[:300], y[:300]),
        train=digits.train,
        test=(x[300:], y[300:]),
        network=network,
        folder=tmp_path / "out",
        risk=0.1,
    )
    _, _, logged = fitted(digits, check, tmp_path)
    assert check.numbers["test_accuracy"] == logged["nescio/test_accuracy"] > 0.8
    assert logged["nescio/verdict"] in (0, 2, 3)
    assert (tmp_path / "out" / "audit" / "audit.html").exists()


def test_calibration_data_that_do_not_fit_are_found_before_training(digits, tmp_path):
    from nescio.integrations import LightningCallback

    x, y = digits.test
    check = LightningCallback((x.flatten(1)[:, :5], y))
    with pytest.raises(NescioError, match="5"):
        fitted(digits, check, tmp_path)


def test_validation_data_of_another_form_are_left_out_with_a_warning(digits, tmp_path):
    from nescio.integrations import LightningCallback

    x, y = digits.validation
    check = LightningCallback(digits.test, train=digits.train, risk=0.1)
    with pytest.warns(NescioWarning, match="logs nothing about the validation data"):
        fitted(digits, check, tmp_path, validation=(x, y, torch.ones(len(y))))
    assert set(check.numbers) == {"guard_coverage", "guard_risk_bound"}
