"""Names of users in the sentences of a page: short, and in the order in which they are read."""

import re

from nescio.report.render import printable

LONGEST = 100  # letters without a space: more is a name that nobody reads to its end
START, END = 60, 20  # of these that are shown
_LONG = re.compile(rf"\S{{{LONGEST + 1},}}")
_LETTER = "[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc\U00010800-\U00010fff\U0001e800-\U0001efff]"
_RIGHT_TO_LEFT = re.compile(rf"{_LETTER}(?:[^\w<>&]*{_LETTER})*")


def readable(text: str, also: str = "") -> str:
    """Text without control codes, long names cut in the middle, right-to-left ones set apart.

    Where a name is written from the right to the left, the numbers beside it would change places.
    """
    short = _LONG.sub(lambda m: f"{m[0][:START]}…{m[0][-END:]}", printable(text, also))
    return _RIGHT_TO_LEFT.sub(lambda m: f"\u2068{m[0]}\u2069", short)
