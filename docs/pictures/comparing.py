"""The mean confidence of three networks on digits and on OOD data, with bootstrap intervals."""

from matplotlib.figure import Figure

import nescio
from nescio import AdversarialNoise
from nescio.data.ood import paper_noise, permuted

COLORS = {"plain": "#a50026", "CEDA": "#e08214", "ACET": "#31688e"}


def draw() -> Figure:
    digits = nescio.data.digits()
    x = digits.train[0]
    recipes = {"CEDA": nescio.recipes.ceda(), "ACET": nescio.recipes.acet(radius=0.3)}
    kinds = {"plain": None} | {name: one.loss_for(x) for name, one in recipes.items()}
    trained = {
        name: nescio.train(
            lambda: nescio.nets.mlp((1, 8, 8), 10),
            digits.train,
            epochs=40,
            progress=False,
            **({} if loss is None else {"loss": loss}),
        )
        for name, loss in kinds.items()
    }
    noise = paper_noise(x, seed=1)
    ood = {
        "smoothed noise": (noise, 300),
        "permuted pixels": (permuted(x), 300),
        "negatives": 1 - digits.test[0][:300],
        "adversarial noise": AdversarialNoise(noise, 100, steps=40),
    }
    table = nescio.compare(trained, digits.test, ood, task="confidence")
    figure = Figure(figsize=(7, 3), layout="constrained")
    axes = figure.subplots()
    names = ["test", *ood]
    for row, data in enumerate(names):
        for offset, (name, color) in enumerate(COLORS.items()):
            one = table.row(name, data, "mean_max_confidence")
            y = row + 0.22 * (offset - 1)
            axes.plot([100 * one.low, 100 * one.high], [y, y], color=color, lw=2)
            axes.plot(100 * one.value, y, "os^"[offset : offset + 1], color=color, ms=6)
            if not row:
                axes.text(45, 1.5 + 0.5 * offset, name, color=color, weight="bold")
    axes.set(yticks=range(len(names)), yticklabels=["test digits", *ood], xlim=(0, 102))
    axes.set(ylim=(len(names) - 0.4, -0.6), xlabel="mean confidence, %")
    axes.axvline(10, color="#999999", lw=1, ls=":")
    axes.text(11, 0.1, "10 %: knows nothing", color="#666666", fontsize=9)
    axes.spines[["top", "right"]].set_visible(False)
    return figure
