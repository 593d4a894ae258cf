"""How far from the digits each predictor becomes confident, and where its answers settle."""

from matplotlib.figure import Figure

from nescio.cli.demo import audit_digits
from nescio.core.running import one_thread
from nescio.report.plots import audit_plots


@one_thread()
def draw() -> Figure:
    """The distance of confidence, and the share of directions, as `nescio audit` draws them."""
    return audit_plots.far_field(audit_digits(progress=False).findings)
