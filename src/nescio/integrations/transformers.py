"""A callback for the Trainer of Transformers: calibration at each evaluation, then a guard."""

from collections.abc import Callable, Mapping
from typing import Any

from torch.utils.data import DataLoader

from nescio.core import NescioError
from nescio.integrations.checkup import Checkup

try:
    from transformers import TrainerCallback, default_data_collator
except ImportError:
    raise NescioError(
        "this callback needs Transformers: pip install nescio[transformers]"
    ) from None


class TransformersCallback(Checkup, TrainerCallback):  # type: ignore[misc]
    """Adds the quality to the metrics of each evaluation; makes the guard when training ends.

    >>> check = TransformersCallback(calibration, risk=0.05)  # doctest: +SKIP
    >>> Trainer(model=model, callbacks=[check], ...).train()  # doctest: +SKIP
    >>> check.guard(tokens)  # doctest: +SKIP

    The metrics are `eval_nescio_ece` and so on: `metric_for_best_model="eval_nescio_nll"` works.
    They are in `state.log_history`, too. `guard`, `audit` and `numbers` hold what was made and
    measured last; None and empty before.

    calibration: inputs with labels, as for `nescio.guard`, or a data set of the Trainer, whose
      samples are mappings with `labels`; read at the end alone. Training must not use them, not
      even to stop early or to choose weights: no guarantee would hold.
    train: training data, for the detector of the guard; None: there are none.
    test: test data; with them, the network is audited at the end of training.
    collate: function that makes a batch of samples; None: that of Transformers, for equal lengths.
    log: called with the numbers, for example `lambda numbers: trainer.log(numbers)`.
    options: `ood` inputs by name and a `budget` (`"quick"` by default) for the audit; a `folder` to
      save the guard and the audit in; `head` and `output` as for `nescio.observe`; options of
      `nescio.guard`, for example `risk=0.05`.
    """

    def __init__(
        self,
        calibration: Any,
        *,
        train: Any = None,
        test: Any = None,
        collate: Callable[[Any], Any] | None = None,
        log: Callable[[dict[str, float]], None] | None = None,
        **options: Any,
    ) -> None:
        data = [
            _loader(one, collate or default_data_collator) for one in (calibration, train, test)
        ]
        super().__init__(data[0], train=data[1], test=data[2], **options)
        self.log = log

    def on_train_begin(self, _args: Any, state: Any, _control: Any, **given: Any) -> None:
        """See whether the calibration data fit the network; the Trainer calls it.

        state: state of the Trainer.
        """
        if state.is_world_process_zero:
            self.check(given["model"])

    def on_evaluate(self, _args: Any, state: Any, _control: Any, **given: Any) -> None:
        """Add the quality on the evaluation data to the metrics; the Trainer calls it.

        state: state of the Trainer.
        """
        loader = given.get("eval_dataloader")
        if loader is not None:
            numbers = self.measure(given["model"], loader)
            found = {f"eval_nescio_{name}": value for name, value in numbers.items()}
            given.get("metrics", {}).update(found)
            self._logged(found, state)

    def on_train_end(self, _args: Any, state: Any, _control: Any, **given: Any) -> None:
        """Make the guard and the audit, and log their numbers; the Trainer calls it.

        state: state of the Trainer.
        """
        if state.is_world_process_zero:
            numbers = self.examine(given["model"])
            self._logged({f"nescio_{name}": value for name, value in numbers.items()}, state)

    def _logged(self, numbers: dict[str, float], state: Any) -> None:
        if not numbers:
            return
        state.log_history.append({**numbers, "step": state.global_step})
        if self.log is not None:
            self.log(numbers)


def _loader(data: Any, collate: Callable[[Any], Any]) -> Any:
    """Batches of a data set of mappings; what nescio reads by itself as it is."""
    rows = hasattr(data, "__getitem__") and hasattr(data, "__len__")
    own = isinstance(data, tuple | Mapping) or not rows or hasattr(data, "ndim")
    return data if own else DataLoader(data, batch_size=64, collate_fn=collate)
