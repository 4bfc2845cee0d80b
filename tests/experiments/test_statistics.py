"""Statistics of runs compared with their formulas."""

import math

import numpy as np
import pytest
from scipy.stats import studentized_range

from stopwise.experiments.statistics import mean_and_sem, p_of_beating
from stopwise.experiments.tables import write_table


def test_mean_and_sem():
    found = mean_and_sem([1.0, 2.0, 6.0])
    assert found["mean"] == 3.0
    assert found["sem"] == pytest.approx(np.std([1, 2, 6], ddof=1) / math.sqrt(3))
    assert mean_and_sem([1.0, 2.0, 6.0], digits=2) == {"mean": 3.0, "sem": 1.53}


def test_a_single_run_has_no_standard_error_in_a_table(tmp_path):
    write_table(tmp_path / "table.json", mean_and_sem([1.0]))
    assert (tmp_path / "table.json").read_text() == '{\n "mean": 1.0,\n "sem": null\n}\n'


def test_a_table_refuses_nan_which_is_not_json(tmp_path):
    with pytest.raises(ValueError, match="JSON"):
        write_table(tmp_path / "table.json", {"mean": math.nan})
    assert list(tmp_path.iterdir()) == []


def test_p_value_equals_tukey_kramer_with_unequal_numbers_of_runs():
    errors = {"ours": [1.0, 1.5, 1.2], "a": [2.0, 2.2], "b": [3.0, 3.1, 2.8, 3.3]}
    runs = list(errors.values())
    n, k = sum(map(len, runs)), len(runs)
    within = sum(((np.array(one) - np.mean(one)) ** 2).sum() for one in runs) / (n - k)
    gap = np.mean(errors["a"]) - np.mean(errors["ours"])
    q = gap / math.sqrt(within / 2 * (1 / 3 + 1 / 2))
    expected = studentized_range.sf(q, k, n - k)
    assert p_of_beating(errors, ["ours"], ["a", "b"])["ours"] == pytest.approx(expected, rel=1e-6)


def test_p_value_is_1_if_the_mean_is_not_below_every_baseline():
    errors = {"ours": [2.5, 2.4], "a": [1.0, 1.1], "b": [9.0, 9.1]}
    assert p_of_beating(errors, ["ours"], ["a", "b"]) == {"ours": 1.0}


def test_models_with_a_single_run_are_excluded():
    assert p_of_beating({"ours": [1.0], "a": [2.0, 2.1]}, ["ours"], ["a"]) == {}
