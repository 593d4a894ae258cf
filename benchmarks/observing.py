"""60,000 images observed for all detectors, against one bare forward pass of the same network."""

from typing import TYPE_CHECKING, Any

from benchmarks.timing import Benchmark, Numbers, Side, cold_and_warm, seconds, use_threads

if TYPE_CHECKING:
    from torch import Tensor, nn

    from nescio import Activations
    from nescio.detectors import Detector

IMAGES, BATCH, CLASSES = 60_000, 256, 10

BENCHMARK = Benchmark(
    __name__,
    f"{IMAGES:,} images of 28x28, small_cnn, observed for all detectors",
    peers=(
        Side("one forward pass", "forward"),
        Side("one forward pass, freed memory kept", "forward_kept"),
    ),
    ours="observed",
    quick={"images": 4000},
    checks=("detectors_cost",),
    note="`observe` has the C library keep freed memory, which quickens any forward pass: the "
    "second pass has that too, and is the one to compare with. A detector reads what was observed, "
    "so all of them together cost the time above and the sum of their own arithmetic. The check "
    "scores all images by each detector, in seconds, after a fit on all: `sum` is of those that "
    "need no gradients, in which the network is not called (`calls` 0); ODIN, which does, is timed "
    "on 2,000 images and its time scaled.",
)
GRADIENTS, FEW = ("odin",), 2000


def observed(images: int = IMAGES) -> Numbers:
    import nescio

    net, x, y = _data(images)
    return cold_and_warm(lambda: nescio.observe(net, (x, y), batch_size=BATCH, progress=False))


def forward(images: int = IMAGES) -> Numbers:
    """The network alone; its answers are thrown away."""
    import torch

    net, x, _ = _data(images)

    def work() -> None:
        with torch.inference_mode():
            for batch in x.split(BATCH):
                net(batch)

    return cold_and_warm(work)


def forward_kept(images: int = IMAGES) -> Numbers:
    """The same, where memory is not fetched anew for each batch."""
    from nescio.core import keep_freed

    keep_freed()
    return forward(images)


def detectors_cost(images: int = IMAGES) -> Numbers:
    import nescio

    net, x, y = _data(images)
    seen = nescio.observe(net, (x, y), batch_size=BATCH, inputs=True, progress=False)
    made = _fitted(seen)
    calls: list[int] = []
    net.register_forward_hook(lambda *_: calls.append(1))
    free = {name: seconds(lambda: made[name](seen)) for name in made if name not in GRADIENTS}  # noqa: B023
    found = {**free, "sum": sum(free.values()), "calls": float(len(calls))}
    few = seen[:FEW]
    scale = images / len(few)
    return found | {name: scale * seconds(lambda: made[name](few)) for name in GRADIENTS}  # noqa: B023


def _fitted(seen: "Activations") -> "dict[str, Detector]":
    from nescio.evaluation.compare.subjects import candidates

    every: list[Any] = candidates(None, members=1, vectors=False)
    return {one.name: one.ready(seen) for one in every}


def _data(images: int) -> "tuple[nn.Module, Tensor, Tensor]":
    import torch

    from nescio import nets

    use_threads()
    torch.manual_seed(0)
    net = nets.small_cnn().eval()
    return net, torch.rand(images, 1, 28, 28), torch.arange(images) % CLASSES
