import numpy as np
import pytest
import torch

import stopwise as sw
from stopwise.data.examples import Examples
from stopwise.models.prefix import model as prefix_model
from stopwise.models.prefix.features import pools
from stopwise.models.prefix.grid import head_shares, head_steps
from stopwise.models.prefix.heads import all_scores


def examples(n=90, steps=20, channels=2, classes=3, seed=0, lengths=None, groups=None, noise=1.0):
    rng = np.random.default_rng(seed)
    y = np.arange(n) % classes
    x = noise * rng.standard_normal((n, steps, channels)) + 0.4 * np.eye(classes, channels)[y][:, None]
    lengths = np.full(n, steps) if lengths is None else lengths
    x = x.astype(np.float32)
    return Examples(lambda rows: (x[rows], lengths[rows]), y, classes, channels, lengths, groups), x


def fitted(**settings):
    data, x = examples(**settings)
    return sw.models.Prefix(kernels=64).fit(data), data, x


def test_heads_are_dense_at_the_start_and_end_at_the_last_step():
    for steps in (1, 2, 7, 50, 2000):
        found = head_steps(steps)
        assert found[0] == 1
        assert found[-1] == steps
        assert (np.diff(found) > 0).all()
        assert len(found) <= 45


def test_a_head_with_few_series_leans_on_the_head_before_it():
    shares = head_shares(np.array([200, 150, 60, 10]))
    assert shares[:2].tolist() == [1, 1]
    assert shares[2] == pytest.approx(60 / 80)
    assert shares[3] == pytest.approx(10 / 30)


def test_it_learns_what_the_classes_differ_in():
    model, data, _ = fitted(n=150, noise=0.5)
    _, fresh = examples(n=150, seed=1, noise=0.5)
    assert (model.scores(fresh)[:, -1].argmax(1) == data.y).mean() > 0.8


def test_held_out_scores_are_honest():
    # Labels that are noise: held-out accuracy is chance, although the model has more features than series.
    data, _ = examples(n=120, noise=1.0)
    rng = np.random.default_rng(0)
    noise = Examples(data.read, rng.permutation(data.y), 3, data.channels, data.lengths)
    model = sw.models.Prefix(kernels=64).fit(noise)
    held = model.held_out_scores_
    assert held.shape == (120, 20, 3)
    assert 0.15 < (held[:, -1].argmax(1) == noise.y).mean() < 0.5


def test_held_out_scores_predict_the_loss_on_new_series():
    model, data, _ = fitted(n=300)
    _, fresh = examples(n=300, seed=5)

    def loss(scores):
        shifted = scores - np.logaddexp.reduce(scores, axis=-1, keepdims=True)
        return -shifted[np.arange(len(scores)), -1, data.y].mean()

    assert loss(model.held_out_scores_.astype(float)) == pytest.approx(loss(model.scores(fresh)), abs=0.1)


def test_compiled_heads_equal_the_kernel_form():
    # The linear kernel of the pools collapses into weights: adding a kernel block must not change this.
    model, _, x = fitted()
    heads = model.heads_
    scores = all_scores(model.features_, heads, x)
    g = len(heads.steps) - 1
    read = model.features_.scaled(x)
    named = {name: pools(model.features_.blocks[name], read, heads.steps)[g] for name in heads.pooled}
    statistics = model.features_.statistics.of(read, heads.steps)
    expected = heads.scores(g, named, {kind: statistics[kind][g].astype(float) for kind in heads.rbf})
    assert np.allclose(scores[:, -1], expected, atol=1e-6)


@pytest.mark.parametrize(
    "settings", [{}, {"channels": 15}, {"steps": 3}, {"steps": 1}, {"n": 12, "classes": 2}]
)
def test_the_step_equals_whole_series_in_numpy_and_torch(settings):
    model, _, x = fitted(**settings)
    scores = model.scores(x[:4])
    for xp in (np, torch):
        step = model.step(xp)
        state = step.start(4)
        for t in range(x.shape[1]):
            state = step(state, step.array(np.ascontiguousarray(x[:4, t])))
            found = np.asarray(state["scores"])
            assert np.allclose(found, scores[:, t], rtol=1e-4, atol=1e-4 * (1 + np.abs(scores).max()))


def test_streams_at_different_steps_are_scored_together():
    model, _, x = fitted()
    step, scores = model.step(), model.scores(x[:3])
    state = step.start(3)
    for t in range(6):
        late = step(state, x[:3, t])
        moving = np.array([True, t % 2 == 0, t < 2])
        state = {
            name: np.where(moving.reshape(-1, *(1,) * (value.ndim - 1)), late[name], value)
            for name, value in state.items()
        }
        if t == 0:
            assert np.allclose(state["scores"], scores[:, 0], atol=1e-4)
    assert np.allclose(state["scores"][0], scores[0, 5], atol=1e-4)
    assert state["time"].tolist() == [6, 3, 2]


def test_past_the_longest_training_series_the_scores_stay():
    model, _, x = fitted()
    longer = np.concatenate([x, x], axis=1)
    scores = model.scores(longer)
    assert np.array_equal(scores[:, 20:], np.repeat(scores[:, 19:20], 20, axis=1))
    step = model.step()
    state = step.start(1)
    for sample in longer[0]:
        state = step(state, sample[None])
    assert np.allclose(state["scores"][0], scores[0, -1], atol=1e-4)


def small_channels(n=90, sizes=None, seed=0):
    """One channel that tells the class, and forty that do not; all have the same size when they are read."""
    rng = np.random.default_rng(seed)
    y = np.arange(n) % 3
    x = rng.standard_normal((n, 12, 41)).astype(np.float32)
    x[:, :, 0] = 0.3 * x[:, :, 0] + (y - 1)[:, None]
    lengths = np.full(n, 12)
    return Examples(lambda rows: (x[rows], lengths[rows]), y, 3, 41, lengths, sizes=sizes), x


def test_channels_that_were_small_stay_small_if_this_is_clearly_better():
    sizes = np.r_[10.0, np.full(40, 0.1)]
    # The other way round, the sizes mislead and are not used.
    models = [sw.models.Prefix(kernels=64).fit(small_channels(sizes=one)[0]) for one in (sizes, 1 / sizes)]
    assert [model.report_["channels"] for model in models] == ["together", "separately"]
    losses = [np.mean(model.report_["held_out_loss"]) for model in models]
    assert losses[0] < 0.5 * losses[1]
    assert np.ptp(models[0].features_.scale) > 0
    assert (models[1].features_.scale == 1).all()


def test_the_step_scales_the_channels_as_whole_series_do():
    data, x = small_channels(sizes=np.r_[10.0, np.full(40, 0.1)])
    model = sw.models.Prefix(kernels=64).fit(data)
    scores = model.scores(x[:3])
    for xp in (np, torch):
        step = model.step(xp)
        state = step.start(3)
        for t in range(12):
            state = step(state, step.array(np.ascontiguousarray(x[:3, t])))
        assert np.allclose(np.asarray(state["scores"]), scores[:, -1], rtol=1e-4, atol=1e-3)
    loaded = sw.models.Prefix(kernels=64)
    loaded.restore(model.fitted() | {"classes": 3, "channels": 41}, model.tensors())
    assert np.array_equal(loaded.scores(x[:3]), scores)


def test_late_heads_learn_from_series_that_have_ended():
    # Only six series of 90 are long. What tells the classes apart is the same in the short ones.
    lengths = np.r_[np.full(84, 10), np.full(6, 20)]
    model, _, _ = fitted(lengths=lengths, noise=0.5)
    _, fresh = examples(n=90, seed=1, noise=0.5)
    y = np.arange(90) % 3
    assert model.heads_.steps[-1] == 20
    assert (model.scores(fresh)[:, -1].argmax(1) == y).mean() > 0.85


def test_held_out_scores_end_with_the_series():
    rng = np.random.default_rng(0)
    lengths = rng.integers(5, 21, size=90)
    model, _, _ = fitted(lengths=lengths)
    held = model.held_out_scores_
    for row in range(90):
        assert np.isfinite(held[row, : lengths[row]]).all()
        assert np.isnan(held[row, lengths[row] :]).all()
    assert model.heads_.shares.min() < 1
    assert model.heads_.steps[-1] <= lengths.max()


def test_the_state_is_small_and_does_not_grow():
    data, _ = examples(n=40, steps=500, channels=1, classes=2)
    model = sw.models.Prefix().fit(data)
    step = model.step()
    assert step.bytes() <= 64 * 1024
    state = step.start(1)
    sizes = {name: value.shape for name, value in state.items()}
    for _ in range(3):
        state = step(state, np.ones((1, 1), np.float32))
    assert {name: value.shape for name, value in state.items()} == sizes


def test_landmarks_come_close_to_all_series():
    data, _ = examples(n=240, noise=1.5)
    whole = sw.models.Prefix(kernels=64).fit(data)
    some = sw.models.Prefix(kernels=64, landmarks=120).fit(data)
    assert some.heads_.coefficients.shape[1] <= 121
    gap = np.mean(some.report_["held_out_loss"]) - np.mean(whole.report_["held_out_loss"])
    assert abs(gap) < 0.05


def test_all_series_are_used_in_the_regressions_up_to_one_and_a_half_times_the_landmarks():
    data, x = examples(n=150, noise=1.5)
    whole = sw.models.Prefix(kernels=64).fit(data)
    some = sw.models.Prefix(kernels=64, landmarks=100).fit(data)
    assert some.heads_.coefficients.shape[1] <= 101
    # The held-out scores come from the same regressions; only the Gaussian kernels are projected afterwards.
    np.testing.assert_array_equal(some.held_out_scores_, whole.held_out_scores_)
    exact, found = whole.scores(x), some.scores(x)
    assert not np.array_equal(found, exact)
    assert np.abs(found - exact).mean() < 0.05 * np.abs(exact).mean()


def test_groups_are_left_out_together():
    # A channel that tells the group, and groups of one class each: only splitting groups makes it useful.
    rng = np.random.default_rng(0)
    groups = np.repeat(np.arange(20), 6)
    y = groups % 2
    x = (rng.standard_normal((20, 1, 3))[groups] + 0.05 * rng.standard_normal((120, 8, 3))).astype(np.float32)
    lengths = np.full(120, 8)

    def loss(owner):
        data = Examples(lambda rows: (x[rows], lengths[rows]), y, 2, 3, lengths, owner)
        return np.mean(sw.models.Prefix(kernels=64).fit(data).report_["held_out_loss"])

    shuffled = rng.permutation(120)  # without groups and in random order, neighbors leak
    x, y, groups = x[shuffled], y[shuffled], groups[shuffled]
    assert loss(None) < 0.3
    assert loss(groups) > 0.5


def test_very_many_kernel_products_use_fewer_kernels():
    model = sw.models.Prefix()
    assert model._affordable_kernels(500, 128, 1) == 1024
    assert 256 <= model._affordable_kernels(20_000, 200, 1) < 1024
    # Data with more numbers may take more time.
    assert model._affordable_kernels(5000, 200, 3) > model._affordable_kernels(5000, 200, 1)


@pytest.mark.parametrize(
    ("params", "message"),
    [({"kernels": 12}, "multiple of 8"), ({"kernels": 0}, "kernels"), ({"landmarks": 3}, "landmarks")],
)
def test_wrong_options_are_refused(params, message):
    data, _ = examples(n=20)
    with pytest.raises(ValueError, match=message):
        sw.models.Prefix(**params).fit(data)


def test_too_few_series_or_groups_are_refused():
    with pytest.raises(ValueError, match="Provide more series"):
        sw.models.Prefix().fit(examples(n=4)[0])
    with pytest.raises(ValueError, match="at least two different groups"):
        sw.models.Prefix().fit(examples(n=20, groups=np.zeros(20))[0])


def test_constant_and_identical_series_are_accepted():
    y = np.arange(20) % 2
    clf = sw.EarlyClassifier(sw.models.Prefix(kernels=16)).fit(np.ones((20, 6, 2)), y)
    assert np.isfinite(clf.scores(np.ones((2, 6, 2)))).all()


def test_no_more_series_are_read_than_fit_in_memory(monkeypatch):
    data, x = examples(n=200)
    monkeypatch.setattr(prefix_model, "MOST_HELD", 100 * x.shape[1] * x.shape[2])
    model = sw.models.Prefix(kernels=16).fit(data)
    assert model.report_["series"] == 100
    assert model.held_out_scores_ is None
