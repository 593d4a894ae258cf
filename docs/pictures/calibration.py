"""A network that knows 150 noisy samples by heart is overconfident; one temperature mends it."""

from matplotlib.figure import Figure

import nescio
from nescio import calibration, metrics, nets
from nescio.core.running import one_thread
from nescio.report.plots.reliability_plot import reliability_diagram


@one_thread()
def draw() -> Figure:
    """Accuracy against confidence, before and after temperature scaling."""
    moons = nescio.data.half_moons(train=150, validation=1000, test=2000, noise=0.4)
    model = nescio.train(
        lambda: nets.mlp(2, 2, widths=(100, 100)),
        moons.train,
        epochs=200,
        learning_rate=1e-2,
        progress=False,
    )
    cool = calibration.temperature(model, moons.validation)
    x, y = moons.test
    seen = {"before": model(x), f"after, temperature {cool.temperature:.1f}": cool(x)}
    return reliability_diagram(
        {
            name: metrics.reliability(answers.probs.amax(-1), answers.labels == y)
            for name, answers in seen.items()
        }
    )
