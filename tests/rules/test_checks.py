"""All rules pass the applicable checks, and the checks fail for broken rules."""

import numpy as np
import pytest

from stopwise import checks as all_checks
from stopwise import rules
from stopwise.rules import SPRT, FixedTime, MaxProbability, Rule, checks


def test_every_rule_passes_all_checks(rule_check):
    rule_check()


def test_every_exported_rule_is_checked(all_rules):
    exported = [getattr(rules, name) for name in rules.__all__]
    classes = {one for one in exported if isinstance(one, type) and issubclass(one, Rule)} - {Rule}
    assert {type(rule) for rule in all_rules} == classes


def names(rule):
    return {name for name, _ in all_checks.yield_checks(rule)}


def test_checks_that_do_not_apply_are_not_yielded():
    assert {"stricter_never_stops_earlier", "classes_can_be_permuted"} <= names(SPRT(2.0))
    assert "classes_can_be_permuted" not in names(SPRT([1.0, 2.0, 3.0]))
    assert "classes_can_be_permuted" not in names(FixedTime(3).with_prior([0.2, 0.8]))
    assert "stricter_never_stops_earlier" not in names(Named("high"))


class Peeking(Rule):
    """A broken rule: margins depend on the scores of all series and steps."""

    def margins(self, scores, times):
        return scores - scores.max() / 2


class Late(SPRT):
    """A broken rule: it stops earlier with a higher threshold."""

    def margins(self, scores, times):
        return scores - 10 + self.threshold


class Named(Rule):
    """A valid rule with a threshold that is not a number."""

    def __init__(self, threshold):
        self.threshold = threshold

    def margins(self, scores, times):
        return scores - {"high": 5.0}[self.threshold]


class Squared(Rule):
    """A broken rule: it does not add the log of the prior to the scores."""

    def margins(self, scores, times):
        shares = 0 if self.bound_prior is None else self.bound_prior**2
        return scores + shares - 3


class Forgetful(Rule):
    """A broken rule: it ignores the prior in forced decisions without overriding `best_guess`."""

    def margins(self, scores, times):
        return scores - 3

    def with_prior(self, prior):
        return Forgetful()


class Unequal(FixedTime):
    """A broken rule: it always decides for the first class."""

    def margins(self, scores, times):
        return super().margins(scores, times) + 1e9 * (np.arange(scores.shape[-1]) == 0)


@pytest.mark.parametrize(
    ("rule", "check"),
    [
        (Peeking(), checks.check_rows_are_independent),
        (Peeking(), checks.check_stepping_equals_deciding),
        (Late(5.0), checks.check_stricter_never_stops_earlier),
        (Squared(), checks.check_bound_prior),
        (Forgetful(), checks.check_bound_prior),
        (Unequal(3), checks.check_classes_can_be_permuted),
    ],
)
def test_checks_catch_broken_rules(rule, check):
    with pytest.raises(AssertionError):
        check(rule)


class Lead(Rule):
    """A valid custom rule that implements only `margins`."""

    def __init__(self, lead, weights=(1.0, 1.0)):
        self.lead = lead
        self.weights = weights

    def margins(self, scores, times):
        return np.asarray(scores, dtype=np.float64) - scores.mean(-1, keepdims=True) - self.lead


def test_custom_rule_passes_all_checks():
    found = dict(all_checks.yield_checks(Lead(2.0)))
    assert len(found) >= 10
    for check in found.values():
        check()


def test_bound_prior_changes_only_forced_decisions_and_posteriors(series):
    scores, lengths = series
    prior = np.array([0.01, 0.09, 0.9])
    plain, bound = SPRT(4.0).decide(scores, lengths), SPRT(4.0).with_prior(prior).decide(scores, lengths)
    assert np.array_equal(plain.times, bound.times)
    accepted = ~plain.forced
    assert np.array_equal(plain.labels[accepted], bound.labels[accepted])
    assert (plain.labels != bound.labels)[plain.forced].any()
    late = MaxProbability(0.999).decide(scores, lengths).times
    assert (MaxProbability(0.999).with_prior(prior).decide(scores, lengths).times != late).any()
