"""What nescio adds to `import torch`."""

from importlib import import_module

from benchmarks.timing import Benchmark, Numbers, Side, seconds

BENCHMARK = Benchmark(
    __name__,
    "import torch and nescio",
    peers=(Side("import torch alone", "torch_alone"),),
    rounds=7,
)


def nescio_side() -> Numbers:
    return {"warm": seconds(lambda: [import_module("torch"), import_module("nescio")])}


def torch_alone() -> Numbers:
    return {"warm": seconds(lambda: import_module("torch"))}
