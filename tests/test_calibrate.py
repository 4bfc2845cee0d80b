"""`EarlyClassifier.calibrate` and `EarlyClassifier.fit_rule`."""

import numpy as np
import pytest
from sklearn.base import clone

import stopwise as sw
from helpers import early
from stopwise.rules import NoThresholdError

X, Y, _ = sw.datasets.gaussian(n=2400, classes=3, offset=1.5, channels=3, length=10, seed=0)
NAMES = np.array(["ash", "birch", "cedar"])[Y]
TRAIN, HELD, NEW = slice(0, 300), slice(300, 1500), slice(1500, None)


def classifier(**params):
    return early(order=0, max_epochs=5, polish=False, **params)


@pytest.fixture(scope="module")
def fitted():
    return classifier().fit(X[TRAIN], NAMES[TRAIN])


@pytest.fixture
def clf(fitted):
    """A fitted classifier with the default rule."""
    fitted.rule_ = sw.SPRT(error_rate=0.05)
    return fitted


def test_calibrate_equals_rules_calibrate_on_the_scores(clf):
    assert clf.calibrate(X[HELD], NAMES[HELD], error_rate=0.1, per_class=True) is clf
    expected = sw.rules.calibrate(
        clf.scores(X[HELD]),
        Y[HELD],
        error_rate=0.1,
        per_class=True,
        prior=clf.prior_,
        classes=["ash", "birch", "cedar"],
    )
    assert clf.rule_ == expected
    assert clf.rule is None
    d = clf.decide(X[HELD])
    assert d.times.mean() == clf.rule_.guarantee.mean_time
    assert (clf.decide(X[NEW]).labels != NAMES[NEW]).mean() < 0.1


def test_error_rates_by_label(clf):
    clf.calibrate(X[HELD], NAMES[HELD], error_rate={"cedar": 0.1, "ash": 0.2})
    assert clf.rule_.guarantee.level == (0.2, None, 0.1)
    assert "20 % of class 'ash' and 10 % of class 'cedar'" in str(clf.rule_.guarantee)


def test_cost_fits_a_finite_horizon_rule(clf):
    clf.fit_rule(X[HELD], NAMES[HELD], cost=0.01, loss=2.0, method="finite_horizon")
    scores = clf.scores(X[HELD])
    expected = sw.FiniteHorizon.fit(scores, Y[HELD], cost=0.01, loss=2.0, prior=clf.prior_)
    assert clf.rule_ == expected
    assert clf.rule_.horizon == 10


def test_losses_by_label_equal_a_table(clf):
    table = 1.0 - np.eye(3)
    table[0, 2] = 5.0
    names = ["ash", "birch", "cedar"]
    named = {(names[k], names[l]): table[k, l] for k in range(3) for l in range(3) if k != l}  # noqa: E741
    by_name = clf.fit_rule(X[HELD], NAMES[HELD], cost=0.01, loss=named).rule_
    expected = sw.FiniteHorizon.fit(clf.scores(X[HELD]), Y[HELD], cost=0.01, loss=table, prior=clf.prior_)
    assert by_name == expected


def test_a_table_of_losses_needs_labels_that_are_positions(clf):
    """Strings are sorted alphabetically, so the rows of a table are easily mistaken."""
    with pytest.raises(
        ValueError, match=r"clear only if the labels are 0 to K − 1; they are 'ash', 'birch', 'cedar'. Name"
    ):
        clf.fit_rule(X[HELD], NAMES[HELD], cost=0.01, loss=1 - np.eye(3))
    assert clf.rule_ == sw.SPRT(error_rate=0.05)
    shifted = classifier().fit(X[TRAIN], Y[TRAIN] + 1)
    with pytest.raises(ValueError, match=r"they are 1, 2, 3.*loss=\{\(1, 2\): 1, ...\}"):
        shifted.fit_rule(X[HELD], Y[HELD] + 1, cost=0.01, loss=1 - np.eye(3))
    plain = classifier().fit(X[TRAIN], Y[TRAIN])
    assert plain.fit_rule(X[HELD], Y[HELD], cost=0.01, loss=1 - np.eye(3)).rule_.horizon == 10


def test_fit_rule_for_mean_time_and_harmonic_mean(clf):
    clf.fit_rule(X[HELD], NAMES[HELD], mean_time=2.0)
    assert clf.decide(X[HELD]).times.mean() <= 2.0
    clf.fit_rule(X[HELD], NAMES[HELD], objective="harmonic_mean")
    assert isinstance(clf.rule_, sw.SPRT)


def test_fit_rule_without_new_series_raises(clf):
    with pytest.raises(ValueError, match="`X` and `y` are needed: this Accumulator has no held-out scores"):
        clf.fit_rule(cost=0.01)
    with pytest.raises(ValueError, match="`X` is needed: this Accumulator has no held-out scores"):
        clf.fit_rule(y=NAMES[HELD], cost=0.01)
    with pytest.raises(ValueError, match="`y` is needed: this Accumulator has no held-out scores"):
        clf.fit_rule(X[HELD], cost=0.01)
    with pytest.raises(ValueError, match="300 of 300 were given to fit"):
        clf.fit_rule(X[TRAIN], NAMES[TRAIN], cost=0.01)


def test_a_cost_fits_a_line(clf):
    clf.fit_rule(X[HELD], NAMES[HELD], cost=0.01)
    assert isinstance(clf.rule_, sw.rules.SlopedProbability)
    assert clf.rule_.horizon == 10
    decided = clf.decide(X[NEW])
    found = ((decided.labels != NAMES[NEW]) + 0.01 * decided.times).mean()
    assert clf.rule_.cost_range[0] - 0.02 < found < clf.rule_.cost_range[1] + 0.02


@pytest.mark.parametrize("goal", [{"cost": 0.02}, {"mean_time": 3.0}, {"objective": "harmonic_mean"}])
def test_a_model_that_cross_fits_needs_no_further_series(goal, tmp_path):
    clf = early("prefix").fit(X[TRAIN], NAMES[TRAIN])
    held = clf.model_.held_out_scores_
    clf.fit_rule(**goal)
    expected = sw.rules.fit_rule(held, Y[TRAIN], prior=clf.prior_, classes=["ash", "birch", "cedar"], **goal)
    assert clf.rule_ == expected
    decided = clf.decide(X[NEW])
    assert (decided.labels == NAMES[NEW]).mean() > 0.7
    clf.save(tmp_path)
    assert sw.load(tmp_path).rule_ == expected
    with pytest.raises(ValueError, match="`X` and `y` are needed: this Prefix was saved without"):
        sw.load(tmp_path).fit_rule(**goal)


def test_few_series_make_a_rule_uncertain():
    clf = early("prefix").fit(X[:60], NAMES[:60])
    with pytest.warns(UserWarning, match="uncertain, because it was fitted to 60 series.*is between"):
        clf.fit_rule(cost=0.02)


def test_a_guarantee_needs_fresh_series():
    clf = early("prefix").fit(X[TRAIN], NAMES[TRAIN])
    with pytest.raises(ValueError, match="were given to fit"):
        clf.calibrate(X[TRAIN], NAMES[TRAIN], error_rate=0.1)
    with pytest.raises(ValueError, match="a guarantee requires series that were not used in fit"):
        clf.calibrate(error_rate=0.1)
    with pytest.raises(ValueError, match=r"`y` is needed\. Pass series"):
        clf.fit_rule(X[HELD], cost=0.1)


def test_unequal_lengths(clf):
    held = [x[: 6 + i % 5] for i, x in enumerate(X[HELD])]
    clf.calibrate(held, NAMES[HELD], accuracy_gap=0.1, conditional=True)
    assert clf.decide(held).times.mean() == clf.rule_.guarantee.mean_time
    assert len(clf.decide(X[NEW])) == 900


def test_a_calibrated_stream_decides_like_the_complete_series(clf):
    for asked in ({"error_rate": 0.1}, {"accuracy_gap": 0.05, "conditional": True}):
        clf.calibrate(X[HELD], NAMES[HELD], **asked)
        whole = clf.decide(X[NEW][:20])
        for row, x in enumerate(X[NEW][:20]):
            stream = clf.stream()
            for sample in x:
                if stream.update(sample) is not None:
                    break
            assert stream.finish().time == whole[row].time


def test_a_loaded_model_has_the_guarantee_and_the_fingerprints(clf, tmp_path):
    clf.calibrate(X[HELD], NAMES[HELD], error_rate=0.1)
    clf.save(tmp_path)
    loaded = sw.load(tmp_path)
    assert loaded.rule_ == clf.rule_
    assert str(loaded.rule_.guarantee) == str(clf.rule_.guarantee)
    with pytest.raises(ValueError, match="300 of 300 were given to fit"):
        loaded.calibrate(X[TRAIN], NAMES[TRAIN], error_rate=0.1)


def test_fitting_again_removes_the_guarantee():
    clf = classifier().fit(X[TRAIN], NAMES[TRAIN])
    clf.calibrate(X[HELD], NAMES[HELD], error_rate=0.1)
    assert clf.fit(X[TRAIN], NAMES[TRAIN]).rule_ == sw.SPRT(error_rate=0.05)


def test_calibrating_on_training_series_raises(clf):
    mixed = np.concatenate([X[HELD], X[:100].astype(np.float64)])
    labels = np.append(NAMES[HELD], NAMES[:100])
    for calibrate in (
        lambda: clf.calibrate(mixed, labels, error_rate=0.1),
        lambda: clf.fit_rule(mixed, labels, cost=0.01),
        lambda: clf.calibrate(mixed + 1e-7, labels, error_rate=0.1),
    ):
        with pytest.raises(
            ValueError, match=r"100 of 1300 were given to fit \(series 1200, 1201, 1202, …\).*Split the data"
        ):
            calibrate()
    assert clf.rule_ == sw.SPRT(error_rate=0.05)


def test_a_few_training_series_are_left_out(clf):
    mixed, labels = np.concatenate([X[HELD], X[7:9]]), np.append(NAMES[HELD], NAMES[7:9])
    expected = clf.calibrate(X[HELD], NAMES[HELD], error_rate=0.1).rule_
    with pytest.warns(UserWarning, match=r"2 of 1202 series that were used in fit") as caught:
        assert clf.calibrate(mixed, labels, error_rate=0.1).rule_ == expected
    assert caught[0].filename == __file__
    expected = clf.fit_rule(X[HELD], NAMES[HELD], mean_time=3).rule_
    with pytest.warns(UserWarning, match=r"2 of 1202 series that were used in fit"):
        assert clf.fit_rule(mixed, labels, mean_time=3).rule_ == expected


def test_copies_count_once(clf):
    held = slice(300, 500)
    twice, labels = np.concatenate([X[held]] * 3), np.tile(NAMES[held], 3)
    expected = clf.calibrate(X[held], NAMES[held], error_rate=0.2).rule_
    with pytest.warns(UserWarning, match="400 of 600 series that are copies of others"):
        assert clf.calibrate(twice, labels, error_rate=0.2).rule_ == expected
    assert clf.calibrate(twice, labels, error_rate=0.2, copies="all").rule_.threshold < expected.threshold
    expected = clf.fit_rule(X[held], NAMES[held], cost=0.01).rule_
    with pytest.warns(UserWarning, match="400 of 600 series that are copies of others"):
        assert clf.fit_rule(twice, labels, cost=0.01).rule_ == expected


def test_missing_classes_are_named(clf):
    only = NAMES[HELD] == "birch"
    with pytest.raises(ValueError, match=r"all series are of class 'birch'. Missing: 'ash', 'cedar'"):
        clf.calibrate(X[HELD][only], NAMES[HELD][only], error_rate=0.1)
    some = NAMES[HELD] != "cedar"
    with pytest.raises(ValueError, match="`y` must contain every class; missing: 'cedar'"):
        clf.fit_rule(X[HELD][some], NAMES[HELD][some], cost=0.01, method="finite_horizon")
    with pytest.warns(UserWarning, match="`y` has no series of class 'cedar', so their errors and times"):
        clf.fit_rule(X[HELD][some], NAMES[HELD][some], cost=0.01)
    with pytest.warns(UserWarning, match="`y` has no series of class 'cedar'"):
        clf.fit_rule(X[HELD][some], NAMES[HELD][some], mean_time=3)
    with pytest.warns(UserWarning, match="`y` has no series of class 'cedar'"):
        clf.calibrate(X[HELD][some], NAMES[HELD][some], error_rate=0.1)
    with pytest.raises(ValueError, match=r"all series are of class 'birch'. Missing: 'ash', 'cedar'"):
        clf.fit_rule(X[HELD][only], NAMES[HELD][only], mean_time=3)


def test_calibrating_on_validation_series_raises():
    clf = classifier().fit(X[TRAIN], NAMES[TRAIN], validation_data=(X[300:400], NAMES[300:400]))
    with pytest.raises(ValueError, match=r"100 of 1200 were given to fit \(series 0, 1, 2, …\)"):
        clf.calibrate(X[HELD], NAMES[HELD], error_rate=0.1)
    clf.calibrate(X[400:1500], NAMES[400:1500], error_rate=0.1)


def test_fitting_with_a_calibrated_rule_raises(clf):
    rule = clf.calibrate(X[HELD], NAMES[HELD], error_rate=0.1).rule_
    with pytest.raises(ValueError, match=r"`rule` carries a guarantee.*rule.without_guarantee\(\)"):
        classifier(rule=rule).fit(X[TRAIN], NAMES[TRAIN])
    assert clone(classifier(rule=rule.without_guarantee())).rule.threshold == rule.threshold


@pytest.mark.parametrize(
    ("y", "asked", "message"),
    [
        (
            np.where(NAMES == "ash", "oak", NAMES),
            {"error_rate": 0.1},
            "not in training: 'oak'; known labels are 'ash'",
        ),
        (Y, {"error_rate": 0.1}, "`y` has labels that were not in training: 0, 1, 2"),
        (NAMES[:5], {"error_rate": 0.1}, "`y` must have one label per series: 1200; got 5"),
        (NAMES, {"error_rate": {"oak": 0.1}}, "`error_rate` has labels that were not in training: 'oak'"),
        (NAMES, {}, "exactly one target"),
        (NAMES, {"error_rate": 0.1, "accuracy_gap": 0.1}, "exactly one target"),
    ],
)
def test_invalid_arguments_raise(clf, y, asked, message):
    with pytest.raises(ValueError, match=message):
        clf.calibrate(X[HELD], y[HELD] if len(y) > 5 else y, **asked)


def test_a_failed_calibration_does_not_change_the_rule(clf):
    with pytest.raises(NoThresholdError, match="`error_rate`=1e-06"):
        clf.calibrate(X[HELD], NAMES[HELD], error_rate=1e-6)
    assert clf.rule_ == sw.SPRT(error_rate=0.05)


def test_calibrate_before_fit_raises():
    with pytest.raises(ValueError, match="not fitted"):
        classifier().calibrate(X[HELD], NAMES[HELD], error_rate=0.1)
