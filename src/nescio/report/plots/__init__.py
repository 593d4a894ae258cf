"""Pictures."""

from nescio.report.plots.contact_sheet import contact_sheet as contact_sheet
