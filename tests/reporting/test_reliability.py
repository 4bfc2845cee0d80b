import numpy as np
import pytest

from reporting.worlds import walks
from stopwise.reporting.reliability import reliability


def test_shares_equal_a_plain_count():
    scores, y, lengths = walks(150)
    prior = np.array([0.2, 0.3, 0.5])
    found = reliability(scores, y, lengths, prior)
    alive = [(lengths >= step).sum() for step in range(1, 21)]
    assert found["steps"] == [step for step in range(1, 21) if alive[step - 1] >= 20]
    details = {one["step"]: one["bins"] for one in found["detailed"]}
    assert len(details) == 8
    for place, step in enumerate(found["steps"]):
        claimed, right = [], []
        for i in range(150):
            if lengths[i] >= step:
                weights = np.exp(scores[i, step - 1].astype(float)) * prior
                claimed.append(weights.max() / weights.sum())
                right.append(weights.argmax() == y[i])
        assert found["series"][place] == len(claimed)
        assert found["claimed"][place] == pytest.approx(np.mean(claimed))
        assert found["observed"][place] == pytest.approx(np.mean(right))
        if step in details:
            inside = [r for c, r in zip(claimed, right) if c >= 0.9]
            last = details[step][-1]
            assert last["series"] == len(inside)
            assert last["observed"] == pytest.approx(np.mean(inside))
            assert sum(one["series"] for one in details[step]) == len(claimed)


def test_few_series():
    scores, y, lengths = walks(5, equal=True)
    assert reliability(scores, y, lengths, np.ones(3) / 3)["series"] == [5] * 20
