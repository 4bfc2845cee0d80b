"""The estimator checks of scikit-learn, and its tools applied to the classifier."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils.estimator_checks import check_classifiers_train, parametrize_with_checks

import stopwise as sw
from helpers import early

ANY_LENGTH = "columns are time steps, and series may be shorter or longer than those of the training data"
FLOAT32 = (
    "requires a tolerance of 1e-7; the network is float32, and the position of a row in a matrix product "
    "changes its last bits; stopwise.checks requires 1e-5"
)
EXPECTED_FAILURES = {
    "check_methods_sample_order_invariance": FLOAT32,
    "check_methods_subset_invariance": FLOAT32,
    "check_n_features_in_after_fitting": ANY_LENGTH,
    "check_classifiers_train": f"{ANY_LENGTH}; run below on a classifier that requires equal lengths",
}


def quick(cls=sw.EarlyClassifier, order=0):
    training = sw.models.Training(max_epochs=30, learning_rate=0.03, batch_size=32)
    return cls(sw.models.Accumulator(order=order, hidden=8, polish=False, training=training))


@parametrize_with_checks([quick()], expected_failed_checks=lambda _: EXPECTED_FAILURES)
@pytest.mark.filterwarnings("default")  # the checks of scikit-learn emit warnings
def test_scikit_learn_checks(estimator, check):
    check(estimator)


class TableClassifier(sw.EarlyClassifier):
    """A classifier that requires the number of columns of the training data, as scikit-learn does."""

    def scores(self, X):
        self._check_columns(X)
        return super().scores(X)

    def decide(self, X):
        self._check_columns(X)
        return super().decide(X)

    def _check_columns(self, X):
        if hasattr(self, "n_features_in_") and np.shape(X)[1] != self.n_features_in_:
            raise ValueError("columns")


@pytest.mark.parametrize("readonly", [False, True])
def test_classifier_training_check_with_a_fixed_number_of_columns(readonly):
    # The columns of a table are different features, so the network must use all of them: order=None.
    check_classifiers_train("TableClassifier", quick(TableClassifier, order=None), readonly_memmap=readonly)


@pytest.fixture(scope="module")
def world():
    X, y, _ = sw.datasets.gaussian(60, offset=2.0, channels=2, length=6, seed=0)
    return X, y


def test_grid_search_and_cross_validation(world):
    clf = early(order=0, max_epochs=3, hidden=4)
    grid = {
        "model__training__learning_rate": [0.001, 0.05],
        "model__order": [0, 1],
        "rule": [sw.SPRT(1.0), sw.SPRT([3.0, 2.0])],
    }
    search = GridSearchCV(clf, grid, cv=2).fit(*world)
    assert search.best_score_ > 0.7
    assert search.best_estimator_.model.order == search.best_params_["model__order"]
    assert cross_val_score(search.best_estimator_, *world, cv=2).mean() > 0.7


def test_pipeline(world):
    X, y = world
    pipeline = make_pipeline(FunctionTransformer(lambda x: 2 * x), early(order=0, max_epochs=2))
    assert pipeline.fit(X, y).predict(X).shape == y.shape


def test_grid_search_over_a_model_given_by_name(world):
    clf = sw.EarlyClassifier("tanh", rule=sw.SPRT(2.0))
    grid = {"model__order": [0, 1], "model__training__max_epochs": [1], "rule__threshold": [1.0, 2.0]}
    search = GridSearchCV(clf, grid, cv=2).fit(*world)
    assert isinstance(search.best_estimator_.model, sw.models.TanhTandem)
    assert clf.model == "tanh"


def test_nested_parameters():
    clf = sw.EarlyClassifier("accumulator").set_params(model__order=2, rule__threshold=3.0)
    assert clf.model.order == 2
    assert clf.rule == sw.SPRT(3.0)
    clf.set_params(model__training__learning_rate=0.5)
    assert clf.get_params()["model__training__learning_rate"] == 0.5
    with pytest.raises(ValueError, match="Invalid parameter 'heads'"):
        clf.set_params(model__heads=2)


@pytest.mark.parametrize("rule", [None, sw.SPRT(3.0), sw.SPRT([1.0, 2.0]), sw.MaxProbability(0.9)])
@pytest.mark.parametrize("model", ["tanh", sw.models.Tandemformer(heads=3)])
def test_clones_are_equal_and_independent(model, rule):
    clf = sw.EarlyClassifier(model, rule=rule, prior={0: 0.1, 1: 0.9})
    other = clone(clf)
    assert str(other.get_params(deep=False)) == str(clf.get_params(deep=False))
    other.set_params(model__order=7)
    assert getattr(clf.model, "order", None) != 7
