"""`FromProbabilities`: classifiers of scikit-learn on prefixes, cross-fitted and calibrated."""

import sys
import types

import numpy as np
import pytest
import torch
from scipy.special import log_softmax
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LinearRegression, LogisticRegression, RidgeClassifier
from sklearn.model_selection import GridSearchCV
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC
from sklearn.tree import DecisionTreeClassifier

import stopwise as sw
from stopwise.data.examples import Examples
from stopwise.export import export_onnx
from stopwise.models import FromProbabilities
from stopwise.models.prefix import calibration
from stopwise.models.prefix.folds import fold_rows, make_folds
from stopwise.models.wrapped import Wrapped, input_shape


def examples(n=90, steps=12, channels=2, classes=3, seed=0, lengths=None, groups=None, y=None, shift=0.5):
    rng = np.random.default_rng(seed)
    y = np.arange(n) % classes if y is None else y
    x = rng.standard_normal((n, steps, channels)) + shift * np.eye(classes, channels)[y][:, None]
    lengths = np.full(n, steps) if lengths is None else lengths
    x = x.astype(np.float32)
    return Examples(lambda rows: (x[rows], lengths[rows]), y, classes, channels, lengths, groups), x


def regression():
    return LogisticRegression(C=0.1)


# Cross-fitting and calibration


@pytest.mark.parametrize("groups", [None, np.arange(90) // 6])
def test_held_out_scores_equal_refitting_without_the_fold_by_hand(groups):
    data, x = examples(groups=groups)
    model = FromProbabilities(regression(), lengths=[2, 12]).fit(data)
    fold = make_folds(data.y, groups)
    folds = fold_rows(fold)
    log_prior = np.log(np.bincount(data.y) / 90)
    z, flat = [], {}
    for length in (2, 12):
        flat[length] = x[:, :length].reshape(90, -1).astype(float)
        outputs = np.empty((90, 3))
        for rows in folds:
            others = np.setdiff1d(np.arange(90), rows)
            fitted = regression().fit(flat[length][others], data.y[others])
            outputs[rows] = fitted.predict_log_proba(flat[length][rows])
        size = (outputs - outputs.mean(1, keepdims=True)).std()
        scale = calibration.fit_scale(outputs / size, data.y) / size
        z.append((scale, scale * (outputs - outputs.mean(1, keepdims=True))))
    penalty = model.report_["calibration_penalty"]
    for step, (scale, own) in zip((2, 12), z):
        logits = np.empty((90, 3))
        for rows in folds:
            others = np.setdiff1d(np.arange(90), rows)
            matrix, bias = calibration.fit_matrix(own[others], data.y[others], penalty)
            logits[rows] = own[rows] @ matrix + bias
        expected = log_softmax(logits, axis=1) - log_prior
        np.testing.assert_allclose(model.held_out_scores_[:, step - 1], expected, atol=1e-5)
        whole = regression().fit(flat[step], data.y).predict_log_proba(flat[step])
        matrix, bias = calibration.fit_matrix(own, data.y, penalty)
        final = log_softmax(scale * (whole - whole.mean(1, keepdims=True)) @ matrix + bias, axis=1)
        np.testing.assert_allclose(model.scores(x)[:, step - 1], final - log_prior, atol=1e-6)


def test_the_penalty_of_the_calibration_is_the_best_one():
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 200)
    good = 2.0 * np.eye(2)[y] + rng.normal(size=(200, 2))
    z = good - good.mean(1, keepdims=True)
    folds = [np.arange(i, 200, 5) for i in range(5)]
    losses = {
        one: calibration.log_loss(calibration.left_out_logits(z, y, one, folds), y)
        for one in calibration.MATRIX_PENALTIES
    }
    assert calibration.choose_penalty([z], [y], [folds]) == min(losses, key=losses.get)


def test_later_samples_change_nothing_before():
    data, x = examples()
    model = FromProbabilities(regression()).fit(data)
    whole = model.scores(x)
    for t in range(1, 12):
        changed = x.copy()
        changed[:, t:] = 50 - changed[:, t:]
        np.testing.assert_array_equal(model.scores(changed)[:, :t], whole[:, :t])
        np.testing.assert_allclose(model.scores(x[:, :t]), whole[:, :t], atol=1e-9)


@pytest.mark.parametrize(
    "estimator",
    [
        LogisticRegression(C=100.0, max_iter=1000),
        DecisionTreeClassifier(),
        KNeighborsClassifier(3),
        GaussianNB(),
        RidgeClassifier(alpha=1e-3),
    ],
    ids=lambda estimator: type(estimator).__name__,
)
def test_scores_are_near_zero_if_the_labels_are_noise(estimator):
    labels = np.random.default_rng(1).permutation(np.arange(200) % 2)
    data, _ = examples(n=200, classes=2, y=labels, shift=0.0)
    _, fresh = examples(n=200, classes=2, y=labels, shift=0.0, seed=7)
    model = FromProbabilities(estimator, lengths=[1, 6, 12]).fit(data)
    assert np.abs(np.diff(model.scores(fresh), axis=2)).mean() < 0.4
    assert all(loss < np.log(2) + 0.05 for loss in model.report_["held_out_loss"])


@pytest.mark.parametrize(
    "estimator", [RandomForestClassifier(30), RidgeClassifier(), GaussianNB(), regression()],
    ids=lambda estimator: type(estimator).__name__,
)  # fmt: skip
def test_every_kind_of_classifier_is_calibrated(estimator):
    data, _ = examples(n=240, shift=1.0)
    fresh_data, fresh = examples(n=240, shift=1.0, seed=9)
    model = FromProbabilities(estimator, lengths=[1, 4, 12]).fit(data)
    log_p = log_softmax(model.scores(fresh), axis=2)
    confident = np.exp(log_p[:, -1].max(1))
    right = log_p[:, -1].argmax(1) == fresh_data.y
    assert right.mean() > 0.85
    assert abs(confident.mean() - right.mean()) < 0.08
    loss = -log_p[np.arange(240), -1, fresh_data.y].mean()
    assert loss == pytest.approx(model.report_["held_out_loss"][-1], abs=0.1)


def test_llrs_of_a_linear_world_are_close_to_the_truth():
    X, y, _ = sw.datasets.gaussian(2000, offset=0.5, channels=2, length=8, seed=0)
    X_new, _, truth = sw.datasets.gaussian(500, offset=0.5, channels=2, length=8, seed=1)
    clf = sw.EarlyClassifier(FromProbabilities(regression(), lengths=[1, 4, 8])).fit(X, y)
    scores = clf.scores(X_new)
    for t in (0, 3, 7):
        found, true = (s[:, t, 1] - s[:, t, 0] for s in (scores, truth))
        assert np.abs(found - true).mean() < 0.15 * np.abs(true).mean()
    np.testing.assert_array_equal(scores[:, 1:3], scores[:, :1].repeat(2, axis=1))  # held between the lengths


def test_class_frequencies_are_divided_out():
    y = (np.arange(400) % 10 == 0).astype(int)
    data, _ = examples(n=400, classes=2, y=y, shift=0.0)
    scores = FromProbabilities(regression(), lengths=[1]).fit(data).held_out_scores_
    assert abs((scores[..., 1] - scores[..., 0]).mean()) < 0.2  # log(1/9) = −2.2 would be the prior


# Lengths


def test_default_lengths_are_few_and_reach_the_end():
    for steps in (1, 5, 40, 1000):
        found = sw.models.from_probabilities._default_lengths(steps)
        assert (found[0], found[-1]) == (1, steps)
        assert found == sorted(set(found))
        assert len(found) <= 16


def test_before_the_first_length_there_is_no_evidence():
    data, x = examples()
    model = FromProbabilities(regression(), lengths=[8, 4, 8]).fit(data)
    assert model.lengths_ == [4, 8]
    scores = model.scores(x)
    assert not scores[:, :3].any()
    assert not model.held_out_scores_[:, :3].any()
    assert not model.scores(x[:, :2]).any()
    assert np.abs(scores[:, 3]).min() > 0
    np.testing.assert_array_equal(scores[:, 7:], scores[:, 7:8].repeat(5, axis=1))


def test_series_of_unequal_length_are_used_where_they_are_long_enough():
    lengths = np.r_[np.full(60, 4), np.full(30, 12)]
    data, x = examples(lengths=lengths)
    model = FromProbabilities(regression(), lengths=[4, 8]).fit(data)
    assert model.report_["series"] == [90, 30]
    held = model.held_out_scores_
    assert np.isfinite(held[:60, :4]).all()
    assert np.isnan(held[:60, 4:]).all()
    assert np.isfinite(held[60:]).all()
    # With 30 of 90 series, the second head has the share 30 / (30 + 20); the rest is taken from the first.
    first, second = (head.scores(x[:, :t], model.log_prior_) for head, t in zip(model.heads_, (4, 8)))
    np.testing.assert_allclose(model.scores(x)[:, 7], 0.6 * second + 0.4 * first)
    cut = x.copy()
    cut[:60, 4:] = 1e6  # padding is never seen
    again = Examples(lambda rows: (cut[rows], lengths[rows]), data.y, 3, 2, lengths)
    np.testing.assert_array_equal(
        FromProbabilities(regression(), lengths=[4, 8]).fit(again).scores(x), model.scores(x)
    )


@pytest.mark.parametrize("lengths", [None, [1, 4, 8], [3, 8]])
def test_the_last_scores_are_those_of_the_whole_series(lengths):
    data, x = examples(lengths=np.r_[np.full(60, 4), np.full(25, 9), np.full(5, 12)])
    model = FromProbabilities(regression(), lengths=lengths).fit(data)
    for t in range(1, 13):
        np.testing.assert_allclose(model.last_scores(x[:, :t]), model.scores(x)[:, t - 1], atol=1e-12)


def test_lengths_that_too_few_series_reach_are_not_used():
    data, _ = examples(lengths=np.r_[np.full(86, 6), np.full(4, 12)])
    with pytest.warns(UserWarning, match=r"`lengths` 9, 40: not used, because too few series are so long"):
        model = FromProbabilities(regression(), lengths=[2, 9, 40]).fit(data)
    assert model.lengths_ == [2]
    assert FromProbabilities(regression()).fit(data).lengths_[-1] == 6
    with pytest.raises(ValueError, match=r"`lengths` must have a length that at least 5 series .* got \[9\]"):
        FromProbabilities(regression(), lengths=[9]).fit(data)


@pytest.mark.parametrize("lengths", [3, "3", [], [0], [1.5]])
def test_wrong_lengths_raise(lengths):
    with pytest.raises((TypeError, ValueError), match="`lengths` must be"):
        FromProbabilities(regression(), lengths=lengths).fit(examples()[0])


# Classes and groups


@pytest.mark.parametrize("estimator", [regression(), RidgeClassifier(), RandomForestClassifier(5)])
def test_classes_that_are_missing_from_a_fold(estimator):
    # The third class has two series, the fourth is one group, so some copies do not know them.
    y = np.r_[np.arange(60) % 2, [2, 2], np.full(6, 3)]
    groups = np.r_[np.arange(62) // 2, np.full(6, 99)]
    for own in (None, groups):
        data, x = examples(n=68, classes=4, channels=4, y=y, groups=own, shift=2.0)
        model = FromProbabilities(estimator, lengths=[1, 12]).fit(data)
        assert np.isfinite(model.scores(x)).all()
        assert np.isfinite(model.held_out_scores_).all()
        posterior = model.scores(x)[:, -1] + model.log_prior_
        assert (posterior[:60].argmax(1) == y[:60]).mean() > 0.9


def test_a_copy_with_one_class_gives_no_evidence():
    groups = np.arange(40) % 2  # each group has one class, so a fold without a group has one class
    data, _ = examples(n=40, classes=2, y=groups, groups=groups)
    model = FromProbabilities(regression(), lengths=[1, 12]).fit(data)
    assert np.isfinite(model.held_out_scores_).all()
    found = Wrapped.fit(regression(), "flat", np.ones((5, 2, 1)), np.zeros(5, dtype=int), 3)
    assert not found.outputs(np.ones((2, 2, 1))).any()


def test_groups_are_never_split():
    rng = np.random.default_rng(0)
    groups = np.repeat(np.arange(40), 5)
    y = rng.integers(0, 2, 40)[groups]
    x = (5 * rng.normal(size=(40, 1, 3))[groups] + rng.normal(size=(200, 6, 3))).astype(np.float32)
    order = rng.permutation(200)
    x, y, groups, lengths = x[order], y[order], groups[order], np.full(200, 6)
    accuracy = []
    for own in (groups, None):
        data = Examples(lambda rows: (x[rows], lengths[rows]), y, 2, 3, lengths, own)
        held = FromProbabilities(KNeighborsClassifier(3), lengths=[6]).fit(data).held_out_scores_
        accuracy.append((held[:, -1].argmax(1) == y).mean())
    assert accuracy[0] < 0.65
    assert accuracy[1] > 0.9


def test_too_few_series_or_groups_raise():
    with pytest.raises(ValueError, match="`X` must have at least two series of each class"):
        FromProbabilities(regression()).fit(examples(n=4)[0])
    with pytest.raises(ValueError, match="`groups` must have at least two different groups"):
        FromProbabilities(regression()).fit(examples(groups=np.zeros(90))[0])


# Estimators


class Recorder(ClassifierMixin, BaseEstimator):
    """A classifier that notes the shape of its input, as a class of aeon would have it."""

    def fit(self, X, y):
        self.classes_, self.shape_ = np.unique(y), X.shape
        self.first_ = X[0].copy()
        return self

    def predict_proba(self, X):
        return np.full((len(X), len(self.classes_)), 1 / len(self.classes_))


def test_the_input_is_flat_or_has_channels_first(monkeypatch):
    data, x = examples()
    aeon = type("Aeon", (Recorder,), {"__module__": "aeon.classification.made_up"})
    monkeypatch.setitem(sys.modules, "aeon.classification.made_up", types.ModuleType("made_up"))
    derived = type("Mine", (aeon,), {"__module__": __name__})
    assert input_shape(make_pipeline(aeon(), regression()), "auto") == "channels_first"
    assert input_shape(make_pipeline(StandardScaler(), aeon()), "auto") == "flat"
    for estimator, shape, flat in (
        (Recorder(), "auto", True),
        (aeon(), "auto", False),
        (derived(), "auto", False),
        (aeon(), "flat", True),
        (Recorder(), "channels_first", False),
    ):
        model = FromProbabilities(estimator, lengths=[5], shape=shape).fit(data)
        fitted = model.heads_[0].classifier.estimator
        assert fitted.shape_ == ((90, 10) if flat else (90, 2, 5))
        np.testing.assert_array_equal(fitted.first_, x[0, :5].ravel() if flat else x[0, :5].T)
    with pytest.raises(
        ValueError, match="`shape` must be one of 'auto', 'flat', 'channels_first'; got 'flatt'"
    ):
        FromProbabilities(Recorder(), shape="flatt").fit(data)


def test_the_decision_function_replaces_probabilities():
    data, x = examples(classes=2, channels=1, n=60, shift=1.0)
    found = Wrapped.fit(RidgeClassifier(), "flat", x, data.y, 2).outputs(x)
    values = RidgeClassifier().fit(x[..., 0].astype(float), data.y).decision_function(x[..., 0].astype(float))
    np.testing.assert_allclose(found[:, 1] - found[:, 0], values)
    tiny = FromProbabilities(RidgeClassifier(alpha=1e7), lengths=[12]).fit(data)  # outputs of about 1e-5
    assert (tiny.held_out_scores_[:, -1].argmax(1) == data.y).mean() > 0.8
    assert np.abs(np.diff(tiny.scores(x)[:, -1])).max() > 1


@pytest.mark.parametrize(
    ("estimator", "message"),
    [
        (LogisticRegression, r"must be an instance; got the class LogisticRegression\. Pass Logistic"),
        ("prefix", "must be a classifier with the methods of scikit-learn"),
        (LinearRegression(), "LinearRegression has neither"),
    ],
)
def test_what_is_not_a_classifier_raises(estimator, message):
    with pytest.raises(TypeError, match=message):
        FromProbabilities(estimator).fit(examples()[0])


def test_errors_of_the_estimator_name_it_and_the_length():
    data, _ = examples()
    with pytest.raises(
        ValueError, match=r"KNeighborsClassifier failed on series of length 2: Expected n_neigh"
    ):
        FromProbabilities(KNeighborsClassifier(80), lengths=[2]).fit(data)
    with pytest.raises(ValueError, match=r"`estimator` SVC failed on 72 series of length 2: .* Choose other"):
        FromProbabilities(SVC(C=-1.0), lengths=[2]).fit(data)
    with pytest.raises(ValueError, match=r"SVC must give one number per class, shape \(n, 4\); got shape"):
        FromProbabilities(SVC(decision_function_shape="ovo")).fit(examples(classes=4)[0])


def test_the_seed_is_passed_on_and_the_estimator_stays_unfitted():
    data, x = examples()
    estimator = make_pipeline(StandardScaler(), RandomForestClassifier(5))
    scores = [
        FromProbabilities(estimator, lengths=[6]).fit(data, random_state=seed).scores(x) for seed in (0, 0, 1)
    ]
    np.testing.assert_array_equal(scores[0], scores[1])
    assert (scores[0] != scores[2]).any()
    assert estimator[-1].random_state is None
    assert not hasattr(estimator[0], "mean_")


# In a classifier


@pytest.fixture(scope="module")
def world():
    return sw.datasets.gaussian(300, classes=3, offset=1.0, channels=3, length=10, seed=0)


@pytest.fixture(scope="module")
def clf(world):
    X, y, _ = world
    return sw.EarlyClassifier(FromProbabilities(regression()), progress=False).fit(X[:200], y[:200])


def test_rules_are_fitted_without_further_series_and_calibrated_with_them(clf, world):
    X, y, _ = world
    clf.fit_rule(cost=0.02)
    assert isinstance(clf.rule_, sw.rules.SlopedProbability)
    assert clf.score(X[200:], y[200:]) > 0.7
    clf.calibrate(X[200:], y[200:], error_rate=0.4)
    assert clf.rule_.guarantee.confidence == 0.95


def test_streams_equal_whole_series(clf, world):
    X = world[0]
    scores, decisions = clf.scores(X[:3]), clf.decide(X[:3])
    for row in range(3):
        stream = clf.stream()
        for t in range(decisions.times[row]):
            stream.update(X[row, t])
            np.testing.assert_allclose(stream.scores, scores[row, t], atol=1e-6)
        assert stream.decided is None or stream.decided.time == decisions.times[row]


def test_saving_and_exporting_are_refused(clf, tmp_path):
    with pytest.raises(TypeError, match="cannot be saved: LogisticRegression belongs to another library"):
        clf.save(tmp_path / "model")
    assert not (tmp_path / "model").exists()
    with pytest.raises(TypeError, match="cannot be exported: LogisticRegression belongs to another library"):
        clf.model_.step(torch)
    with pytest.raises(TypeError, match="cannot be exported"):
        export_onnx(clf, tmp_path / "model.onnx")


def test_parameters_are_nested(world):
    X, y, _ = world
    clf = sw.EarlyClassifier(FromProbabilities(regression(), lengths=[2, 10]), progress=False)
    assert clf.get_params()["model__estimator__C"] == 0.1
    assert clone(clf).set_params(model__estimator__C=3.0).model.estimator.C == 3.0
    search = GridSearchCV(clf, {"model__estimator__C": [1.0, 1e-3], "model__lengths": [[1], [10]]}, cv=2)
    search.fit(X, y)
    assert search.best_params_["model__lengths"] == [10]
    used = search.best_estimator_.model_.heads_[0].classifier.estimator
    assert search.best_params_["model__estimator__C"] == used.C


def test_it_can_be_part_of_a_stack(world):
    X, y, _ = world
    parts = [
        FromProbabilities(regression(), lengths=[1, 5, 10]),
        FromProbabilities(GaussianNB(), lengths=[1]),
    ]
    clf = sw.EarlyClassifier(sw.models.Stack(parts), progress=False).fit(X, y)
    assert [tried["model"] for tried in clf.model_.report_["tried"]] == ["FromProbabilities"] * 2
    assert clf.score(X, y) > 0.7
