"""Stored state does not grow: rounds of 10 000 new keys, half of them abandoned without an end.

The figures of docs/results/reliability.md: `make test-spark ARGS="-s -k many_keys"`.
"""

import time

import numpy as np
import pytest

import stopwise as sw

pytestmark = pytest.mark.spark
pytest.importorskip("pyspark", reason="pip install 'stopwise[spark]'")

KEYS, ROUNDS, IDLE = 10_000, 3, 5  # idle: seconds
# Two partitions, each with a cache and a write buffer of 1 MB. Measured: 5 MiB; 20 without the latter limit.
MOST_MEMORY = 10 << 20
ENDED = np.arange(KEYS) % 2 == 0


@pytest.fixture(scope="module")
def X():
    return sw.datasets.gaussian(KEYS, offset=1.0, channels=2, length=2, seed=2)[0]


def samples(X, number):
    """Return two samples of the keys that end, and one of those that are abandoned."""
    return [
        {"key": f"{number}-{i}", "t": t, "u": float(X[i, t, 0]), "v": float(X[i, t, 1]), "last": t == 1}
        for t in range(2)
        for i in range(len(X))
        if t == 0 or ENDED[i]
    ]


def stored(progress):
    """Return the stored rows and their memory after the last micro-batch."""
    (state,) = progress[-1]["stateOperators"]
    return state["numRowsTotal"], state["memoryUsedBytes"]


def expected_decisions(clf, X, on_idle):
    """Return the local decisions by key; abandoned keys are decided after their first sample, or not."""
    expected = {}
    for here, steps in ((ENDED, 2), (~ENDED, 1)):
        for i, decision in zip(np.flatnonzero(here), clf.decide(X[here][:, :steps])):
            if here is ENDED or on_idle == "force" or not decision.forced:
                expected[str(i)] = (decision.label, decision.time, decision.forced)
    return expected


@pytest.mark.parametrize("on_idle", ["force", "drop"])
def test_state_of_ended_and_abandoned_keys_is_freed(stream, feed, clf, X, on_idle):
    run = {"sequence": "t", "end": "last", "idle": IDLE, "on_idle": on_idle}
    sizes = []
    for number in range(ROUNDS):
        feed(f"{number}.json", samples(X, number))
        _, progress = stream(clf, **run)
        sizes.append(stored(progress))
        seconds = progress[-1]["durationMs"]["addBatch"] / 1000
        memory = f"{sizes[-1][1] / 2**20:.1f} MiB"
        print(f"\n{on_idle}: {sizes[-1][0]} rows, {memory}, micro-batch {seconds:.1f} s")
        time.sleep(IDLE)
    feed("last.json", samples(X[:1], "last"))
    found, progress = stream(clf, **run)
    print(f"{on_idle}: {stored(progress)[0]} rows when all other keys are idle")

    rows = [size[0] for size in sizes]
    assert rows[0] == KEYS  # every key is stored while it may have samples
    assert rows == rows[:1] * ROUNDS  # and no longer
    assert max(size[1] for size in sizes) < MOST_MEMORY
    assert stored(progress)[0] == 1
    expected = expected_decisions(clf, X, on_idle)
    keys = [row.key for row in found if not row.key.startswith("last")]
    assert len(keys) == len(set(keys)) == ROUNDS * len(expected)
    for row in found:
        assert (row.label, row.time, row.forced) == expected[row.key.split("-")[1]]
