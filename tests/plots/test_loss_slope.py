import numpy as np

from stopwise import plots


def test_slope_of_the_loss_is_drawn_and_marked(texts):
    panel = plots.loss_slope({"one sample": 4.0, "ten samples": 40.0}).axes[0]
    curve, first, second = panel.lines[:3]
    np.testing.assert_allclose(curve.get_ydata(), 1 / (1 + np.exp(curve.get_xdata())))
    assert curve.get_xdata()[-1] == 50.0
    assert (first.get_xdata()[0], second.get_xdata()[0]) == (4.0, 40.0)
    assert "one sample: 2e-02" in texts(panel)
