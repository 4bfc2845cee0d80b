"""Hyper-parameter search: the paper's space, judged by the validation speed-accuracy tradeoff.

`tune` searches, `space_for` is what it searches. Needs the extra `tune`.
"""

from stopwise.tuning.record import Trial, TuningResult
from stopwise.tuning.search import tune
from stopwise.tuning.spaces import space_for

__all__ = ["Trial", "TuningResult", "space_for", "tune"]
