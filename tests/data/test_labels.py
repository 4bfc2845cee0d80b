"""Conversion of labels to class indices, and class frequencies."""

import numpy as np
import pytest

from stopwise.data.labels import check_prior_setting, class_shares, known_indices, learn_classes


@pytest.mark.parametrize(
    "labels", [list("babc"), [3, 1, 3, 7], [True, False, True, False], np.array(list("xyxz"), object)]
)
def test_labels_of_any_type_become_indices(labels):
    classes, indices = learn_classes(labels, 4)
    assert classes[indices].tolist() == list(labels)
    assert indices.dtype == np.int64
    np.testing.assert_array_equal(known_indices("`y`", labels, 4, classes), indices)


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (None, "`y` is None"),
        ([0, 1], "`y` must have one label per series: 3; got 2"),
        ([1, 1, 1], r"`y` must hold at least 2 classes; got 1 class"),
        ([0.5, 1.5, 2.5], "Unknown label type: continuous"),
    ],
)
def test_invalid_labels_raise(labels, message):
    with pytest.raises(ValueError, match=message):
        learn_classes(labels, 3)


def test_unknown_labels_raise():
    with pytest.raises(
        ValueError, match="`y` has labels that were not in training: 'c'; known labels are 'a'"
    ):
        known_indices("`y`", ["a", "c"], 2, np.array(["a", "b"]))


def test_class_frequencies():
    classes, indices = np.array(["a", "b", "c"]), np.array([0, 0, 1, 2])
    assert class_shares("empirical", classes, indices).tolist() == [0.5, 0.25, 0.25]
    assert class_shares("uniform", classes, indices).tolist() == pytest.approx([1 / 3] * 3)
    assert class_shares({"c": 0.7, "a": 0.1, "b": 0.2}, classes, indices).tolist() == [0.1, 0.2, 0.7]


@pytest.mark.parametrize(
    ("prior", "message"),
    [
        ("equal", "`prior` must be 'empirical' .*, 'uniform' or a dict .*; got 'equal'"),
        ([0.5, 0.5], "`prior` must be 'empirical'"),
        (
            {"a": 1.0},
            "`prior` must give a share for each of the classes 'a', 'b' and no other; 'b' is",
        ),
        ({"a": 0.5, "b": 0.4, "c": 0.1}, "'c' is missing or unknown"),
        ({"a": 0.5, "b": "half"}, "`prior` must hold numbers"),
        ({"a": 0.5, "b": 0.6}, "`prior` must be positive and sum to 1; got .* with sum 1.1"),
        ({"a": 1.0, "b": 0.0}, "`prior` must be positive"),
    ],
)
def test_invalid_priors_raise(prior, message):
    with pytest.raises((TypeError, ValueError), match=message):
        class_shares(prior, np.array(["a", "b"]), np.array([0, 1]))
    if not isinstance(prior, dict):
        with pytest.raises(ValueError, match=message):
            check_prior_setting(prior)
