"""Half-moons turned by 180 degrees look the same to a monitor, while every answer becomes wrong."""

import torch
from matplotlib.figure import Figure

import nescio
from nescio import detectors, nets

CHANGE = 1500


def draw() -> Figure:
    """The monitor's evidence and the error rate, for inputs that are moved and that are turned."""
    moons = nescio.data.half_moons(train=500, validation=1500, test=3000, noise=0.15)
    model = nescio.train(
        lambda: nets.mlp(2, 2, widths=(30, 30)), moons.train, epochs=60, learning_rate=0.01
    )
    train = nescio.observe(model, moons.train, progress=False)
    score = nescio.scorer(model, detectors.knn(train, k=1))
    x, y = moons.test
    middle = torch.tensor([0.5, 0.25])  # of both moons
    changed = {"moved by 0.3": x + 0.3, "turned by 180°": 2 * middle - x}
    fig = Figure(figsize=(7, 3.5), layout="constrained")
    top, bottom = fig.subplots(2, 1, sharex=True)
    for (name, after), color in zip(changed.items(), ("darkorange", "tab:blue"), strict=True):
        stream = torch.cat([x[:CHANGE], after[CHANGE:]])
        watch, logs = nescio.monitor(score(moons.validation[0])), []
        for part in score(stream).split(20):
            watch = watch.update(part)
            logs.append(watch.log_martingale / 2.3026)
        index = 20 * torch.arange(1, len(logs) + 1)
        top.plot(index, torch.tensor(logs).clamp(max=12), color=color, lw=2)
        wrong = (model(stream).labels != y).float().split(100)
        error = [part.mean().item() for part in wrong]
        bottom.plot(100 * torch.arange(1, len(error) + 1), error, color=color, lw=2)
        said = "no alarm" if watch.alarm is None else f"alarm after {watch.alarm - CHANGE}"
        top.text(3040, min(logs[-1], 11), f"{name}:\n{said}", color=color, va="center", fontsize=9)
        bottom.text(3040, error[-1], name, color=color, va="center", fontsize=9)
    for axes in (top, bottom):
        axes.axvline(CHANGE, color="0.5", ls=":")
    top.axhline(2, color="black", lw=0.8)
    top.text(20, 2.4, "alarm (at most 1 % false, ever)", fontsize=9)
    top.set(ylabel="log10 of the\nevidence", ylim=(-2, 13))
    bottom.set(
        ylabel="error rate", ylim=(-0.05, 1.05), xlim=(0, 3900), xlabel="index in the stream"
    )
    bottom.text(CHANGE - 30, 0.5, "change", ha="right", color="0.4", fontsize=9)
    bottom.set_xticks(range(0, 3001, 500))
    return fig
