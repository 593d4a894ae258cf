"""What the callbacks of training loops share: numbers during training, a guard at its end."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch import nn

from nescio.core import Head, NescioError, NescioWarning, make_folder, warn
from nescio.detectors.observe import observe
from nescio.evaluation import Audit, Budget, audit, quality_of
from nescio.guards import Guard, RegressionGuard, guard
from nescio.models import is_regression
from nescio.nets import Output

FILE = "guard.safetensors"


class Checkup:
    """Measures a network during training, and makes its guard and audit at the end.

    `guard`, `audit` and `numbers` hold what was made and measured last; None and empty before.

    calibration: inputs with labels, as for `nescio.guard`; read at the end alone. Training must not
      use them, not even to stop early or to choose weights: no guarantee would hold.
    train: training data, for the detector of the guard; None: there are none.
    test: test inputs and labels; with them, the network is audited at the end of training.
    ood: OOD inputs by name, for the audit.
    folder: folder that the guard, with weights, and the audit are saved in; None: they are not
      saved.
    budget: budget of the audit.
    head, output: how the outputs of the network are read, as for `nescio.observe`.
    options: options of `nescio.guard`, for example `risk=0.05`.
    """

    def __init__(
        self,
        calibration: Any,
        *,
        train: Any = None,
        test: Any = None,
        ood: Mapping[str, Any] | None = None,
        folder: str | Path | None = None,
        budget: Budget = "quick",
        head: Head | str | None = None,
        output: Output = None,
        **options: Any,
    ) -> None:
        super().__init__()
        self.calibration, self.train, self.test, self.ood = calibration, train, test, ood
        self.folder = None if folder is None else make_folder(Path(folder))
        self.budget, self.options = budget, options
        self.reading: dict[str, Any] = {"head": head, "output": output}
        self.guard: Guard | RegressionGuard | None = None
        self.audit: Audit | None = None
        self.numbers: dict[str, float] = {}
        self._skips = False  # numbers during training

    def check(self, net: nn.Module) -> None:
        """Whether the calibration data fit the network: an error before training, not after.

        net: the network.
        """
        observe(net, self.calibration, count=2, progress=False, **self.reading)

    def measure(self, net: nn.Module, data: Any) -> dict[str, float]:
        """Accuracy, NLL, Brier, ECE and confidence of a classifier on validation data.

        Data of another form are left out, with one warning: training goes on.

        net: the network.
        data: validation inputs and labels.
        """
        if self._skips or is_regression(net, self.calibration, self.reading["head"]):
            return {}
        try:
            return self._store(quality_of(net, data, **self.reading))
        except NescioError as error:
            self._skips = True
            warn(
                f"nescio logs nothing about the validation data: {error}",
                NescioWarning,
                stacklevel=3,
            )
            return {}

    def examine(self, net: nn.Module) -> dict[str, float]:
        """Make the guard and, with test data, the audit; save both where there is a folder.

        net: the network.
        """
        known = {"train": self.train, **self.reading}
        self.guard = guard(net, self.calibration, **known, **self.options)
        found = guard_numbers(self.guard)
        if self.test is not None:
            more = {"validation": self.calibration, "ood": self.ood, "budget": self.budget}
            self.audit = audit(net, self.test, **known, **more)
            found |= audit_numbers(self.audit)
        if self.folder is not None:
            self.guard.save(self.folder / FILE, weights=True)
            if self.audit is not None:
                self.audit.save(self.folder / "audit")
        return self._store(found)

    def _store(self, found: Mapping[str, float]) -> dict[str, float]:
        self.numbers = {**self.numbers, **found}
        return dict(found)


def guard_numbers(made: Guard | RegressionGuard) -> dict[str, float]:
    """Which share of the calibration data a guard answers, and the bound of its risk there."""
    rules = getattr(made, "rules", ())
    holding = [rule.coverage for rule in rules if rule.coverage.holds]
    samples = sum(len(rule.scores) for rule in rules)
    if not samples:  # of label maps
        return {}
    found = {"guard_coverage": sum(one.answered for one in holding) / samples}
    return found | ({"guard_risk_bound": max(one.bound for one in holding)} if holding else {})


def audit_numbers(made: Audit) -> dict[str, float]:
    """The numbers of the first predictor on the test data, and the exit code of the verdict."""
    rows = made.results.rows
    of_test = [row for row in rows if row.subject == rows[0].subject and row.data == "test"]
    numbers = {f"test_{row.metric}": row.value for row in of_test if row.value is not None}
    return {**numbers, "verdict": float(made.verdict.exit_code)}
