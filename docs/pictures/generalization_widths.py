"""Double descent: at a training error of 0, the test error is large or small, by the width."""

import torch
from matplotlib.figure import Figure

import nescio
from nescio import metrics

WIDTHS = (
    10,
    20,
    40,
    70,
    100,
    130,
    150,
    170,
    180,
    190,
    200,
    210,
    220,
    240,
    280,
    350,
    500,
    1000,
    3000,
)
SAMPLES, SEEDS = 200, 5


def draw() -> Figure:
    """Errors of a layer fitted to random ReLU features of 200 digits."""
    digits = nescio.data.digits()
    test = digits.test[0].flatten(1).double(), digits.test[1]
    found = torch.tensor([[errors(digits.train, test, w, s) for s in range(SEEDS)] for w in WIDTHS])
    train, new, gap = found.mean(1).T
    figure = Figure(figsize=(7, 3.2), layout="constrained")
    panel = figure.subplots()
    panel.axvline(SAMPLES, color="0.8", linewidth=6)
    panel.text(SAMPLES * 1.1, 0.86, "as many features as samples", fontsize=9, color="0.35")
    panel.plot(WIDTHS, new, "o-", markersize=3, color="#b5371f")
    panel.plot(WIDTHS, train, "o-", markersize=3, color="#1f5f99")
    panel.plot(WIDTHS, gap, "o--", markersize=3, color="#c98a1b")
    panel.text(3200, new[-1], "test error", color="#b5371f", va="center")
    panel.text(3200, train[-1], "training error", color="#1f5f99", va="center")
    panel.text(3200, gap[-1], "ECE", color="#c98a1b", va="center")
    panel.set(xscale="log", xlabel="random features", xlim=(9, 12000), ylim=(-0.03, 0.95))
    return figure


def errors(
    train: tuple[torch.Tensor, torch.Tensor],
    test: tuple[torch.Tensor, torch.Tensor],
    width: int,
    seed: int,
) -> tuple[float, float, float]:
    """Training error, test error and ECE of the least-norm fit to one-hot labels."""
    draws = torch.Generator().manual_seed(seed)
    rows = torch.randperm(len(train[0]), generator=draws)[:SAMPLES]
    x, y = train[0][rows].flatten(1).double(), train[1][rows]
    first = torch.randn(x.shape[1] + 1, width, generator=draws).double() / 8
    hidden = [
        torch.relu(torch.cat([part, part.new_ones(len(part), 1)], 1) @ first)
        for part in (x, test[0])
    ]
    last = torch.linalg.pinv(hidden[0]) @ torch.nn.functional.one_hot(y, 10).double()
    outputs = [part @ last for part in hidden]
    wrong = [
        float((out.argmax(1) != labels).double().mean())
        for out, labels in zip(outputs, (y, test[1]), strict=True)
    ]
    confidence = outputs[1].clamp(0, 1).amax(1)
    gap = metrics.ece(confidence.numpy(), (outputs[1].argmax(1) == test[1]).numpy())
    return (*wrong, float(gap))
