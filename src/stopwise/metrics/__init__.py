"""Metrics of scores and of decisions.

`sat_curve` computes the exact speed-accuracy tradeoff of an `SPRT` with one common threshold, for all
thresholds at once. `ausat` returns the area under this curve. `llr_error` compares estimated log-likelihood
ratios with the true ones. `error_rates`, `earliness`, `harmonic_mean`, `average_cost` and `summarize`
evaluate the decisions of any rule.
"""

from stopwise.metrics.cost import average_cost, earliness, error_rates, harmonic_mean, summarize
from stopwise.metrics.curve import SATCurve, SATPoint, ausat
from stopwise.metrics.llr import LLRError, llr_error
from stopwise.metrics.sat import sat_curve

__all__ = [
    "LLRError",
    "SATCurve",
    "SATPoint",
    "ausat",
    "average_cost",
    "earliness",
    "error_rates",
    "harmonic_mean",
    "llr_error",
    "sat_curve",
    "summarize",
]
