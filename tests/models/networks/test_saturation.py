"""What the demonstration shows: the tanh LSTM saturates, the other models do not."""

import pytest

from stopwise.experiments import demo


@pytest.mark.slow
def test_saturation_is_seen_and_cured():
    outcomes, oracle, _ = demo.run(seed=0, progress=False)
    slopes = {outcome.name: outcome.llr.slope for outcome in outcomes}
    errors = {outcome.name: outcome.llr.mean_abs for outcome in outcomes}
    assert oracle.llr.slope == pytest.approx(1.0)
    assert slopes["tanh LSTM"] < 0.3
    for name in ("B2Bsqrt-TANDEM", "TANDEMformer", "accumulator"):
        assert slopes[name] > 0.6, name
        assert errors[name] < errors["tanh LSTM"] / 2, name
    # The tanh model never reaches a threshold its bounded logits cannot carry it to.
    tanh = next(outcome for outcome in outcomes if outcome.name == "tanh LSTM")
    assert tanh.curve.at_threshold(30.0).forced > 0.95
    assert oracle.curve.at_threshold(30.0).forced < 0.05
