"""A safety card and its verification in words."""

import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING

from nescio.report.render import printable, screen_width

if TYPE_CHECKING:
    from nescio.evaluation import Check, SignedCard

SHOWS = (
    "This shows that the files are those of the card, and that these weights give these numbers on "
    "these data with this software. It does not show that the labels are right, that the data are "
    "like those to come, or that the network was not trained on them."
)
SHOWN = 5  # details of a check


def card_text(made: "SignedCard") -> str:
    """What a card says, for a terminal.

    made: a card with its signature.
    """
    card = made.card
    lines = [
        f"safety card of {card.network!r}: {card.status}",
        f"  fingerprint   {card.sha256}",
        f"  signature     {signature_words(made)}",
        f"  digests       {len(card.weights)} predictors, {len(card.data)} data sets, "
        f"{len(card.files)} files",
        f"  guarantees    {len(card.guarantees)} sentences",
        f"  certificates  {len(card.certificates)}",
        f"  numbers       {len(card.numbers):,} printed, {card.whole.leaves:,} by digest",
        f"  commands      {len(card.commands)}",
    ]
    return "\n".join(printable(line) for line in lines)


def signature_words(made: "SignedCard") -> str:
    """Which key signed."""
    if made.signature is None:
        return "none"
    if made.signature.fingerprint is None:
        return "by a shared secret (HMAC)"
    return f"by the key {made.signature.fingerprint} (Ed25519)"


def checks_text(path: str, checks: "Sequence[Check]") -> str:
    """Every check, what it found, and what all of them show.

    path: path of the card.
    checks: the checks.
    """
    width = max(len(one.name) for one in checks)
    lines = [path]
    for one in checks:
        lines.append(f"  {one.name:<{width}}  {one.status}: {one.words}")
        lines += [f"  {'':<{width}}    {text}" for text in one.details[:SHOWN]]
        if len(one.details) > SHOWN:
            lines.append(f"  {'':<{width}}    and {len(one.details) - SHOWN:,} more")
    said = textwrap.wrap(conclusion(checks), screen_width())
    return "\n".join([*map(printable, lines), "", *said])


def conclusion(checks: "Sequence[Check]") -> str:
    """One word and what it means."""
    wrong = [one.name for one in checks if one.status == "wrong"]
    open_ = [one.name for one in checks if one.status == "not checked"]
    if wrong:
        return f"NOT verified: {', '.join(wrong)} differ from the card."
    if open_:
        return (
            f"Verified in part: {', '.join(open_)} not checked. Everything else is as on the card."
        )
    return f"Verified: every claim of the card was computed again and is the same. {SHOWS}"
