"""What makes a simulation the one it is, as JSON: a run is resumed only by the same one."""

from collections.abc import Mapping, Sequence
from functools import partial
from types import CodeType
from typing import Any

from torch import Tensor

from nescio.applications.active_learning.simulation import Simulation
from nescio.core import as_tensor, digest, seeded

LABELS = (10, 20, 50, 100, 200, 500, 1000, 5000)  # where a function of them is looked at


def settings_of(simulation: Simulation) -> dict[str, Any]:
    """All that the result depends on, but for where it ends."""
    with seeded(simulation.seed, "description"):
        net = str(simulation.make_net())
    epochs, acquisition = simulation.epochs, simulation.acquisition
    said = {
        "acquisition": getattr(acquisition, "__name__", str(acquisition)),
        "acquisition_code": None if isinstance(acquisition, str) else described(acquisition),
        "size": simulation.size,
        "start": digest(simulation.start),
        "validation": digest(simulation.validation),
        "seeds": list(simulation.seeds),
        "members": simulation.members,
        "passes": simulation.passes,
        "test_passes": simulation.test_passes,
        "candidates": simulation.candidates,
        "epochs": epochs if isinstance(epochs, int) else [int(epochs(n)) for n in LABELS],
        "seed": simulation.seed,
        "net": net,
        "pool": digest(*simulation.pool),
        "pool_size": len(simulation.pool[1]),
        "test": digest(*simulation.test),
    }
    if (left_out := len(simulation.pool[1]) - len(simulation.inside)) > 0:
        said |= {"inside": digest(simulation.inside), "left_out_as_ood": left_out}
    return said | {name: described(value) for name, value in simulation.options.items()}


def described(value: Any) -> Any:
    """A value of any kind as JSON that differs where it does; functions by what they are called."""
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(getattr(value, "description", None), str):
        return value.description
    if isinstance(value, Mapping):
        return {str(key): described(part) for key, part in value.items()}
    if isinstance(value, Tensor) or hasattr(value, "__array__"):
        return digest(as_tensor(value, "an option"))
    if isinstance(value, Sequence):
        return [described(part) for part in value]
    return _function(value)


def _function(value: Any) -> Any:
    """A function by its name and its code; of a partial one also what is filled in."""
    if isinstance(value, partial):
        return [described(part) for part in (value.func, value.args, value.keywords)]
    name, code = getattr(value, "__qualname__", type(value).__name__), _code(value)
    return name if code is None else f"{name} {digest(*code)}"


def _code(value: Any) -> list[str | bytes] | None:
    """The code of a function with all inside it, without where it is in memory."""
    code = value if isinstance(value, CodeType) else getattr(value, "__code__", None)
    if code is None:
        return None
    parts: list[str | bytes] = [code.co_code, repr(code.co_names)]
    for const in code.co_consts:
        parts += _code(const) or [repr(const)]
    for cell in getattr(value, "__closure__", None) or ():
        parts.append(str(described(cell.cell_contents)))
    return parts
