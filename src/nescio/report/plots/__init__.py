"""Pictures."""

from nescio.report.plots.contact_sheet import contact_sheet as contact_sheet
from nescio.report.plots.monitor_plot import martingale as martingale
from nescio.report.plots.risk_plot import risk_bounds as risk_bounds
from nescio.report.plots.value_plots import decisions_plot as decisions_plot
from nescio.report.plots.value_plots import history_plot as history_plot
from nescio.report.plots.value_plots import prediction_plot as prediction_plot
