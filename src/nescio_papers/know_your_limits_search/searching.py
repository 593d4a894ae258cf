"""Random search in worker processes, with every finished trial on disk at once.

A finished trial is a line of `trials.jsonl`, appended and synced by the parent process alone. Kill
it at any moment: the same call goes on with the trials that are missing.
"""

import csv
import io
import json
import os
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from nescio.core import (
    Engine,
    LocalEngine,
    NescioError,
    digest,
    load_manifest,
    make_folder,
    owned_folder,
    save_manifest,
    write_atomically,
    write_json,
)
from nescio.core.running import progress
from nescio_papers.know_your_limits_search.trial import (
    RESULTS,
    Ranges,
    Record,
    Task,
    draw,
    evaluate,
)

CONFIG, LEDGER = "search.json", "trials.jsonl"
KIND = "search"


def random_search(
    model: str,
    folder: str | Path,
    *,
    trials: int = 200,
    workers: int = 2,
    seed: int = 0,
    epochs: int = 20,
    ranges: Ranges | None = None,
    show: bool | None = None,
    engine: Engine | None = None,
) -> list[Record]:
    """Evaluate the trials that `folder` lacks, write table.csv and table.json; the best is first.

    model: one of `trial.MODELS`, such as "plain", on half-moons, by validation NLL.
    engine: where trials run; None: in `workers` processes.
    """
    for name, value in {"trials": trials, "workers": workers, "epochs": epochs}.items():
        if value < 1:
            raise NescioError(f"{name} must be at least 1, got {value}")
    ranges = ranges or Ranges()
    drawn = draw(model, ranges, trials=trials, seed=seed)
    config = {"model": model, "seed": seed, "epochs": epochs, **asdict(ranges)}
    tasks = [
        Task(model=model, number=k, parameters=p, seed=seed, epochs=epochs)
        for k, p in enumerate(drawn)
    ]
    with owned_folder(folder):
        folder = _claim(Path(folder), config)
        best_first = _sorted(
            _completed(folder / LEDGER, tasks, engine or LocalEngine(workers), show)
        )
        write_json(folder / "table.json", {"search": config, "trials": best_first})
        write_atomically(folder / "table.csv", _csv(best_first))
    return best_first


def _completed(
    path: Path, tasks: Sequence[Task], engine: Engine, show: bool | None
) -> dict[int, Record]:
    """All trials by number, those that the ledger lacks evaluated and written to it."""
    done = _read(path)
    missing = [task for task in tasks if task.number not in done]
    with progress(len(tasks), f"search {tasks[0].model}", show=show) as advance:
        advance(len(tasks) - len(missing), lambda: _note(done))
        for record in engine.as_finished(evaluate, missing):
            _append(path, record)
            done[record["trial"]] = record
            advance(1, lambda: _note(done))
    return done


def _claim(folder: Path, config: dict[str, Any]) -> Path:
    """Mark a folder as this search's, or refuse one that holds something else."""
    path = make_folder(folder) / CONFIG
    if path.exists():
        theirs, mine = load_manifest(path, KIND), json.loads(json.dumps(config))
        differ = [f"{k}: {theirs.get(k)}, not {mine[k]}" for k in mine if theirs.get(k) != mine[k]]
        if differ:
            raise NescioError(
                f"{folder} holds another search ({'; '.join(differ)}); choose another folder"
            )
    elif any(not result.name.startswith(".") for result in folder.iterdir()):
        raise NescioError(f"{folder} holds other files; choose a new folder for the search")
    else:
        save_manifest(path, {"kind": KIND, **config})
    return folder


def _read(path: Path) -> dict[int, Record]:
    """Finished trials by number; a last line that a kill left half written is cut off."""
    if not path.exists():
        return {}
    content = path.read_bytes()
    end = content.rfind(b"\n") + 1
    if end < len(content):
        os.truncate(path, end)
    try:
        records = [json.loads(line) for line in content[:end].splitlines()]
        for number, record in enumerate(records):
            if record.pop("digest") != _digest(record):
                raise ValueError(f"line {number + 1} is not what was written")
        return {record["trial"]: record for record in records}
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise NescioError(f"{path} is damaged: {error}; choose another folder") from error


def _append(path: Path, record: Record) -> None:
    with path.open("a") as file:
        file.write(json.dumps({**record, "digest": _digest(record)}) + "\n")
        file.flush()
        os.fsync(file.fileno())


def _digest(record: Record) -> str:
    return digest(json.dumps(record, sort_keys=True))


def _sorted(done: dict[int, Record]) -> list[Record]:
    """Best first; trials that broke down last."""
    return sorted(done.values(), key=lambda r: (r["nll"] is None, r["nll"], r["trial"]))


def _note(done: dict[int, Record]) -> str:
    best = _sorted(done)[:1]
    return f"best NLL {best[0]['nll']:.4f}" if best and best[0]["nll"] is not None else ""


def report(records: Sequence[Record]) -> str:
    """The best few trials, for the terminal."""
    lines = [f"{len(records)} trials, the best:"]
    for record in records[:5]:
        given = ", ".join(f"{k} {_short(v)}" for k, v in record["parameters"].items())
        nll, accuracy = _short(record["nll"]), _short(record["accuracy"])
        lines.append(f"  NLL {nll}  accuracy {accuracy}  {given}")
    return "\n".join(lines)


def _short(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _csv(records: Sequence[Record]) -> str:
    """One row a trial, one column a parameter."""
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    names = [name for name in records[0]["parameters"] if name != "widths"]
    results = [*RESULTS, "seconds"]
    writer.writerow(["trial", "layers", "widths", *names, *results])
    for record in records:
        given = record["parameters"]
        widths = given["widths"]
        row = [record["trial"], len(widths), " ".join(map(str, widths))]
        writer.writerow([*row, *(given[n] for n in names), *(record[n] for n in results)])
    return file.getvalue()
