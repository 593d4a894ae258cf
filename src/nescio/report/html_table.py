"""A table as HTML, in which every number says what it is and what it rests on."""

from collections import Counter
from collections.abc import Sequence
from html import escape

from nescio.report.page_text import readable
from nescio.report.render import Cell, Grid, Medium, heads, shown

HTML = Medium(dash="–", best="*{}", interval=" ({} to {})", signed=" ({} to {})")
NAMED = 6  # rows of another size in a caption
LONG = 28  # letters from which a cell is read as a sentence
TERMS = {
    "accuracy": "share of samples whose label is predicted",
    "confidence": "the largest predicted probability; of several samples its mean",
    "ECE": "expected calibration error: the gap of confidence and accuracy, over 15 bins; "
    "smaller is better",
    "smooth ECE": "calibration error with a kernel in place of bins; smaller is better",
    "NLL": "negative log-likelihood of the true labels or values, in nats; smaller is better",
    "Brier": "mean squared error of the probabilities, a sum over classes from 0 to 2; smaller is "
    "better",
    "AUROC": "probability that a positive sample scores higher than a negative one; larger is "
    "better, chance is half",
    "FPR95": "share of the negatives taken for positives where 95 % of the positives are; the note "
    "says which are positive; smaller is better",
    "AP of errors": "average precision of finding errors; larger is better, chance is their share",
    "gain in AP": "average precision of finding errors, less that of the maximum probability",
    "AURC": "mean share of errors over all coverages, in thousandths; smaller is better",
    "RMSE": "root mean squared error, in the unit of the targets; smaller is better",
    "MAE": "mean absolute error, in the unit of the targets; smaller is better",
    "CRPS": "error of the whole predicted distribution; of a mean alone it is the MAE",
    "R²": "share of the targets' variance that is explained; 1 is perfect",
    "answered": "share of inputs that the guard answers",
    "unsure": "share of inputs on which the guard abstains because it is unsure",
    "ood": "share of inputs that the guard calls out-of-distribution",
}


def html(table: Grid, *, rows: int | None = None) -> str:
    """A table element; a shaded cell has the class of its side of chance.

    rows: the largest number of them; the caption says how many there are.
    """
    kept = table.rows[:rows]
    head = "".join(f'<th scope="col">{_head(text)}</th>' for text in [table.corner, *heads(table)])
    body = "\n".join(
        f'<tr><th scope="row">{escaped(label)}</th>{_cells(table, label, cells, place)}</tr>'
        for place, (label, cells) in enumerate(kept)
    )
    caption = (
        f"<caption><span>{escaped(said)}</span></caption>\n"
        if (said := _caption(table, kept))
        else ""
    )
    return f"<table>\n{caption}<thead><tr>{head}</tr></thead>\n<tbody>\n{body}\n</tbody>\n</table>"


def _caption(table: Grid, kept: Sequence[object]) -> str:
    """What the numbers rest on, and what is cut."""
    said = [] if isinstance(table.samples, str) else [_sizes(table)]
    if isinstance(table.samples, str) and table.samples:
        said = [f"From {table.samples}."]
    if len(kept) < len(table.rows):
        said.append(
            f"The first {len(kept):,} of {len(table.rows):,} rows; audit.json has them all."
        )
    return " ".join(filter(None, said))


def _sizes(table: Grid) -> str:
    """The size that most rows have, and which rows have others."""
    sizes = Counter(table.samples)
    if not any(sizes) or "samples" in table.head:
        return ""
    most = sizes.most_common(1)[0][0]
    pairs = zip((label.strip() for label, _ in table.rows), table.samples, strict=True)
    others = [f"{label}: {size}" for label, size in pairs if size not in ("", most)]
    rest = f", and {len(others) - NAMED} rows more" if len(others) > NAMED else ""
    return f"From {most}" + (f" ({'; '.join(others[:NAMED])}{rest})." if others else ".")


def _cells(table: Grid, label: str, cells: Sequence[Cell | str], place: int) -> str:
    size = table.samples if isinstance(table.samples, str) else table.samples[place]
    return "".join(
        _cell(cell, ", ".join(filter(None, [label.strip(), head, size])) if size else "")
        for head, cell in zip(heads(table), cells, strict=True)
    )


def _cell(cell: Cell | str, title: str) -> str:
    told = f' title="{escaped(title)}"' if title else ""
    if isinstance(cell, str):
        kind = ' class="text"' if len(cell) > LONG else ""
        return f"<td{kind}{told}>{escaped(shown(cell, HTML))}</td>"
    text = escaped(shown(cell, HTML))
    value, bracket, rest = text.partition(" (")
    if bracket and cell.low is not None:
        text = f'{value} <span class="ends">({rest}</span>'
    if cell.shade is None:
        return f"<td{told}>{text}</td>"
    side = "above" if cell.shade >= 0 else "below"
    return f'<td class="{side}" style="--shade: {min(abs(cell.shade), 1):.2f}"{told}>{text}</td>'


def _head(text: str) -> str:
    meaning = TERMS.get(text)
    return f'<abbr title="{escaped(meaning)}">{escaped(text)}</abbr>' if meaning else escaped(text)


def escaped(text: str) -> str:
    """Text that cannot become markup, without control codes, and with its per cent signs."""
    return escape(readable(text.replace("\n", " "))).replace(" %", "\N{NO-BREAK SPACE}%")
