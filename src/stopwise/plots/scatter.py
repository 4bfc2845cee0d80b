"""Plot of estimated against true log-likelihood ratios (LLRs)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure

from stopwise.metrics import llr_error
from stopwise.plots.estimates import check_estimates
from stopwise.plots.style import COLORS, DASHES, TRUTH_COLOR, drawing
from stopwise.validation import check_integer, inside

DENSITY_COLORMAP = LinearSegmentedColormap.from_list("density", ["#A6CEE6", COLORS[0], "#00304D"])


def llr_scatter(
    estimates: Mapping[str, Any],
    truth: Any,
    *,
    points: int = 20_000,
    seed: int = 0,
    title: str | None = None,
    ax: Axes | Sequence[Axes] | None = None,
) -> Figure:
    """Plot estimated against true LLRs, with one panel per model.

    Exact estimates lie on the diagonal. The slope in each panel is the regression slope over all pairs of
    classes, steps and series. It is close to 0 if the estimates saturate.

    Parameters
    ----------
    estimates
        Scores (n, T, K) by model name; NaN after the end of a series.
    truth
        (n, T, K) exact scores.
    points
        Maximum number of LLRs to show, a random sample of all LLRs.
    seed
        Seed of the random sample.
    title
        Title of the figure, or of `ax` if that is a single one.
    ax
        Matplotlib `Axes` to draw on, one per model. If None, a new figure is created.

    Returns
    -------
    figure
        The matplotlib `Figure`: a new one, or that of `ax`.

    Examples
    --------
    >>> from stopwise.plots import llr_scatter
    >>> from stopwise.datasets import gaussian
    >>> X, y, truth = gaussian(n=50, seed=0)
    >>> figure = llr_scatter({"half": 0.5 * truth}, truth)
    >>> [text.get_text() for text in figure.axes[0].texts]
    ['slope 0.50', 'exact']
    """
    scores, exact = check_estimates(estimates, truth)
    if exact is None:
        raise ValueError(
            "`truth` must be the exact scores (n, T, K); got None. If they are unknown, use llr_trajectories."
        )
    rng = np.random.default_rng(check_integer("seed", seed, 0))
    lengths = np.isfinite(exact[:, :, 0]).sum(axis=1)
    own_steps = inside(lengths, exact.shape[1])  # (n, T)
    for name, array in {**scores, "truth": exact}.items():
        if np.isnan(array[own_steps]).any():
            raise ValueError(
                f"the scores of {name!r} must be finite where `truth` is finite; got NaN before the end of a "
                "series. Use scores of the same series."
            )
    rows = np.argwhere(own_steps)  # (m, 2) series and step
    first, second = np.triu_indices(exact.shape[2], k=1)
    total = len(rows) * len(first)
    sample = rng.choice(total, min(check_integer("points", points, 1), total), replace=False)
    (i, t), pairs = rows[sample // len(first)].T, sample % len(first)

    def ratios(values: np.ndarray) -> np.ndarray:
        return values[i, t, second[pairs]] - values[i, t, first[pairs]]

    true = ratios(exact)
    drawn = {name: ratios(estimate) for name, estimate in scores.items()}
    reach = 1.05 * max(max(np.abs(values).max() for values in (true, *drawn.values())), 1e-12)
    extent = (-reach, reach, -reach, reach)
    canvas = drawing(ax, len(scores), width=3.1, height=3.95, sharey=True)
    for panel, (name, estimate) in zip(canvas.panels, drawn.items()):
        panel.hexbin(
            true,
            estimate,
            gridsize=50,
            extent=extent,
            mincnt=1,
            bins="log",
            cmap=DENSITY_COLORMAP,
            linewidths=0.1,
        )
        panel.plot([-reach, reach], [-reach, reach], color=TRUTH_COLOR, ls=DASHES, lw=1)
        slope = llr_error(scores[name], exact, lengths).slope
        panel.text(0.05, 0.94, f"slope {slope:.2f}", transform=panel.transAxes, va="top", weight="bold")
        panel.set(title=name, xlabel="true LLR (nats)", xlim=extent[:2], ylim=extent[2:], box_aspect=1)
    first_panel = canvas.panels[0]
    first_panel.set_ylabel("estimated LLR (nats)")
    first_panel.annotate("exact", (-0.6 * reach, -0.6 * reach), (5, -3), textcoords="offset points", va="top")
    return canvas.finish(title, [])
