"""Scores of many series, batch by batch."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch

from stopwise.data.examples import Reader
from stopwise.models.networks.modules import Integrator


def scored(
    net: Integrator, read: Reader, n: int, batch_size: int, device: str
) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """Yield rows (B,), scores (B, T, K) and lengths (B,) of n series, batch by batch.

    Parameters
    ----------
    net
        The trained network.
    read
        Gives the samples and lengths of rows, as the network takes them.
    n
        How many series there are.
    batch_size, device
        How many at a time, and where.

    Examples
    --------
    >>> from stopwise.models.networks.modules import build
    >>> net = build("accumulator", features=2, classes=3, order=0, longest=False)
    >>> read = lambda rows: (np.zeros((len(rows), 5, 2), np.float32), np.full(len(rows), 5))
    >>> [scores.shape for _, scores, _ in scored(net, read, 5, 2, "cpu")]
    [(2, 5, 3), (2, 5, 3), (1, 5, 3)]
    """
    for start in range(0, n, batch_size):
        rows = np.arange(start, min(start + batch_size, n))
        x, lengths = read(rows)
        with torch.inference_mode():
            scores = net(torch.from_numpy(x).to(device)).scores
        yield rows, scores.cpu().numpy(), lengths
