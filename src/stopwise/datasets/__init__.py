"""Synthetic and real datasets, and files of series.

- Synthetic series with exact log-likelihood ratios, against which estimates can be compared: `gaussian`,
  `GaussianSeries`, `autoregressive` and `hidden_markov`.
- Your own series: `read` and `write` for files, and `hold_out` for a validation part.
- A small real dataset that ships with stopwise: `japanese_vowels`.
- Real datasets with a train and test split: `load`, `fetch` and `CATALOG`.
- Videos that gradually reveal still images: `nosaic_mnist` and `NosaicSeries`.

All data are numpy arrays. Only `fetch` downloads anything. Files are never unpickled, so a data file cannot
run code.
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
from stopwise.datasets.vowels import japanese_vowels

#: Generators of synthetic series ("worlds") by name. Each takes the number of series `n`, its own parameters
#: and `seed`, and returns series, labels and exact scores.
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
    "japanese_vowels",
    "load",
    "nosaic_mnist",
    "read",
    "transition_matrices",
    "write",
]
