"""Plot of one decision: the series, the evidence for each class, and the moment of the decision."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patheffects import withStroke
from matplotlib.ticker import MaxNLocator

from stopwise.plots.story import Classifier, Story, tell
from stopwise.plots.style import COLORS, DASHES, Drawing, NotebookFigure, drawing, plain
from stopwise.validation import check_integer

OUTLINE = [withStroke(linewidth=3, foreground="white")]  # keeps names readable on lines
MOST_CHANNELS = 12
MOST_NAMED = 6  # channels whose names fit into the panel
MOST_UNEQUAL = 25  # the range of all channels over the smallest of one, from which they are scaled
RIVAL_COLOR, UNSEEN_COLOR, UNSEEN_BACKGROUND = "0.72", "0.83", "0.95"
RIGHT_COLOR, WRONG_COLOR = COLORS[0], COLORS[1]
# From dark to light; the shape of the series matters here, not which channel is which.
CHANNEL_COLORS = ("#003F5C", "#00728F", "#3D9A8B", "#8C8C8C", "#B58900", "#7A5195")


def decision(
    clf: Classifier,
    x: Any,
    label: Any = None,
    *,
    step: int | None = None,
    title: str | None = None,
    ax: Sequence[Axes] | None = None,
) -> Figure:
    """Plot one series, the evidence for each class over time, and the decision.

    The upper panel shows the samples; those after the decision are gray, because they were not needed. The
    lower panel shows by how much each class leads its best rival, and the lead that the stopping rule asks
    for. The decision falls where the leading class reaches it.

    Parameters
    ----------
    clf
        A fitted `EarlyClassifier`.
    x
        One series, (T, D) or (T,), or a `SeriesSet` that holds one. Of more than 12 channels, the first 12
        are shown. Channels of very different ranges are scaled to the same range.
    label
        The true label. None: it is not known.
    step
        Show what is known after this many samples. None: show all.
    title
        Title of the figure.
    ax
        Two matplotlib `Axes` to draw on, for the series and for the evidence. If None, a new figure is
        created.

    Returns
    -------
    figure
        The matplotlib `Figure`: a new one, or that of `ax`.

    Examples
    --------
    >>> import stopwise as sw
    >>> X, y, _ = sw.datasets.gaussian(n=100, offset=1.0, channels=3, length=10, seed=0)
    >>> clf = sw.EarlyClassifier(sw.models.Accumulator(order=0)).fit(X, y)
    >>> figure = sw.plots.decision(clf, X[0], y[0])
    >>> figure.axes[0].get_title(loc="left")
    'Decided after 2 of 10 samples: 0 (correct)'
    """
    story = tell(clf, x, label)
    seen = len(story.x) if step is None else check_integer("step", step, 1, len(story.x))
    canvas = _two_panels() if ax is None else drawing(ax, 2, 0, 0)
    draw_story(story, seen, *canvas.panels)
    return canvas.finish(title, [])


def draw_story(story: Story, seen: int, series: Axes, evidence: Axes) -> None:
    """Draw what is known after `seen` samples; after the decision also what was not needed."""
    decided = seen >= story.decision.time
    now = story.decision.time if decided else seen
    _draw_series(series, story, now, decided)
    _draw_evidence(evidence, story, now, decided)
    series.set_title(
        headline(story, now, decided), loc="left", fontsize=12, weight="bold", color=_color(story, decided)
    )
    for panel in (series, evidence):
        if decided:
            panel.axvline(now, color=_color(story, True), lw=1.6, zorder=4)
        panel.set_xlim(0.5, len(story.x) + 0.5)
        panel.xaxis.set_major_locator(MaxNLocator(integer=True))


def headline(story: Story, now: int, decided: bool) -> str:
    """Return what is known, in one line."""
    total = len(story.x)
    if not decided:
        leader = story.names[int(story.leading[now - 1])]
        return f"Sample {now} of {total}: {leader} leads, not enough evidence yet"
    verdict = {None: "", True: " (correct)", False: ""}[story.correct]
    if story.correct is False and story.truth is not None:
        verdict = f" (wrong, it is {story.names[story.truth]})"
    name = story.names[story.decision.label]
    if story.decision.forced:
        return f"The series ended, decided after {total} samples: {name}{verdict}"
    return f"Decided after {now} of {total} samples: {name}{verdict}"


def _color(story: Story, decided: bool) -> str:
    if not decided:
        return "0.25"
    return WRONG_COLOR if story.correct is False else RIGHT_COLOR


def _draw_series(panel: Axes, story: Story, now: int, decided: bool) -> None:
    total, channels = story.x.shape
    time = np.arange(1, total + 1)
    shown = min(channels, MOST_CHANNELS)
    x, remark = _comparable(story.x[:, :shown])
    for d in range(shown):
        color = CHANNEL_COLORS[d % len(CHANNEL_COLORS)]
        panel.plot(time[:now], x[:now, d], color=color, lw=1.6, marker="o", ms=2.5, zorder=3)
        if decided:
            panel.plot(time[now - 1 :], x[now - 1 :, d], color=UNSEEN_COLOR, lw=1, zorder=2)
    values = x[np.isfinite(x)]
    low, high = (values.min(), values.max()) if values.size else (0.0, 1.0)
    margin = 0.08 * (high - low) or 1.0
    panel.set_ylim(low - margin, high + margin)
    if decided and now < total:
        panel.axvspan(now, total + 0.5, color=UNSEEN_BACKGROUND, lw=0, zorder=0)
        panel.annotate(
            f"{total - now} samples not needed", ((now + total) / 2, 0.97),
            xycoords=("data", "axes fraction"), ha="center", va="top", fontsize=10, color="0.35", zorder=6,
            bbox={"facecolor": UNSEEN_BACKGROUND, "edgecolor": "none", "pad": 1.5},
        )  # fmt: skip
    if story.channels is not None and shown <= MOST_NAMED:
        colors = (CHANNEL_COLORS[d % len(CHANNEL_COLORS)] for d in range(shown))
        handles = [Line2D([], [], color=c, label=plain(name)) for c, name in zip(colors, story.channels)]
        panel.legend(handles=handles, loc="lower right", frameon=False, fontsize="small", ncols=2)
    count = f"{channels} channels" if channels == shown else f"{shown} of {channels} channels"
    panel.set_ylabel("series" if channels == 1 else f"series\n({count}{remark})")
    panel.tick_params(labelbottom=False)


def _comparable(x: np.ndarray) -> tuple[np.ndarray, str]:
    """Return channels (T, D) that fit on one axis, and a remark if they are scaled to [0, 1] for that."""
    seen = np.isfinite(x)
    low = np.where(seen, x, np.inf).min(0, initial=np.inf)
    high = np.where(seen, x, -np.inf).max(0, initial=-np.inf)
    ranges = (high - low)[seen.any(0)]
    ranges = ranges[ranges > 0]
    if not len(ranges):
        return x, ""
    whole = high[seen.any(0)].max() - low[seen.any(0)].min()
    if whole < MOST_UNEQUAL * ranges.min():
        return x, ""
    width = np.where(np.isfinite(high - low) & (high > low), high - low, 1.0)
    return (x - np.where(np.isfinite(low), low, 0.0)) / width, ",\nscaled"


def _draw_evidence(panel: Axes, story: Story, now: int, decided: bool) -> None:
    total, count = story.leads.shape
    time = np.arange(1, total + 1)
    leader = int(story.decision.label if decided else story.leading[now - 1])
    end = story.decision.time
    finite = np.append(story.needed[:end][np.isfinite(story.needed[:end])], story.leads[:end].max())
    top = 1.35 * max(float(finite.max()), 1e-6)
    panel.set_ylim(-0.75 * top, top)
    panel.axhline(0, color="0.85", lw=0.8, zorder=0)
    for k in range(count):
        if k == leader:
            continue
        panel.plot(time[:now], story.leads[:now, k], color=RIVAL_COLOR, lw=1.4, marker="o", ms=2, zorder=2)
    color = _color(story, True) if decided else RIGHT_COLOR
    panel.plot(time[:now], story.leads[:now, leader], color=color, lw=3, marker="o", ms=5, zorder=5)
    if np.isfinite(story.needed).any():
        panel.plot(time, _known(story.needed, now), color="black", ls=DASHES, lw=1.6, zorder=3)
        late = end > 0.55 * total  # then there is space for the text on the left
        side = 0 if late else 1
        panel.annotate(
            "evidence needed to decide", (side, float(_known(story.needed, now)[-side])),
            (4 if late else -4, 4), xycoords=("axes fraction", "data"), textcoords="offset points",
            ha="left" if late else "right", fontsize=10,
        )  # fmt: skip
    _name_lines(panel, story, now, leader, color)
    if decided:
        panel.plot([now], [story.leads[now - 1, leader]], "o", color=color, ms=11, zorder=5)
        panel.axvspan(now, total + 0.5, color=UNSEEN_BACKGROUND, lw=0, zorder=0)
    panel.set(xlabel="samples seen", ylabel="evidence for\neach class (nats)")


def _known(needed: np.ndarray, now: int) -> np.ndarray:
    """Return what the rule asks for up to now, and from then on what it asks for now."""
    known = needed.copy()
    known[now:] = needed[now - 1]
    return known


def _name_lines(panel: Axes, story: Story, now: int, leader: int, color: str) -> None:
    """Write the names of the leading class and of its best rival at the ends of their lines."""
    last, (low, _) = story.leads[now - 1], panel.get_ylim()
    rival = max((k for k in range(len(last)) if k != leader), key=lambda k: last[k])
    # Near the end there is no space to the right. The heights keep the names of close lines apart.
    right = now < 0.85 * len(story.x)
    looks: list[tuple[int, int, dict[str, Any]]] = [
        (leader, 7, {"color": color, "weight": "bold", "fontsize": 13}),
        (rival, -7, {"color": "0.4", "fontsize": 10}),
    ]
    for k, up, style in looks:
        panel.annotate(
            story.names[k], (now, max(last[k], 0.75 * low)), (10 if right else -10, up),
            textcoords="offset points", ha="left" if right else "right", va="center", zorder=6,
            path_effects=OUTLINE, **style,
        )  # fmt: skip


def _two_panels() -> Drawing:
    figure = NotebookFigure(figsize=(7.2, 4.6), layout="constrained")
    panels = figure.subplots(2, 1, height_ratios=(2, 3))
    for panel in panels:
        panel.spines[["top", "right"]].set_visible(False)
    return Drawing(figure, panels.tolist(), own=True)
