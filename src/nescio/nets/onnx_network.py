"""An ONNX file as a network: what it answers and its features, without gradients or layers."""

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from nescio.core import NescioError, unknown
from nescio.nets.recorded_columns import as_logits

Array = NDArray[Any]
FEATURES = "features"
PASSING = (
    "Identity",
    "Flatten",
    "Reshape",
    "Squeeze",
    "LogSoftmax",
    "Cast",
    "Dropout",
)  # on the way
LINEAR = ("Gemm", "MatMul")
SOFTMAX = ("Softmax", "Sigmoid")
NUMBERS = {"tensor(float)": "float32", "tensor(double)": "float64", "tensor(float16)": "float16"}
NUMBERS |= {"tensor(int64)": "int64", "tensor(int32)": "int32"}


def onnx_network(
    path: str | Path,
    *,
    output: str | None = None,
    features: str | None = None,
    probabilities: bool = False,
) -> "OnnxNetwork":
    """The network of an .onnx file, run by onnxruntime; needs `pip install nescio[onnx]`.

    It answers, guards, scores and monitors as any other; it has no gradients, so there are no
    attacks, and no layers, so there is no geometry.

    path: the .onnx file.
    output: name of the output with the logits; needed where there are several. A softmax or sigmoid
      that it ends in is left out.
    features: name of an output, or of any tensor in the graph, that detectors read; None: what
      enters the last linear layer, or where that is not found, the logits.
    probabilities: whether the output holds these, where no softmax is seen that makes them, as of
      trees.
    """
    onnx, runtime = _packages()
    if not Path(path).is_file():
        raise NescioError(f"there is no file {path}; expected an .onnx file")
    try:
        model = onnx.load(str(path))
        whole = model.SerializeToString(deterministic=True)
    except Exception as error:  # of protobuf and of the system, of several kinds
        said = str(error).strip().split("\n")[0]
        raise NescioError(f"{path} is not an ONNX file, is cut off, or too large: {said}") from None
    chosen = _Chosen.of(model.graph, output, features, path)
    names = {one.name for one in model.graph.output}
    for name in dict.fromkeys((chosen.logits, chosen.features)):
        if name not in names:
            model.graph.output.append(onnx.ValueInfoProto(name=name))
    options = runtime.SessionOptions()
    options.intra_op_num_threads = torch.get_num_threads()
    options.log_severity_level = 3
    try:
        session = runtime.InferenceSession(
            model.SerializeToString(), options, providers=["CPUExecutionProvider"]
        )
    except Exception as error:
        said = str(error).strip().split("\n")[0]
        raise NescioError(f"onnxruntime cannot run {path}: {said}") from None
    made = OnnxSession(
        name=Path(path).name,
        logits=chosen.logits,
        features=chosen.features,
        probabilities=probabilities,
        session=session,
    )
    content = hashlib.sha256(whole + repr(made.said).encode()).digest()
    return OnnxNetwork(made, torch.tensor(list(content), dtype=torch.uint8))


@dataclass(frozen=True, eq=False, kw_only=True)
class OnnxSession:
    """A loaded file, which copies of the network share: it may run in several threads at a time."""

    name: str  # of the file
    logits: str
    features: str
    probabilities: bool
    session: Any

    @property
    def said(self) -> tuple[Any, ...]:
        """What is read of the file."""
        return self.logits, self.features, self.probabilities

    def __deepcopy__(self, _: Any) -> "OnnxSession":
        return self

    def __reduce__(self) -> Any:
        raise NescioError(f"a network of an ONNX file is not pickled; read {self.name} again")

    def run(self, feed: Mapping[str, Array]) -> dict[str, Array]:
        """Logits and features, in parts where the file has a fixed number of samples."""
        wanted = list(dict.fromkeys((self.logits, self.features)))
        try:
            parts = [self.session.run(wanted, part) for part in self._parts(feed)]
        except Exception as error:  # of onnxruntime, of several kinds
            raise NescioError(f"{self.name}: {str(error).strip().splitlines()[0]}") from None
        count = len(next(iter(feed.values())))
        columns = zip(*parts, strict=True)
        return {n: np.concatenate(c)[:count] for n, c in zip(wanted, columns, strict=True)}

    def _parts(self, feed: Mapping[str, Array]) -> Iterator[dict[str, Array]]:
        fixed = self.session.get_inputs()[0].shape[:1]
        size = fixed[0] if fixed and isinstance(fixed[0], int) else None
        count = len(next(iter(feed.values())))
        if size is None or size == count:
            yield dict(feed)
            return
        for start in range(0, count, size):
            part = {name: array[start : start + size] for name, array in feed.items()}
            short = size - len(next(iter(part.values())))
            yield {n: np.concatenate([a, a[-1:].repeat(short, 0)]) for n, a in part.items()}

    def feed(self, args: tuple[Tensor, ...], named: Mapping[str, Tensor]) -> dict[str, Array]:
        """Inputs by the names and in the number types of the file."""
        wanted = {one.name: one.type for one in self.session.get_inputs()}
        given = {**dict(zip(wanted, args, strict=False)), **named}
        if set(given) != set(wanted) or len(args) > len(wanted):
            raise NescioError(
                f"{self.name} reads {len(wanted)} input(s), {', '.join(wanted)}; got "
                f"{len(args) + len(named)}: {', '.join(named) or 'by position'}"
            )
        return {name: _numbers(name, given[name], kind) for name, kind in wanted.items()}


class OnnxNetwork(nn.Module):
    """A network that onnxruntime runs; made by `onnx_network`.

    session: the session that runs it, and what is read in it.
    digest: digest of the file and of what is read in it, `(32,)` of uint8.
    """

    latent_layer = FEATURES
    digest: Tensor

    def __init__(self, session: OnnxSession, digest: Tensor) -> None:
        super().__init__()
        self.register_buffer("digest", digest)
        self.session = session
        self.features = nn.Identity()

    def extra_repr(self) -> str:
        """The file, and what is read in it."""
        own = self.session
        return f"{own.name}, logits={own.logits!r}, features={own.features!r}"

    def forward(self, *args: Tensor, **named: Tensor) -> Tensor:
        """Logits `(N, C)`."""
        given = (*args, *named.values())
        if any(type(x) is not Tensor for x in given):
            raise NescioError("an ONNX file has no layers that could be followed exactly")
        if torch.is_grad_enabled() and any(x.requires_grad for x in given):
            raise NescioError("an ONNX file has no gradients, so that it cannot be attacked")
        found = self.session.run(self.session.feed(args, named))
        tensors = {name: torch.from_numpy(array).float() for name, array in found.items()}
        self.features(tensors[self.session.features])
        logits = tensors[self.session.logits]
        return as_logits(logits) if self.session.probabilities else logits


@dataclass(frozen=True)
class _Chosen:
    """The tensors of a graph that are read."""

    logits: str
    features: str

    @classmethod
    def of(cls, graph: Any, output: str | None, features: str | None, path: Any) -> "_Chosen":
        makers = {name: node for node in graph.node for name in node.output}
        outputs = [one.name for one in graph.output]
        if output is None and len(outputs) > 1:
            raise NescioError(
                f"{path} has several outputs, {', '.join(outputs)}; say which holds the logits: "
                f"output={outputs[-1]!r}, on the command line {path}:output={outputs[-1]}"
            )
        logits = output or outputs[0]
        if logits not in makers:
            raise NescioError(unknown(f"output of {path}", logits, outputs))
        if makers[logits].op_type in SOFTMAX:
            logits = makers[logits].input[0]
        if features is not None and features not in makers:
            raise NescioError(unknown(f"tensor in {path}", features, list(makers)))
        return cls(logits, features or _entering(logits, makers) or logits)


def _entering(logits: str, makers: Mapping[str, Any]) -> str | None:
    """What enters the last linear layer; None: the answers come from something else."""
    node = makers.get(logits)
    while node is not None and node.op_type in (*PASSING, "Add"):
        inner = [makers[name] for name in node.input if name in makers]
        linear = [one for one in inner if one.op_type in LINEAR]
        node = linear[0] if linear else inner[0] if node.op_type != "Add" and inner else None
    if node is None or node.op_type not in LINEAR or node.input[0] not in makers:
        return None  # a linear layer of the inputs themselves has no features
    return str(node.input[0])


def _numbers(name: str, x: Tensor, kind: str) -> Array:
    if kind not in NUMBERS:
        raise NescioError(
            f"the input {name!r} is a {kind}, which nescio does not give; it gives "
            f"{', '.join(NUMBERS)}"
        )
    return x.detach().cpu().numpy().astype(NUMBERS[kind], copy=False)


def _packages() -> tuple[Any, Any]:
    """The packages that read and run the file, or an error that says how to get them."""
    try:
        import onnx
        import onnxruntime
    except ImportError as error:
        raise NescioError(
            "ONNX files need onnx and onnxruntime: pip install nescio[onnx]; or give arrays of "
            "what the network answers: nescio.recorded, --logits"
        ) from error
    return onnx, onnxruntime
