import pytest
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression, RidgeClassifier

import stopwise as sw
from helpers import NETWORKS, early
from stopwise import checks
from stopwise.models.networks import modules


def small(model="accumulator", **params):
    sizes = {"hidden": 4} if model in ("accumulator", "b2bsqrt", "tanh") else {}
    return early(model, max_epochs=2, batch_size=16, **{"polish": False} | sizes | params)


CUSTOM = sw.models.Network(modules.LSTMModule, order=1, params={"hidden": 4})
ESTIMATORS = [
    *[small(model, order=order) for model in NETWORKS for order in (None, 0, 2)],
    *[small(model, missing="mask", order=1) for model in NETWORKS],
    sw.EarlyClassifier(sw.models.Prefix(kernels=64)),
    early("auto"),
    sw.EarlyClassifier(sw.models.Prefix(kernels=16, landmarks=30), missing="mask"),
    small("b2bsqrt", formula="oblivion", order=2, polish=True),
    small("tanh", loss="lllr", llre_ratio=0.5, order=2),
    small("accumulator", llre_ratio=0.5, order=2, dropout=0.2, polish=True),
    small("accumulator", order=None, body="filter", polish=True),
    small("accumulator", order="auto", body="filter", states=3, missing="mask"),
    small("tandemformer", pooling="one-token", positions="learned", order=2),
    small(CUSTOM, polish=True),
    sw.EarlyClassifier(sw.models.FromProbabilities(LogisticRegression())),
    sw.EarlyClassifier(sw.models.FromProbabilities(RidgeClassifier(), lengths=[3, 6]), missing="mask"),
    sw.EarlyClassifier(sw.models.FromProbabilities(RandomForestClassifier(5), lengths=[1, 4])),
]


def cases(things):
    return [
        pytest.param(check, id=f"{i}-{type(thing).__name__}-{name}")
        for i, thing in enumerate(things)
        for name, check in checks.yield_checks(thing)
    ]


@pytest.mark.parametrize("check", cases(ESTIMATORS))
def test_every_estimator_passes_the_checks(check):
    check()


def test_every_model_is_checked():
    assert set(sw.models.MODELS) <= {estimator.model.name for estimator in ESTIMATORS}
    public = [getattr(sw.models, name) for name in sw.models.__all__]
    kinds = {kind for kind in public if isinstance(kind, type) and issubclass(kind, sw.models.Model)}
    assert kinds - {sw.models.Model} <= {type(estimator.model) for estimator in ESTIMATORS}


class NonCausal(modules.LSTMModule):
    """A network whose scores depend on future samples."""

    def evidence(self, x, multiplets):
        return super().evidence(x + x.mean(1, keepdim=True), multiplets)


class Unchecked(sw.models.Network):
    """A model without the causality check before training."""

    def _preflight(self, task):
        pass


def test_a_network_that_uses_future_samples_fails_the_check():
    with pytest.raises(AssertionError, match="changed future"):
        checks.check_prefix_causality(small(Unchecked(NonCausal, order=1, params={"hidden": 4})))


def test_an_unsupported_type_raises():
    with pytest.raises(TypeError, match="`thing` must be a stopping rule or an EarlyClassifier; got int"):
        next(checks.yield_checks(3))


class Renamed(sw.models.Accumulator):
    """A subclass of a built-in model, which inherits its name but is saved as a custom model."""


def test_a_subclass_of_a_built_in_model_passes_the_check_of_saving():
    training = sw.models.Training(max_epochs=1, batch_size=16)
    clf = sw.EarlyClassifier(Renamed(order=0, hidden=4, polish=False, training=training))
    checks.check_save_and_pickle_round_trip(clf)


class Unsaved(sw.models.FromProbabilities):
    """A model that says that it cannot be saved, but is saved."""

    def tensors(self):
        return {}


def test_a_model_that_cannot_be_saved_must_refuse():
    with pytest.raises(AssertionError, match="was saved although"):
        checks.check_save_and_pickle_round_trip(sw.EarlyClassifier(Unsaved(LogisticRegression())))
