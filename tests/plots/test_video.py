import io
from itertools import pairwise

import numpy as np
import pytest
from PIL import Image

import stopwise as sw
from plots.given import SCORES, Given, X
from stopwise import plots


@pytest.fixture(scope="module")
def video():
    clf = Given(SCORES, sw.SPRT(3.5), classes=["sit", "walk", '<script>"$x$"'])
    return plots.decision_video(clf, X, '<script>"$x$"', seconds_per_sample=0.25, title="One series")


def test_one_frame_per_sample_until_the_decision_which_stays(video):
    picture = Image.open(io.BytesIO(video.gif))
    assert (picture.format, picture.n_frames, video.frames) == ("GIF", 3, 3)
    assert picture.info["loop"] == 0
    durations, frames = [], []
    for i in range(3):
        picture.seek(i)
        durations.append(picture.info["duration"])
        frames.append(np.asarray(picture.convert("RGB")))
    assert durations == [800, 250, 3500]
    assert not any((a == b).all() for a, b in pairwise(frames))
    assert len(video.gif) < 100_000


def test_the_same_series_gives_the_same_bytes(video):
    clf = Given(SCORES, sw.SPRT(3.5), classes=["sit", "walk", '<script>"$x$"'])
    again = plots.decision_video(clf, X, '<script>"$x$"', seconds_per_sample=0.25, title="One series")
    assert again.gif == video.gif


def test_long_series_have_few_frames():
    scores = np.zeros((300, 2))
    scores[:, 1] = np.arange(300) / 100
    clf = Given(scores, sw.SPRT(2.5), classes=[0, 1])
    short = plots.decision_video(clf, np.arange(300.0), frames=4)
    assert (short.frames, short.text) == (4, "Decided after 251 of 300 samples: 1")


def test_notebooks_play_it_and_names_are_escaped(video):
    html = video._repr_html_()
    assert html.startswith(
        '<img alt="Decided after 3 of 5 samples: sit (wrong, it is &lt;script&gt;&quot;$x$&quot;)"'
    )
    assert 'src="data:image/gif;base64,R0lGOD' in html


def test_it_is_saved_as_a_gif(video, tmp_path):
    assert video.save(tmp_path / "a.gif").read_bytes() == video.gif
    with pytest.raises(ValueError, match=r"`path` must end with \.gif; got 'a\.mp4'"):
        video.save(tmp_path / "a.mp4")
