"""Calibration data of `nescio guard --from-log`: what people labeled in the log of a service."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click
import torch
from torch import Tensor, nn

from nescio.cli.options import note
from nescio.core import Inputs, NescioError, unknown
from nescio.data import Columns as Encoding
from nescio.models import encoding_of, innermost, takes_tokens
from nescio.serving import bodies, decision_log, input_form, log_calibration, review_queue

HOLES = 0.05  # share of the queue without a label above which it is warned about


@dataclass(frozen=True, kw_only=True)
class LoggedCalibration:
    """Calibration data from a log.

    pair: inputs and labels.
    names: names of the classes; None: they are numbers.
    columns: names of the inputs; None: they have none, or the network knows them.
    sample: what was taken, and what was left out.
    """

    pair: tuple[Inputs, Tensor]
    names: list[str] | None
    columns: tuple[str, ...] | None
    sample: log_calibration.LogSample


def calibration_from_log(
    where: str,
    source: Any,
    *,
    names: Sequence[str] | None,
    numbers: bool,
    wish: tuple[float, float],
    served: str | None,
    reviews: int,
    since: str | None,
    seed: int,
) -> LoggedCalibration:
    """The labeled decisions of a log as calibration data, thinned to a sample of the stream.

    where: the log. source: the network. names: of the classes; None: those of the log. numbers:
    whether it is a regression. wish: the risk and its confidence. served: name of the guard.
    reviews: reviewers that a label needs. since: a date from which on decisions count. seed: of
    what is left out.
    """
    with decision_log.open_log(where, create=False) as log:
        sample = log_calibration.sample_of(
            log, guard=served, reviews=reviews, seed=seed, since=_moment(since)
        )
        _say(where, sample)
        _check_enough(sample, *wish)
        about = log_calibration.about_guard(log, sample.guard)
        kept = log_calibration.kept_inputs(log, sample.ids)
    known = [str(one) for one in about.get("classes") or ()]
    encoding = encoding_of(innermost(source))
    own = list(names or (encoding.classes if isinstance(encoding, Encoding) else ()) or known)
    labels = _targets(sample.labels) if numbers else _numbered(sample.labels, own)
    columns = None if encoding is not None else review_queue.columns_in(about) or None
    plain = own == [str(at) for at in range(len(own))]
    return LoggedCalibration(
        pair=(bodies.rows_of_kept(kept, _form(source, about, encoding)), labels),
        names=None if numbers or plain else own,
        columns=columns,
        sample=sample,
    )


def how_to_load(sample: log_calibration.LogSample, path: str | Path) -> str:
    """How the service takes a new guard.

    sample: says which guard it replaces. path: its file.
    """
    route = f"/v1/guards/{sample.guard}"
    return (
        f"the service takes it from its --guards-folder when an admin posts to {route}/load: "
        f'{{"path": "{Path(path).name}"}}; {route}/rollback goes back'
    )


def _moment(text: str | None) -> float | None:
    """Seconds since 1970 of a date, in UTC where it does not say otherwise."""
    if text is None:
        return None
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        raise NescioError(
            f"--since takes a date such as 2026-03-01 or 2026-03-01T12:00, got {text!r}"
        ) from None
    return (found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp()


def _say(where: str, sample: log_calibration.LogSample) -> None:
    """How many rows remain, and why."""
    count, none = len(sample.ids), len(sample.none)
    click.echo(
        f"{where}: {sample.labeled} of {sample.decisions} decisions of {sample.guard!r} are "
        f"labeled. {sample.thinned} of them are left out at random, so that abstentions and "
        f"answers are in proportion again: each decision stays with probability {sample.least:.4g}."
    )
    share = none / max(none + count, 1)
    click.echo(
        f"{count} calibrate. {none} ({share:.1%}) are none of the classes: the guarantees are for "
        "inputs that have one."
    )
    holes = sum(sample.missing.values())
    if holes:
        why = ", ".join(f"{count} {name}" for name, count in sample.missing.items())
        note(f"without a final label, before the last labeled decision: {why}")
    if holes > HOLES * (holes + sample.labeled):
        note(
            "WARNING: the guarantees assume that those are like the rest, which people who skip "
            "what is hard do not make true; label them: nescio review LOG, and with --skipped"
        )


def _check_enough(sample: log_calibration.LogSample, risk: float, confidence: float) -> None:
    """Refuse where not even answers without an error could show the risk."""
    if not (0 < risk < 1 and 0 < confidence < 1):
        return  # the guard says what is wrong
    least = math.ceil(math.log1p(-confidence) / math.log1p(-risk))  # without an error, exact
    if len(sample.ids) < least:
        raise NescioError(
            f"{len(sample.ids)} rows calibrate; a risk of {risk:g} with confidence {confidence:g} "
            f"takes at least {least}. Label more, let the service sample more of its answers "
            "(--sample), or ask for a larger --risk"
        )


def _targets(labels: Sequence[str]) -> Tensor:
    """Numbers of a regression, (N, D)."""
    return torch.tensor([[float(word) for word in text.split()] for text in labels])


def _numbered(labels: Sequence[str], names: Sequence[str]) -> Tensor:
    """Classes as numbers."""
    if not names:
        try:
            return torch.tensor([int(one) for one in labels])
        except ValueError:
            raise NescioError(
                "the log does not know the classes of this guard; give --class-names"
            ) from None
    for one in labels:
        if one not in names:
            raise NescioError(f"in the log: {unknown('class', one, names)}")
    return torch.tensor([names.index(one) for one in labels])


def _form(source: Any, about: Mapping[str, Any], encoding: Any) -> input_form.InputForm:
    """What the network reads, as the log and the network say."""
    given = about.get("input") or {}
    shape, columns = given.get("shape"), review_queue.columns_in(about)
    if isinstance(shape, Mapping):
        raise NescioError("--from-log is for networks that read one tensor; this one reads several")
    net = innermost(source)
    first = net.networks()[0].net if callable(getattr(net, "networks", None)) else net
    weights = first.state_dict().values() if isinstance(first, nn.Module) else ()
    return input_form.InputForm(
        shape=None if shape is None else tuple(shape),
        kinds={},
        tokens=takes_tokens(net),
        columns=encoding,
        names=columns if encoding is None else (),
        classes=0,
        wide=any(one.dtype == torch.float64 for one in weights),
    )
