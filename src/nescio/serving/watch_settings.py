"""What a watch is told: the risk, the labels, how states are saved, and whom to tell."""

from dataclasses import dataclass, field

from nescio.core import NescioError
from nescio.monitoring import LabelBudget, RiskMonitor, label_budget, risk_monitor

DAY = 86_400.0


@dataclass(frozen=True, kw_only=True)
class WatchSettings:
    """How the decisions of a service are watched.

    risk: the largest share of answers that may be wrong.
    confidence: of the bounds of the risk, at all times.
    budget: share of the answers that is drawn for labels.
    false_alarm: the probability of an alarm for drift, ever, if nothing changes.
    reviews: number of reviewers who must agree on a label.
    wait_days: days after which an answer without a label counts as the worst for each bound.
    replica: of this process: "i/n" for number i, from 0, of n; any other word is the only one.
    save_seconds: seconds between two saved states.
    webhook: where alarms are sent, http:// or https://; None: nowhere.
    webhook_secret: signs what is sent; None: it is not signed.
    """

    risk: float = 0.02
    confidence: float = 0.95
    budget: float = 0.05
    false_alarm: float = 0.01
    reviews: int = 1
    wait_days: float = 14.0
    replica: str = "0"
    save_seconds: float = 10.0
    webhook: str | None = None
    webhook_secret: str | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        """Refuse what cannot be."""
        self.new_risk()
        if not 0 < self.false_alarm < 1:
            raise NescioError(f"false_alarm must be between 0 and 1, got {self.false_alarm}")
        for name in ("reviews", "wait_days", "save_seconds"):
            if not getattr(self, name) > 0:
                raise NescioError(f"{name} must be above 0, got {getattr(self, name)}")
        if self.webhook is not None and not self.webhook.startswith(("http://", "https://")):
            raise NescioError(f"a webhook is an http:// or https:// address, got {self.webhook!r}")
        _ = self.shard

    @property
    def shard(self) -> tuple[int, int]:
        """The number of this replica, from 0, and of all."""
        number, slash, count = self.replica.partition("/")
        if not slash:
            return 0, 1
        if not (number.isdecimal() and count.isdecimal() and int(number) < int(count)):
            raise NescioError(
                f"a replica is i/n, with i from 0 to n - 1, such as 0/2 and 1/2, got "
                f"{self.replica!r}"
            )
        return int(number), int(count)

    def new_budget(self) -> LabelBudget:
        """A budget of labels, unspent."""
        return label_budget(self.budget, risk=self.risk)

    def new_risk(self) -> RiskMonitor:
        """A monitor of the risk before the first answer."""
        least = self.new_budget().least
        return risk_monitor(risk=self.risk, confidence=self.confidence, least=least)
