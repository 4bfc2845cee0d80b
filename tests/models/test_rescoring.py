"""Tests of the default streaming step, which scores all samples so far again."""

import numpy as np
import pytest
import torch
from small_worlds import gaussian, small_model, world

from stopwise.models.rescoring import FIRST_SAMPLES, RescoringStep


@pytest.fixture(scope="module")
def model():
    return small_model("b2bsqrt").fit(world())


@pytest.fixture
def step(model):
    return RescoringStep(model, 3, 3)


def series(n, steps, seed=1):
    return gaussian(n, classes=3, steps=steps, seed=seed)[0].astype(np.float32)


def close(ours, expected):
    np.testing.assert_allclose(ours, expected, rtol=1e-5, atol=1e-5)


def test_step_scores_equal_scores_of_whole_series(model, step):
    x = series(4, 12)
    expected, state = model.scores(x), step.start(4)
    for t in range(12):
        state = step(state, x[:, t])
        close(state["scores"], expected[:, t])
        assert state["time"].tolist() == [t + 1] * 4


@pytest.mark.parametrize("steps", [16, 17, 32, 34])
def test_capacity_doubles_as_streams_grow(model, step, steps):
    assert FIRST_SAMPLES == 16
    x = series(2, steps)
    state = step.start(2)
    for t in range(steps):
        state = step(state, x[:, t])
    close(state["scores"], model.scores(x)[:, -1])
    assert state["samples"].shape[1] == {16: 16, 17: 32, 32: 32, 34: 64}[steps]
    np.testing.assert_array_equal(state["samples"][:, :steps], x)
    assert not state["samples"][:, steps:].any()


def test_streams_of_different_lengths_advance_together(model, step):
    """Stream i starts at time 7i, so a batch mixes new streams with streams of more than 16 samples."""
    x = series(4, 40)
    expected, state = model.scores(x), step.start(4)
    for moment in range(40):
        ready = np.array([row for row in range(4) if moment >= 7 * row])
        new = step({name: value[ready] for name, value in state.items()}, x[ready, moment - 7 * ready])
        for name, value in new.items():
            if value.shape[1:] != state[name].shape[1:]:
                more = [(0, 0), (0, value.shape[1] - state[name].shape[1]), (0, 0)]
                state[name] = np.pad(state[name], more)
            state[name][ready] = value
        close(new["scores"], expected[ready, moment - 7 * ready])
    assert state["time"].tolist() == [40, 33, 26, 19]


def test_streams_of_equal_length_are_scored_in_one_batch(step, monkeypatch):
    calls = []
    scores = step._model.scores

    def spy(x):
        calls.append(x.shape)
        return scores(x)

    state = step.start(5)
    state["time"][:] = [3, 0, 3, 1, 0]
    monkeypatch.setattr(step._model, "scores", spy)
    step(state, series(5, 1)[:, 0])
    assert calls == [(2, 1, 3), (1, 2, 3), (2, 4, 3)]


def test_stored_state_can_be_continued(model, step):
    x = series(1, 25)
    state = step.start(1)
    for t in range(20):
        state = step(state, x[:, t])
    stored = {name: value[0] for name, value in state.items()}
    assert all(step.accepts(name, value.shape) for name, value in stored.items())
    again = {name: np.array(value.tolist(), dtype=value.dtype)[None] for name, value in stored.items()}
    for t in range(20, 25):
        state, again = step(state, x[:, t]), step(again, x[:, t])
        np.testing.assert_array_equal(state["scores"], again["scores"])
    close(again["scores"], model.scores(x)[:, -1])


def test_step_does_not_modify_its_input_state(step):
    before = step(step.start(2), series(2, 1)[:, 0])
    copy = {name: value.copy() for name, value in before.items()}
    step(before, series(2, 2)[:, 1])
    for name, value in before.items():
        np.testing.assert_array_equal(value, copy[name])


def test_impossible_state_shapes_are_rejected(step):
    assert step.accepts("samples", (64, 3))
    assert not step.accepts("samples", (8, 3))
    assert not step.accepts("samples", (16, 4))
    assert not step.accepts("samples", (16,))
    assert not step.accepts("scores", (4,))


def test_default_step_does_not_support_torch():
    model = small_model("b2bsqrt")
    model.net_ = torch.nn.Identity()
    model.classes_count_, model.channels_ = 2, 2
    assert isinstance(model.step(), RescoringStep)
    with pytest.raises(TypeError, match=r"B2BsqrtTandem does not implement a streaming step.*Implement `"):
        model.step(torch)
