"""Series to learn from and to measure against.

Worlds whose log-likelihood ratios are known exactly (`gaussian`, `GaussianSeries`, `autoregressive`), so
that estimates can be held against the truth; series of one's own from files (`read`, `write`); and real data
sets with their official split (`load`). Everything here is numpy; nothing is ever downloaded or unpickled.
"""

from stopwise.datasets.autoregressive import autoregressive, transition_matrices
from stopwise.datasets.files import read, write
from stopwise.datasets.gaussian import GaussianSeries, gaussian
from stopwise.datasets.labelled import LabelledSeries
from stopwise.datasets.registry import Split, load

__all__ = [
    "GaussianSeries",
    "LabelledSeries",
    "Split",
    "autoregressive",
    "gaussian",
    "load",
    "read",
    "transition_matrices",
    "write",
]
