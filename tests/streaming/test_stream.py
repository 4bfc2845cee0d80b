"""Scores and decisions of streams equal those of complete series."""

import subprocess
import sys

import numpy as np
import pytest
import torch

import stopwise as sw
from helpers import early
from stopwise.models import Evidence, Integrator

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
        (lambda s: s.update(decided=np.array(7)), "class 7"),
    ],
)
def test_an_invalid_state_raises(clf, damage, reported):
    state = clf.stream().state()
    damage(state)
    with pytest.raises(ValueError, match=reported):
        clf.stream(state=state)


@pytest.mark.parametrize(
    ("x", "reported"),
    [
        ([1.0, 2.0], "3 number"),
        ([1.0, np.nan, 2.0], "NaN"),
        ([np.inf, 0, 0], "infinity"),
        ([1e400, 0, 0], "infinity"),
    ],
)
def test_an_invalid_sample_raises_and_does_not_change_the_stream(clf, x, reported):
    stream = clf.stream()
    with np.errstate(over="ignore"), pytest.raises(ValueError, match=reported):
        stream.update(x)
    assert stream.time == 0


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


def test_the_memory_of_a_stream_does_not_grow():
    clf = fitted(order=1, rule=sw.SPRT(np.inf))
    stream = clf.stream()
    size = sum(value.nbytes for value in stream._state.values())
    for step in range(2000):
        assert stream.update(np.zeros(3, np.float32)) is None
        assert stream.time == step + 1
    assert sum(value.nbytes for value in stream._state.values()) == size
