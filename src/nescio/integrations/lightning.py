"""A callback for Lightning: calibration is logged at each validation, a guard made at the end."""

import sys
from collections.abc import Callable
from typing import Any

from torch import nn

from nescio.core import NescioError
from nescio.integrations.checkup import Checkup


def _callback() -> Any:
    """The base class, of the package that the user has imported: there are two of one content."""
    if sys.modules.get("lightning.pytorch") is not None:
        from lightning.pytorch import Callback as Newer

        return Newer
    try:
        from pytorch_lightning import Callback
    except ImportError:
        raise NescioError(
            "this callback needs Lightning: pip install nescio[lightning], or lightning"
        ) from None
    return Callback


class LightningCallback(Checkup, _callback()):  # type: ignore[misc]
    """Logs the quality on the validation data of each epoch; makes the guard when fit ends.

    >>> check = LightningCallback(calibration, train=loader, risk=0.05)  # doctest: +SKIP
    >>> Trainer(callbacks=[check]).fit(module, loader, validation)  # doctest: +SKIP
    >>> check.guard(x_new)  # doctest: +SKIP

    The numbers are logged as `nescio/ece` and so on, so that `monitor="nescio/nll"` works. `guard`,
    `audit` and `numbers` hold what was made and measured last; None and empty before.

    calibration: inputs with labels, as for `nescio.guard`; read at the end alone. Training must not
      use them, not even to stop early or to choose weights: no guarantee would hold.
    network: from the module to the network that gives logits, for example `lambda module:
      module.net`; None: the module itself.
    options: `train` and `ood` as for `nescio.guard` and `nescio.audit`; `test` data, with which the
      network is audited at the end, with a `budget` (`"quick"` by default); a `folder` to save the
      guard and the audit in; `head` and `output` as for `nescio.observe`; options of
      `nescio.guard`, for example `risk=0.05`.
    """

    def __init__(
        self,
        calibration: Any,
        *,
        network: Callable[[Any], nn.Module] | None = None,
        **options: Any,
    ) -> None:
        super().__init__(calibration, **options)
        self.network = network

    def on_fit_start(self, trainer: Any, pl_module: Any) -> None:
        """See whether the calibration data fit the network; Lightning calls it.

        trainer, pl_module: trainer and module of Lightning.
        """
        if trainer.is_global_zero:
            self.check(self._net(pl_module))

    def on_validation_epoch_end(self, trainer: Any, pl_module: Any) -> None:
        """Log the quality on the validation data; Lightning calls it.

        trainer, pl_module: trainer and module of Lightning.
        """
        if not trainer.sanity_checking and trainer.state.fn == "fit":
            loaders = trainer.val_dataloaders
            first = loaders[0] if isinstance(loaders, list) else loaders
            numbers = self.measure(self._net(pl_module), first)
            pl_module.log_dict(_named(numbers), rank_zero_only=True)

    def on_fit_end(self, trainer: Any, pl_module: Any) -> None:
        """Make the guard and the audit, and log their numbers; Lightning calls it.

        trainer, pl_module: trainer and module of Lightning.
        """
        if trainer.is_global_zero:
            numbers = self.examine(self._net(pl_module))
            for logger in trainer.loggers:
                logger.log_metrics(_named(numbers), step=trainer.global_step)

    def _net(self, module: Any) -> nn.Module:
        found: nn.Module = module if self.network is None else self.network(module)
        return found


def _named(numbers: dict[str, float]) -> dict[str, float]:
    return {f"nescio/{name}": value for name, value in numbers.items()}
