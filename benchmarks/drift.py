"""How soon the monitor sees a drift, beside crepes, and how often it is wrong without one.

`python -m benchmarks.drift` draws the same streams for both: 1,000 calibration scores and 1,000
scores of a stream from a standard normal distribution, then scores whose mean has moved. The delay
is the number of scores from the move to the alarm, at a bound of 1 %. False alarms are counted in
streams that do not change, with the default seed, ties included. A full run writes
docs/drift.json.
"""

import sys
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

import nescio
from benchmarks.recorded_rows import record

Floats = NDArray[np.float64]
Draw = Callable[[np.random.Generator, int], Floats]
CALIBRATION, BEFORE, AFTER = 1000, 1000, 3000
MOVES = (0.25, 0.5, 1.0)
LENGTHS = (1000, 5000, 20_000)
STREAMS: dict[str, Draw] = {
    "normal": lambda rng, n: rng.normal(size=n),
    "normal, one decimal": lambda rng, n: rng.normal(size=n).round(1),
    "Poisson, mean 2": lambda rng, n: rng.poisson(2.0, n).astype(np.float64),
    "0 or 1, half": lambda rng, n: rng.integers(2, size=n).astype(np.float64),
    "0 or 1, one in 10": lambda rng, n: (rng.random(n) < 0.1).astype(np.float64),
    "0 or 1, one in 100": lambda rng, n: (rng.random(n) < 0.01).astype(np.float64),
    "0 or 1, one in 1,000": lambda rng, n: (rng.random(n) < 0.001).astype(np.float64),
    "0 or 1, one in 5,000": lambda rng, n: (rng.random(n) < 0.0002).astype(np.float64),
    "constant": lambda _, n: np.ones(n),
}


def delays(runs: int) -> Iterator[dict[str, Any]]:
    """Medians of the delays after each move, of nescio and of crepes where it is installed."""
    others = _crepes()
    for move in MOVES:
        rng = np.random.default_rng(int(100 * move))
        found: dict[str, list[int]] = {name: [] for name in ("nescio", *others)}
        early = dict.fromkeys(found, 0)
        for run in range(runs):
            scores = rng.normal(size=CALIBRATION + BEFORE + AFTER)
            scores[CALIBRATION + BEFORE :] += move
            watch = nescio.monitor(scores[:CALIBRATION]).update(scores[CALIBRATION:])
            alarms = {"nescio": BEFORE + AFTER if watch.alarm is None else watch.alarm}
            alarms |= {name: other(scores, run) for name, other in others.items()}
            for name, alarm in alarms.items():
                early[name] += alarm < BEFORE
                if alarm >= BEFORE:
                    found[name].append(alarm - BEFORE + 1)
        for name, each in found.items():
            row = {"move": move, "monitor": name, "median_delay": float(np.median(each))}
            yield {**row, "runs": runs, "alarms_before_the_move": early[name]}


def _crepes() -> dict[str, Callable[[Floats, int], int]]:
    """Its martingales on its own p-values: the index of the alarm in the stream."""
    try:
        from crepes import martingales as peer
    except ImportError:
        print("crepes is not installed: nescio alone is measured", file=sys.stderr)
        return {}

    def alarm(parts: list[Any]) -> Callable[[Floats, int], int]:
        def of(scores: Floats, seed: int) -> int:
            p = peer.semi_online_p_values(scores[: CALIBRATION + BEFORE + 1500], seed=seed)
            return int(peer.CompositeMartingale(parts).apply(p[CALIBRATION:], c=100))

        return of

    two = [peer.SimpleJumper(), peer.SleeperStayer()]
    return {
        "crepes, jumper and stayer": alarm(two),
        "crepes, jumper, stayer and drifter": alarm([*two, peer.SleeperDrifter()]),
    }


def false_alarms(streams: int, calibration: int = CALIBRATION) -> Iterator[dict[str, Any]]:
    """The share of unchanged streams with an alarm up to each length, default seed."""
    for name, draw in STREAMS.items():
        rng = np.random.default_rng(0)
        watches = [
            nescio.monitor(draw(rng, calibration), false_alarm=0.05).update(draw(rng, LENGTHS[-1]))
            for _ in range(streams)
        ]
        first = np.array([np.inf if one.alarm is None else one.alarm for one in watches])
        row = {"scores": name, "calibration": calibration, "streams": streams}
        row |= {f"alarms_5_percent_{n}": float((first < n).mean()) for n in LENGTHS}
        p = np.array([one.p_value for one in watches])
        yield {**row, f"alarms_1_percent_{LENGTHS[-1]}": float((p <= 0.01).mean())}


def parts(quick: bool) -> dict[str, Iterator[dict[str, Any]]]:
    """All rows; quick: of few runs."""
    runs, streams = (10, 40) if quick else (100, 2000)
    return {"delays": delays(runs), "false_alarms": false_alarms(streams)}


if __name__ == "__main__":
    record("drift", __doc__, parts)
