"""One comparison for detectors, predictors, functions and names; for OOD, errors and confidence."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from nescio.core import Head, NescioError, unknown
from nescio.detectors import Activations, as_recorded, recorded_model
from nescio.detectors.observe.layers import Pool
from nescio.evaluation.compare.comparison import Comparison, Published, Task
from nescio.evaluation.compare.ood_inputs import Absent
from nescio.metrics.ranking import Positive
from nescio.models import with_head
from nescio.nets import Output

OPTIONS: dict[str, tuple[str, ...]] = {  # of each task, beside those of all
    "ood": ("near", "measures", "layers", "pool", "positive", "batch_size"),
    "confidence": ("measures", "published", "layers", "pool", "batch_size"),
    "errors": ("validation", "layers", "pool", "batch_size"),
}


@torch.inference_mode(False)  # whatever the caller is in: attacks need gradients
def compare(
    subjects: Any,
    data: Any,
    ood: Mapping[str, Any] | None = None,
    *,
    task: Task = "ood",
    train: Any = None,
    detectors: Any = None,
    scores: Mapping[str, Any] | None = None,
    measures: str | Sequence[str] | None = None,
    near: Sequence[str] | None = None,
    validation: Any = None,
    published: Published | None = None,
    layers: Any = None,
    pool: Pool | None = None,
    output: Output = None,
    head: Head | str | None = None,
    name: str = "test",
    positive: Positive | None = None,
    level: float = 0.95,
    resamples: int | None = None,
    batch_size: int | None = None,
    seed: int = 0,
    progress: bool | None = None,
) -> Comparison:
    """Compare detectors, predictors and functions on the same data.

    `compare(net, test, {"letters": z}, train=train, detectors=["knn,k=10", "energy"])`,
    `compare({"plain": net, "ensemble": model}, test, {"letters": z}, task="confidence")`,
    `compare(net, test, train=train, task="errors", detectors=["trust_score"])`.

    The task "ood" asks how well each tells OOD data from test data: AUROC with DeLong's interval,
    AUPR and FPR at 95 % TPR with bootstrap intervals, means over all, near and far sets; the best
    AUROCs are marked where a paired test, corrected for all pairs, sets them apart from others. The
    task "confidence" gives the table of Hein et al. (2019): mean maximum confidence, AUROC and FPR
    at 95 % TPR in the paper's sense (the share of OOD data taken for test data where 95 % of the
    test data are accepted). The task "errors" asks how well each finds the errors of the network:
    AP of errors and successes, AUROC, FPR, AURC and excess AURC, and paired differences from the
    maximum probability.

    subjects: an `nn.Module`, a nescio model, a list of modules, or several by name. Detectors read
      the first. The others by name are ranked by `measures`; in the task "confidence" all are.
      None: a network that runs elsewhere; data, train and ood are then what it gave,
      `nescio.recorded`.
    data: test inputs and labels.
    ood: OOD data by name: inputs, an OOD source with a count `(source, 10000)`, or an `Absent`; in
      the task "confidence" also `AdversarialNoise` and `AdversarialSamples`.
    task: `"ood"`, `"confidence"` or `"errors"`.
    train: inputs and labels that detectors are fitted on.
    detectors: names, with options as in "knn,k=10", also of measures; fitted detectors; or by name
      one of these or a function of training activations that returns a detector. None, or "all"
      among them: in the task "ood" all that can be fitted, in "errors" the predictive entropy, in
      "confidence" none.
    scores: functions of inputs to a score per sample, by name; a larger score is further out, less
      certain. In the task "errors" also arrays.
    measures: what predictors are ranked by; None: the log-odds, which have the order of the
      confidence without its ties, and in the task "ood" predictive entropy and mutual information.
    near: names of the OOD data that are near the test data.
    validation: other inputs and labels, to fit a temperature on for the histograms of the task
      "errors".
    published: numbers of a paper, see `Comparison.beside`.
    layers, pool, output, head: options of `nescio.observe`.
    name: name of the test data.
    positive: `"ood"` (default) or `"in_dist"`, the sense of AUPR and FPR.
    level: confidence level of the intervals.
    resamples: number of bootstrap resamples; None: 500 in the task "ood", otherwise 1000; 0: no
      such intervals.
    batch_size: number of samples that the networks read at a time; None: the default of
      `nescio.observe`.
    seed: seed of the random draws.
    progress: whether to draw a progress bar; None: where stderr is a terminal.
    """
    if task not in OPTIONS:
        raise NescioError(unknown("task", str(task), OPTIONS))
    given = {
        "near": near, "measures": measures, "validation": validation, "published": published,
        "layers": layers, "pool": pool, "positive": positive, "batch_size": batch_size,
    }  # fmt: skip
    options = {key: value for key, value in given.items() if value is not None}
    for key in options:
        if key not in OPTIONS[task]:
            raise NescioError(f"{key}= has no meaning in the task {task!r}; leave it out")
    if subjects is None:
        subjects, data, train, ood = _of_arrays(task, data, train, ood)
    elif not isinstance(data, Activations):
        subjects = with_head(subjects, data, head=head, output=output)
    options |= {"train": train, "detectors": detectors, "scores": scores, "name": name}
    options |= {} if resamples is None else {"resamples": resamples}
    return _task(task)(subjects, data, ood, level=level, seed=seed, progress=progress, **options)


def _of_arrays(task: Task, data: Any, train: Any, ood: Any) -> tuple[Any, Any, Any, Any]:
    """Activations of a network that runs elsewhere; where one must run, a stand-in and its rows."""
    if ood is not None and not isinstance(ood, Mapping):
        raise NescioError('give OOD data by name: {"letters": nescio.recorded(...)}')
    others = dict(ood or {})
    named = {"test data": data, "training data": train}
    named |= {f"OOD data {name!r}": one for name, one in others.items()}
    for name, one in named.items():
        if one is not None and not isinstance(one, Activations | Absent):
            as_recorded(one, name)  # says what was expected
    if task != "confidence":
        return None, data, train, ood
    test = as_recorded(data)
    rows = {
        name: one
        if isinstance(one, Absent)
        else as_recorded(one, f"OOD data {name!r}", test).inputs
        for name, one in others.items()
    }
    fitted = None if train is None else as_recorded(train, "training data", test)
    known = None if fitted is None else (fitted.inputs, fitted.labels)
    return {"network": recorded_model(test)}, (test.inputs, test.labels), known, rows


def _task(task: Task) -> Callable[..., Comparison]:
    """The function of a task; only its module is loaded."""
    if task == "ood":
        from nescio.evaluation.compare.ood_task import compare_ood

        return compare_ood
    if task == "confidence":
        from nescio.evaluation.compare.confidence_task import compare_confidence

        return compare_confidence
    from nescio.evaluation.compare.errors_task import compare_errors

    return compare_errors
