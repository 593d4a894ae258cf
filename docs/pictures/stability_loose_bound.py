"""The product bound holds at every depth, and says less with every layer."""

from matplotlib.figure import Figure

import nescio
from nescio import geometry, nets

DEPTHS = (1, 2, 3, 4, 6, 8)


def draw() -> Figure:
    """Bounds and exact constants of networks of growing depth, trained on the same digits."""
    digits = nescio.data.digits()
    x = digits.test[0][:100]
    found = []
    for depth in DEPTHS:
        model = nescio.train(
            lambda depth=depth: nets.mlp((1, 8, 8), 10, widths=(64,) * depth),
            digits.train,
            epochs=20,
            learning_rate=0.003,
            seed=0,
        )
        net = model.member(0)
        exact = geometry.segment_lipschitz(net, x[:50], x[50:]).largest.max()
        found.append((float(geometry.product_bound(net, x)), float(exact)))
    bound, exact = zip(*found, strict=True)
    figure = Figure(figsize=(7, 3.2), layout="constrained")
    panel = figure.subplots()
    panel.plot(DEPTHS, bound, "o-", color="#b5371f")
    panel.plot(DEPTHS, exact, "o-", color="#1f5f99")
    panel.text(8.15, bound[-1], "product bound", color="#b5371f", va="center")
    panel.text(8.15, exact[-1], "exact, largest on\n50 segments", color="#1f5f99", va="center")
    for depth, above, below in zip(DEPTHS, bound, exact, strict=True):
        panel.text(depth, above * 1.6, f"{above / below:.1f} times", ha="center", fontsize=9)
    panel.set(yscale="log", xlabel="hidden layers", ylabel="Lipschitz constant", xlim=(0.3, 10.2))
    panel.set_ylim(top=max(bound) * 4)
    panel.set_xticks(DEPTHS)
    return figure
