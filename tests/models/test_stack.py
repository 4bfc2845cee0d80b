import numpy as np
import pytest
import torch

import stopwise as sw
from stopwise.data.examples import Examples
from stopwise.models.judging import series_losses
from stopwise.models.registry import rebuild


def quick(order=0, **params):
    return sw.models.Accumulator(order=order, hidden=4, training=sw.models.Training(max_epochs=3), **params)


class Fixed(sw.models.Model):
    """A model whose scores are a multiple of the running sum of a channel."""

    def __init__(self, channel=0, scale=1.0):
        self.channel, self.scale = channel, scale

    def fit(self, examples, validation=None, **options):
        self.classes_count_, self.channels_, self.seen_ = examples.classes, examples.channels, len(examples)
        self.report_ = {}
        return self

    def scores(self, x):
        evidence = self.scale * x[..., self.channel].cumsum(axis=1)
        return np.stack([-evidence, evidence], axis=-1).astype(np.float64)


def examples(n=400, steps=6, seed=0):
    """Two channels with independent evidence for class 1; LLR of one channel: 2 · 0.5 · x = 2 · (x / 2)."""
    rng = np.random.default_rng(seed)
    y = np.arange(n) % 2
    x = (rng.standard_normal((n, steps, 2)) + 0.5 * (2 * y - 1)[:, None, None]).astype(np.float32)
    lengths = np.full(n, steps)
    return Examples(lambda rows: (x[rows], lengths[rows]), y, 2, 2, lengths), x


def test_the_best_model_is_kept_as_it_is():
    data, x = examples()
    stack = sw.models.Stack([Fixed(scale=5.0), Fixed(scale=0.5)]).fit(data)
    assert stack.weights_ == [1.0]
    assert stack.models_[0].scale == 0.5
    assert np.array_equal(stack.scores(x), Fixed(scale=0.5).fit(data).scores(x))
    assert stack.models_[0].seen_ == len(data)  # fitted again to all series
    losses = [tried["loss"] for tried in stack.report_["tried"]]
    assert losses[1] < losses[0]
    assert [tried["weight"] for tried in stack.report_["tried"]] == [0.0, 1.0]


class Ready(Fixed):
    """A model that scores the training series without another fit."""

    cross_fits = True

    def fit(self, examples, validation=None, **options):
        super().fit(examples)
        self.held_out_scores_ = self.scores(examples.read(np.arange(len(examples)))[0])
        return self


@pytest.mark.parametrize(
    ("ready", "kept", "outcome"),
    [(0.53, 0.53, "not clearly better than Ready"), (1.5, 0.5, "kept with weight 1")],
)
def test_a_model_judged_on_one_fold_must_be_clearly_better(ready, kept, outcome):
    data, _ = examples(n=1200)  # so many that one fold is enough
    stack = sw.models.Stack([Ready(scale=ready), Fixed(scale=0.5)]).fit(data)
    assert stack.models_[0].scale == kept
    assert stack.report_["tried"][1]["outcome"] == outcome


def test_models_with_evidence_of_their_own_are_combined():
    data, x = examples(n=2000)
    stack = sw.models.Stack([Fixed(0, 0.5), Fixed(1, 0.5)]).fit(data)
    assert len(stack.models_) == 2
    assert stack.weights_ == pytest.approx([1.0, 1.0], abs=0.25)
    expected = sum(w * model.scores(x) for w, model in zip(stack.weights_, stack.models_))
    assert np.allclose(stack.scores(x), expected)
    held = stack.held_out_scores_
    assert 0.15 < np.isfinite(held).all(axis=(1, 2)).mean() < 0.25


def test_equal_models_are_not_combined():
    data, _ = examples()
    assert sw.models.Stack([Fixed(0, 0.5), Fixed(0, 0.5)]).fit(data).weights_ == [1.0]


def test_losses_are_those_of_the_posteriors():
    data, x = examples(n=50)
    scores = Fixed(scale=0.5).fit(data).scores(x)
    p = np.exp(scores) / np.exp(scores).sum(-1, keepdims=True)
    expected = -np.log(p[np.arange(50), :, data.y]).mean(axis=1)
    assert np.allclose(series_losses(scores, data), expected)


def test_the_held_out_scores_of_a_kept_prefix_model_are_those_of_all_series():
    data, _ = examples(n=100)
    stack = sw.models.Stack([sw.models.Prefix(kernels=16), Fixed(scale=50.0)]).fit(data)
    assert [model.name for model in stack.models_] == ["prefix"]
    assert np.isfinite(stack.held_out_scores_).all()


@pytest.mark.parametrize("xp", [np, torch])
def test_the_step_of_a_combination_equals_whole_series(xp):
    data, x = examples(n=60)
    stack = sw.models.Stack([sw.models.Prefix(kernels=16), quick()]).fit(data)
    stack.models_ = [sw.models.Prefix(kernels=16).fit(data), quick().fit(data)]
    stack.weights_ = [0.7, 0.4]
    step = stack.step(xp)
    state = step.start(3)
    for t in range(x.shape[1]):
        state = step(state, step.array(np.ascontiguousarray(x[:3, t])))
        assert np.allclose(np.asarray(state["scores"]), stack.scores(x[:3])[:, t], atol=1e-3)
    assert step.bytes() > 0
    assert all(step.accepts(name, tuple(value.shape[1:])) for name, value in state.items())


def test_a_combination_is_saved_and_loaded(tmp_path):
    X, y, _ = sw.datasets.gaussian(n=80, channels=2, length=6, seed=0)
    clf = sw.EarlyClassifier(sw.models.Stack([sw.models.Prefix(kernels=16), quick()])).fit(X, y)
    both = [sw.models.Prefix(kernels=16), quick()]
    data = clf._examples(sw.SeriesSet(X), y)
    clf.model_.models_, clf.model_.weights_ = [model.fit(data) for model in both], [0.5, 0.5]
    clf.save(tmp_path / "model")
    loaded = sw.load(tmp_path / "model")
    assert np.array_equal(loaded.scores(X), clf.scores(X))
    assert loaded.model_.weights_ == [0.5, 0.5]
    assert [type(one).__name__ for one in loaded.model._candidates()] == ["Prefix", "Accumulator"]


WRONG = [[], "prefix", 3, [{"name": "prefix"}], [{"options": {}}], [{"name": "prefix", "options": 3}]]


@pytest.mark.parametrize("models", WRONG, ids=str)
def test_wrong_models_are_refused(models):
    with pytest.raises(ValueError, match="`models`"):
        sw.models.Stack(models).fit(examples(n=20)[0])


@pytest.mark.parametrize("models", WRONG, ids=str)
def test_a_description_with_wrong_models_is_refused(models):
    model = sw.models.Stack([sw.models.Prefix(kernels=16)]).fit(examples(n=40)[0])
    description = model.describe()
    assert rebuild(description, model.tensors()).weights_ == [1.0]
    with pytest.raises(ValueError, match="`models`"):
        rebuild(description | {"params": {"models": models}}, model.tensors())


def test_groups_are_judged_together():
    data, _ = examples(n=100)
    groups = np.repeat(np.arange(10), 10)
    grouped = Examples(data.read, data.y, 2, 2, data.lengths, groups)
    stack = sw.models.Stack([Fixed(0, 0.5), Fixed(1, 0.5)]).fit(grouped)
    held = np.isfinite(stack.held_out_scores_).all(axis=(1, 2))
    assert all(len(set(held[groups == group])) == 1 for group in range(10))


def test_a_hopeless_model_is_dropped_after_a_short_fit():
    data, _ = examples(n=100)
    fits = []

    class Counted(Fixed):
        def fit(self, examples, validation=None, **options):
            fits.append(len(examples))
            return super().fit(examples, validation, **options)

        def shorts(self):
            return [Counted(scale=self.scale)]

    stack = sw.models.Stack([sw.models.Prefix(kernels=16), Counted(scale=50.0)]).fit(data)
    assert fits == [80]  # once, without one of five folds
    assert stack.report_["tried"][1]["outcome"].startswith("dropped after a short fit: log loss ")
    assert stack.report_["tried"][1]["series"] == 20
    fits.clear()
    stack = sw.models.Stack([sw.models.Prefix(kernels=16), Counted(scale=0.5)]).fit(data)
    assert fits == [80, 80]  # a short fit, and one fold
    assert stack.report_["tried"][1]["outcome"].startswith("dropped after one fold: log loss ")


def test_a_model_that_may_pay_is_judged_on_all_folds():
    data, x = examples(n=100)
    fits = []

    class Both(Fixed):
        def fit(self, examples, validation=None, **options):
            fits.append(len(examples))
            return super().fit(examples, validation, **options)

        def scores(self, x):
            return Fixed.scores(self, x.sum(axis=-1, keepdims=True))

    stack = sw.models.Stack([sw.models.Prefix(kernels=16), Both(scale=0.5)]).fit(data)
    assert fits == [80] * 5 + [100]  # five folds, then all series
    assert stack.report_["tried"][1]["series"] == 100
    assert [type(model) for model in stack.models_] == [Both]
    assert np.isfinite(stack.held_out_scores_).all()
    assert np.allclose(stack.held_out_scores_, stack.scores(x))


def test_a_model_is_dropped_when_its_loss_on_the_folds_so_far_is_worse():
    data, _ = examples(n=100)
    fits = []

    class GoodOnce(Fixed):
        def fit(self, examples, validation=None, **options):
            fits.append(len(examples))
            self.factor_ = 1.0 if len(fits) == 1 else 50.0
            return super().fit(examples, validation, **options)

        def scores(self, x):
            return self.factor_ * Fixed.scores(self, x.sum(axis=-1, keepdims=True))

    stack = sw.models.Stack([sw.models.Prefix(kernels=16), GoodOnce(scale=0.5)]).fit(data)
    assert fits == [80, 80]
    assert stack.report_["tried"][1]["outcome"].startswith("dropped after 2 folds: log loss ")
    assert stack.report_["tried"][1]["series"] == 40


@pytest.mark.parametrize(
    ("scales", "chosen"), [([0.3], [0.3]), ([0.3, 0.32], [0.32]), ([0.5], []), ([0.3, 0.5], [0.5])]
)
def test_a_model_keeps_the_best_settings_of_its_short_fits_unless_the_first_is_promising(scales, chosen):
    data, _ = examples(n=400)
    settled = []

    class Sum(Fixed):
        def scores(self, x):
            return Fixed.scores(self, x.sum(axis=-1, keepdims=True))

    class Reference(Sum, Ready):
        pass

    class Slow(Sum):
        def shorts(self):
            return [Slow(scale=scale) for scale in scales]

        def settled(self, fitted):
            if fitted.scale in scales:
                settled.append(fitted.scale)
            return super().settled(fitted)

    sw.models.Stack([Reference(scale=0.45), Slow(scale=0.4)]).fit(data)
    assert settled == chosen


def test_a_part_of_a_combination_of_many_series_is_not_fitted_again():
    data, _ = examples(n=1200)
    stack = sw.models.Stack([Fixed(0), Fixed(1)]).fit(data)
    assert len(stack.models_) == 2
    assert [model.seen_ for model in stack.models_] == [960, 960]
    few, _ = examples(n=400)
    assert [model.seen_ for model in sw.models.Stack([Fixed(0), Fixed(1)]).fit(few).models_] == [400, 400]
    alone = sw.models.Stack([Fixed(0)]).fit(data)
    assert [model.seen_ for model in alone.models_] == [1200]


def test_models_are_judged_on_the_folds_of_the_prefix_model():
    # Neighbors are copies: a fold of random series would let a model that remembers them win.
    rng = np.random.default_rng(0)
    y = np.repeat(np.arange(2), 60)
    x = np.repeat(rng.standard_normal((60, 4, 1)), 2, axis=0).astype(np.float32)
    lengths = np.full(120, 4)
    data = Examples(lambda rows: (x[rows], lengths[rows]), y, 2, 1, lengths)

    class Remembers(Fixed):
        def fit(self, examples, validation=None, **options):
            known, _ = examples.read(np.arange(len(examples)))
            self.known_ = {one.tobytes(): 2 * k - 1 for one, k in zip(known[:, 0], examples.y)}
            return super().fit(examples, validation, **options)

        def scores(self, x):
            side = np.array([self.known_.get(one.tobytes(), 0) for one in x[:, 0]])
            return 3.0 * np.repeat(np.stack([-side, side], axis=-1)[:, None], x.shape[1], axis=1)

    stack = sw.models.Stack([sw.models.Prefix(kernels=16), Remembers()]).fit(data)
    assert stack.report_["tried"][1]["loss"] == pytest.approx(np.log(2))


def test_a_settled_network_does_not_choose_again():
    data, _ = examples(n=60)
    fitted = quick(order="auto").fit(data)
    settled = quick(order="auto").settled(fitted)
    assert (settled.order, settled.body) == (fitted.order_, fitted.body_)
    assert settled.fit(data).report_["order_search"] is None
    endless = quick(order=None).fit(data)
    settled = endless.settled(endless)
    assert (settled.order, settled.body) == (None, "lstm")


def test_the_short_form_of_a_network_is_a_copy_with_few_epochs():
    model = sw.models.Accumulator(hidden=8)
    short = model.shorts()[0]
    assert (short.hidden, short.training.max_epochs, short.body) == (8, 5, "window")
    assert model.training is None
    assert quick().shorts()[0].training.max_epochs == 3
    assert sw.models.Accumulator(order=None).shorts()[0].body == "auto"
    assert sw.models.Prefix().shorts() == []


def test_the_accumulator_is_tried_with_a_window_and_with_a_filter():
    data, _ = examples(n=100)
    window, filter_ = (short.fit(data) for short in sw.models.Accumulator(hidden=4).shorts())
    assert (window.body_, filter_.body_) == ("window", "filter")
    settled = sw.models.Accumulator().settled(filter_)
    assert (settled.order, settled.body) == (None, "filter")
    assert len(sw.models.Accumulator(order=2).shorts()) == 1


def test_networks_train_fewer_epochs_on_many_long_series():
    data, _ = examples(n=100, steps=6)
    model = sw.models.Accumulator()
    assert model.limited(data, 6000).training.max_epochs == 10
    assert model.limited(data, 60).training.max_epochs == 5
    assert model.limited(data, 10**6).training.max_epochs == 50
    given = quick()
    assert given.limited(data, 60) is given
    assert sw.models.Prefix().limited(data, 60).kernels == 1024
