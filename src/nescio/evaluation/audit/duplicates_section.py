"""Test samples of an audit that are among the training data, or twice in the test data."""

from collections.abc import Mapping

from nescio.conformal import binomial_interval
from nescio.core import Regression
from nescio.evaluation.audit.audit_limits import Measured, limit
from nescio.evaluation.audit.findings import AuditFindings
from nescio.evaluation.audit.sections import CLASSES, NUMBERS, Material, section
from nescio.evaluation.duplicates import Duplicates, find_duplicates

FEW = 2_000  # test samples and ten times as many training samples of the quick budget


@section(
    "duplicates",
    title="Samples that occur twice",
    place=39,
    budgets=("quick", "standard", "thorough"),
    tasks=(CLASSES, NUMBERS),
)
def repeated_samples(material: Material) -> Duplicates:
    """Exact and near duplicates between test and training data, and within the test data."""
    x, y = material.x, material.y
    if material.task == CLASSES:
        wrong = material.answers().labels != y
    else:
        said = material.prediction
        assert isinstance(said, Regression)
        wrong = (said.mixture_mean.cpu() - y.reshape(said.mixture_mean.shape)).abs().mean(1)
    train, labels = (None, None) if material.train is None else material.train
    if x is None:  # only answers are known, so only features can be compared
        train = None
    quick: Mapping[str, int] = {"most": FEW} if material.budget == "quick" else {}
    return find_duplicates(
        x,
        train,
        features=material.features,
        train_features=material.train_features,
        labels=y if material.task == CLASSES else None,
        train_labels=labels,
        wrong=wrong,
        seed=material.seed,
        **quick,
    )


@limit(
    "leaked",
    section="duplicates",
    title="test samples that are training samples",
    better="lower",
    attention=0.0,
    fail=0.01,
    unit="share",
    rank=14,
    meaning="The share of the test samples whose input is, number for number, among the training "
    "data: the network may know their answers by heart. Where training inputs equal each other, "
    "as in tables of few different values, their share is subtracted.",
    advice="Leave these samples out of the test data; their row numbers are in the section.",
)
def leaked(found: AuditFindings) -> Measured | None:
    """The share of test samples whose input is among the training inputs."""
    part = found.sections.get("duplicates")
    if part is None or part.in_training is None:
        return None
    leaks = part.in_training
    share, chance = binomial_interval(leaks.exact, part.samples), leaks.by_chance or 0.0
    note = f"{leaks.exact:,} of {part.samples:,}"
    if not chance:  # a count, not an estimate
        return Measured(value=share.value, samples=part.samples, note=note)
    if share.low <= chance:
        return Measured(value=0.0, samples=part.samples, note=f"{note}, no more than by chance")
    ends = {"low": share.low - chance, "high": share.high - chance}
    note = f"{note}, less {100 * chance:.2g} % by chance"
    return Measured(value=share.value - chance, **ends, samples=part.samples, note=note)
