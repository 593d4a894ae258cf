"""What stability costs, in forward passes of the same network over the same digits.

`python -m benchmarks.stability` prints processor seconds, the best of some runs, for a network of
two hidden layers of 64 units and 200 digits of 8 x 8 pixels.
"""

import time
from collections.abc import Callable

import nescio
from nescio import evaluation, geometry, nets

SAMPLES, ROUNDS = 200, 5


def best(call: Callable[[], object]) -> float:
    """The shortest processor time of some calls."""
    found = []
    for _ in range(ROUNDS):
        started = time.process_time()
        call()
        found.append(time.process_time() - started)
    return min(found)


def main() -> None:
    """Print seconds and forward passes."""
    digits = nescio.data.digits()
    assert digits.test is not None
    model = nescio.train(lambda: nets.mlp((1, 8, 8), 10, widths=(64, 64)), digits.train, epochs=5)
    net, test = model.member(0), digits.test
    x, half = test[0][:SAMPLES], SAMPLES // 2
    sides: dict[str, Callable[[], object]] = {
        "forward pass": lambda: net(x),
        "local_lipschitz": lambda: geometry.local_lipschitz(net, x),
        "segment_lipschitz, 100 segments": lambda: geometry.segment_lipschitz(
            net, x[:half], x[half:]
        ),
        "product_bound": lambda: geometry.product_bound(net, x),
        "evaluation.stability": lambda: evaluation.stability(model, test),
    }
    took = {name: best(call) for name, call in sides.items()}
    for name, seconds in took.items():
        print(f"{name:34} {1000 * seconds:9.2f} ms {seconds / took['forward pass']:10.0f} passes")


if __name__ == "__main__":
    main()
