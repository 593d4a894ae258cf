"""The findings of an experiment as a Markdown page."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from nescio_papers.kit.experiment import Experiment, Settings


def summary(
    experiment: "Experiment", settings: "Settings", done: Mapping[str, Mapping[str, Any]]
) -> str:
    """Title, parts with figures and comparisons, and the table of claims."""
    how = "quick run" if settings.quick else "full run"
    command = f"nescio reproduce {experiment.name}{' --quick' if settings.quick else ''}"
    lines = [
        f"# {experiment.title}",
        f"Source: {experiment.source}. Made by `{command}` ({how}, seed {settings.seed}).",
    ]
    if settings.quick:
        lines.append("Numbers of samples, seeds and epochs in the text are those of a full run.")
    for part in experiment.parts:
        if part.name in done:
            lines += _part(done[part.name])
    claims = [claim for result in done.values() for claim in result["claims"]]
    if claims:
        lines += ["## What the source says, and what we found", _claims(claims)]
    missing = [part.name for part in experiment.parts if part.name not in done]
    if missing:
        lines.append(f"Not run: {', '.join(missing)}.")
    return "\n\n".join(lines) + "\n"


def _part(result: Mapping[str, Any]) -> list[str]:
    lines = [f"## {result['title']}"]
    if result["text"]:
        lines.append(result["text"].strip())
    for name, caption in result["figures"].items():
        lines.append(f"![{caption}]({name})")
        if caption:
            lines.append(f"*{caption}*")
    if result["comparisons"]:
        lines.append(_comparisons(result["comparisons"]))
    return lines


def _comparisons(rows: list[Mapping[str, Any]]) -> str:
    cells = [[r["what"], _number(r["published"]), _number(r["ours"]), r["note"]] for r in rows]
    return table(["number", "published", "here", "note"], cells)


def _claims(claims: list[Mapping[str, Any]]) -> str:
    cells = [[c["source"], c["sentence"], c["measured"], _word(c)] for c in claims]
    return table(["where", "the source says", "measured", "verdict"], cells)


def _word(claim: Mapping[str, Any]) -> str:
    """The verdict; one that no facts stand behind is marked."""
    older = claim.get("rule") == "older"
    return f"{claim['verdict']} (by an older rule)" if older else str(claim["verdict"])


def table(header: list[str], rows: list[list[str]]) -> str:
    """A Markdown table."""
    lines = ["| " + " | ".join(header) + " |", "|" + "---|" * len(header)]
    clean = [[str(cell).replace("|", "\\|").replace("\n", " ") for cell in row] for row in rows]
    return "\n".join(lines + ["| " + " | ".join(row) + " |" for row in clean])


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:.4g}"
