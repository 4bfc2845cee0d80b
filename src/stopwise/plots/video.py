"""A short animation of one decision, as a GIF."""

from __future__ import annotations

import base64
import io
import os
from html import escape
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from PIL import Image

from stopwise.atomic import atomic_write
from stopwise.plots.decision import draw_story, headline
from stopwise.plots.story import Classifier, Story, tell
from stopwise.validation import check_integer, check_real

SIZE, DPI = (7.2, 4.4), 100  # inches; 720 × 440 pixels
COLORS_OF_GIF = 64
FIRST_SECONDS, LAST_SECONDS = 0.8, 3.5


class DecisionVideo:
    """An animation of one decision, which a notebook plays; `save` writes it as a GIF.

    Created by `decision_video`.

    Parameters
    ----------
    gif
        The bytes of the GIF file.
    text
        What the animation shows, for readers who cannot see it.
    frames
        Number of frames.

    Examples
    --------
    >>> from stopwise.plots import DecisionVideo
    >>> DecisionVideo(b"GIF89a", "Decided after 2 of 10 samples: walk", frames=2)
    DecisionVideo(2 frames, 1 kB: Decided after 2 of 10 samples: walk)
    """

    def __init__(self, gif: bytes, text: str, frames: int) -> None:
        self.gif = gif
        self.text = text
        self.frames = frames

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the animation to a file.

        Parameters
        ----------
        path
            The file; its name must end with ``.gif``. The folder must exist.

        Returns
        -------
        path
            The path of the file.
        """
        path = Path(path)
        if path.suffix.lower() != ".gif":
            raise ValueError(f"`path` must end with .gif; got {path.name!r}.")
        with atomic_write(path) as [part]:
            part.write_bytes(self.gif)
        return path

    def __repr__(self) -> str:
        size = -(-len(self.gif) // 1000)
        return f"DecisionVideo({self.frames} frames, {size} kB: {self.text})"

    def _repr_html_(self) -> str:
        data = base64.b64encode(self.gif).decode("ascii")
        return f'<img alt="{escape(self.text)}" src="data:image/gif;base64,{data}" style="max-width:100%">'


def decision_video(
    clf: Classifier,
    x: Any,
    label: Any = None,
    *,
    seconds_per_sample: float = 0.5,
    frames: int = 40,
    title: str | None = None,
) -> DecisionVideo:
    """Animate one decision: the series arrives, the evidence grows, the decision falls.

    The frames are those of `decision`, one after another.

    Parameters
    ----------
    clf
        A fitted `EarlyClassifier`.
    x
        One series, (T, D) or (T,).
    label
        The true label. None: it is not known.
    seconds_per_sample
        How long a frame is shown. The first and the last frame stay longer.
    frames
        Maximum number of frames. If the decision takes more samples, several arrive at a time.
    title
        Title of the figure.

    Returns
    -------
    video
        A `DecisionVideo`.

    Examples
    --------
    >>> import stopwise as sw
    >>> X, y, _ = sw.datasets.gaussian(n=100, offset=1.0, channels=3, length=10, seed=0)
    >>> clf = sw.EarlyClassifier(sw.models.Accumulator(order=0)).fit(X, y)
    >>> video = sw.plots.decision_video(clf, X[0], y[0])
    >>> video.text, video.frames
    ('Decided after 2 of 10 samples: 0 (correct)', 2)
    """
    duration = check_real("seconds_per_sample", seconds_per_sample, 0, open_low=True, open_high=True)
    most = check_integer("frames", frames, 2)
    story = tell(clf, x, label)
    end = story.decision.time
    steps = np.unique(np.linspace(1, end, min(end, most)).round().astype(int)).tolist()
    pictures = [_picture(story, step, title) for step in steps]
    seconds = [duration] * len(steps)
    seconds[0], seconds[-1] = max(duration, FIRST_SECONDS), max(duration, LAST_SECONDS)
    text = headline(story, end, decided=True).replace(r"\$", "$")
    return DecisionVideo(_gif(pictures, seconds), text, len(pictures))


def _picture(story: Story, step: int, title: str | None) -> Image.Image:
    """Return one frame. The panels have fixed places, so that nothing but the content moves."""
    figure = Figure(figsize=SIZE, dpi=DPI)
    canvas = FigureCanvasAgg(figure)
    top = 0.92 if title is None else 0.85
    panels = figure.subplots(
        2,
        1,
        height_ratios=(2, 3),
        gridspec_kw={"left": 0.13, "right": 0.97, "top": top, "bottom": 0.11, "hspace": 0.1},
    )
    for panel in panels:
        panel.spines[["top", "right"]].set_visible(False)
    if title is not None:
        figure.suptitle(title, weight="bold")
    draw_story(story, step, *panels)
    canvas.draw()
    return Image.fromarray(np.asarray(canvas.buffer_rgba())[..., :3].copy())


def _gif(pictures: list[Image.Image], seconds: list[float]) -> bytes:
    """Return the bytes of a GIF. All frames have the colors of the last one, so that none flickers."""
    palette = pictures[-1].quantize(COLORS_OF_GIF, method=Image.Quantize.MEDIANCUT, dither=Image.Dither.NONE)
    first, *rest = [picture.quantize(palette=palette, dither=Image.Dither.NONE) for picture in pictures]
    file = io.BytesIO()
    first.save(
        file,
        format="GIF",
        save_all=True,
        append_images=rest,
        duration=[round(1000 * one) for one in seconds],
        loop=0,
        optimize=True,
    )
    return file.getvalue()
