"""Serving one request at a time, the baseline of `benchmarks.serving`: FastAPI and a guard.

`GUARD=FILE NET=module:function uvicorn benchmarks.serving_plain:app`
"""

import os

import torch
from fastapi import FastAPI
from pydantic import BaseModel

import nescio
from nescio.cli.networks import factory_named

NAMES = ("decision", "label", "probability", "p_value", "rule")
app = FastAPI()
torch.set_num_threads(1)
guard = nescio.load(os.environ["GUARD"], net=factory_named(os.environ["NET"]))


class Rows(BaseModel):
    """The inputs of a request."""

    x: list[list[float]]


@app.post("/predict")
async def predict(rows: Rows) -> list[dict[str, str | float | int]]:
    """A decision for each row; the next request waits."""
    columns = guard(torch.tensor(rows.x)).columns()
    return [{name: columns[name][row].item() for name in NAMES} for row in range(len(rows.x))]
