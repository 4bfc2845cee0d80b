"""Draft of a prefix model: its random features, how channels are scaled, and the width of its kernels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import chain

import numpy as np

from stopwise.models.prefix import blocks, search
from stopwise.models.prefix.features import SCALE_ROWS, Features
from stopwise.models.prefix.search import SearchPoint
from stopwise.models.prefix.series import Series

WIDER = 4.0  # factor of the width that is tried: with many channels, all series are about equally far apart


@dataclass(frozen=True)
class Draft:
    """Features of a prefix model before the heads are fitted.

    Parameters
    ----------
    series
        Training series, with scaled channels.
    features
        Random features.
    factors
        Factors (G, 4) of the pools, by block; see `blocks.pool_scales`.
    steps
        (G,) steps of the heads.
    together
        Whether the sizes of the channels relative to each other count, in the kernels and in the statistics.
    widening
        Factor of the width of the Gaussian kernels.
    """

    series: Series
    features: Features
    factors: dict[str, np.ndarray]
    steps: np.ndarray
    together: bool
    widening: float = 1.0

    @classmethod
    def make(
        cls, series: Series, scale: np.ndarray, kernels: int, steps: np.ndarray, together: bool, seed: int
    ) -> Draft:
        """Draw features for series whose channels are multiplied by `scale` (C,) first."""
        rng, scaled = np.random.default_rng(seed), series.scaled(scale)
        features = Features.draw(scaled, scale, kernels, len(steps), rng)
        few = scaled.subset(scaled.sample(SCALE_ROWS, rng))
        return cls(scaled, features, blocks.pool_scales(features, few, steps), steps, together)

    def points(self, rows: np.ndarray, same_pools: Sequence[SearchPoint] | None = None) -> list[SearchPoint]:
        """Return what the search for weights needs, for a sample of the series; see `search_points`."""
        return search.search_points(
            self.features,
            self.factors,
            self.series.subset(rows),
            self.steps,
            together=self.together,
            widening=self.widening,
            same_pools=same_pools,
        )


def chosen_draft(
    series: Series,
    sizes: np.ndarray,
    kernels: int,
    steps: np.ndarray,
    samples: Sequence[np.ndarray],
    seed: int,
) -> tuple[Draft, list[SearchPoint]]:
    """Return features, and what the search needs for some samples of rows.

    Channels are scaled separately, and Gaussian kernels have their usual width. Channels scaled together
    replace them if that is clearly better on the first sample, wider kernels if they are on all samples.
    """
    scale = np.ones(len(sizes), np.float32)
    first = samples[0]
    draft = Draft.make(series, scale, kernels, steps, together=False, seed=seed)
    points = [draft.points(first)]
    if len(sizes) > 1:
        if np.ptp(sizes):
            variance = series.x[first].reshape(-1, len(sizes)).var(axis=0, dtype=np.float64)  # 0: constant
            scale = (sizes / max(np.sqrt((sizes**2 * variance).mean()), 1e-12)).astype(np.float32)
        together = Draft.make(series, scale, kernels, steps, together=True, seed=seed)
        tried = [together.points(first)]
        if search.clearly_better(tried, points, series.classes):
            draft, points = together, tried
    points += [draft.points(rows) for rows in samples[1:]]
    wider = replace(draft, widening=WIDER)
    tried = [wider.points(rows, same_pools=own) for rows, own in zip(samples, points)]
    if search.clearly_better(tried, points, series.classes):
        draft, points = wider, tried
    return draft, list(chain.from_iterable(points))
