import json
import subprocess
import sys

import numpy as np
import pytest
import torch

import stopwise as sw
from helpers import early


def small(**params):
    return early(**{"order": 0, "max_epochs": 3, "hidden": 4, "polish": False} | params)


@pytest.fixture(scope="module")
def world():
    return sw.datasets.gaussian(120, classes=3, offset=1.5, channels=4, length=8, seed=0)


@pytest.fixture(scope="module")
def fitted(world):
    return small().fit(*world[:2])


def test_independent_samples_are_learned_almost_optimally():
    X, y, _ = sw.datasets.gaussian(2000, offset=1.0, channels=4, length=20, seed=0)
    X_new, y_new, truth = sw.datasets.gaussian(1000, offset=1.0, channels=4, length=20, seed=1)
    clf = early(order=0, llre_ratio=0.0, max_epochs=30, learning_rate=0.01, rule=sw.SPRT(4.0))
    clf.fit(X, y)
    found = sw.metrics.llr_error(clf.scores(X_new), truth)
    assert 0.9 < found.slope < 1.1
    assert found.relative < 0.15
    oracle = sw.SPRT(4.0).decide(truth)
    d = clf.decide(X_new)
    assert (d.labels == y_new).mean() > (oracle.labels == y_new).mean() - 0.02
    assert abs(d.times.mean() - oracle.times.mean()) < 0.7


def test_imbalanced_classes_need_no_correction():
    X, y, _ = sw.datasets.gaussian(4000, offset=1.0, channels=2, length=5, seed=0)
    rows = np.concatenate([np.flatnonzero(y == 0), np.flatnonzero(y == 1)[:200]])
    X_new, _, truth = sw.datasets.gaussian(1000, offset=1.0, channels=2, length=5, seed=1)
    clf = early(order=0, llre_ratio=0.0, max_epochs=30, learning_rate=0.01)
    scores = clf.fit(X[rows], y[rows]).scores(X_new)
    gap = (scores[:, -1, 1] - scores[:, -1, 0]) - (truth[:, -1, 1] - truth[:, -1, 0])
    # A prior of 10:1 left in every step would shift the sum by 5 log 10 = 11.5 nats.
    assert abs(gap.mean()) < 1.5


def test_llr_is_the_difference_of_scores(fitted, world):
    scores, llr = fitted.scores(world[0]), fitted.llr(world[0])
    assert llr.shape == (120, 8, 3, 3)
    np.testing.assert_allclose(llr[..., 2, 0], scores[..., 2] - scores[..., 0], rtol=1e-6)


@pytest.mark.parametrize("labels", [["no", "yes", "maybe"], [3, 7, -1], [1.0, 2.0, 3.0]])
def test_labels_of_any_type_are_returned(world, labels):
    X, y, _ = world
    named = np.array(labels)[y]
    clf = small(learning_rate=0.05).fit(X, named)
    assert set(clf.predict(X)) <= set(labels)
    assert clf.score(X, named) > 0.6
    assert type(clf.decide(X)[0].label) is type(labels[0])


def test_univariate_series_need_no_channel_axis(world):
    X, y, _ = world
    clf = small().fit(X[..., 0], y)
    np.testing.assert_array_equal(clf.scores(X[..., 0]), clf.scores(X[..., :1]))


def test_series_of_unequal_length_equal_padded_series(world):
    X, y, _ = world
    lengths = np.random.default_rng(0).integers(1, 9, len(X))
    ragged = small(order=1).fit([x[:t] for x, t in zip(X, lengths)], y)
    noisy = X.copy()
    noisy[np.arange(8) >= lengths[:, None]] = 1e6
    padded = small(order=1).fit(sw.SeriesSet(noisy, lengths=lengths), y)
    np.testing.assert_allclose(ragged.scores(X), padded.scores(X), rtol=1e-5, atol=1e-6)


def test_decisions_are_made_within_each_series(fitted, world):
    X = world[0]
    d = fitted.decide([X[0], X[1, :2], X[2, :5]])
    assert (d.times <= [8, 2, 5]).all()
    assert d.lengths.tolist() == [8, 2, 5]


def test_series_longer_than_in_training_are_scored(fitted, world):
    X = world[0]
    twice = np.concatenate([X, X], axis=1)
    np.testing.assert_allclose(fitted.scores(twice)[:, :8], fitted.scores(X), rtol=1e-5, atol=1e-6)


def test_a_memory_map_is_read_in_batches(world, tmp_path):
    X, y, _ = world
    path = tmp_path / "X.dat"
    stored = np.memmap(path, dtype=np.float64, mode="w+", shape=X.shape)
    stored[:] = X
    stored.flush()
    mapped = np.memmap(path, dtype=np.float64, mode="r", shape=X.shape)
    clf = small(batch_size=16).fit(mapped, y)
    np.testing.assert_array_equal(clf.scores(mapped), small(batch_size=16).fit(X, y).scores(X))


MEMORY = """
import sys, tracemalloc
import numpy as np
import stopwise as sw
from stopwise.models.networks.training import polish
polish.memory_budget = lambda: 2**23
polish.PASSES, polish.RIDGES = 1, (1e-3,)
X = np.memmap(sys.argv[1], dtype=np.float32, mode="r", shape=(600, 50, 512))
y = np.arange(600) % 2
settings = {"model": "accumulator", "order": 0, "training.max_epochs": 1, "hidden": 4}
clf = sw.EarlyClassifier.from_settings(settings)
clf.fit(X[:100], y[:100])
tracemalloc.start()
clf.fit(X, y)
clf.decide(X)
print(tracemalloc.get_traced_memory()[1] / 2**20)
"""


def test_a_memory_map_is_never_loaded_completely(tmp_path):
    path = tmp_path / "big.dat"
    with open(path, "wb") as file:
        file.truncate(600 * 50 * 512 * 4)  # 59 MB, sparse on disk
    run = subprocess.run(
        [sys.executable, "-c", MEMORY, str(path)], capture_output=True, text=True, check=True, timeout=240
    )
    peak = float(run.stdout)  # of numpy's arrays
    assert 5 < peak < 50


def test_series_generated_on_demand_are_accepted():
    X = sw.datasets.GaussianSeries(200, offset=2.0, channels=3, length=5, seed=0)
    assert small(learning_rate=0.05).fit(X, X.y).score(X, X.y) > 0.8


def test_missing_values_are_supported_with_mask(world):
    X, y, _ = world
    holes = X.copy()
    holes[np.random.default_rng(0).random(X.shape) < 0.3] = np.nan
    clf = small(missing="mask", max_epochs=10, learning_rate=0.03).fit(holes, y)
    assert np.isfinite(clf.scores(holes)).all()
    assert clf.score(holes, y) > 0.6
    with pytest.raises(ValueError, match="infinity"):
        clf.scores(np.where(np.isnan(holes), np.inf, holes))


def test_standardizing_makes_units_irrelevant(world):
    X, y, _ = world
    meters, millimeters = small().fit(X, y), small().fit(1000 * X + 5e4, y)
    np.testing.assert_allclose(millimeters.scores(1000 * X + 5e4), meters.scores(X), rtol=0.02, atol=0.02)


def test_validation_data_replace_the_held_out_part(world):
    X, y, _ = world
    clf = small().fit(X[:90], y[:90], validation_data=(X[90:], y[90:]))
    assert "validation_loss" in clf.model_.report_["history"][0]
    assert (
        clf.model_.report_["history"][0]["train_loss"]
        == small(validation_fraction=0).fit(X[:90], y[:90]).model_.report_["history"][0]["train_loss"]
    )


def test_a_class_with_one_series_stays_in_training(world):
    X, y, _ = world
    rows = np.concatenate([np.flatnonzero(y < 2), np.flatnonzero(y == 2)[:1]])
    clf = small(validation_fraction=0.5).fit(X[rows], y[rows])
    assert len(clf.classes_) == 3


def test_series_of_one_sample():
    X, y, _ = sw.datasets.gaussian(40, offset=3.0, channels=2, length=1, seed=0)
    for model in sw.models.MODELS:
        clf = early(model, max_epochs=2)
        with pytest.warns(UserWarning, match="1 step"):
            d = clf.fit(X, y).decide(X)
        assert (d.times == 1).all()


def test_a_saved_model_has_a_readable_description_and_equal_scores(fitted, world, tmp_path):
    fitted.save(tmp_path / "model")
    about = json.loads((tmp_path / "model" / "model.json").read_text())
    assert about["classes"]["values"] == [0, 1, 2]
    assert about["model"]["params"]["hidden"] == 4
    assert about["versions"]["torch"] == str(torch.__version__)
    loaded = sw.load(tmp_path / "model")
    np.testing.assert_array_equal(loaded.scores(world[0]), fitted.scores(world[0]))
    loaded.save(tmp_path / "model")  # replacing itself
    np.testing.assert_array_equal(sw.load(tmp_path / "model").scores(world[0]), fitted.scores(world[0]))


def test_a_resumed_fit_equals_an_uninterrupted_one(world, tmp_path):
    X, y, _ = world
    whole = small(max_epochs=4, dropout=0.3).fit(X, y)

    class Stop(Exception):
        pass

    reads = 0

    class Failing:
        """Series that raise an error in the third epoch."""

        shape, dtype, ndim = X.shape, X.dtype, 3

        def __getitem__(self, rows):
            nonlocal reads
            reads += 1
            if reads > 10:
                raise Stop
            return X[rows]

    file = tmp_path / "run.safetensors"
    with pytest.raises(Stop):
        small(max_epochs=4, dropout=0.3).fit(Failing(), y, checkpoint=file)
    assert file.exists()
    resumed = small(max_epochs=4, dropout=0.3).fit(X, y, checkpoint=file)
    np.testing.assert_array_equal(resumed.scores(X), whole.scores(X))
    assert resumed.model_.report_ == whole.model_.report_


def test_importing_stopwise_does_not_import_torch():
    code = "import sys, stopwise, stopwise.rules, stopwise.metrics; assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_an_unknown_name_raises_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'Early'"):
        sw.Early  # noqa: B018


@pytest.mark.parametrize("prior", ["empirical", "uniform", {0: 0.2, 1: 0.3, 2: 0.5}])
def test_the_prior_multiplies_the_odds(world, prior):
    X, y, _ = world
    rows = np.concatenate([np.flatnonzero(y < 2), np.flatnonzero(y == 2)[:10]])
    clf = small(prior=prior, max_epochs=1).fit(X[rows], y[rows])
    shares = {"empirical": np.bincount(y[rows]) / len(rows), "uniform": np.full(3, 1 / 3)}
    expected = shares[prior] if isinstance(prior, str) else np.array([0.2, 0.3, 0.5])
    np.testing.assert_allclose(clf.prior_, expected)
    weighed = np.exp(clf.scores(X).astype(np.float64)) * expected
    np.testing.assert_allclose(clf.posteriors(X), weighed / weighed.sum(-1, keepdims=True), rtol=1e-6)
    d = clf.decide(X)
    assert d.forced.any()
    guesses = (d.scores + np.log(expected)).argmax(1)
    np.testing.assert_array_equal(d.labels[d.forced], guesses[d.forced])
    at_stop = clf.posteriors(X)[np.arange(len(X)), d.times - 1]
    np.testing.assert_allclose(clf.predict_proba(X), at_stop, rtol=1e-6)


def test_forced_decisions_of_streams_use_the_prior(world):
    X, y, _ = world
    clf = small(prior={0: 0.98, 1: 0.01, 2: 0.01}, rule=sw.SPRT(np.inf), max_epochs=1).fit(X, y)
    stream = clf.stream()
    stream.update(np.zeros(4))
    assert stream.finish().label == 0


@pytest.mark.parametrize(
    ("prior", "message"),
    [
        ("equal", "`prior` must be 'empirical' .*, 'uniform' or a dict"),
        (None, "`prior` must be 'empirical'"),
        ({0: 0.5, 1: 0.5}, "`prior` must give a share for each of the classes 0, 1, 2 .*; 2 is missing"),
        ({0: 0.5, 1: 0.25, 2: 0.125, 7: 0.125}, "7 is missing or unknown"),
        ({0: 0.5, 1: 0.5, 2: 0.5}, "`prior` must be positive and sum to 1"),
        ({0: 1.0, 1: 0.0, 2: 0.0}, "`prior` must be positive"),
    ],
)
def test_an_invalid_prior_raises(world, prior, message):
    with pytest.raises(ValueError, match=message):
        small(prior=prior).fit(*world[:2])


def test_a_large_offset_does_not_reduce_precision(world):
    X, y = world[0].astype(np.float64), world[1]
    near, far = small().fit(X, y), small().fit(X + 1e9, y)
    np.testing.assert_allclose(far.scores(X + 1e9), near.scores(X), rtol=0.02, atol=0.02)
    stream, other = near.stream(), far.stream()
    stream.update(X[0, 0])
    other.update(X[0, 0] + 1e9)
    np.testing.assert_allclose(other.scores, stream.scores, rtol=0.02, atol=0.02)


def test_groups_are_passed_to_the_model_and_checked(world):
    X, y, _ = world
    groups = np.arange(len(X)) // 6
    seen = []

    class Spy(sw.models.Accumulator):
        def fit(self, examples, validation=None, **options):
            seen.append(examples.groups)
            return super().fit(examples, validation, **options)

    sw.EarlyClassifier(Spy(order=0).set_params(training__max_epochs=1)).fit(X, y, groups=groups)
    np.testing.assert_array_equal(seen[0], groups)
    with pytest.raises(ValueError, match="`groups` must have one label per series: 120; got 3"):
        small().fit(X, y, groups=[1, 2, 3])


def test_from_settings_creates_a_classifier():
    settings = {"model": "tanh", "order": 1, "training.max_epochs": 7, "standardize": False}
    clf = sw.EarlyClassifier.from_settings(settings, random_state=3)
    assert (clf.model.order, clf.model.training.max_epochs) == (1, 7)
    assert (clf.standardize, clf.random_state) == (False, 3)


def test_the_digest_is_computed_once(world, monkeypatch):
    clf = small().fit(*world[:2])
    first = clf.stream()
    monkeypatch.setattr("stopwise.persistence.description.digest_tensors", None)
    assert clf.stream()._engine.digest == first._engine.digest
    assert clf.streams()._engine.digest == first._engine.digest


def test_a_new_stream_uses_the_current_rule(world):
    clf = small().fit(*world[:2])
    clf.stream()
    clf.rule_ = sw.SPRT(0.0)
    assert clf.stream().update(world[0][0, 0]).time == 1
