"""Pictures of log-likelihood ratios (LLRs), of the speed-accuracy tradeoff, and of where rules stop.

Every function returns a matplotlib Figure and leaves pyplot's global state alone; `save` writes it.
"""

from stopwise.plots.boundaries import boundaries, stopping_lines
from stopwise.plots.conditions import error_conditions
from stopwise.plots.errors import llr_error_bars
from stopwise.plots.llr import llr_scatter, llr_trajectories
from stopwise.plots.promises import promises
from stopwise.plots.sat import sat_curves
from stopwise.plots.sat_bands import sat_bands
from stopwise.plots.style import save
from stopwise.plots.teaching import teaching

__all__ = [
    "boundaries",
    "error_conditions",
    "llr_error_bars",
    "llr_scatter",
    "llr_trajectories",
    "promises",
    "sat_bands",
    "sat_curves",
    "save",
    "stopping_lines",
    "teaching",
]
