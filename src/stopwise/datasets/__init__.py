"""Series to learn from and to measure against.

Worlds whose log-likelihood ratios are known exactly (`gaussian`, `GaussianSeries`, `autoregressive`,
`hidden_markov`), so that estimates can be held against the truth; series of one's own from files (`read`,
`write`); real data sets with their official split (`load`; `fetch` gets some of those in `CATALOGUE`); and
still images shown through noise that clears (`nosaic_mnist`, `NosaicSeries`). Everything here is numpy;
nothing is downloaded without being asked for, and nothing is ever unpickled.
"""

from collections.abc import Callable

import numpy as np

from stopwise.data.holdout import hold_out
from stopwise.datasets.autoregressive import autoregressive, transition_matrices
from stopwise.datasets.catalogue import CATALOGUE
from stopwise.datasets.fetching import DownloadError, fetch
from stopwise.datasets.files import read, write
from stopwise.datasets.gaussian import GaussianSeries, gaussian
from stopwise.datasets.hidden_markov import hidden_markov
from stopwise.datasets.labelled import LabelledSeries
from stopwise.datasets.nosaic import NosaicSeries, nosaic_mnist
from stopwise.datasets.registry import Split, load

# Worlds with exact scores, by name: each takes a number of series, its own arguments, and a seed.
WORLDS: dict[str, Callable[..., tuple[np.ndarray, np.ndarray, np.ndarray]]] = {
    "gaussian": gaussian,
    "autoregressive": autoregressive,
    "hidden_markov": hidden_markov,
}

__all__ = [
    "CATALOGUE",
    "WORLDS",
    "DownloadError",
    "GaussianSeries",
    "LabelledSeries",
    "NosaicSeries",
    "Split",
    "autoregressive",
    "fetch",
    "gaussian",
    "hidden_markov",
    "hold_out",
    "load",
    "nosaic_mnist",
    "read",
    "transition_matrices",
    "write",
]
