"""Many keyed streams equal single streams; keys are added, removed, repeated and dropped."""

import numpy as np
import pytest

import stopwise as sw
from helpers import early

# The tolerance of streams. Intermediate float32 sums of up to 15 nats are rounded to about 1e-6.
CLOSE = {"rtol": 1e-5, "atol": 1e-5}


@pytest.fixture(scope="module")
def clf():
    X, y, _ = sw.datasets.gaussian(60, channels=2, length=6, seed=0)
    return early(order=1, max_epochs=1, rule=sw.SPRT(50.0)).fit(X, y)  # rarely reached


def alone(clf, samples):
    stream = clf.stream()
    for sample in samples:
        stream.update(sample)
    return stream.scores


def test_keys_can_be_added_and_removed_at_any_time(clf):
    rng = np.random.default_rng(0)
    streams, taken = clf.streams(), {}
    for moment in range(200):
        keys = rng.choice(40, size=rng.integers(1, 12), replace=False).tolist()
        x = rng.normal(size=(len(keys), 2)).astype(np.float32)
        streams.update(keys, x)
        for key, sample in zip(keys, x):
            taken.setdefault(key, []).append(sample)
        if moment % 7 == 0:
            gone = keys[0]
            streams.forget(gone)
            del taken[gone]
    assert set(streams) == set(taken)
    for key, samples in taken.items():
        assert streams.time(key) == len(samples)
        np.testing.assert_allclose(streams.scores(key), alone(clf, samples), **CLOSE)


def test_a_key_can_be_repeated_in_one_call(clf):
    x = np.random.default_rng(0).normal(size=(5, 2)).astype(np.float32)
    streams = clf.streams()
    streams.update(["a", "b", "a", "a", "b"], x)
    assert (streams.time("a"), streams.time("b")) == (3, 2)
    np.testing.assert_allclose(streams.scores("a"), alone(clf, x[[0, 2, 3]]), **CLOSE)


def test_the_least_recently_updated_stream_is_dropped_and_reported(clf):
    dropped = []
    streams = clf.streams(max_streams=3, on_drop=lambda key, stream: dropped.append((key, stream.time)))
    for key in "abcab":
        streams.update({key: [0.0, 1.0]})
    streams.update({"d": [0.0, 1.0]})
    assert dropped == [("c", 1)]
    assert set(streams) == {"a", "b", "d"}
    streams.update([*"wxyz"], np.zeros((4, 2)))  # more than max_streams in one call
    assert len(streams) == 3
    assert len(dropped) == 5


def test_a_drop_is_logged_without_on_drop(clf, caplog):
    streams = clf.streams(max_streams=1)
    streams.update({"first": [0.0, 1.0]})
    streams.update({"second": [0.0, 1.0]})
    assert "stream 'first' was dropped after 1 samples" in caplog.text


def test_a_decided_key_is_kept_and_its_later_samples_are_ignored():
    X, y, _ = sw.datasets.gaussian(60, channels=2, length=6, seed=0)
    clf = early(order=0, max_epochs=1, rule=sw.SPRT(0.0)).fit(X, y)
    streams = clf.streams()
    (decision,) = streams.update({"k": X[0, 0]}).values()
    assert decision.time == 1
    assert streams.update({"k": X[0, 1]}) == {}
    assert streams.decided("k") is decision
    assert streams.time("k") == 1
    assert streams.finish("k") is decision
    assert "k" not in streams


def test_finish_forces_a_decision_and_removes_the_key(clf):
    streams = clf.streams()
    streams.update({"k": [0.0, 1.0]})
    assert streams.finish("k").forced
    assert len(streams) == 0


def test_states_are_exchanged_between_stream_and_streams(clf):
    stream = clf.stream()
    stream.update([0.3, -0.1])
    streams = clf.streams()
    streams.put("k", stream.state())
    streams.update({"k": [1.0, 0.5]})
    back = clf.stream(state=streams.stream("k").state())
    stream.update([1.0, 0.5])
    np.testing.assert_array_equal(back.scores, stream.scores)


def test_states_contain_the_state_of_each_stream(clf):
    streams = clf.streams()
    streams.update(["a", "b"], np.ones((2, 2)))
    streams.update({"b": [1.0, -2.0]})
    streams.put("c", _decided(clf))
    keys, arrays = streams.states()
    assert keys == ["a", "b", "c"]
    for row, key in enumerate(keys):
        for name, value in streams.stream(key).state().items():
            if name not in ("version", "model", "checksum"):
                np.testing.assert_array_equal(arrays[name][row], value)
    assert clf.streams().states()[0] == []


def test_restored_streams_equal_those_stored(clf):
    streams, other = clf.streams(), clf.streams()
    streams.update(["a", "b"], np.ones((2, 2)))
    streams.put("c", _decided(clf))
    other.update({"b": [5.0, 5.0], "d": [1.0, 1.0]})  # b is replaced, d stays
    other.restore(*streams.states())
    assert set(other) == {*"abcd"}
    for key in "abc":
        assert other.time(key) == streams.time(key)
        np.testing.assert_array_equal(other.scores(key), streams.scores(key))
    assert other.decided("c").forced
    clf.streams().restore(*clf.streams().states())  # no streams at all


def test_damaged_states_of_many_streams_raise(clf):
    streams = clf.streams()
    streams.update(["a", "b"], np.ones((2, 2)))
    keys, arrays = streams.states()
    for wrong, reported in (
        ((["a"], arrays), "must be int64 of shape \\(1,\\)"),
        ((["a", "a"], arrays), "a key occurs twice"),
        ((keys, arrays | {"scores": arrays["scores"] + 1}), "checksum differs"),
    ):
        with pytest.raises(ValueError, match=reported):
            clf.streams().restore(*wrong)


def _decided(clf):
    stream = clf.stream()
    stream.update([0.1, 0.2])
    stream.finish()
    return stream.state()


def test_an_update_without_samples_returns_no_decisions(clf):
    assert clf.streams().update({}) == {}
    assert clf.streams().update([], np.empty((0, 2))) == {}


def test_invalid_samples_raise_and_do_not_change_any_stream(clf):
    streams = clf.streams()
    with pytest.raises(ValueError, match="NaN"):
        streams.update({"a": [0.0, 1.0], "b": [np.nan, 1.0]})
    with pytest.raises(ValueError, match="2 number"):
        streams.update(["a", "b"], np.zeros((3, 2)))
    with pytest.raises(TypeError, match="can only be used with a sequence of keys"):
        streams.update({"a": [0.0, 1.0]}, np.zeros((1, 2)))
    assert len(streams) == 0


def test_samples_of_an_ambiguous_shape_raise(clf):
    streams = clf.streams()
    for keys, x, reported in (
        ("abc", np.zeros((2, 3)), "transposed: pass x.T"),
        ("abc", np.zeros(6), "shape \\(3, 2\\); got shape \\(6,\\)"),
        ("a", np.zeros(2), "shape \\(1, 2\\); got shape \\(2,\\)"),
        ("abc", np.zeros((3, 2, 1)), "got shape \\(3, 2, 1\\)"),
        ("ab", [["1", "2"], [3, 4]], "got text"),
        ("ab", [[1.0, 2.0], [True, 4]], "got True or False"),
        ("ab", np.zeros((2, 2), dtype="M8[s]"), "got dates"),
        ("ab", [np.zeros(2), np.zeros(3)], "same number of values"),
    ):
        with pytest.raises(ValueError, match=reported):
            streams.update([*keys], x)
    with pytest.raises(ValueError, match="got shape \\(1, 2, 1\\)"):
        streams.update({"a": np.zeros((2, 1))})
    with pytest.raises(ValueError, match="NaN or a masked value"):
        streams.update({"a": np.ma.array([1.0, 2.0], mask=[1, 0]), "b": [1.0, 2.0]})
    assert len(streams) == 0


def test_a_single_channel_may_be_a_number_per_key():
    X, y, _ = sw.datasets.gaussian(60, channels=2, length=6, seed=0)
    clf = early(order=0, max_epochs=1, rule=sw.SPRT(50.0)).fit(X[..., :1], y)
    flat, cube = clf.streams(), clf.streams()
    flat.update(["a", "b"], [1.0, 2.0])
    cube.update({"a": [1.0], "b": [2.0]})
    np.testing.assert_array_equal(flat.scores("b"), cube.scores("b"))


def test_a_sample_with_infinite_scores_changes_no_stream(clf):
    streams = clf.streams(max_streams=2)
    streams.update({"a": [0.0, 1.0], "b": [0.0, 1.0]})
    before = streams.scores("a")
    with pytest.raises(ValueError, match="infinite scores"):
        streams.update(["a", "c", "a"], np.array([[0.0, 1.0], [1.0, 1.0], [1e37, 1e37]]))
    assert set(streams) == {"a", "b"}
    assert streams.time("a") == 1
    np.testing.assert_array_equal(streams.scores("a"), before)


class Clock:
    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now


def test_idle_streams_are_removed_and_reported(clf):
    clock, gone = Clock(), []
    streams = clf.streams(
        idle=10, on_idle=lambda key, stream: gone.append((key, stream.finish())), clock=clock
    )
    streams.update({"a": [0.0, 1.0], "b": [0.0, 1.0]})
    streams.put("decided", _decided(clf))
    clock.now = 9.0
    streams.update({"b": [0.0, 1.0]})
    assert streams.expire() == []
    clock.now = 10.0
    assert streams.expire() == ["a", "decided"]
    assert [(key, decision.forced, decision.time) for key, decision in gone] == [("a", True, 1)]
    clock.now = 19.0
    streams.update({"b": [0.0, 1.0]})  # it was idle for too long, so this is the first sample of a new stream
    assert gone[1][1].time == 2
    assert streams.time("b") == 1


def test_an_idle_stream_is_logged_without_on_idle(clf, caplog):
    clock = Clock()
    streams = clf.streams(idle=1, clock=clock)
    streams.update({"first": [0.0, 1.0]})
    clock.now = 2.0
    streams.update({})
    assert "stream 'first' was dropped after 1 samples without a decision" in caplog.text
    with pytest.raises(ValueError, match="`on_idle` can only be used with `idle`"):
        clf.streams(on_idle=print)
    with pytest.raises(ValueError, match="`idle` must be"):
        clf.streams(idle=0)


def test_rearmed_streams_start_over_after_a_decision():
    X, y, _ = sw.datasets.gaussian(60, channels=2, length=6, seed=0)
    clf = early(order=1, max_epochs=1, rule=sw.FixedTime(2)).fit(X, y)
    streams, times = clf.streams(rearm=True), []
    for t in range(6):
        made = streams.update(["k", "l"], X[:2, t]) if t != 3 else streams.update({"k": X[0, t]})
        times.append((sorted(made), streams.time("k"), streams.time("l")))
    assert times == [
        ([], 1, 1),
        (["k", "l"], 2, 2),
        ([], 1, 1),
        (["k"], 2, 1),
        (["l"], 1, 2),
        (["k"], 2, 1),
    ]
    np.testing.assert_allclose(streams.scores("k"), alone(clf, X[0, 4:6]), **CLOSE)
    with pytest.raises(ValueError, match="`keys` must be distinct with rearm=True"):
        streams.update(["k", "k"], X[:2, 0])


def test_an_unknown_key_raises(clf):
    with pytest.raises(KeyError, match="there is no stream 'k'"):
        clf.streams().scores("k")
    with pytest.raises(ValueError, match="`max_streams`"):
        clf.streams(max_streams=0)
