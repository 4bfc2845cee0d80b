"""Invalid arguments of the public interface raise clear errors."""

import numpy as np
import pytest

import stopwise as sw
from helpers import early
from stopwise.models.networks import modules
from stopwise.persistence.folder import ModelFolderError

X, Y, _ = sw.datasets.gaussian(24, channels=2, length=6, seed=0)


def fit(x=X, y=Y, model="accumulator", **params):
    small = {} if model == "tandemformer" else {"hidden": 3}
    return early(model, **small | {"max_epochs": 1} | params).fit(x, y)


WRONG_PARAMETERS = [
    ({"order": 60}, ValueError, r"`order` must be in \[0, T−1\]; got order=60 for series of length T=6"),
    ({"order": -1}, ValueError, "`order` must be >= 0; got -1"),
    ({"order": 1.5}, TypeError, "`order` must be an integer; got 1.5"),
    ({"order": True}, TypeError, "`order` must be an integer; got True"),
    ({"order": "all"}, ValueError, "`order` must be an integer, None or 'auto'; got 'all'"),
    ({"formula": "tandm", "model": "tanh"}, ValueError, "`formula` must be one of.*Did you mean 'tandem'"),
    ({"loss": "lsell"}, ValueError, "`loss` must be one of 'lsel', 'lllr'; got 'lsell'"),
    ({"llre_ratio": 1.2}, ValueError, r"`llre_ratio` must be in \[0, 1\]; got 1.2"),
    ({"polish": "yes"}, TypeError, "`polish` must be True or False; got 'yes'"),
    ({"rule": 0.05}, TypeError, "`rule` must be a stopping rule such as SPRT"),
    ({"rule": "sprt"}, TypeError, "`rule` must be a stopping rule"),
    ({"max_epochs": 0}, ValueError, "`max_epochs` must be >= 1; got 0"),
    ({"batch_size": 0}, ValueError, "`batch_size` must be >= 1; got 0"),
    ({"batch_size": 2.0}, TypeError, "`batch_size` must be an integer"),
    ({"learning_rate": 0.0}, ValueError, r"`learning_rate` must be in \(0, inf\); got 0"),
    ({"learning_rate": "0.1"}, TypeError, "`learning_rate` must be a number; got '0.1'"),
    ({"optimizer": "sgd"}, ValueError, "`optimizer` must be one of 'adam', 'rmsprop'"),
    ({"schedule": "linear"}, ValueError, "`schedule` must be one of 'constant', 'cosine'"),
    ({"weight_decay": -1.0}, ValueError, "`weight_decay` must be in"),
    ({"gradient_clip": 0.0}, ValueError, "`gradient_clip` must be in"),
    ({"patience": 0}, ValueError, "`patience` must be >= 1"),
    ({"dropout": 1.0}, ValueError, r"`dropout` must be in \[0, 1\); got 1"),
    ({"validation_fraction": 1.0}, ValueError, "`validation_fraction` must be in"),
    ({"missing": "drop"}, ValueError, "`missing` must be one of 'error', 'mask'"),
    ({"device": "abacus"}, ValueError, "`device` must be a torch device that is available"),
    ({"devices": 0}, ValueError, "`devices` must be in \\[1, 4096\\]"),
    ({"random_state": -1}, ValueError, "`random_state` must be >= 0"),
    ({"body": "lstm", "order": 2}, ValueError, "`order` must be None or 'auto' with body='lstm'"),
    (
        {"body": "window", "order": None},
        ValueError,
        "`order` must be an integer or 'auto' with body='window'; got None",
    ),
    ({"body": "tree"}, ValueError, "`body` must be one of"),
    ({"model": "b2bsqrt", "alpha": -1.0}, ValueError, "`alpha` of b2bsqrt must be"),
    ({"model": "tandemformer", "pooling": "max"}, ValueError, "`pooling` must be one of"),
    ({"model": "tandemformer", "heads": 0}, ValueError, "`heads` must be >= 1; got 0"),
    ({"model": "b2bsqrt", "hidden": 0}, ValueError, "`hidden` must be >= 1; got 0"),
    ({"model": "b2bsqrt", "hidden": 2.5}, TypeError, "`hidden` must be an integer"),
    ({"model": "tandemformer", "positions": "x"}, ValueError, "`positions` must be one of"),
    (
        {"learning_rate": 3e38, "max_epochs": 5},
        FloatingPointError,
        "Training diverged.*Lower `training.learning_rate`",
    ),
]


@pytest.mark.parametrize(("params", "error", "message"), WRONG_PARAMETERS)
def test_invalid_parameters_raise(params, error, message):
    with pytest.raises(error, match=message):
        fit(**params)


@pytest.mark.parametrize(
    ("model", "error", "message"),
    [
        ("acumulator", ValueError, "Did you mean 'accumulator'"),
        (3, TypeError, "`model` must be one of 'accumulator', .* or a stopwise.models.Model; got 3"),
        (modules.LSTMModule, TypeError, r"Wrap a custom torch module as stopwise.models.Network\(MyModule\)"),
        (
            sw.models.Accumulator(training={"max_epochs": 3}),
            TypeError,
            "`training` must be a stopwise.models",
        ),
        (sw.models.Network(lambda c, k, n: "net"), TypeError, "`module` must return a .*Integrator; got str"),
        (sw.models.Network("net"), TypeError, "`module` must be a callable"),
    ],
)
def test_invalid_models_raise(model, error, message):
    with pytest.raises(error, match=message):
        sw.EarlyClassifier(model).fit(X, Y)


def with_value(value, dtype=np.float64):
    x = X.astype(dtype)
    x[3, 4, 1] = value
    return x


WRONG_DATA = [
    (X[0, :, 0], Y, ValueError, r"`X` must have shape \(n, T\) or \(n, T, D\).*got shape \(6,\)"),
    (X[None], Y, ValueError, r"got shape \(1, 24, 6, 2\)"),
    (X[:0], Y[:0], ValueError, "0 sample"),
    (X[:, :0], Y, ValueError, "0 feature"),
    (X[:, :, :0], Y, ValueError, "0 channel"),
    (np.array([["a", "b"]] * 24), Y, ValueError, "`X` must hold numbers"),
    (X + 1j, Y, ValueError, "Complex data not supported"),
    (with_value(np.nan), Y, ValueError, "series 3 has NaN at step 5, channel 1.*missing='mask'"),
    (with_value(np.inf), Y, ValueError, "series 3 has infinity.*at step 5, channel 1"),
    (with_value(1e300), Y, ValueError, "too large for float32"),
    ([X[0], X[1, :3, :1]] * 12, Y, ValueError, "the same D >= 1"),
    ([X[0], X[1, :0]] * 12, Y, ValueError, "0 steps"),
    (X, Y[:5], ValueError, "`y` must have one label per series: 24; got 5"),
    (X, np.zeros(24, int), ValueError, "at least 2 classes; got 1 class"),
    (X, None, ValueError, "requires y to be passed"),
    (X, np.linspace(0, 1, 24), ValueError, "Unknown label type"),
    (X, np.zeros((24, 2)), ValueError, "y should be a 1d array"),
]


@pytest.mark.parametrize(("x", "y", "error", "message"), WRONG_DATA)
def test_invalid_data_raise(x, y, error, message):
    with pytest.raises(error, match=message):
        fit(x, y)


@pytest.fixture(scope="module")
def clf():
    return fit()


def test_a_different_number_of_channels_raises(clf):
    with pytest.raises(ValueError, match=r"`X` must have 2 channel\(s\), as in training; got 3"):
        clf.scores(np.zeros((4, 6, 3)))


def test_nan_in_scoring_raises(clf):
    with pytest.raises(ValueError, match="has NaN at step 5"):
        clf.decide(with_value(np.nan))


@pytest.mark.parametrize("call", ["scores", "llr", "decide", "predict", "predict_proba"])
def test_use_before_fit_raises(call):
    with pytest.raises(ValueError, match="not fitted yet"):
        getattr(sw.EarlyClassifier(), call)(X)


def test_save_before_fit_raises(tmp_path):
    with pytest.raises(ValueError, match="not fitted yet"):
        sw.EarlyClassifier().save(tmp_path)


def test_unknown_labels_in_validation_data_raise():
    with pytest.raises(ValueError, match="`validation_data`: y has labels that were not in training: 7"):
        early(max_epochs=1).fit(X, Y, validation_data=(X[:2], [0, 7]))


def test_validation_data_of_different_lengths_raise():
    with pytest.raises(ValueError, match=r"`validation_data`: y must have one label per series: 2; got 3"):
        early(max_epochs=1).fit(X, Y, validation_data=(X[:2], [0, 1, 1]))


def test_loading_from_a_missing_folder_raises(tmp_path):
    with pytest.raises(FileNotFoundError, match="No stopwise model at"):
        sw.load(tmp_path / "nothing")


def test_a_custom_model_must_be_passed_to_load(tmp_path):
    model = sw.models.Network(modules.LSTMModule, order=1, params={"hidden": 3})
    clf = early(model, max_epochs=1).fit(X, Y)
    clf.save(tmp_path)
    with pytest.raises(ModelFolderError, match="the saved model is of the custom class Network: pass an"):
        sw.load(tmp_path)
    with pytest.raises(ModelFolderError, match="`model` must be a Network; got Accumulator"):
        sw.load(tmp_path, model=sw.models.Accumulator())
    loaded = sw.load(tmp_path, model=model)
    np.testing.assert_array_equal(loaded.scores(X), clf.scores(X))


def test_a_model_can_only_be_passed_to_load_if_it_is_custom(clf, tmp_path):
    clf.save(tmp_path)
    with pytest.raises(ModelFolderError, match="`model` can only be used with a custom model; this folder"):
        sw.load(tmp_path, model=sw.models.Accumulator())


class Patient(sw.rules.Rule):
    """A custom rule."""

    def __init__(self, lead=1.0):
        self.lead = lead

    def margins(self, scores, times):
        return scores - scores.mean(-1, keepdims=True) - self.lead


class Forgetful(Patient):
    """A custom rule that does not store an argument under its name."""

    def __init__(self, lead=1.0, extra=None):
        super().__init__(lead)
        self.extra = object()


def test_a_custom_rule_is_loaded_by_its_class(clf, tmp_path):
    clf.rule_ = Patient(0.5)
    clf.save(tmp_path)
    with pytest.raises(
        ModelFolderError, match="the stopping rule Patient is not part of stopwise: pass its class"
    ):
        sw.load(tmp_path)
    assert sw.load(tmp_path, rule=Patient).rule_ == clf.rule_
    with pytest.raises(ModelFolderError, match=r"holds Patient; got Forgetful\. Pass the class Patient"):
        sw.load(tmp_path, rule=Forgetful)


def test_a_class_of_rules_that_the_folder_does_not_hold_raises(clf, tmp_path):
    clf.rule_ = sw.SPRT(2.0)
    clf.save(tmp_path)
    for other in (Patient, sw.FixedTime):
        with pytest.raises(
            ModelFolderError,
            match=rf"which holds SPRT; got {other.__name__}. Omit `rule`; to change the rule",
        ):
            sw.load(tmp_path, rule=other)
    assert sw.load(tmp_path, rule=sw.SPRT).rule_ == clf.rule_
    with pytest.raises(TypeError, match="`rule` must be a class of stopping rules; got Patient"):
        sw.load(tmp_path, rule=Patient(0.5))


def test_a_custom_rule_may_be_only_a_parameter_or_only_in_use(clf, tmp_path):
    other = sw.EarlyClassifier(clf.model, rule=Patient(0.5), progress=False)
    other.fit(*sw.datasets.gaussian(40, channels=2, length=5, seed=0)[:2])
    other.rule_ = sw.FixedTime(2)
    other.save(tmp_path)
    loaded = sw.load(tmp_path, rule=Patient)
    assert (loaded.rule, loaded.rule_) == (other.rule, other.rule_)


def test_saving_a_rule_that_cannot_be_loaded_raises(clf, tmp_path):
    clf.rule_ = Forgetful()
    with pytest.raises(ValueError, match="Forgetful"):
        clf.save(tmp_path / "model")
    assert not (tmp_path / "model").exists()
    clf.rule_ = sw.SPRT(error_rate=0.05)


def test_saving_to_a_folder_with_other_files_raises(clf, tmp_path):
    (tmp_path / "thesis.txt").write_text("years of work")
    with pytest.raises(ModelFolderError, match="holds other files"):
        clf.save(tmp_path)
    with pytest.raises(ModelFolderError, match="is a file"):
        clf.save(tmp_path / "thesis.txt")


def test_saving_unsupported_labels_raises(tmp_path):
    when = np.array(["2026-01-01", "2026-01-02"], dtype="datetime64[D]")[Y].astype(object)
    clf = fit()
    clf.classes_ = np.unique(when)
    with pytest.raises(ModelFolderError, match="labels of type date cannot be saved"):
        clf.save(tmp_path)
