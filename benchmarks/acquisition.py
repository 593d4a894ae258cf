"""A step of active learning: MC dropout on a pool, scores, and a batch of 10; beside baal.

`python -m benchmarks.acquisition [IMAGES] [PASSES] [ROUNDS]` measures in one run, in turns, on the
same pool, network and number of passes: "step", passes, BALD and the choice, by `choose` and by
baal's ModelWrapper and BALD; "bald" and "batchbald", the choice alone from the same probabilities.
BatchBALD is also compared with the package of its authors, batchbald-redux. Each number is the best
of the rounds; "cpu", seconds of the processor, is steadier than "clock" on a busy machine. What is
not installed is left out: pip install --no-deps baal batchbald-redux structlog torchmetrics
lightning-utilities h5py toma psutil.

"information" is what the labels of a batch tell about the member, in nats, from 20,000 drawn
configurations: how good the batches are that the three choose.
"""

import sys
import time
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from typing import Any

import torch
from torch import Tensor, nn

import nescio
from benchmarks.timing import use_threads
from nescio.applications import active_learning

IMAGES, PASSES, ROUNDS, SIZE, CLASSES = 1000, 100, 2, 10, 10
BAAL_DRAWS = 20  # of each member; baal's default, 500, takes 25 times as long
AUTHORS_DRAWS = 1000  # as ours; the paper has 10,000


def measured(images: int = IMAGES, passes: int = PASSES, rounds: int = ROUNDS) -> dict[str, Any]:
    """Seconds of each task and side, the sides in turns, and how many times as long baal takes."""
    use_threads()
    net, pool = _network(), torch.rand(images, 1, 28, 28, generator=_draws(1))
    sampled = nescio.models.mc_dropout(net, passes=passes)
    prediction = nescio.Categorical(sampled.outputs(pool))
    tasks: dict[str, dict[str, Callable[[], object]]] = {
        "step": {"nescio": lambda: active_learning.choose(sampled, pool, SIZE, "bald").index},
        "bald": {"nescio": lambda: _picked(prediction, "bald")},
        "batchbald": {"nescio": lambda: _picked(prediction, "batchbald")},
    }
    if find_spec("baal") is not None:
        _add_baal(tasks, net, pool, prediction, passes)
    if find_spec("batchbald_redux") is not None:
        tasks["batchbald"]["batchbald-redux"] = _by_authors(prediction)
    times = {task: _in_turns(sides, rounds) for task, sides in tasks.items()}
    return {
        "versions": {name: _version(name) for name in ("torch", "baal", "batchbald-redux")},
        "images": images,
        "passes": passes,
        "times": {task: sides for task, (sides, _) in times.items()},
        "slower": {task: _slower(sides) for task, (sides, _) in times.items()},
        "information": {
            side: round(_information(prediction, batch), 3)
            for side, batch in times["batchbald"][1].items()
        },
    }


def _in_turns(
    sides: dict[str, Callable[[], object]], rounds: int
) -> tuple[dict[str, dict[str, float]], dict[str, Any]]:
    best: dict[str, dict[str, float]] = {}
    found = {}
    sides["nescio"]()  # what is loaded when it is first called
    for _ in range(rounds):
        for name, run in sides.items():
            clock, cpu = time.perf_counter(), time.process_time()
            found[name] = run()
            now = {"clock": time.perf_counter() - clock, "cpu": time.process_time() - cpu}
            before = best.get(name, now)
            best[name] = {kind: round(min(now[kind], before[kind]), 4) for kind in now}
    return best, found


def _slower(sides: dict[str, dict[str, float]]) -> dict[str, dict[str, float]]:
    """The time of each peer as a multiple of ours."""
    ours = sides["nescio"]
    return {
        name: {kind: round(numbers[kind] / ours[kind], 1) for kind in numbers}
        for name, numbers in sides.items()
        if name != "nescio"
    }


def _picked(prediction: nescio.Categorical, acquisition: str) -> Tensor:
    again = nescio.Categorical(prediction.logits)  # nothing that was computed before
    return active_learning.pick(again, SIZE, acquisition).index


def _add_baal(
    tasks: dict[str, dict[str, Callable[[], object]]],
    net: nn.Module,
    pool: Tensor,
    prediction: nescio.Categorical,
    passes: int,
) -> None:
    from baal.active.heuristics import BALD, BatchBALD
    from baal.bayesian.dropout import patch_module
    from baal.modelwrapper import ModelWrapper, TrainingArgs

    arguments = TrainingArgs(batch_size=256, use_cuda=False, workers=0)
    model = ModelWrapper(patch_module(net, inplace=False), arguments)
    data = torch.utils.data.TensorDataset(pool, torch.zeros(len(pool)))
    probs = prediction.member_probs.permute(1, 2, 0).contiguous().numpy()  # (N, C, T)

    def step() -> Any:
        logits = model.predict_on_dataset(data, iterations=passes, verbose=False)
        return BALD()(logits)[:SIZE]

    tasks["step"]["baal"] = step
    tasks["bald"]["baal"] = lambda: BALD()(probs)[:SIZE]
    tasks["batchbald"]["baal"] = lambda: BatchBALD(SIZE, num_draw=BAAL_DRAWS)(probs)[:SIZE]


def _by_authors(prediction: nescio.Categorical) -> Callable[[], object]:
    from batchbald_redux.batchbald import get_batchbald_batch

    logs = prediction.member_log_probs.transpose(0, 1).contiguous()  # (N, T, C)
    return lambda: get_batchbald_batch(logs, SIZE, AUTHORS_DRAWS, dtype=torch.double).indices


def _information(prediction: nescio.Categorical, batch: Any) -> float:
    chosen = prediction[torch.as_tensor(list(batch))]
    return float(active_learning.pick(chosen, SIZE, "batchbald,samples=20000").score.sum())


def _network() -> nn.Module:
    """The network of Gal et al. (2017)."""
    torch.manual_seed(0)
    net = nn.Sequential(
        nn.Conv2d(1, 32, 4), nn.ReLU(), nn.Conv2d(32, 32, 4), nn.ReLU(), nn.MaxPool2d(2),
        nn.Dropout(0.25), nn.Flatten(), nn.Linear(32 * 11 * 11, 128), nn.ReLU(),
        nn.Dropout(0.5), nn.Linear(128, CLASSES),
    ).eval()  # fmt: skip
    with torch.no_grad():
        last = list(net.parameters())[-2]
        last.mul_(30)  # members that disagree about noise, as trained ones do
    return net


def _draws(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "not installed"


if __name__ == "__main__":
    for key, value in measured(*map(int, sys.argv[1:])).items():
        print(f"{key}: {value}")
