"""The audit of a network with several labels: one section for each, and a table of all."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from nescio import metrics
from nescio.core import (
    MultiLabel,
    NescioError,
    Results,
    Row,
    binary,
    check_label_table,
    make_folder,
    write_json,
)
from nescio.data import door
from nescio.evaluation.answers import Seen, quality
from nescio.evaluation.audit.audit import Audit, audit
from nescio.models import Model, plain
from nescio.nets import Output

TEST = "test"


@dataclass(frozen=True)
class LabelAudit:
    """The audits by label, and the quality of all labels as a table.

    audits: audits by the name of the label.
    results: one row per label and metric.
    """

    audits: Mapping[str, Audit]
    results: Results

    def __getitem__(self, label: str) -> Audit:
        return self.audits[label]

    def save(self, folder: str | Path) -> Path:
        """Write `labels.json`, and for each label a folder with its audit, page and guard.

        folder: where to write; it is made if it does not exist.
        """
        place = make_folder(Path(folder))
        for name, one in self.audits.items():
            one.save(place / name)
        rows = [
            {one.name: getattr(row, one.name) for one in fields(row)} for row in self.results.rows
        ]
        write_json(place / "labels.json", {"rows": rows})
        return place

    def __str__(self) -> str:
        verdicts = [f"{name}: {one.verdict}" for name, one in self.audits.items()]
        return "\n\n".join([str(self.results), *verdicts])


def audit_labels(
    net: nn.Module | Model,
    data: Any,
    *,
    train: Any = None,
    validation: Any = None,
    names: Sequence[str] | None = None,
    output: Output = None,
    **options: Any,
) -> LabelAudit:
    """Audit each label of a network that has a logit for each of several labels.

    Each label is audited as a classifier of two classes, not there and there, with all sections of
    `nescio.audit`. The guards in them speak for one label each; `nescio.guard_labels` makes those
    whose guarantees hold for all labels at once.

    net: a network, or a model with the head `multilabel`.
    data: test inputs, and labels of 0 and 1, `(N, K)`.
    train: training inputs, with such labels or without; None: there are none.
    validation: other data of the same form, which fit temperatures and the guards; None: a half of
      the test data does.
    names: names of the labels; None: their numbers.
    output: where the outputs are in what the network returns, as for `nescio.observe`.
    options: other options of `nescio.audit`.
    """
    x, y = door.read(data, name="test data")
    model = plain(net, head="multilabel", output=output) if isinstance(net, nn.Module) else net
    if not isinstance(model, Model) or model.head.task != "multilabel":
        raise NescioError("audit_labels reads a network, or a model with the head 'multilabel'")
    with torch.no_grad():
        prediction = model(x)
    assert isinstance(prediction, MultiLabel)
    count = prediction.count
    titles = tuple(map(str, range(count))) if names is None else tuple(map(str, names))
    if len(titles) != count:
        raise NescioError(f"{len(titles)} names for {count} labels; one each")
    table = check_label_table(y, count, (len(prediction),))
    audits = {}
    for k, title in enumerate(titles):
        one: Any = net
        how = {"head": binary(label=k), "output": output}
        if not isinstance(net, nn.Module):
            one, how = replace(model, head=binary(label=k)), {}
        given = {"train": _column(train, k), "validation": _column(validation, k), **how}
        audits[title] = audit(one, (x, table[:, k]), **given, **options)
    return LabelAudit(audits, label_quality(prediction, table, titles))


def _column(data: Any, number: int) -> Any:
    """Data with one of the labels; those without labels as they are."""
    if data is None:
        return None
    x, y = door.read(data, name="train", labels=False)
    return x if y is None else (x, y[:, number])


def label_quality(prediction: MultiLabel, labels: Tensor, names: Sequence[str]) -> Results:
    """Accuracy, NLL, Brier score, ECE and AUROC of each label, and how often it is there.

    prediction: predictions of several labels.
    labels: true labels, 0 or 1, `(N, K)`.
    names: names of the labels.
    """
    y = check_label_table(labels, prediction.count, prediction.batch_shape).cpu()
    wide = prediction.to("cpu", torch.float64)
    rows = []
    for k, name in enumerate(names):
        one, truth = wide.label(k), y[:, k]
        found: dict[str, float | None] = {**quality(Seen(wide.members, one.log_probs, {}), truth)}
        odds = one.log_probs[:, 1] - one.log_probs[:, 0]
        there = truth == 1
        both = bool(there.any()) and not bool(there.all())
        found["auroc"] = metrics.rank(odds[~there], odds[there]).auroc if both else None
        found["prevalence"] = float(there.double().mean())
        rows += [Row(subject=name, data=TEST, metric=m, value=v) for m, v in found.items()]
    return Results(tuple(rows))
