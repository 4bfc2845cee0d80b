import pytest

import stopwise as sw
from stopwise import checks
from stopwise.models.networks import modules as nets


def small(**params):
    settings = {"model_params": {"hidden": 4}} if params.get("model") != "tandemformer" else {}
    return sw.EarlyClassifier(max_epochs=2, batch_size=16, **settings | params)


def own_integrator(features, classes, order):
    return nets.LSTMIntegrator(features, classes, order, hidden=4)


ESTIMATORS = [
    *[small(model=model, order=order) for model in nets.MODELS for order in (None, 0, 2)],
    *[small(model=model, missing="mask", order=1) for model in nets.MODELS],
    small(model="b2bsqrt", formula="oblivion", order=2),
    small(model="lstm", loss="lllr", llre_ratio=0.5, order=2),
    small(model="accumulator", llre_ratio=0.5, order=2, dropout=0.2),
    small(model="tandemformer", model_params={"pooling": "one-token", "positions": "learned"}, order=2),
    small(model=own_integrator, model_params=None, order=1),
]


def cases(things):
    return [
        pytest.param(check, id=f"{i}-{type(thing).__name__}-{name}")
        for i, thing in enumerate(things)
        for name, check in checks.yield_checks(thing)
    ]


@pytest.mark.parametrize("check", cases(ESTIMATORS))
def test_every_estimator_keeps_the_promises(check):
    check()


def test_every_model_is_checked():
    assert set(nets.MODELS) <= {estimator.model for estimator in ESTIMATORS}


class Clairvoyant(nets.LSTMIntegrator):
    """Breaks the promise: it looks into the future."""

    def __init__(self, features, classes, order):
        super().__init__(features, classes, order, hidden=4)

    def evidence(self, x, multiplets):
        return super().evidence(x + x.mean(1, keepdim=True), multiplets)


def test_checks_catch_a_network_that_sees_the_future():
    with pytest.raises(AssertionError, match="changed future"):
        checks.check_prefix_causality(small(model=Clairvoyant, model_params=None))


def test_what_cannot_be_checked_is_refused():
    with pytest.raises(TypeError, match="`thing` must be a stopping rule or an EarlyClassifier; got int"):
        next(checks.yield_checks(3))
