"""The guard on MNIST: `python -m benchmarks.guard [--run FOLDER] [--output FILE]`.

A small convolutional network is trained on 50,000 digits and the guard calibrated on the other
10,000; digits for testing, and images that are no digits, are new to both. Two wishes: at most
0.5 % and at most 0.2 % errors among the answers, both with at most 1 % false alarms. The false
alarms are judged by their exact law, beta-binomial; the errors by a binomial test at the promise.
"""

import argparse
import json
import tempfile
import time
from pathlib import Path
from typing import Any

import nescio
from nescio import data, nets
from nescio.conformal import coverage_law
from nescio.data.ood import uniform
from nescio.evaluation.compare import Absent
from nescio.guards import Decisions, Guard
from nescio_papers.kit.images import InData
from nescio_papers.robust_deep_learning.sets import BLOCKS, FULL, ood_data

EPOCHS, HELD = 8, 10_000
FALSE_ALARM, RISKS = 0.01, (0.005, 0.002)
SIGNIFICANT = 1e-3
ANSWERED = {0.005: 0.96, 0.002: 0.93}  # to be reached
REFUSED = {"Fashion-MNIST": 0.98, "noise": 0.98, "uniform noise": 0.98, "gray CIFAR-10": 0.98}


def trained(run: Path, digits: data.Dataset, epochs: int = EPOCHS, seed: int = 0) -> nescio.Model:
    """The network, trained once and kept."""
    return nescio.train(
        lambda: nets.small_cnn((1, 28, 28), 10),
        digits.train,
        epochs=epochs,
        batch_size=128,
        learning_rate=2e-3,
        schedule="cosine",
        seed=seed,
        run=run,
    )


def out_sets(digits: data.Dataset, count: int) -> dict[str, Any]:
    """Images that are no digits, of the same shape."""
    in_dist = InData(digits.train, digits.test, 10)  # type: ignore[arg-type]
    found = ood_data(BLOCKS["MNIST"], in_dist, FULL, seed=0)
    drawn = {name: part for name, part in found.items() if not isinstance(part, Absent)}
    sets = {name: part[:count] for name, part in drawn.items() if not isinstance(part, tuple)}
    noises = {"noise": drawn["noise"][0], "uniform noise": uniform((1, 28, 28))}
    return sets | {name: noise.take(count) for name, noise in noises.items()}


def measured(guard: Guard, digits: data.Dataset, ood: dict[str, Any]) -> dict[str, Any]:
    """Promises against the test digits, and the share of other images that is refused."""
    x, y = digits.test  # type: ignore[misc]
    start = time.perf_counter()
    found = guard(x)
    seconds = time.perf_counter() - start
    summary = found.summary(y)
    result: dict[str, Any] = {
        "risk_guaranteed": guard.risk,
        "false_alarm_guaranteed": guard.false_alarm,
        "answered": summary["answer"],
        "unsure": summary["unsure"],
        "ood": summary["ood"],
        "errors": summary["errors"],
        "risk": summary["risk"],
        "false_alarm_p": _alarms_p(guard, found),
        "risk_p": _errors_p(guard, found, int(summary["errors"])),
        "set_coverage": summary["set_coverage"],
        "mean_set_size": summary["mean_set_size"],
        "microseconds_an_input": 1e6 * seconds / len(x),
        "refused": {},
    }
    for name, images in ood.items():
        shares = guard(images).summary()
        result["refused"][name] = {key: shares[key] for key in ("ood", "unsure", "answer")}
    return result


def _alarms_p(guard: Guard, found: Decisions) -> float:
    """How probable so many false alarms or more are, if the promise holds."""
    from scipy.stats import betabinom

    kept, over = coverage_law(len(guard.rules[0].scores), guard.false_alarm)
    alarms = int((found.decision == 2).sum())
    return float(betabinom.sf(alarms - 1, len(found), over, kept))


def _errors_p(guard: Guard, found: Decisions, errors: int) -> float:
    """How probable so many errors or more are at the risk that is promised."""
    from scipy.stats import binom

    return float(binom.sf(errors - 1, int(found.answered.sum()), guard.risk))


def shortfalls(result: dict[str, Any]) -> list[str]:
    """What is not reached, in words."""
    said = []
    if result["answered"] < ANSWERED[result["risk_guaranteed"]]:
        said.append(f"answers {result['answered']:.2%} of the test digits")
    guarantees = [key for key in ("false_alarm_p", "risk_p") if result[key] < SIGNIFICANT]
    said += [f"{key} is {result[key]:.2g}" for key in guarantees]
    for name, share in REFUSED.items():
        if name in result["refused"] and result["refused"][name]["ood"] < share:
            said.append(f"refuses {result['refused'][name]['ood']:.2%} of {name}")
    return said


def table(results: list[dict[str, Any]]) -> str:
    """A row a number, a column a wish."""
    head = ["", *(f"risk {r['risk_guaranteed']:g}" for r in results)]
    keys = {
        "answered": "{:.2%}",
        "unsure": "{:.2%}",
        "ood": "{:.2%}",
        "errors": "{}",
        "risk": "{:.3%}",
        "false_alarm_p": "{:.3g}",
        "risk_p": "{:.3g}",
        "set_coverage": "{:.2%}",
        "mean_set_size": "{:.3f}",
        "microseconds_an_input": "{:.0f}",
    }
    rows = [[name, *(form.format(r[name]) for r in results)] for name, form in keys.items()]
    for name in results[0]["refused"]:
        cells = [r["refused"][name] for r in results]
        rows.append([f"ood: {name}", *(f"{cell['ood']:.2%}" for cell in cells)])
        rows.append([f"answered: {name}", *(f"{cell['answer']:.2%}" for cell in cells)])
    lines = ["| " + " | ".join(row) + " |" for row in (head, ["---"] * len(head), *rows)]
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.guard", description=__doc__)
    parser.add_argument("--run", type=Path, help="folder of the network; trained if it is empty")
    parser.add_argument("--output", type=Path, help="file for the numbers as JSON")
    parser.add_argument("--seed", type=int, default=0, help="of the split of the calibration data")
    parser.add_argument("--network-seed", type=int, default=0, help="of the network")
    parser.add_argument("--count", type=int, default=10_000, help="images of each other set")
    options = parser.parse_args()
    digits = data.load("mnist", validation=HELD)
    with tempfile.TemporaryDirectory() as folder:
        model = trained(options.run or Path(folder), digits, seed=options.network_seed)
    ood = out_sets(digits, options.count)
    results = []
    for risk in RISKS:
        made = nescio.guard(
            model,
            digits.validation,
            train=digits.train,
            false_alarm=FALSE_ALARM,
            risk=risk,
            seed=options.seed,
        )
        print(made, flush=True)
        results.append(measured(made, digits, ood))
        results[-1]["shortfalls"] = shortfalls(results[-1])
    print(table(results))
    if options.output:
        options.output.write_text(json.dumps(results, indent=2) + "\n")
    for result in results:
        for line in result["shortfalls"]:
            print(f"risk {result['risk_guaranteed']:g}: {line}")


if __name__ == "__main__":
    main()
