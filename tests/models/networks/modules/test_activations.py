"""Tests of the unbounded activations."""

import pytest
import torch

from stopwise.models.networks.modules import b2blog, b2bsqrt


@pytest.mark.parametrize("alpha", [0.1, 1.0, 10.0])
def test_b2bsqrt_equals_its_definition(alpha):
    x = torch.tensor([-1e6, -3.0, -1e-3, 0.0, 1e-3, 3.0, 1e6], dtype=torch.float64)
    definition = x.sign() * ((alpha + x.abs()).sqrt() - alpha**0.5)
    torch.testing.assert_close(b2bsqrt(x, alpha), definition, rtol=1e-10, atol=0)


def test_b2bsqrt_is_precise_near_zero():
    x = torch.tensor([1e-30, -1e-12], dtype=torch.float64)
    torch.testing.assert_close(b2bsqrt(x), x / 2, rtol=1e-10, atol=0)


def test_b2bsqrt_with_alpha_zero_is_signed_square_root():
    x = torch.tensor([-4.0, 0.0, 9.0])
    torch.testing.assert_close(b2bsqrt(x, 0.0), torch.tensor([-2.0, 0.0, 3.0]))


@pytest.mark.parametrize("alpha", [-1.0, float("nan"), float("inf")])
def test_invalid_alpha_raises(alpha):
    with pytest.raises(ValueError, match=r"`alpha` of b2bsqrt must be a finite number >= 0; got"):
        b2bsqrt(torch.zeros(1), alpha)


def test_b2blog_equals_its_definition_and_is_precise_near_zero():
    x = torch.tensor([-1e6, -3.0, -1e-3, 0.0, 1e-3, 3.0, 1e6], dtype=torch.float64)
    torch.testing.assert_close(b2blog(x), x.sign() * (1 + x.abs()).log(), rtol=1e-12, atol=0)
    tiny = torch.tensor([1e-30, -1e-20], dtype=torch.float64, requires_grad=True)
    torch.testing.assert_close(b2blog(tiny), tiny, rtol=1e-10, atol=0)
    (slope,) = torch.autograd.grad(b2blog(tiny).sum(), tiny)
    assert slope.tolist() == [1.0, 1.0]
