"""What the library says today, to the number, on small inputs: whatever moves, this stays.

Every call of the library stands in the functions of the first half, so that a change of its
interface changes these alone. The golden files never change with a renaming: a key or a word that
got another name is written into `RENAMED` or `RENAMED_WORDS`. The networks have stored weights
(`weights.json`), so that only the tests about training depend on training. Where a change of the
numbers is meant, `NESCIO_WRITE_GOLDEN=1 pytest tests/golden` writes the files anew.
"""

import json
import math
import os
import re
import warnings
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import nescio

HERE = Path(__file__).parent
WRITE = os.environ.get("NESCIO_WRITE_GOLDEN") == "1"

# Old key or "file:old key" -> new key; keys are applied to the golden files before comparing.
RENAMED: dict[str, str] = {
    "cases": "samples",
    "made": "about",
    "outside": "ood",
    "doubt": "failure_score",
    "optimiser": "optimizer",
    "standardise": "standardize",
    "normalise": "normalize",
    "randomise": "randomize",
    "generalised_entropy": "generalized_entropy",
    "promises": "guarantee_samples",
    "audit:samples": "calibration",
    "audit-several:samples": "calibration",
    "audit-images:samples": "calibration",
    "audit-saved:samples": "calibration",
}
# Old string or "file:old string" -> new string, whole values only.
RENAMED_WORDS: dict[str, str] = {
    "outside": "ood",
    "inside": "in_dist",
    "doubt": "failure_score",
    "no promise": "no guarantee",
    "generalised_entropy": "generalized_entropy",
}
SENTENCE = 25  # characters from which a text is prose: only its numbers are compared
# Left out of both sides: times, versions, sizes, places, and digests of computed floats.
VOLATILE = {
    "nescio",
    "torch",
    "seconds",
    "forward_seconds",
    "fit_seconds",
    "score_seconds",
    "bytes",
    "file",
    "digest",
    "contents",
    "not_applicable",  # a section that there was not, as it was called
    "not_run",
    "sections",  # of the registry
    "budget",
    "files",  # of a command
    "arrays",  # that a guard reads, of a network that runs elsewhere
    "format",  # of the file, and its old name
    "guard_format",
}
EXACT = (1e-6, 1e-9)  # relative and absolute: float64 all the way
SINGLE = (2e-5, 2e-6)  # a float32 network on other processors and threads
TRAINED = (2e-3, 2e-4)  # chains of float32 steps: training, attacks
FITTED = (2e-4, 2e-6)  # differences of near float32 numbers: fitted detectors
RANKED = (2e-3, 4e-3)  # p-values, which go in steps of one calibration case


# --- inputs and networks ---------------------------------------------------------------------


@cache
def moons() -> Any:
    return nescio.data.half_moons(train=240, validation=400, test=160, noise=0.3, seed=3)


@cache
def digits() -> Any:
    return nescio.data.digits()


def moon_shape() -> nn.Sequential:
    return nn.Sequential(
        nn.Linear(2, 12), nn.ReLU(), nn.Linear(12, 12), nn.ReLU(), nn.Dropout(0.2), nn.Linear(12, 2)
    )


def digit_shape(classes: int = 10) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(1, 4, 3), nn.ReLU(), nn.AvgPool2d(2), nn.Flatten(), nn.Linear(36, classes)
    )


def stored(name: str) -> nn.Sequential:
    """A network with the weights of the file."""
    net = digit_shape() if name == "digits" else moon_shape()
    kept = json.loads((HERE / "weights.json").read_text())[name]
    net.load_state_dict({key: torch.tensor(values) for key, values in kept.items()})
    return net.eval()


def write_weights() -> None:
    """Train once, round, keep; only where there is no file yet."""
    first, second = (
        nescio.train(
            moon_shape, moons().train, epochs=60, learning_rate=0.01, seed=seed, progress=False
        ).member(0)
        for seed in (1, 2)
    )
    drawn = nescio.train(
        digit_shape, digits().train, epochs=8, learning_rate=0.01, seed=1, progress=False
    ).member(0)
    nets = {"moons": first, "other moons": second, "digits": drawn}
    found = {
        name: {key: rounded(t) for key, t in net.state_dict().items()} for name, net in nets.items()
    }
    (HERE / "weights.json").write_text(json.dumps(found) + "\n")


def rounded(tensor: Tensor) -> Any:
    return np.round(tensor.double().numpy(), 4).tolist()


def far_moons(count: int = 60) -> Tensor:
    """Inputs that are no moons: a ring around them."""
    angle = torch.arange(count) * (2 * math.pi / count)
    return torch.stack([0.5 + 3 * angle.cos(), 0.25 + 3 * angle.sin()], dim=1)


# --- the library -----------------------------------------------------------------------------


def run_audit() -> dict[str, Any]:
    """One network with everything: training data, validation, outside, attack, rays."""
    data = moons()
    found = nescio.audit(
        stored("moons"),
        data.test,
        train=data.train,
        validation=data.validation,
        ood={"ring": far_moons()},
        alphas=(1.0, 10.0, 1000.0),
        rays=20,
        attack_steps=10,
        progress=False,
    )
    return old_audit(found.to_json())


def run_audit_of_several() -> dict[str, Any]:
    """A network beside MC dropout and an ensemble, on the test data alone."""
    net, other = stored("moons"), stored("other moons")
    found = nescio.audit(
        {
            "network": net,
            "MC dropout": nescio.models.mc_dropout(net, passes=8, seed=0),
            "ensemble": nescio.models.ensemble([net, other]),
        },
        moons().test,
        alphas=(1.0, 100.0),
        rays=10,
        attack_steps=5,
        seed=1,
        progress=False,
    )
    return old_audit(found.to_json())


def run_audit_of_images() -> dict[str, Any]:
    data = digits()
    x, y = data.test
    found = nescio.audit(
        stored("digits"),
        (x[:200], y[:200]),
        train=(data.train[0][:300], data.train[1][:300]),
        ood={"negatives": 1 - x[200:260]},
        alphas=(1.0, 100.0),
        rays=10,
        attack_steps=5,
        progress=False,
    )
    return old_audit(found.to_json())


def run_saved_audit(folder: Path) -> dict[str, Any]:
    """What is written beside the page."""
    found = nescio.audit(
        stored("moons"), moons().test, alphas=(1.0, 10.0), rays=0, attack_steps=0, progress=False
    )
    page = found.save(folder)
    return {
        "files": sorted(path.name for path in page.parent.iterdir() if path.name not in VERDICTS),
        "page": page.name,
        "audit": old_audit(json.loads((folder / "audit.json").read_text())),
    }


def run_compare() -> dict[str, Any]:
    net, other = stored("moons"), stored("other moons")
    found = nescio.compare(
        {"plain": net, "ensemble": nescio.models.ensemble([net, other])},
        moons().test,
        {
            "ring": far_moons(),
            "noise": (nescio.data.ood.uniform((2,), low=-2.0, high=3.0), 80),
            "surest noise": nescio.AdversarialNoise(
                nescio.data.ood.uniform((2,), low=-1.0, high=1.0),
                20,
                steps=10,
                options={"low": -4.0, "high": 4.0},
            ),
            "elsewhere": nescio.Absent("not at hand"),
        },
        scores={"norm": lambda x: x.square().sum(1)},
        task="confidence",
        resamples=50,
        progress=False,
    )
    return old_confidence(found)


def run_compare_detectors() -> dict[str, Any]:
    """All detectors that can be made of vectors, and MC dropout."""
    net, data = stored("moons"), moons()
    found = nescio.compare(
        {"network": net, "MC dropout": nescio.models.mc_dropout(net, passes=8, seed=0)},
        data.test,
        {"ring": far_moons(), "moved": data.test[0] + 1},
        train=data.train,
        near=["moved"],
        resamples=20,
        progress=False,
    )
    return old_ood(found)


def run_compare_detectors_on_images() -> dict[str, Any]:
    data = digits()
    x, y = data.test
    found = nescio.compare(
        stored("digits"),
        (x[:150], y[:150]),
        {"negatives": 1 - x[150:250], "noise": (nescio.data.ood.uniform((1, 8, 8)), 100)},
        train=(data.train[0][:400], data.train[1][:400]),
        detectors=["msp", "energy", "knn,k=5", "mahalanobis", "vim", "react", "odin"],
        positive="in_dist",
        resamples=0,
        progress=False,
    )
    return old_ood(found)


def run_failing() -> dict[str, Any]:
    net, data = stored("moons"), moons()
    train = nescio.observe(net, data.train, progress=False)
    test = nescio.observe(net, data.test, progress=False)
    found = nescio.compare(
        None,
        test,
        task="errors",
        detectors={
            "recommended": nescio.detectors.failure.recommended(train),
            "trust score": nescio.detectors.trust_score(train),
            "entropy": nescio.detectors.measured("predictive_entropy"),
        },
        validation=nescio.observe(net, data.validation, progress=False),
        resamples=40,
        name="half-moons",
    )
    return old_errors(found)


def run_leave_classes_out() -> dict[str, Any]:
    data = digits()
    found = nescio.leave_classes_out(
        digit_shape,
        (data.train[0][:400], data.train[1][:400]),
        test=(data.test[0][:200], data.test[1][:200]),
        splits=[[0], [3, 8]],
        detectors=["msp", "knn"],
        epochs=2,
        progress=False,
    )
    return old_left_out(found)


def run_along() -> dict[str, Any]:
    """A predictor, its prediction sets and a guard, as rotation grows."""
    data, net = digits(), stored("digits")
    predictor = nescio.models.plain(net)
    x, y = data.validation or data.test
    held = nescio.conformal.threshold(predictor(x[:150]), y[:150], miscoverage=0.1)
    trusted = nescio.guard(
        net, (x[:150], y[:150]), detector="energy", false_alarm=0.05, risk=0.2, progress=False
    )
    test = tuple(part[:100] for part in data.test)
    found = nescio.evaluation.under_shift(
        {"network": predictor},
        test,
        nescio.data.corruptions.rotation(),
        strengths=(0, 2, 5),
        sets={"network": {"threshold": held}},
        guards={"guard": trusted},
    )
    return old_curves(found.rows, found.sets, found)


def made_guard(**options: Any) -> Any:
    given = {"false_alarm": 0.05, "risk": 0.1, "progress": False, **options}
    return nescio.guard(stored("moons"), moons().validation, **given)


def run_guard(folder: Path, **options: Any) -> dict[str, Any]:
    """Decisions, promises, the file's manifest, and that a guard read again decides the same."""
    made = made_guard(**options)
    inputs = torch.cat([moons().test[0][:40], far_moons(10), torch.tensor([[math.nan, 0.0]])])
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        found = made(inputs)
        path = made.save(folder / "guard.safetensors")
        again = nescio.load(path, net=stored("moons"))(inputs)
        together = made(inputs, batch_level=0.1)
    assert torch.equal(found.decision, again.decision)
    return {
        "decisions": columns(found),
        "together": together.columns()["rule"].tolist(),
        "summary": found[:40].summary(moons().test[1][:40]),
        "guarantees": list(made.guarantees),
        "manifest": nescio.guards.about(path),
        "warnings": sorted({str(one.message) for one in warned}),
    }


def columns(decisions: Any) -> dict[str, Any]:
    return {name: column.tolist() for name, column in decisions.columns().items()}


def run_monitor() -> dict[str, Any]:
    rng = np.random.default_rng(5)
    watch = nescio.monitor(rng.normal(size=300), false_alarm=0.05, seed=2)
    watch = watch.update(rng.normal(size=500)).update(rng.normal(1.0, 1.0, size=150))
    seen, heights = watch.history
    parts = [
        nescio.monitor(rng.normal(size=400), shard=0, shards=1).update(rng.normal(size=90)),
        nescio.monitor(made_guard(detector="knn")),
    ]
    return {
        "seen": seen.tolist(),
        "heights": heights.tolist(),
        "alarm": watch.alarm,
        "p_value": watch.p_value,
        "log_martingale": watch.log_martingale,
        "threshold": watch.threshold,
        "quiet": [parts[0].log_martingale, parts[0].alarm, parts[0].p_value],
        "of a guard": {"bins": len(parts[1].counts), "counted": int(parts[1].counts.sum())},
        "source": watch.source,
        "said": repr(watch),
    }


def run_train() -> dict[str, Any]:
    """Two members, two epochs, with most options."""
    data = moons()
    model = nescio.train(
        moon_shape,
        data.train,
        loss=nescio.losses.adversarial(nescio.losses.nll()),
        members=2,
        epochs=2,
        batch_size=40,
        learning_rate=0.01,
        schedule="cosine",
        validation=data.validation,
        standardize=True,
        bootstrap=True,
        seed=7,
        progress=False,
    )
    prediction = model(data.test[0][:5])
    return {
        "weights": sums(model.tensors),
        "probs": prediction.probs.tolist(),
        "labels": prediction.labels.tolist(),
        "members": prediction.members,
        "train": model.history.train.tolist(),
        "validation": model.history.validation.tolist(),
        "stopped": list(model.history.stopped),
        "notes": dict(model.notes),
    }


def run_regression() -> dict[str, Any]:
    data = nescio.data.cubic(seed=0)
    model = nescio.train(
        lambda: nescio.nets.mlp(1, 2, widths=(10,)),
        data.train,
        loss=nescio.losses.nll(nescio.heads.gaussian()),
        members=2,
        epochs=2,
        progress=False,
    )
    prediction = model(torch.linspace(-4, 4, 5)[:, None])
    return {
        "mean": prediction.mixture_mean.tolist(),
        "epistemic": prediction.epistemic.tolist(),
        "aleatoric": prediction.aleatoric.tolist(),
    }


def run_predictors() -> dict[str, Any]:
    """What each kind of predictor answers, and every measure of it."""
    net, other, x = stored("moons"), stored("other moons"), moons().test[0][:6]
    kinds = {
        "plain": nescio.models.plain(net),
        "MC dropout": nescio.models.mc_dropout(net, passes=5, seed=4),
        "ensemble": nescio.models.ensemble([net, other]),
        "temperature": nescio.calibration.temperature(net, moons().validation),
        "platt": nescio.calibration.platt(net, moons().validation),
    }
    answers = {name: predictor(x) for name, predictor in kinds.items()}
    return {
        name: {
            "members": prediction.members,
            "probs": prediction.probs.tolist(),
            "measures": {
                measure: values.tolist()
                for measure, values in nescio.measures.measure_all(prediction).items()
            },
        }
        for name, prediction in answers.items()
    }


def run_observe() -> dict[str, Any]:
    """Shapes and sums of what is seen in networks."""
    one, two, drawn = stored("moons"), stored("other moons"), stored("digits")
    x, y = digits().test
    seen = {
        "last layer": nescio.observe(one, moons().test, progress=False),
        "two networks": nescio.observe([one, two], moons().test, layers=["0", -2], progress=False),
        "maps, mean": nescio.observe(drawn, (x[:50], y[:50]), layers=["0", None], progress=False),
        "maps, max": nescio.observe(drawn, x[:50], layers="0", pool="max", progress=False),
        "inputs": nescio.observe(drawn, x, count=9, inputs=True, batch_size=4, progress=False),
    }
    return {name: described(found) for name, found in seen.items()}


def described(seen: Any) -> dict[str, Any]:
    tensors = {"logits": seen.logits, **{f"layer {n}": t for n, t in seen.features.items()}}
    return {
        "tensors": sums(tensors),
        "labels": None if seen.labels is None else int(seen.labels.sum()),
        "hashes": seen.hashes[:3].tolist(),
        "inputs": None if seen.inputs is None else list(seen.inputs.shape),
        "about": dict(seen.about),
        "said": repr(seen),
    }


def run_detectors() -> dict[str, Any]:
    """The first scores of every detector of vectors that fits these activations."""
    net, data = stored("moons"), moons()
    train = nescio.observe(net, data.train, inputs=True, progress=False)
    test = nescio.observe(net, torch.cat([data.test[0][:4], far_moons(4)]), progress=False)
    made = nescio.detectors
    fitted = {
        "energy": made.energy(),
        "entropy": made.entropy(),
        "gaussian_mixture": made.gaussian_mixture(train),
        "generalized_entropy": made.generalized_entropy(),
        "kl_matching": made.kl_matching(train),
        "knn": made.knn(train, k=5),
        "mahalanobis": made.mahalanobis(train),
        "max_logit": made.max_logit(),
        "msp": made.msp(),
        "relative_mahalanobis": made.relative_mahalanobis(train),
        "she": made.she(train),
        "trust_score": made.trust_score(train),
        "vim": made.vim(train),
    }
    return {name: detector(test).tolist() for name, detector in fitted.items()}


def run_geometry() -> dict[str, Any]:
    net, x = stored("moons"), moons().test[0][:6]
    far = nescio.geometry.limits(nescio.models.plain(net), *nescio.geometry.through_origin(x))
    return {"measures": {name: values.tolist() for name, values in far.measures.items()}}


def sums(tensors: Any) -> dict[str, Any]:
    """Shape, sum and sum of squares of each tensor."""
    return {
        name: {
            "shape": list(tensor.shape),
            "sum": tensor.double().sum().item(),
            "squares": tensor.double().square().sum().item(),
        }
        for name, tensor in tensors.items()
    }


# --- rows as the nested numbers of the golden files ------------------------------------------


def number(row: Any) -> dict[str, Any]:
    return {"value": row.value, "low": row.low, "high": row.high}


def cells(found: Any, subject: str, data: str) -> dict[str, Any]:
    return {row.metric: row for row in found.rows if (row.subject, row.data) == (subject, data)}


def old_ood(found: Any) -> dict[str, Any]:
    about = found.about

    def cell(subject: str, data: str) -> dict[str, Any]:
        rows = cells(found, subject, data)
        mean = data.startswith("mean, ")
        plain = ("aupr", "fpr_at_95_tpr")
        return {
            "auroc": number(rows["auroc"]),
            **{m: {"value": rows[m].value} if mean else number(rows[m]) for m in plain},
            "p": rows["auroc_p_value"].value,
            "best": rows["auroc"].note == "best",
        }

    groups = {s.name.removeprefix("mean, "): list(s.of) for s in found.sets if s.kind == "mean"}
    detectors = {}
    for one in about.subjects:
        kinds = {
            "detector": ("detector", "options", "layers", "tuned", "own_pass"),
            "predictor": ("detector", "predictor", "members", "own_pass", "measure"),
        }
        detectors[one.name] = {
            **{key: getattr(one, key) for key in kinds[one.kind]},
            "rows": {data: cell(one.name, data) for data in groups["all"]},
            "means": {group: cell(one.name, f"mean, {group}") for group in groups},
        }
    names = ("data", "samples", "networks", "layers", "train", "positive", "level", "resamples")
    return {
        "kind": "detectors",
        **{key: getattr(about, key) for key in (*names, "seed", "left_out")},
        "sets": {
            s.name: {
                "samples": s.samples,
                "data": s.description,
                "near": s.kind == "near",
                "in_train": s.in_train,
            }
            for s in found.sets
            if s.kind != "mean"
        },
        "groups": groups,
        "detectors": detectors,
    }


def old_confidence(found: Any) -> dict[str, Any]:
    about, predictors = found.about, {}
    for one in about.subjects:
        rows: dict[str, Any] = {}
        for row in found.rows:
            if row.subject == one.name:
                bare = row.metric in ("samples", "blind")
                rows.setdefault(row.data, {})[row.metric] = row.value if bare else number(row)
        predictors[one.name] = {"detector": one.kind != "predictor", "rows": rows}
    names = ("data", "samples", "features", "measure", "level", "resamples", "seed")
    return {
        "kind": "comparison",
        **{key: getattr(about, key) for key in names},
        "sets": {
            s.name: {"description": s.description} if s.absent is None else {"absent": s.absent}
            for s in found.sets
        },
        "predictors": predictors,
        "published": {},
    }


def old_errors(found: Any) -> dict[str, Any]:
    about = found.about
    baseline, *_ = found.subjects
    scores = {}
    for subject in found.subjects:
        rows = cells(found, subject, about.data)
        keys = [m for m in rows if not m.endswith(("_difference", "_p_value"))]
        less = {
            m: {**number(rows[f"{m}_difference"]), "p": rows[f"{m}_p_value"].value}
            for m in keys
            if subject != baseline
        }
        scores[subject] = {
            "metrics": {m: number(rows[m]) for m in keys},
            "difference": less or None,
        }
    names = ("data", "samples", "errors", "networks", "level", "resamples", "temperature")
    return {
        "kind": "failures",
        **{key: getattr(about, key) for key in (*names, "no_temperature")},
        "baseline": baseline,
        "scores": scores,
    }


def old_left_out(found: Any) -> dict[str, Any]:
    mean, *splits = found.sets
    keys = ("auroc", "aupr", "fpr_at_95_tpr")
    names = [name for name in found.names("subject") if name != "network"]

    def classes(name: str) -> list[int]:
        return [int(one) for one in name.removeprefix("without ").split("+")]

    detectors = {}
    for name in names:
        rows = cells(found, name, mean.name)
        detectors[name] = {
            **{key: number(rows[key]) for key in keys},
            "worst": classes(rows["lowest_auroc"].note),
            "lowest": rows["lowest_auroc"].value,
            "p": rows["auroc_p_value"].value,
            "best": rows["auroc"].note == "best",
        }
    return {
        "kind": "left out",
        "level": found.about["level"],
        "seed": found.about["seed"],
        "left_out": found.about["left_out"],
        "detectors": detectors,
        "splits": [
            {
                "classes": classes(one.name),
                "accuracy": found.value("network", one.name, "accuracy"),
                "samples": [found.value("network", one.name, "samples"), one.samples],
                "detectors": {
                    name: {key: found.value(name, one.name, key) for key in keys} for name in names
                },
                "left_out": {},
            }
            for one in splits
        ],
    }


def old_curves(rows: Any, sets: Any, about: Any) -> dict[str, Any]:
    kinds: dict[str, Any] = {"predictors": {}, "sets": {}, "guards": {}}
    for row in rows:
        kind = "predictors"
        if row.metric in ("covered", "size"):
            kind = "sets"
        elif row.metric in ("answered", "unsure", "ood", "risk", "wrong"):
            kind = "guards"
        curves = kinds[kind].setdefault(row.subject, {})
        curves.setdefault(row.metric, []).append(row.value)
        if row.metric in ("covered", "risk"):
            curves.setdefault("low", []).append(row.low)
            curves.setdefault("high", []).append(row.high)
    return {
        "shift": about.shift,
        "description": about.description,
        "samples": about.samples,
        "strengths": [one.strength for one in sets],
        **kinds,
    }


VERDICTS = ("audit.xml", "summary.md")  # newer than the golden file
JUDGED = (
    "format", "format_version", "status", "verdict", "findings", "not_run", "required", "files",
)  # fmt: skip


def old_audit(found: dict[str, Any]) -> dict[str, Any]:
    shift = nescio.core.results.from_json(nescio.evaluation.ShiftCurves, found["shift"])
    guard = found["guard"]
    if "holds" in guard:
        guard = {"enough": None, "failure": None, **guard}
        guard["shown"] = {"needed": None, **guard["shown"]}
    sets = {one["name"]: one["samples"] for one in found["sets"] if one["kind"] != "far"}
    shown = old_curves(shift.rows, shift.sets, shift)
    kept = {key: part for key, part in found.items() if key not in JUDGED}
    return {**kept, "guard": guard, "sets": sets, "shift": shown}


# --- comparing -------------------------------------------------------------------------------


def plain(value: Any) -> Any:
    """As JSON gives it back, without what is volatile; not finite numbers as words."""
    if isinstance(value, dict):
        return {str(k): plain(v) for k, v in value.items() if str(k) not in VOLATILE}
    if isinstance(value, (list, tuple)):
        return [plain(one) for one in value]
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value


def renamed(value: Any, file: str) -> Any:
    """A golden structure with the keys and words of today."""
    if isinstance(value, dict):
        return {_now(k, file, RENAMED): renamed(v, file) for k, v in value.items()}
    if isinstance(value, list):
        return [renamed(one, file) for one in value]
    return _now(value, file, RENAMED_WORDS) if isinstance(value, str) else value


def _now(word: str, file: str, table: dict[str, str]) -> str:
    return table.get(f"{file}:{word}", table.get(word, word))


NUMBER = re.compile(r"\d+(?:\.\d+)?")


def _is_prose(value: Any) -> bool:
    return isinstance(value, str) and len(value) >= SENTENCE and " " in value


def differences(old: Any, new: Any, near: tuple[float, float], at: str = "") -> Iterator[str]:
    """Where two nested structures differ, in words."""
    numbers = all(isinstance(v, (int, float)) and not isinstance(v, bool) for v in (old, new))
    if isinstance(old, dict) and isinstance(new, dict):
        yield from (f"{at}/{key} is gone" for key in old if key not in new)
        yield from (f"{at}/{key} is new" for key in new if key not in old)
        for key in old:
            if key in new:
                yield from differences(old[key], new[key], near, f"{at}/{key}")
    elif isinstance(old, list) and isinstance(new, list):
        if len(old) != len(new):
            yield f"{at}: {len(old)} entries, now {len(new)}"
        for i, (a, b) in enumerate(zip(old, new, strict=False)):
            yield from differences(a, b, near, f"{at}[{i}]")
    elif _is_prose(old) and _is_prose(new):
        if NUMBER.findall(old) != NUMBER.findall(new):
            yield f"{at}: {old!r}, now {new!r}"
    elif numbers and math.isclose(old, new, rel_tol=near[0], abs_tol=near[1]):
        return
    elif old != new or (isinstance(old, bool) != isinstance(new, bool)):
        yield f"{at}: {old!r}, now {new!r}"


def check(name: str, found: Any, near: tuple[float, float]) -> None:
    """Compare with the golden file, or write it where that is asked for."""
    path, found = HERE / f"{name}.json", plain(found)
    if WRITE:
        path.write_text(json.dumps(found, indent=1, ensure_ascii=False, allow_nan=False) + "\n")
    golden = renamed(plain(json.loads(path.read_text())), name)
    wrong = list(differences(golden, json.loads(json.dumps(found)), near))
    assert not wrong, f"{len(wrong)} differences from {path.name}:\n" + "\n".join(wrong[:40])


Run = Callable[[], dict[str, Any]]
SAMPLES: dict[str, tuple[Run, tuple[float, float]]] = {
    "audit": (run_audit, TRAINED),
    "audit-several": (run_audit_of_several, TRAINED),
    "audit-images": (run_audit_of_images, TRAINED),
    "compare": (run_compare, TRAINED),
    "compare-detectors": (run_compare_detectors, SINGLE),
    "compare-detectors-images": (run_compare_detectors_on_images, SINGLE),
    "failing": (run_failing, SINGLE),
    "leave-classes-out": (run_leave_classes_out, TRAINED),
    "along": (run_along, SINGLE),
    "monitor": (run_monitor, EXACT),
    "train": (run_train, TRAINED),
    "regression": (run_regression, TRAINED),
    "predictors": (run_predictors, SINGLE),
    "observe": (run_observe, SINGLE),
    "detectors": (run_detectors, FITTED),
    "geometry": (run_geometry, SINGLE),
}


@pytest.fixture(scope="module", autouse=True)
def weights() -> None:
    if WRITE and not (HERE / "weights.json").exists():
        write_weights()


@pytest.mark.parametrize("name", SAMPLES)
def test_golden(name: str) -> None:
    run, near = SAMPLES[name]
    check(name, run(), near)


def test_the_saved_audit(tmp_path: Path) -> None:
    check("audit-saved", run_saved_audit(tmp_path), SINGLE)


def test_guards(tmp_path: Path) -> None:
    check("guard", run_guard(tmp_path, train=moons().train), RANKED)


def test_a_guard_by_class(tmp_path: Path) -> None:
    options = {"detector": "knn", "by": "class", "names": ("upper", "lower"), "sets": None}
    check("guard-by-class", run_guard(tmp_path, **options), RANKED)


def test_the_comparison_sees_differences() -> None:
    old = {"a": [1.0, 2.0], "b": {"c": "x"}, "d": True, "e": None}
    assert not list(differences(old, json.loads(json.dumps(old)), EXACT))
    assert list(differences(old, {**old, "a": [1.0, 2.1]}, EXACT)) == ["/a[1]: 2.0, now 2.1"]
    assert list(differences(old, {**old, "a": [1.0]}, EXACT)) == ["/a: 2 entries, now 1"]
    assert list(differences(old, {**old, "b": {"z": "x"}}, EXACT)) == [
        "/b/c is gone",
        "/b/z is new",
    ]
    assert list(differences(old, {**old, "d": 1}, EXACT)) == ["/d: True, now 1"]
    assert list(differences(old, {**old, "e": 0.0}, EXACT)) == ["/e: None, now 0.0"]
    said = "of 20 samples, 19 are answered"
    assert not list(differences(said, "of 20 inputs the guard answers 19", EXACT))
    assert len(list(differences(said, "of 20 inputs the guard answers 18", EXACT))) == 1


def test_a_renamed_key_and_word(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(RENAMED, "old", "new")
    monkeypatch.setitem(RENAMED, "one file:old", "other")
    monkeypatch.setitem(RENAMED_WORDS, "said", "written")
    assert renamed({"old": ["said", "as said"]}, "a file") == {"new": ["written", "as said"]}
    assert renamed({"old": "said"}, "one file") == {"other": "written"}
