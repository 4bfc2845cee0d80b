"""Synthetic and real datasets, and files of series.

Synthetic worlds with exactly known log-likelihood ratios, against which estimates can be compared
(`gaussian`, `GaussianSeries`, `autoregressive`, `hidden_markov`); your own series from and to files (`read`,
`write`); real datasets with their official split (`load`, `fetch`, `CATALOG`); and videos that gradually
reveal still images (`nosaic_mnist`, `NosaicSeries`). All data are numpy arrays. Only `fetch` downloads
anything, and files are never unpickled.
"""

from collections.abc import Callable

import numpy as np

from stopwise.data.holdout import hold_out
from stopwise.datasets.autoregressive import autoregressive, transition_matrices
from stopwise.datasets.catalog import CATALOG
from stopwise.datasets.fetching import DownloadError, fetch
from stopwise.datasets.files import read, write
from stopwise.datasets.gaussian import GaussianSeries, gaussian
from stopwise.datasets.hidden_markov import hidden_markov
from stopwise.datasets.labeled import LabeledSeries
from stopwise.datasets.nosaic import NosaicSeries, nosaic_mnist
from stopwise.datasets.registry import Split, load

# Synthetic worlds with exact scores, by name. Arguments: number of series, those of the world, and `seed`.
WORLDS: dict[str, Callable[..., tuple[np.ndarray, np.ndarray, np.ndarray]]] = {
    "gaussian": gaussian,
    "autoregressive": autoregressive,
    "hidden_markov": hidden_markov,
}

__all__ = [
    "CATALOG",
    "WORLDS",
    "DownloadError",
    "GaussianSeries",
    "LabeledSeries",
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
