import inspect

import numpy as np
import pytest

import stopwise as sw
from helpers import early
from stopwise import checks, rules
from stopwise.models.networks import modules

PROMISE = rules.Guarantee("error_rate", 0.05, 0.95, 100, observed=0.01, mean_time=3.5, mean_length=12)


def fitted_horizon(classes, **arguments):
    rng = np.random.default_rng(1)
    y = np.arange(300) % classes
    evidence = rng.standard_normal((300, 10, classes))
    evidence[np.arange(300), :, y] += 0.7
    return sw.FiniteHorizon.fit(evidence.cumsum(1), y, cost=0.02, **arguments)


RULES = [
    sw.SPRT(3.0),
    sw.SPRT(0.0),
    sw.SPRT(np.inf),
    sw.SPRT([1.0, 2.0, 3.0]),
    sw.SPRT([[0, 1, 2], [3, 0, 1], [2, 2, 0]]),
    sw.SPRT(np.linspace(4, 0, 12), per_step=True),
    sw.SPRT(error_rate=0.05),
    sw.SPRT(error_rate=[0.1, 0.05, 0.01]),
    sw.SPRT.wald(0.05, 0.1),
    sw.Tapering(4.0, horizon=12),
    sw.Tapering(4.0, horizon=8, kappa=-1.0),
    fitted_horizon(2),
    fitted_horizon(3, loss=[[0, 1, 1], [5, 0, 5], [1, 2, 0]], prior=[0.2, 0.3, 0.5]),
    sw.FixedTime(4),
    sw.MaxProbability(0.9),
    sw.MaxProbability(0.8, prior=[0.2, 0.3, 0.5]),
    rules.Calibrated(3.0, PROMISE),
    rules.Calibrated(np.linspace(4, 0, 7), PROMISE, per_step=True),
]


def small(model="accumulator", **params):
    sizes = {"hidden": 4} if model in ("accumulator", "b2bsqrt", "tanh") else {}
    return early(model, max_epochs=2, batch_size=16, **sizes | params)


OWN = sw.models.Network(modules.LSTMModule, order=1, params={"hidden": 4})
ESTIMATORS = [
    *[small(model, order=order) for model in sw.models.MODELS for order in (None, 0, 2)],
    *[small(model, missing="mask", order=1) for model in sw.models.MODELS],
    small("b2bsqrt", formula="oblivion", order=2),
    small("tanh", loss="lllr", llre_ratio=0.5, order=2),
    small("accumulator", llre_ratio=0.5, order=2, dropout=0.2),
    small("tandemformer", pooling="one-token", positions="learned", order=2),
    small(OWN),
]


def cases(things):
    return [
        pytest.param(check, id=f"{i}-{type(thing).__name__}-{name}")
        for i, thing in enumerate(things)
        for name, check in checks.yield_checks(thing)
    ]


@pytest.mark.parametrize("check", cases(RULES))
def test_every_rule_keeps_the_promises(check):
    check()


@pytest.mark.parametrize("check", cases(ESTIMATORS))
def test_every_estimator_keeps_the_promises(check):
    check()


def test_every_exported_rule_and_model_is_checked():
    classes = {name: getattr(rules, name) for name in rules.__all__ if inspect.isclass(getattr(rules, name))}
    exported = {name for name, one in classes.items() if issubclass(one, rules.Rule) and name != "Rule"}
    assert exported == {type(rule).__name__ for rule in RULES}
    assert set(sw.models.MODELS) <= {estimator.model.name for estimator in ESTIMATORS}


class Peeking(sw.rules.Rule):
    """Breaks the promise: it looks at the whole array."""

    def margins(self, scores, times):
        return scores - scores.max() / 2


class Late(sw.SPRT):
    """Breaks the promise: a higher threshold stops earlier."""

    def margins(self, scores, times):
        return scores - 10 + self.threshold


@pytest.mark.parametrize(
    ("rule", "check"),
    [
        (Peeking(), checks.check_rule_rows_are_independent),
        (Peeking(), checks.check_stepping_equals_deciding),
        (Late(5.0), checks.check_stricter_never_stops_earlier),
    ],
)
def test_checks_catch_broken_rules(rule, check):
    with pytest.raises((AssertionError, StopIteration)):
        check(rule)


class Clairvoyant(modules.LSTMModule):
    """Breaks the promise: it looks into the future."""

    def evidence(self, x, multiplets):
        return super().evidence(x + x.mean(1, keepdim=True), multiplets)


class Seeing(sw.models.Network):
    """Skips the check before training."""

    def _preflight(self, task):
        pass


def test_checks_catch_a_network_that_sees_the_future():
    with pytest.raises(AssertionError, match="changed future"):
        checks.check_prefix_causality(small(Seeing(Clairvoyant, order=1, params={"hidden": 4})))


def test_what_cannot_be_checked_is_refused():
    with pytest.raises(TypeError, match="`thing` must be a stopping rule or an EarlyClassifier; got int"):
        next(checks.yield_checks(3))
