"""Plot of the slope of the loss: steps with a large LLR contribute almost nothing to the gradient."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from stopwise.plots.style import COLORS, GRAY, drawing


def loss_slope(marks: Mapping[str, float], *, title: str | None = None, ax: Axes | None = None) -> Figure:
    """Plot the slope of the loss against the log-likelihood ratio (LLR), on a logarithmic axis.

    The absolute slope of `log(1 + exp(-λ))` is `1 / (1 + exp(λ))`. This is the contribution to the gradient
    of a step whose LLR is λ.

    Parameters
    ----------
    marks
        LLRs to mark, by label.
    title
        Title of the figure, or of `ax`.
    ax
        The matplotlib `Axes` to draw on. If None, a new figure is created.

    Returns
    -------
    figure
        The matplotlib `Figure`: a new one, or that of `ax`.

    Examples
    --------
    >>> from stopwise.plots import loss_slope
    >>> figure = loss_slope({"after 1 sample": 4.0, "after 10": 40.0})
    >>> figure.axes[0].get_yscale()
    'log'
    """
    canvas = drawing(ax, 1, width=6.2, height=3.2)
    (panel,) = canvas.panels
    llr = np.linspace(0, 1.25 * max(marks.values(), default=20.0), 400)
    panel.semilogy(llr, np.exp(-np.logaddexp(0, llr)), color=COLORS[0], lw=2.4)
    for name, value in marks.items():
        height = float(np.exp(-np.logaddexp(0, value)))
        panel.plot([value], [height], "o", color=COLORS[1], zorder=4)
        panel.annotate(
            f"{name}: {height:.0e}", (value, height), (8, 4), textcoords="offset points", fontsize=9
        )
    panel.axhline(2.0**-24, color=GRAY, ls=":", lw=1.2)
    panel.annotate(
        "rounding error of float32", (1, 2.0**-24), (-4, 3), xycoords=("axes fraction", "data"),
        textcoords="offset points", ha="right", fontsize=9, color="0.4",
    )  # fmt: skip
    panel.set_xlabel("LLR of the true class (nats)")
    panel.set_ylabel("slope of the loss")
    return canvas.finish(title, [])
