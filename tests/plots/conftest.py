import numpy as np
import pytest

from stopwise.datasets import gaussian


@pytest.fixture(scope="session")
def world():
    """Return labels (60,) and exact scores (60, 20, 3) of three classes."""
    _, y, scores = gaussian(n=60, offset=1.0, channels=3, classes=3, length=20, seed=0)
    return y, scores


@pytest.fixture(scope="session")
def y(world):
    return world[0]


@pytest.fixture(scope="session")
def truth(world):
    return world[1]


@pytest.fixture(scope="session")
def estimates(truth):
    """Return scores of three models by name."""
    return {"saturating": 5 * np.tanh(truth / 5), "half": 0.5 * truth, "right": truth + 0.1}


@pytest.fixture(scope="session")
def unequal_lengths():
    """Return a function that returns scores with NaN from step 20 - i % 10 of series i on."""

    def cut(scores):
        copy = scores.copy()
        for i, series in enumerate(copy):
            series[20 - i % 10 :] = np.nan
        return copy

    return cut


@pytest.fixture(scope="session")
def texts():
    """Return a function that returns all texts of a figure or panel."""

    def find(figure_or_panel):
        return [text.get_text() for text in figure_or_panel.findobj(match=lambda a: hasattr(a, "get_text"))]

    return find


@pytest.fixture(scope="session")
def lines():
    """Return a function that finds the lines of a panel with more than two points, of one color if given."""

    def find(panel, color=None):
        return [one for one in panel.lines if len(one.get_xdata()) > 2 and color in (None, one.get_color())]

    return find
