"""Uncertainty maps of 50 passes over 101 frames of 90 x 120 pixels and 11 classes.

`python -m benchmarks.uncertainty_maps` runs MC dropout over the frames twice in turns: the passes
alone, whose outputs are thrown away part by part, and the maps with all their statistics. It prints
the processor time of both, their ratio, and the largest memory of each, in separate processes.
All logits together would take 2.4 GB.
"""

import argparse
import resource
import subprocess
import sys
import time
from collections.abc import Callable

import torch

from nescio import nets
from nescio.models import MCDropout, mc_dropout, uncertainty_maps


def _predictor(passes: int) -> MCDropout:
    torch.manual_seed(0)
    return mc_dropout(nets.unet((3, 90, 120), 11, dropout=0.5), passes=passes)


def passes_alone(predictor: MCDropout, x: torch.Tensor) -> None:
    """All passes in the same parts, without what is computed from them."""
    for _ in predictor.streamed(x):
        pass


def maps(predictor: MCDropout, x: torch.Tensor) -> None:
    """The maps of all frames."""
    uncertainty_maps(predictor, x)


SIDES: dict[str, Callable[[MCDropout, torch.Tensor], None]] = {
    "passes_alone": passes_alone,
    "maps": maps,
}


def _measured(side: str, frames: int, passes: int) -> tuple[float, float]:
    """Processor seconds and the largest memory in megabytes, in a separate process."""
    own = ["--side", side, "--frames", str(frames), "--passes", str(passes)]
    command = [sys.executable, "-m", "benchmarks.uncertainty_maps", *own]
    found = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()
    return float(found[0]), float(found[1])


def _run(side: str, frames: int, passes: int) -> None:
    x = torch.randint(256, (frames, 3, 90, 120), dtype=torch.uint8)
    predictor, start = _predictor(passes), time.process_time()
    SIDES[side](predictor, x)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(time.process_time() - start, peak)


def main() -> None:
    """Both sides in turns; the shortest time of each counts."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--frames", type=int, default=101)
    parser.add_argument("--passes", type=int, default=50)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--side", choices=SIDES)
    options = parser.parse_args()
    if options.side:
        _run(options.side, options.frames, options.passes)
        return
    found: dict[str, list[tuple[float, float]]] = {side: [] for side in SIDES}
    for _ in range(options.rounds):
        for side, results in found.items():
            results.append(_measured(side, options.frames, options.passes))
    best = {side: min(seconds for seconds, _ in results) for side, results in found.items()}
    for side, results in found.items():
        peak = max(megabytes for _, megabytes in results)
        print(f"{side:14} {best[side]:8.1f} s   {peak:6.0f} MB at most, with torch itself")
    print(f"maps take {best['maps'] / best['passes_alone']:.3f} times the passes")


if __name__ == "__main__":
    main()
