"""Plots of log-likelihood ratios (LLRs), speed-accuracy tradeoffs, stopping rules, costs and ranks.

Every plot function returns a matplotlib `Figure`, which a notebook displays, and does not change the global
state of pyplot. With `ax`, it draws on the axes of a figure of your own and returns that figure; pyplot shows
that one at the end of a cell, so end the line with a semicolon to see it once. `save` writes a figure to
files.
"""

from stopwise.plots.conditions import llr_errors_by_condition
from stopwise.plots.cost_scatter import cost_scatter
from stopwise.plots.critical_difference import critical_difference
from stopwise.plots.decision import decision
from stopwise.plots.drift import llr_drift
from stopwise.plots.errors import llr_error_bars
from stopwise.plots.guarantees import guarantees
from stopwise.plots.loss_slope import loss_slope
from stopwise.plots.sat import sat_curves
from stopwise.plots.sat_bands import sat_bands
from stopwise.plots.scatter import llr_scatter
from stopwise.plots.stopping_boundaries import stopping_boundaries, stopping_thresholds
from stopwise.plots.style import save
from stopwise.plots.trajectories import llr_trajectories
from stopwise.plots.video import DecisionVideo, decision_video

__all__ = [
    "DecisionVideo",
    "cost_scatter",
    "critical_difference",
    "decision",
    "decision_video",
    "guarantees",
    "llr_drift",
    "llr_error_bars",
    "llr_errors_by_condition",
    "llr_scatter",
    "llr_trajectories",
    "loss_slope",
    "sat_bands",
    "sat_curves",
    "save",
    "stopping_boundaries",
    "stopping_thresholds",
]
