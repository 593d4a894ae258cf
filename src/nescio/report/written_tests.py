"""The findings of an audit as a file of tests: `nescio audit ... --write-tests test_model.py`."""

import keyword
import math
import re
from collections.abc import Sequence

from nescio.evaluation import Finding, Verdict
from nescio.report.render import printable
from nescio.report.verdict_words import limit_of, number_of
from nescio.version import VERSION

WIDTH = 88  # characters of a comment
HEAD = '''"""What `nescio audit` found, as tests. Written by nescio {version}; yours to change.

    pytest {name}                                 runs the audit again
    pytest {name} --nescio-audit FOLDER/audit.json    reads an audit that is there
"""

import pytest

from nescio.integrations import assert_limit

COMMAND = [{command}]


@pytest.fixture(scope="module")
def audit(nescio_audit):
    return nescio_audit.command(COMMAND)
'''


def tests_of(verdict: Verdict, command: Sequence[str], *, name: str) -> str:
    """A file of tests for pytest, with a test for each finding.

    verdict: verdict of an audit.
    command: words of the command that made the audit.
    name: name of this file of tests, for the words at its top.
    """
    words = ", ".join(map(repr, _audit_words(command)))
    parts = [HEAD.format(version=VERSION, name=printable(name), command=words)]
    taken: set[str] = set()
    known = [one for one in verdict.findings if one.value is not None and math.isfinite(one.value)]
    parts += [_test(one, _function(one, taken)) for one in known]
    return "\n\n".join(parts)


def _audit_words(command: Sequence[str]) -> list[str]:
    """The command without its name, and without where it wrote: a test writes elsewhere."""
    words, kept = list(command[1:]), list[str]()
    while words:
        word = words.pop(0)
        name, has_value, _ = word.partition("=")
        if name in ("--out", "--write-tests", "--junit"):
            if not has_value and words:
                words.pop(0)
        elif name not in ("--full",):
            kept.append(word)
    return kept


def _function(one: Finding, taken: set[str]) -> str:
    """A name for the test, which no other has."""
    plain = re.sub(r"\W+", "_", one.label, flags=re.ASCII).strip("_").lower() or "number"
    found = plain if not keyword.iskeyword(plain) else f"{plain}_"
    count = 2
    while found in taken:
        found, count = f"{plain}_{count}", count + 1
    taken.add(found)
    return found


def _test(one: Finding, name: str) -> str:
    said = printable(f"{one.status}: {one.title} {number_of(one)}; {limit_of(one)}")
    comment = f"    # {' '.join(said.split())[:WIDTH]}"
    strictest = one.fail if one.attention is None else one.attention
    if one.status == "pass":
        text, more, mark = one.required or _limit(one, strictest), "", ""
    elif one.status == "attention":  # it must not get worse than today
        text, more, mark = _limit(one, _worse_end(one)), ', at_worst="attention"', ""
    else:  # strict: once it is repaired, the test says that the mark can go
        text, more = one.required or _limit(one, one.fail), ""
        mark = '@pytest.mark.xfail(reason="it failed when this was written", strict=True)\n'
    return f"{mark}def test_{name}(audit):\n{comment}\n    assert_limit(audit, {text!r}{more})\n"


def _worse_end(one: Finding) -> float:
    """The worse end of today's interval, to three digits on the lenient side."""
    ends = [end for end in (one.value, one.low, one.high) if end is not None]
    worst = max(ends) if one.better == "lower" else min(ends)
    if worst == 0:
        return 0.0
    unit = 10.0 ** (math.floor(math.log10(abs(worst))) - 2)
    rounded = math.ceil(worst / unit) if one.better == "lower" else math.floor(worst / unit)
    return float(f"{rounded * unit:.6g}")


def _limit(one: Finding, value: float | None) -> str:
    return f"{one.label}{'<=' if one.better == 'lower' else '>='}{value:g}"
