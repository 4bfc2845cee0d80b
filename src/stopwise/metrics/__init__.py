"""Metrics of scores and of decisions.

`sat_curve` computes the exact speed-accuracy tradeoff of the rule "stop when the best class leads by a" for
every threshold a at once, and `ausat` the area under this curve. `llr_error` compares estimated
log-likelihood ratios with the true ones. `error_rates`, `earliness`, `harmonic_mean`, `average_cost` and
`summarize` evaluate the decisions of any rule.
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
