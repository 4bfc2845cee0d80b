"""Parameters of rules: `repr`, comparison, `get_params`, `set_params`, cloning, saving and loading."""

import copy
import json
import pickle

import numpy as np
import pytest
from sklearn.base import BaseEstimator, clone

from stopwise import rules
from stopwise.rules import (
    SPRT,
    Calibrated,
    FiniteHorizon,
    FixedTime,
    Guarantee,
    MaxProbability,
    Rule,
    Tapering,
)

GUARANTEE = Guarantee("error_rate", 0.05, 0.95, series=100, observed=0.01, mean_time=3.5, mean_length=8)


class Own(Rule):
    """A custom rule that can be saved."""

    def __init__(self, lead, per_class=None, kind="plain", limit=np.inf):
        if lead < 0:
            raise ValueError("`lead` must be >= 0.")
        self.lead, self.per_class, self.kind, self.limit = lead, per_class, kind, limit

    def margins(self, scores, times):
        return scores - self.lead


def test_every_rule_is_restored_from_its_dict(any_rule):
    stored = json.loads(json.dumps(any_rule.to_dict(), allow_nan=False))
    assert rules.from_dict(stored) == any_rule
    assert type(any_rule).from_dict(stored) == any_rule


def test_evaluating_the_repr_gives_an_equal_rule(any_rule):
    if isinstance(any_rule, FiniteHorizon):
        pytest.skip("its arrays are too large to print")
    if np.size(any_rule.get_params().get("threshold")) > 100:
        pytest.skip("large arrays are printed as their shape")
    assert eval(repr(any_rule), dict(vars(rules))) == any_rule


def test_different_rules_are_not_equal(all_rules):
    assert len({*all_rules}) == len(all_rules)
    assert all((a == b) == (i == j) for i, a in enumerate(all_rules) for j, b in enumerate(all_rules))
    assert SPRT(1.5) != "SPRT(threshold=1.5)"


def test_arrays_are_copied_and_frozen():
    table = np.array([1.0, 2.0])
    rule = SPRT(table)
    table[0] = 9.0
    assert rule.threshold[0] == 1.0
    for one in (rule, copy.deepcopy(rule), clone(rule), pickle.loads(pickle.dumps(rule))):
        with pytest.raises(ValueError, match="read-only"):
            one.threshold[0] = 5.0


def test_repr_is_short():
    assert repr(SPRT(2.5)) == "SPRT(threshold=2.5)"
    assert repr(SPRT(np.inf)) == "SPRT(threshold=float('inf'))"
    assert repr(SPRT(error_rate=0.01)) == "SPRT(error_rate=0.01)"
    assert repr(Tapering(3.0, 8)) == "Tapering(threshold=3.0, horizon=8)"
    assert len(repr(SPRT(np.ones((50, 9, 9)), per_step=True))) < 80


def test_to_dict_returns_plain_values():
    assert SPRT([1.0, np.inf]).to_dict() == {
        "rule": "SPRT",
        "threshold": [1.0, "inf"],
        "error_rate": None,
        "per_step": False,
    }


def test_get_params_returns_the_constructor_arguments():
    rule = SPRT([1.0, 2.0])
    assert rule.get_params().keys() == {"threshold", "error_rate", "per_step"}
    assert rule.get_params(deep=True)["threshold"] is rule.threshold
    assert Own(2.0).get_params(deep=False) == {
        "lead": 2.0,
        "per_class": None,
        "kind": "plain",
        "limit": np.inf,
    }


def test_set_params_changes_the_rule_in_place():
    rule = Tapering(3.0, 8)
    assert rule.set_params(horizon=5, kappa=1.0) is rule
    assert rule == Tapering(3.0, 5, kappa=1.0)
    assert rule.set_params() is rule
    assert SPRT(2.0).set_params(threshold=[1, 2]) == SPRT([1.0, 2.0])
    assert MaxProbability(0.9).set_params(prior=[0.3, 0.7]).prior.flags.writeable is False
    assert Own(2.0).set_params(lead=3.0, kind="fancy") == Own(3.0, kind="fancy")


@pytest.mark.parametrize(
    ("rule", "params", "error", "message"),
    [
        (
            SPRT(2.0),
            {"tresh": 1},
            ValueError,
            "`tresh` is not a parameter of SPRT; its parameters are: thr",
        ),
        (SPRT(2.0), {"threshold": -1.0}, ValueError, r"`threshold` must be in \[0, inf\]; got -1"),
        (SPRT(2.0), {"threshold": 1.0, "error_rate": 0.1}, ValueError, "exactly one of .*; got both"),
        (SPRT(2.0), {"threshold": None}, ValueError, "exactly one of .*; got neither"),
        (FixedTime(3), {"time": "late"}, TypeError, "`time` must be an integer"),
        (Own(2.0), {"lead": -1.0}, ValueError, "`lead` must be >= 0"),
    ],
)
def test_invalid_parameter_leaves_the_rule_unchanged(rule, params, error, message):
    before = copy.deepcopy(rule)
    with pytest.raises(error, match=message):
        rule.set_params(**params)
    assert rule == before


def test_threshold_and_error_rate_replace_each_other():
    assert SPRT(error_rate=0.1).set_params(threshold=2.0) == SPRT(2.0)
    assert SPRT(2.0).set_params(error_rate=[0.1, 0.2]) == SPRT(error_rate=[0.1, 0.2])
    assert SPRT([3.0, 1.0], per_step=True).set_params(error_rate=0.1) == SPRT(error_rate=0.1)
    assert SPRT(2.0).set_params(threshold=None, error_rate=0.1) == SPRT(error_rate=0.1)


def test_new_thresholds_require_a_new_guarantee():
    rule = Calibrated(2.0, GUARANTEE)
    with pytest.raises(ValueError, match=r"holds for its own thresholds only.*rule.without_guarantee\(\)"):
        rule.set_params(threshold=1.0)
    with pytest.raises(
        ValueError, match="`error_rate` is not a parameter of Calibrated; its parameters are: thr"
    ):
        rule.set_params(error_rate=0.1)
    assert rule == Calibrated(2.0, GUARANTEE)
    assert rule.set_params(threshold=1.0, guarantee=GUARANTEE) == Calibrated(1.0, GUARANTEE)


class Holder(BaseEstimator):
    def __init__(self, rule=None):
        self.rule = rule


def test_clone_is_an_equal_copy(any_rule):
    cloned = clone(any_rule)
    assert cloned == any_rule
    assert cloned is not any_rule


def test_estimator_with_a_rule_can_be_cloned_and_changed_by_nested_parameters():
    original = Holder(SPRT([1.0, 2.0]))
    cloned = clone(original).set_params(rule__threshold=[3.0, 4.0])
    assert cloned.rule == SPRT([3.0, 4.0])
    assert original.rule == SPRT([1.0, 2.0])
    assert original.get_params()["rule__per_step"] is False


@pytest.mark.parametrize(
    "rule",
    [
        Own(2.0),
        Own(np.float32(0.5), [1.0, np.inf], "fancy", 3),
        Own(np.int64(2), np.array([[1, 2], [3, 4]])),
        Own(2, (1, 2)),
        SPRT([1.0, np.inf]),
    ],
    ids=repr,
)
def test_rules_with_plain_arguments_can_be_saved(rule):
    rule.check_saveable()
    rule.with_prior([0.2, 0.8]).check_saveable()


class OtherName(Rule):
    def __init__(self, lead):
        self.needed = lead

    def margins(self, scores, times):
        return scores - self.needed


class Rounded(OtherName):
    """Stores a different value than the argument."""

    def __init__(self, lead):
        self.lead = lead + 1


class OneWay(OtherName):
    """Stores a value that its constructor rejects."""

    def __init__(self, lead):
        self.lead = {"low": 1.0, "high": 5.0}[lead]


class Called(OtherName):
    def __init__(self, lead):
        self.lead = lead


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        (OtherName(2.0), "OtherName cannot be saved: OtherName must store its argument `lead` as self.lead"),
        (
            Rounded(2.0),
            "Rounded cannot be saved: `lead` is loaded as 4.0. The arguments of a rule",
        ),
        (OneWay("low"), "OneWay cannot be saved: its constructor rejects the stored values"),
        (Called(max), "`lead` is <built-in function max>, which is not a plain JSON value. The arguments"),
        (Called({1, 2}), r"`lead` is {1, 2}, which is not a plain JSON value"),
        (Called(np.nan), "`lead` is nan, which is not a plain JSON value"),
        (Called({1: 2}), "`lead` is loaded as {'1': 2}"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Rule) else "",
)
def test_saving_a_rule_that_cannot_be_saved_raises_with_the_reason(rule, message):
    with pytest.raises(ValueError, match=message):
        rule.check_saveable()


def test_rules_with_arguments_that_are_not_json_can_be_compared():
    assert Called(max) == Called(max)
    assert hash(Called(max)) == hash(Called(max))
    assert Called(max) != Called(min)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (
            lambda: rules.from_dict({"rule": "SPTR"}),
            ValueError,
            "`rule` must be one of .* Did you mean 'SPRT'",
        ),
        (lambda: rules.from_dict({"threshold": 1.0}), ValueError, "`rule` must be one of .*got None"),
        (
            lambda: rules.from_dict([1]),
            TypeError,
            r"`values` must be a dict, as returned by rule.to_dict\(\)",
        ),
        (lambda: rules.from_dict({"rule": "FixedTime"}), ValueError, "unknown: none, missing: time"),
        (
            lambda: rules.from_dict({"rule": "FixedTime", "time": 1, "tme": 2}),
            ValueError,
            "arguments of FixedTime: time; unknown: tme, missing: none",
        ),
        (
            lambda: rules.from_dict({"rule": "FixedTime", "time": "inf"}),
            TypeError,
            "`time` must be an integer",
        ),
        (lambda: SPRT.from_dict({"rule": "FixedTime", "time": 1}), ValueError, "with rule='SPRT'"),
    ],
)
def test_invalid_dicts_raise(call, error, message):
    with pytest.raises(error, match=message):
        call()
