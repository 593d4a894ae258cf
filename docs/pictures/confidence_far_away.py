"""The confidence of a network, and of three remedies, along rays away from the digits."""

from matplotlib.figure import Figure

from nescio.cli.demo import audit_digits
from nescio.core.running import one_thread
from nescio.report.plots import audit_plots


@one_thread()
def draw() -> Figure:
    """Confidence against the factor by which an input is scaled, as `nescio audit` draws it."""
    return audit_plots.confidence_along_ray(audit_digits(progress=False).findings)
