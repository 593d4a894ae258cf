"""On longer sequences than in training, a recurrent network is wrong and confident."""

import torch
from matplotlib.figure import Figure

import nescio
from nescio import models, nets

LENGTHS = (5, 10, 15, 20, 30, 40, 60, 80)


def draw() -> Figure:
    """Was the pulse in the first half? Trained on 5 to 20 steps, asked up to 80."""
    draws = torch.Generator().manual_seed(0)
    lengths = torch.randint(5, 21, (1500,), generator=draws)
    x, y = pulses(lengths, 20, draws)
    model = nescio.train(
        lambda: nets.gru((2, 20), 2, width=24, dropout=0.1, input_dropout=0.0),
        (x, y),
        epochs=40,
        learning_rate=0.01,
        seed=0,
    )
    found = []
    for length in LENGTHS:
        x, y = pulses(torch.full((1000,), length), length, draws)
        said = models.mc_dropout(model, passes=10)(x)
        right = (said.labels == y).float().mean()
        found.append((float(right), float(said.probs.amax(-1).mean())))
    accuracy, confidence = zip(*found, strict=True)
    figure = Figure(figsize=(7, 3.2), layout="constrained")
    panel = figure.subplots()
    panel.axvspan(5, 20, color="0.92")
    panel.text(10, 0.3, "lengths in training", ha="center", color="0.35", fontsize=9)
    panel.plot(LENGTHS, confidence, "o-", color="#b5371f")
    panel.plot(LENGTHS, accuracy, "o-", color="#1f5f99")
    panel.text(84, confidence[-1], "mean\nconfidence", color="#b5371f", va="center")
    panel.text(84, accuracy[-1], "accuracy", color="#1f5f99", va="center")
    panel.set(xscale="log", xlim=(4.5, 125), ylim=(0.25, 1.03), xlabel="length of the sequence")
    panel.set_xticks(LENGTHS, map(str, LENGTHS))
    panel.minorticks_off()
    return figure


def pulses(
    lengths: torch.Tensor, longest: int, draws: torch.Generator
) -> tuple[torch.Tensor, torch.Tensor]:
    """A pulse in noise and the channel that marks steps, `(N, 2, longest)`; was it early?"""
    marks = (torch.arange(longest) < lengths[:, None]).float()
    steps = 0.1 * torch.randn(len(lengths), longest, generator=draws)
    at = (torch.rand(len(lengths), generator=draws) * lengths).long()
    steps[torch.arange(len(lengths)), at] += 1.0
    return torch.stack([steps * marks, marks], 1), (at < lengths / 2).long()
