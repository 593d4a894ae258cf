"""Which experiments there are, what each needs, and how long it takes."""

from nescio.core import NescioError, unknown
from nescio.core.registry import experiments
from nescio_papers.kit.durations import expected, in_words, timed
from nescio_papers.kit.experiment import Experiment


def named(name: str) -> Experiment:
    """The experiment called `name`; hyphens and underscores are the same."""
    key = name.replace("-", "_")
    if key not in experiments:
        raise NescioError(unknown("paper", name, (one.replace("_", "-") for one in experiments)))
    result: Experiment = experiments[key]()
    return result


def listing() -> str:
    """All experiments with their parts, for the terminal."""
    lines = []
    for name in experiments:
        one = named(name)
        lines += [
            f"{one.name}: {one.title}",
            f"  needs {one.needs}; {_takes(one)}, on 2 cores",
            *(f"    {part.name:<18} {part.title} ({_takes(one, part.name)})" for part in one.parts),
            "",
        ]
    return "\n".join([*lines, "nescio reproduce NAME [--quick] [--part PART] [--out FOLDER]"])


def _takes(one: Experiment, *parts: str) -> str:
    """How long an experiment, or a part of it, takes, as far as that was measured."""
    sizes = {"in full": False, "with --quick": True}
    seconds = {way: expected(one, quick=quick, only=parts or None) for way, quick in sizes.items()}
    said = []
    for way, took in seconds.items():
        least = "" if timed(one, quick=sizes[way], only=parts or None) else "at least "
        said += [f"{least}{in_words(took)} {way}"] if took else []
    return ", ".join(said) or "not timed"
