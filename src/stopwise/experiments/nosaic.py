"""Nosaic MNIST for figure 4: features of every frame, from an encoder trained on single frames.

The encoder is trained on one half of the training images and the models on images of the other half, because
the features of frames that the encoder was trained on are overconfident.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np

from stopwise.atomic import atomic_write
from stopwise.datasets import NosaicSeries, Split, load
from stopwise.datasets.npz import read_npz
from stopwise.features import encode, fit_encoder

ENCODER_IMAGES = 30_000
SERIES = 6000
DIM = 32
EPOCHS = 8
HIDDEN = 255  # white: the value of hidden pixels
TRAIN_SEED, TEST_SEED = 0, 1


def features(progress: bool | str = "auto") -> Split:
    """Return the features (n, 20, DIM) of the series; the first call takes minutes, later ones use a cache.

    The cache is in the folder given by the environment variable STOPWISE_CACHE, or ``~/.cache/stopwise``.
    """
    place = os.environ.get("STOPWISE_CACHE")
    # The name contains the settings, so that features of other settings are not reused.
    name = f"nosaic_mnist-{ENCODER_IMAGES}-{EPOCHS}-{SERIES}-{DIM}.npz"
    path = (Path(place) if place else Path.home() / ".cache" / "stopwise") / name
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        arrays = _compute(progress)
        with atomic_write(path) as [temporary], temporary.open("wb") as file:
            np.savez(file, allow_pickle=False, **arrays)
    stored = read_npz(path, ["X_train", "y_train", "X_test", "y_test"])
    return Split(
        **stored, class_names=tuple("0123456789"), lengths_train=None, lengths_test=None, groups_train=None
    )


def _compute(progress: bool | str) -> dict[str, Any]:
    mnist = load("mnist")
    series = NosaicSeries(mnist.X_train, seed=TRAIN_SEED)
    encoder_rows = np.arange(ENCODER_IMAGES)
    encoder = fit_encoder(
        NosaicSeries(mnist.X_train[encoder_rows], seed=TRAIN_SEED),
        mnist.y_train[encoder_rows],
        dim=DIM,
        epochs=EPOCHS,
        hidden=HIDDEN,
        progress=progress,
    )
    rows = np.arange(ENCODER_IMAGES, ENCODER_IMAGES + SERIES)
    test = NosaicSeries(mnist.X_test, seed=TEST_SEED)
    return {
        "X_train": encode(encoder, series[rows], progress=progress),
        "y_train": mnist.y_train[rows],
        "X_test": encode(encoder, test, progress=progress),
        "y_test": mnist.y_test,
    }
