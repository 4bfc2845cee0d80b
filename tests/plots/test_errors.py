import numpy as np
import pytest

from stopwise import plots


def test_bars_are_sorted_with_standard_errors_and_reference_lines(texts):
    figure = plots.llr_error_bars({"b": [4.0, 6.0], "c": 88.0, "a": 1.234}, limit=1.0, trivial=102.0)
    panel = figure.axes[0]
    assert [tick.get_text() for tick in panel.get_yticklabels()] == ["a", "b", "c"]
    np.testing.assert_allclose([bar.get_width() for bar in panel.patches], [1.234, 5.0, 88.0])
    assert panel.yaxis_inverted()
    found = texts(panel)
    for expected in ("1.23", "5.00 ± 1.00", "88.0", "statistical limit: 1", "predicting 0: 102"):
        assert expected in found
    assert panel.get_xlim()[1] > 102
    whiskers = panel.containers[1].lines[2][0].get_segments()
    np.testing.assert_allclose(whiskers[1], [[4, 1], [6, 1]])
    assert panel.get_xlabel() == "mean absolute LLR error (nats)"


BAD = {
    "no errors": ({"errors": {}}, "`errors` must be a dict"),
    "negative": ({"errors": {"a": -1.0}}, r"`errors\['a'\]` must be one or more finite"),
    "NaN": ({"errors": {"a": [1.0, np.nan]}}, r"`errors\['a'\]` must be"),
    "no runs": ({"errors": {"a": []}}, r"`errors\['a'\]` must be"),
    "limit": ({"errors": {"a": 1.0}, "limit": -1.0}, "`limit` must be in"),
}


@pytest.mark.parametrize(("arguments", "message"), BAD.values(), ids=BAD)
def test_invalid_arguments_raise(arguments, message):
    with pytest.raises(ValueError, match=message):
        plots.llr_error_bars(**arguments)
