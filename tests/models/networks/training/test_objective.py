"""Tests of the training objective: validation of the settings, and the two terms."""

import json
from dataclasses import asdict

import numpy as np
import pytest
import torch

from stopwise.llr import lllr, lsel, multiplet_cross_entropy
from stopwise.models import Evidence
from stopwise.models.networks.training.objective import Objective


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"loss": "lsell"}, "`loss` must be one of 'lsel', 'lllr'; got 'lsell'. Did you mean 'lsel'"),
        ({"llre_ratio": 1.5}, r"`llre_ratio` must be in \[0, 1\]; got 1.5"),
        ({"llre_ratio": "half"}, "`llre_ratio` must be a number; got 'half'"),
    ],
)
def test_invalid_settings_raise(changes, message):
    with pytest.raises((TypeError, ValueError), match=message):
        Objective(**changes)


def test_numpy_numbers_become_python_numbers():
    objective = Objective(llre_ratio=np.float32(0.25))
    assert json.dumps(asdict(objective)) == '{"loss": "lsel", "llre_ratio": 0.25}'


@pytest.mark.parametrize("loss", ["lsel", "lllr"])
@pytest.mark.parametrize("ratio", [0.0, 0.3, 1.0])
def test_objective_is_weighted_sum_of_its_terms(loss, ratio):
    generator = torch.Generator().manual_seed(0)
    scores, multiplets = (torch.randn(shape, generator=generator) for shape in ((4, 5, 3), (4, 3, 3, 3)))
    y, lengths, weight = torch.tensor([0, 1, 2, 1]), torch.tensor([5, 3, 4, 5]), torch.rand(4)
    objective = Objective(loss, ratio)
    known = y, lengths, weight
    expected = ratio * {"lsel": lsel, "lllr": lllr}[loss](scores, *known)
    if ratio < 1:
        expected = expected + (1 - ratio) * multiplet_cross_entropy(multiplets, *known)
    torch.testing.assert_close(objective(Evidence(scores, multiplets), *known), expected)
    parts = objective.of_scores(scores, *known) + objective.of_multiplets(multiplets, *known)
    torch.testing.assert_close(parts, expected)


def test_multiplets_are_needed_only_below_a_ratio_of_1():
    assert Objective(llre_ratio=0.99).needs_multiplets
    assert not Objective(llre_ratio=1).needs_multiplets
    Objective(llre_ratio=1.0)(Evidence(torch.zeros(1, 2, 2), None), torch.tensor([0]), None, torch.ones(1))


@pytest.mark.parametrize("loss", ["lsel", "lllr"])
@pytest.mark.parametrize("ratio", [0.0, 0.5, 1.0])
def test_gradients_of_decided_series_are_zero(loss, ratio):
    """All others are those of the plain losses."""
    margins = torch.tensor([0.1, 20.0, 40.0, 60.0, 90.0, 100.0])
    scores = torch.stack([margins, torch.zeros(6), -margins], dim=-1)[None]  # (1, T, K)
    y, known = torch.tensor([0]), (None, torch.ones(1))
    plain, fast = ([scores.clone().requires_grad_() for _ in range(2)] for _ in range(2))
    expected = ratio * {"lsel": lsel, "lllr": lllr}[loss](plain[0], y, *known)
    expected = expected + (1 - ratio) * multiplet_cross_entropy(plain[1][:, None], y, *known)
    expected.backward()
    Objective(loss, ratio)(Evidence(fast[0], fast[1][:, None]), y, *known).backward()
    for slow, quick, used in zip(plain, fast, (ratio > 0, ratio < 1)):
        wanted = torch.zeros_like(slow.grad) if slow.grad is None else slow.grad.clone()
        if used:
            assert ((wanted != 0) & (wanted.abs() < 1e-20)).any()
        wanted[wanted.abs() < 1e-20] = 0
        found = torch.zeros_like(wanted) if quick.grad is None else quick.grad
        torch.testing.assert_close(found, wanted, rtol=0, atol=0)
