"""What values look like in a notebook: small tables, in which names stay text."""

import html
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from nescio.core import Classification, Prediction, Regression
from nescio.report.render import Grid, Page, printable
from nescio.report.verdict_words import limit_of, number_of

ROWS = 20  # of a table
COLUMNS = 12
LETTERS = 200  # of a text in a cell


def cut_grid(table: Grid, rows: int = 3 * ROWS) -> Grid:
    """A table of at most `rows` rows; the title says how many there are.

    table: the table.
    rows: largest number of rows.
    """
    if len(table.rows) <= rows:
        return table
    title = f"{table.title} (the first {rows} of {len(table.rows):,} rows)".strip()
    return replace(table, rows=table.rows[:rows], title=title)


def audit_html(audit: Any) -> str:
    """The verdict of an `audit`, then the findings with their numbers and limits, as HTML."""
    verdict = audit.verdict
    findings = Grid(
        corner="finding",
        head=["verdict", "number", "limit", "what to do"],
        rows=[
            (_text(one.title if one.data is None else f"{one.title}, {one.data}"),
             [one.status, _text(number_of(one)), _text(limit_of(one)),
              "" if one.status == "pass" else _text(one.advice)])
            for one in verdict.shown
        ],
    )  # fmt: skip
    left = [f"{name}: {why}" for name, why in verdict.not_run.items()]
    rest = _listed("Not run", left) if left else ""
    return f"<p>{_escaped(verdict.words)}</p>\n{Page(tables=(findings,)).html()}\n{rest}"


def guard_html(guard: Any) -> str:
    """What a `guard` is, its thresholds, and what it guarantees, as HTML."""
    said = _listed("What it guarantees", list(guard.guarantees))
    return f"<p><strong>{_escaped(repr(guard))}</strong></p>\n{_pre(guard.table())}\n{said}"


def decisions_html(decisions: Any) -> str:
    """The counts of `decisions`, and the first rows, as HTML."""
    columns = decisions[:ROWS].columns()
    rows = list(zip(*columns.values(), strict=True))
    table = Grid(
        corner="input",
        head=list(columns),
        rows=[(str(i), [_cell(value) for value in row]) for i, row in enumerate(rows)],
    )
    return _titled(repr(decisions), table, len(decisions))


def prediction_html(prediction: Prediction) -> str:
    """The first samples of a `prediction` as HTML, with probabilities or deviations."""
    rows = prediction.to("cpu")[:ROWS]
    if len(rows.batch_shape) != 1:
        return f"<p><strong>{_escaped(repr(prediction))}</strong></p>"
    if isinstance(rows, Classification):
        shown = min(rows.classes, COLUMNS)
        head = ["label", "confidence", *(f"class {c}" for c in range(shown))]
        cells = [
            [str(int(label)), *(f"{float(p):.4f}" for p in (probs.max(), *probs[:shown]))]
            for label, probs in zip(rows.labels, rows.probs, strict=True)
        ]
    elif isinstance(rows, Regression):
        means, spread = rows.mixture_mean, rows.mixture_variance.sqrt()
        shown = min(means.shape[-1], COLUMNS // 2)
        head = [f"{what} {d}" for d in range(shown) for what in ("mean", "deviation")]
        cells = [
            [f"{float(v):.4g}" for d in range(shown) for v in (mean[d], deviation[d])]
            for mean, deviation in zip(means, spread, strict=True)
        ]
    else:
        return f"<p><strong>{_escaped(repr(prediction))}</strong></p>"
    table = Grid(corner="sample", head=head, rows=[(str(i), row) for i, row in enumerate(cells)])
    return _titled(repr(prediction), table, len(prediction))


def monitor_html(monitor: Any) -> str:
    """Where the stream of a `monitor` stands, as HTML."""
    alarm = "none" if monitor.alarm is None else f"at score {monitor.alarm:,}, from 0"
    facts = {
        "scores": f"{monitor.count:,}",
        "alarm": alarm,
        "p-value of no drift": f"{monitor.p_value:.3g}",
        "log of the martingale, now": f"{monitor.log_martingale:.3f}",
        "that raises the alarm": f"{monitor.threshold:.3f}",
        "false alarms, ever": f"at most {100 * monitor.false_alarm:g} %",
    }
    return _facts(repr(monitor), facts)


def risk_html(monitor: Any) -> str:
    """What a risk `monitor` knows of the errors among the answers, as HTML."""
    alarm = "none" if monitor.alarm is None else f"at answer {monitor.alarm:,}, from 0"
    facts = {
        "answers": f"{monitor.count:,}",
        "labels": f"{monitor.labels:,}",
        "wrong answers, estimated": "not known" if not monitor.count else f"{monitor.estimate:.3%}",
        "at least": f"{monitor.lower:.3%}",
        "at most": f"{monitor.upper:.3%}",
        "bound": f"{monitor.risk:.3%}",
        "alarm": alarm,
        "confidence, at all times": f"{monitor.confidence:.1%}",
    }
    return _facts(repr(monitor), facts)


def model_html(model: Any) -> str:
    """The members of a `model`, layers, head, and how it was trained, as HTML."""
    weights = sum(t[0].numel() for t in model.tensors.values() if t.is_floating_point())
    facts = {
        "members": f"{model.members:,}",
        "numbers of one member": f"{weights:,}",
        "head": model.head.name,
        "loss": model.loss or "not known",
        "number type": str(model.dtype),
        "device": str(model.device),
    }
    if model.history is not None and model.history.stopped:
        facts["epochs"] = ", ".join(map(str, model.history.stopped[:COLUMNS]))
    layers = str(model.net)
    return f"{_facts(repr(model), facts)}\n{_pre(layers[:2000] + ' ...' * (len(layers) > 2000))}"


def _facts(title: str, facts: dict[str, str]) -> str:
    rows = [(name, [_text(value)]) for name, value in facts.items()]
    return _titled(title, Grid(corner="", head=[""], rows=rows), len(rows))


def _titled(title: str, table: Grid, count: int) -> str:
    more = f"\n<p>... {count - len(table.rows):,} more</p>" if count > len(table.rows) else ""
    return f"<p><strong>{_escaped(title)}</strong></p>\n{Page(tables=(table,)).html()}{more}"


def _listed(title: str, lines: Sequence[str]) -> str:
    items = "\n".join(f"<li>{_escaped(line)}</li>" for line in lines)
    return f"<p>{title}:</p>\n<ul>\n{items}\n</ul>"


def _pre(text: str) -> str:
    return f"<pre>{html.escape(printable(text, chr(10)))}</pre>"


def _cell(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else _text(str(value))


def _text(text: str) -> str:
    """A text of bounded length without control codes."""
    whole = printable(text)
    return whole if len(whole) <= LETTERS else f"{whole[: LETTERS - 1]}…"


def _escaped(text: str) -> str:
    return html.escape(printable(text))
