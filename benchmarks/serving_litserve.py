"""The peer of `benchmarks.serving`: LitServe with batching, in an environment of its own.

`python serving_litserve.py PORT WHAT GUARD FACTORY`, where WHAT is `network` (the bare network) or
`guard` (the same guard as nescio serves).
"""

import importlib
import sys
from collections.abc import Sequence
from typing import Any

import litserve
import torch
from torch import Tensor

NAMES = ("decision", "label", "probability", "p_value", "rule")


class Served(litserve.LitAPI):  # type: ignore[misc]
    """Rows of requests, joined to batches."""

    def setup(self, device: str) -> None:  # noqa: ARG002
        """Load the guard, and take its network if it is to be served alone."""
        import nescio

        torch.set_num_threads(1)
        _, _, what, guard, factory = sys.argv
        module, _, function = factory.partition(":")
        make = getattr(importlib.import_module(module), function)
        self.guard = nescio.load(guard, net=make)
        self.bare = what == "network"
        self.net = make().eval()

    def decode_request(self, request: dict[str, Any]) -> Tensor:
        """The row of a body."""
        return torch.tensor(request["x"][0])

    def batch(self, inputs: Sequence[Tensor]) -> Tensor:
        """Rows as one tensor."""
        return torch.stack(list(inputs))

    def predict(self, x: Tensor) -> list[dict[str, Any]]:
        """Labels and probabilities, or decisions."""
        if self.bare:
            with torch.inference_mode():
                top = self.net(x).softmax(-1).max(-1)
            pairs = zip(top.indices.tolist(), top.values.tolist(), strict=True)
            return [{"label": label, "probability": value} for label, value in pairs]
        columns = self.guard(x).columns()
        lists = [columns[name].tolist() for name in NAMES]
        return [dict(zip(NAMES, row, strict=True)) for row in zip(*lists, strict=True)]

    def unbatch(self, output: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """One answer per request."""
        return output

    def encode_response(self, output: dict[str, Any]) -> dict[str, Any]:
        """The answer as JSON."""
        return output


if __name__ == "__main__":
    api = Served(max_batch_size=64, batch_timeout=0.002)
    server = litserve.LitServer(api, accelerator="cpu", fast_queue=True)
    server.run(
        host="127.0.0.1", port=int(sys.argv[1]), generate_client_file=False, log_level="error"
    )
