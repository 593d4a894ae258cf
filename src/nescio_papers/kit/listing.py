"""Which experiments there are, what each needs, and how long it takes."""

from nescio.core.registry import experiments
from nescio_papers.kit.experiment import Experiment


def named(name: str) -> Experiment:
    """The experiment called `name`; hyphens and underscores are the same."""
    result: Experiment = experiments[name.replace("-", "_")]()
    return result


def listing() -> str:
    """All experiments with their parts, for the terminal."""
    lines = []
    for name in experiments:
        one = named(name)
        quick, full = one.minutes
        lines += [
            f"{one.name}: {one.title}",
            f"  needs {one.needs}; {full:g} min in full, {quick:g} min with --quick, on 2 cores",
            *(f"    {part.name:<14} {part.title}" for part in one.parts),
            "",
        ]
    return "\n".join([*lines, "nescio reproduce NAME [--quick] [--part PART] [--out FOLDER]"])
