"""Scores and decisions of streams equal those of complete series."""

import subprocess
import sys

import numpy as np
import pytest
import torch

import stopwise as sw
from helpers import early
from stopwise.models import Evidence, Integrator
from stopwise.streaming.states import checksum

MODELS = [
    {"model": "accumulator", "order": 0},
    {"model": "accumulator", "order": 2},
    {"model": "accumulator", "order": None},
    {"model": "accumulator", "order": None, "body": "filter"},
    {"model": "b2bsqrt", "order": 2},
    {"model": "tanh", "order": None, "formula": "oblivion"},
    {"model": "tandemformer", "order": 2},
]


def fitted(missing="error", labels=("no", "yes"), **settings):
    X, y, _ = sw.datasets.gaussian(60, offset=1.5, channels=3, length=8, seed=0)
    if missing == "mask":
        X[np.random.default_rng(0).random(X.shape) < 0.3] = np.nan
    clf = early(**{"max_epochs": 1, "polish": False, "missing": missing, "rule": sw.SPRT(2.0)} | settings)
    return clf.fit(X, np.array(labels)[y])


@pytest.fixture(scope="module")
def clf():
    return fitted(order=1)


@pytest.fixture(scope="module")
def X():
    return sw.datasets.gaussian(20, offset=1.5, channels=3, length=13, seed=1)[0]  # longer than in training


def run(stream, x):
    """Feed a series to its end."""
    for sample in x:
        stream.update(sample)
    return stream.finish()


def same(decision, other):
    assert (decision.label, decision.time, decision.forced) == (other.label, other.time, other.forced)
    np.testing.assert_allclose(decision.scores, other.scores, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("missing", ["error", "mask"])
@pytest.mark.parametrize("settings", MODELS, ids=str)
def test_streams_decide_like_complete_series(settings, missing, X):
    clf = fitted(missing, **settings)
    X = X.copy()
    if missing == "mask":
        X[np.random.default_rng(1).random(X.shape) < 0.4] = np.nan
        X[0] = np.nan  # never observed
    scores, decisions = clf.scores(X), clf.decide(X)
    streams, decided = clf.streams(), {}
    for t in range(X.shape[1]):
        decided |= streams.update(np.arange(len(X)), X[:, t])
    for i, x in enumerate(X):
        stream = clf.stream()
        for t, sample in enumerate(x):
            decision = stream.update(sample)
            np.testing.assert_allclose(stream.scores, scores[i, t], rtol=1e-5, atol=1e-5 * abs(scores).max())
            assert stream.time == t + 1
            if decision is not None:
                break
        same(stream.finish(), decisions[i])
        same(decided[i] if i in decided else streams.finish(i), decisions[i])


def test_samples_after_the_decision_are_ignored(clf, X):
    stream = clf.stream()
    decision = run(stream, X[0])
    before = stream.scores
    assert stream.update(X[0, 0]) is None
    assert stream.decided is decision
    np.testing.assert_array_equal(stream.scores, before)
    stream.reset()
    assert (stream.time, stream.decided) == (0, None)
    same(run(stream, X[0]), decision)


def test_a_stream_resumed_from_a_state_has_the_same_scores(clf, X, tmp_path):
    one = clf.stream()
    one.update(X[0, 0] * 0.01)
    np.savez(tmp_path / "state.npz", **one.state())
    with np.load(tmp_path / "state.npz", allow_pickle=False) as stored:
        other = clf.stream(state=dict(stored))
    for sample in 0.01 * X[0, 1:]:
        one.update(sample)
        other.update(sample)
        np.testing.assert_array_equal(one.scores, other.scores)


def test_another_process_can_resume_from_a_state(clf, X, tmp_path):
    stream = clf.stream()
    stream.update(0.01 * X[0, 0])
    np.savez(tmp_path / "state.npz", **stream.state())
    clf.save(tmp_path / "model")
    script = (
        "import sys, numpy as np, stopwise as sw\n"
        "clf = sw.load(sys.argv[1] + '/model')\n"
        "stream = clf.stream(state=dict(np.load(sys.argv[1] + '/state.npz', allow_pickle=False)))\n"
        "stream.update([0.1, -0.2, 0.3])\n"
        "print(*stream.scores.tolist(), stream.time)\n"
    )
    reported = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path)], capture_output=True, text=True, check=True
    )
    stream.update([0.1, -0.2, 0.3])
    assert [float(one) for one in reported.stdout.split()] == [*stream.scores.tolist(), 2.0]


@pytest.mark.parametrize("forced", [True, False])
def test_a_decided_stream_is_restored_as_decided(clf, X, forced):
    stream = clf.stream()
    if forced:
        stream.update(0.001 * X[0, 0])
        stream.finish()
    else:
        run(stream, 10 * X[0])
    assert stream.decided.forced == forced
    same(clf.stream(state=stream.state()).decided, stream.decided)


@pytest.mark.parametrize(
    ("damage", "reported"),
    [
        (lambda s: s.pop("version"), "its version or model is missing"),
        (lambda s: s.update(version=np.array(9)), "version 9"),
        (lambda s: s.update(model=np.zeros(16, np.uint8)), "another model"),
        (lambda s: s.pop("scores"), "scores is missing"),
        (lambda s: s.update(scores=np.zeros(5)), "scores must be float64 of shape \\(2,\\)"),
        (lambda s: s.update(time=np.array(1.5)), "time must be int64"),
        (lambda s: s.update(time=np.array([1])), "time must be int64 of shape \\(\\)"),
        (lambda s: s.update(decided=np.array(0.0)), "decided must be integers of shape \\(\\); got float64"),
        (lambda s: s.update(scores=s["scores"] + 1e-9), "checksum differs"),
        (lambda s: s.update(more=np.zeros(1)), "more is unexpected"),
        (lambda s: s.update(version=np.array("3")), "version or model is missing or invalid"),
    ],
)
def test_a_damaged_state_raises(clf, X, damage, reported):
    state = started(clf, X).state()
    damage(state)
    with pytest.raises(ValueError, match=reported):
        clf.stream(state=state)


@pytest.mark.parametrize(
    ("change", "reported"),
    [
        ({"decided": np.array(7)}, "class 7, but there are only 2 classes"),
        ({"decided": np.array(-9)}, "class 7, but"),
        ({"decided": np.array(np.iinfo(np.int64).min)}, "but there are only 2 classes"),
        ({"scores": np.array([np.nan, 0.0])}, "scores holds NaN or infinity"),
        ({"scores": np.array([np.inf, 0.0])}, "scores holds NaN or infinity"),
        ({"time": np.array(-1)}, "time must be in \\[0, 1000000000000000\\]; got -1"),
        ({"time": np.array(np.iinfo(np.int64).max)}, "time must be in"),
        ({"time": np.array(0)}, "time is 0, but scores is not that of a new stream"),
        ({"time": np.array(0), "decided": np.array(1)}, "it is decided before the first sample"),
    ],
)
def test_an_impossible_state_raises_even_if_its_checksum_is_right(clf, X, change, reported):
    state = started(clf, X).state() | change
    state["checksum"] = checksum(state)
    with pytest.raises(ValueError, match=f"`state` is impossible: .*{reported}"):
        clf.stream(state=state)


@pytest.mark.parametrize("state", [[], "state", 3, np.zeros(3)])
def test_a_state_that_is_not_a_dict_raises(clf, state):
    with pytest.raises(ValueError, match="a dict of arrays; got"):
        clf.stream(state=state)


def test_a_state_before_the_first_sample_is_valid(clf):
    assert clf.stream(state=clf.stream().state()).time == 0


def started(clf, X):
    stream = clf.stream()
    stream.update(0.01 * X[0, 0])
    assert stream.decided is None
    return stream


@pytest.mark.parametrize(
    ("x", "reported"),
    [
        ([1.0, 2.0], "3 number"),
        ([1.0, np.nan, 2.0], "NaN"),
        ([np.inf, 0, 0], "infinity"),
        ([1e400, 0, 0], "infinity"),
        ([1e300, 0, 0], "too large for float32"),
        ([10**400, 0, 0], "too large for float64"),
        ([1e37, 1e37, 1e37], "infinite scores"),
        (np.zeros((3, 1)), "shape \\(3,\\); got shape \\(3, 1\\). Pass x.reshape\\(3\\)"),
        (np.zeros((1, 3)), "got shape \\(1, 3\\)"),
        (0.0, "got shape \\(\\)"),
        (["1", "2", "3"], "got text"),
        (["1", 2, 3], "got text"),
        (b"123", "got text"),
        (np.array(["2026-01-01"] * 3, dtype="M8[D]"), "got dates"),
        (np.zeros(3, dtype="m8[s]"), "got time differences"),
        (np.zeros(3, dtype=bool), "got True or False"),
        ([True, 1.0, 2.0], "got True or False"),
        (np.zeros(3, dtype=complex), "got complex numbers"),
        (np.array([1.0, None, 2.0], dtype=object), "got a NoneType"),
        (np.array([1.0, "2", 2.0], dtype=object), "got a str"),
        (np.ma.array([1.0, 2.0, 3.0], mask=[0, 1, 0]), "NaN or a masked value"),
        ([1.0, np.ma.masked, 3.0], "NaN or a masked value"),
        ([[1.0], [2.0, 3.0]], "cannot be converted"),
        ({"u": 1.0, "v": 2.0, "w": 3.0}, "it was trained without names"),
        (None, "got a NoneType"),
    ],
)
def test_an_invalid_sample_raises_and_does_not_change_the_stream(clf, x, reported):
    stream = clf.stream()
    with np.errstate(over="ignore"), pytest.raises(ValueError, match=reported):
        stream.update(x)
    assert stream.time == 0


def test_integers_and_objects_that_are_numbers_are_samples(clf, X):
    expected = started_with(clf, [1.0, 2.0, 3.0]).scores
    for x in ([1, 2, 3], np.array([1, 2, 3], dtype=object), (1, np.float32(2), 3), np.ma.array([1, 2, 3])):
        np.testing.assert_array_equal(started_with(clf, x).scores, expected)


def test_masked_values_are_missing_values(X):
    clf = fitted("mask")
    expected = started_with(clf, [1.0, np.nan, 3.0]).scores
    for x in (np.ma.array([1.0, 99.0, 3.0], mask=[0, 1, 0]), [1.0, np.ma.masked, 3.0]):
        np.testing.assert_array_equal(started_with(clf, x).scores, expected)


def started_with(clf, x):
    stream = clf.stream()
    stream.update(x)
    return stream


def test_samples_with_names_are_matched_by_name():
    X, y, _ = sw.datasets.gaussian(60, offset=1.5, channels=3, length=8, seed=0)
    names = ["u", "v", "w"]
    clf = early(order=0, max_epochs=1).fit(sw.SeriesSet(X, channel_names=names), y)
    expected = started_with(clf, [1.0, 2.0, 3.0]).scores
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"w": [3.0], "u": [1.0], "v": [2.0]})
    for x in ({"w": 3.0, "u": 1.0, "v": 2.0}, frame.iloc[0]):
        np.testing.assert_array_equal(started_with(clf, x).scores, expected)
    streams = clf.streams()
    streams.update(["a"], frame)
    streams.update({"b": {"w": 3.0, "u": 1.0, "v": 2.0}, "c": frame.iloc[0]})
    for key in "abc":
        np.testing.assert_allclose(streams.scores(key), expected, rtol=1e-6)
    with pytest.raises(ValueError, match="unknown: z; missing: w"):
        clf.stream().update({"u": 1.0, "v": 2.0, "z": 3.0})
    with pytest.raises(ValueError, match="unknown: z; missing: w"):
        clf.streams().update(["a"], frame.rename(columns={"w": "z"}))


def test_a_rearmed_stream_starts_over_after_its_decision(clf, X):
    stream, other = clf.stream(rearm=True), clf.stream()
    decision = next(made for x in 10 * X[0] if (made := stream.update(x)) is not None)
    assert stream.decided is decision
    with pytest.raises(ValueError, match="NaN"):
        stream.update([np.nan, 0.0, 0.0])
    assert stream.decided is decision  # a sample that cannot be used does not start a series
    stream.update(0.01 * X[1, 0])
    other.update(0.01 * X[1, 0])
    assert (stream.time, stream.decided) == (1, None)
    np.testing.assert_array_equal(stream.scores, other.scores)


def test_finishing_a_stream_without_samples_raises(clf):
    with pytest.raises(ValueError, match="the stream has no samples"):
        clf.stream().finish()


class Linear(Integrator):
    """A custom network without a streaming step."""

    def __init__(self, channels, classes, order):
        super().__init__(channels, classes, order)
        self.head = torch.nn.Linear(channels, classes)

    def evidence(self, x, multiplets):
        return Evidence(self.head(x).cumsum(1), None)


@pytest.mark.parametrize("missing", ["error", "mask"])
def test_a_custom_network_scores_the_stream_again_at_each_step(missing, tmp_path):
    model = sw.models.Network(Linear, order=0, llre_ratio=1.0, polish=False)
    clf = fitted(missing, model=model)
    X = 0.1 * sw.datasets.gaussian(3, channels=3, length=40, seed=1)[0]  # longer than the initial buffer
    scores = clf.scores(X)
    streams, stream = clf.streams(), clf.stream()
    for t in range(40):
        streams.update([*"abc"][: 1 + (t > 2) + (t > 20)], X[: 1 + (t > 2) + (t > 20), t])
        stream.update(X[0, t])
        if stream.decided:
            break
        np.testing.assert_allclose(stream.scores, scores[0, t], rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(streams.scores("a"), scores[0, t], rtol=1e-4, atol=1e-5)
    again = clf.stream(state=stream.state())
    np.testing.assert_array_equal(again.scores, stream.scores)
    for change, reported in (
        ({"time": np.array(len(stream.state()["samples"]) + 1)}, "samples are stored"),
        ({"time": np.array(stream.time - 1)}, "there are samples after the last one"),
        ({"scores": stream.scores + 1.0}, "the scores are not those of the stored samples"),
    ):
        state = stream.state() | change
        state["checksum"] = checksum(state)
        with pytest.raises(ValueError, match=f"`state` is impossible: .*{reported}"):
            clf.stream(state=state)


def test_the_memory_of_a_stream_does_not_grow():
    clf = fitted(order=1, rule=sw.SPRT(np.inf))
    stream = clf.stream()
    size = sum(value.nbytes for value in stream._state.values())
    for step in range(2000):
        assert stream.update(np.zeros(3, np.float32)) is None
        assert stream.time == step + 1
    assert sum(value.nbytes for value in stream._state.values()) == size
