"""Claims of a paper, judged."""

from collections.abc import Sequence
from dataclasses import replace

from nescio_papers.kit.experiment import Claim, Settings


def verdict(holds: object, partly: object = False) -> str:
    """The verdict on a claim."""
    return "holds" if holds else "partly" if partly else "fails"


def verdict_of(*facts: object) -> str:
    """The verdict on a claim that holds where all facts do, and in part where some do."""
    return verdict(all(facts), any(facts))


def judged(settings: Settings, claims: Sequence[Claim]) -> list[Claim]:
    """The claims, left open in a quick run: its networks have hardly learned anything."""
    return [replace(claim, verdict="open") if settings.quick else claim for claim in claims]
