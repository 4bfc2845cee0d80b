"""Japanese Vowels: a small real dataset that ships with stopwise."""

from __future__ import annotations

from importlib.resources import files

import numpy as np

from stopwise.datasets.labeled import LabeledSeries

CHANNELS = tuple(f"cepstrum{i}" for i in range(1, 13))
SCALE = 1e-6  # of the stored integers


def japanese_vowels() -> tuple[LabeledSeries, LabeledSeries]:
    """Load Japanese Vowels: which of nine speakers says two vowels?

    640 utterances of 7 to 29 steps. A sample has 12 channels: the cepstrum coefficients of a short piece of
    speech. The parts are the official ones: 30 utterances of each speaker for training, and 24 to 88 for the
    test. From the UCI Machine Learning Repository, licensed under CC BY 4.0. Cite Kudo, Toyama and Shimbo,
    Multidimensional curve classification using passing-through regions, Pattern Recognition Letters 20, 1999.

    Returns
    -------
    train, test
        Series `X`, a list of arrays (T_i, 12); labels `y`, the speakers "S1" to "S9"; and the names of the
        channels.

    Examples
    --------
    >>> import stopwise as sw
    >>> train, test = sw.datasets.japanese_vowels()
    >>> train
    LabeledSeries(270 series of 7 to 26 steps, 9 classes)
    >>> test
    LabeledSeries(370 series of 7 to 29 steps, 9 classes)
    >>> train.X[0].shape, str(train.y[0])
    ((20, 12), 'S1')
    """
    path = files("stopwise.datasets") / "shipped" / "japanese_vowels.npz"
    with path.open("rb") as file, np.load(file, allow_pickle=False) as stored:
        values = (stored["values"] * SCALE).astype(np.float32)  # (all steps, 12)
        lengths, first = stored["lengths"].astype(int), int(stored["train"])
        labels = np.array([f"S{speaker + 1}" for speaker in stored["speakers"]])
    series = np.split(values, lengths.cumsum()[:-1])
    parts = (slice(None, first), slice(first, None))
    train, test = (
        LabeledSeries(series[part], labels[part], lengths[part], channels=CHANNELS) for part in parts
    )
    return train, test
