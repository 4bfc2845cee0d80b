"""Compare the sums over the tokens of every prefix, with and without numba, with plain attention."""

import pytest
import torch

from stopwise.models.networks.kernels import fused as kernels
from stopwise.models.networks.kernels.prefix_attention import Windows, pool_prefixes

SHAPES = [
    (1, 1, 1, 1, 1),
    (3, 2, 2, 3, 5),
    (1, 3, 7, 4, 9),
    (5, 2, 7, 1, 3),
    (3, 2, 50, 16, 32),
    (40, 1, 11, 5, 7),
]


def inputs(rows, heads, samples, size, units, sharpness=1.0, dtype=torch.float64):
    """Return q, k, v, units, expand."""
    generator = torch.Generator().manual_seed(rows + samples)
    shapes = [(rows, heads, samples, size)] * 3 + [(rows, samples, units), (units, heads * size)]
    tensors = [torch.randn(shape, dtype=torch.float64, generator=generator) for shape in shapes]
    tensors[0] *= sharpness
    return [tensor.to(dtype).requires_grad_() for tensor in tensors]


def plain(q, k, v, units, expand, lengths):
    """Compute the sums with a plain softmax, one prefix at a time."""
    heads, fired = [], []
    for i in lengths:
        weights = (q[:, :, :i] @ k[:, :, :i].transpose(2, 3) / q.shape[3] ** 0.5).softmax(-1)
        mixed = (weights @ v[:, :, :i]).transpose(1, 2).flatten(2)  # (R, i, h·d)
        heads.append(mixed.sum(1))
        fired.append((units[:, :i] + mixed @ expand.T).clamp(min=0).sum(1))
    return torch.stack(heads, dim=1), torch.stack(fired, dim=1)


def with_gradients(outcome, parameters):
    generator = torch.Generator().manual_seed(1)
    weights = [torch.randn(part.shape, generator=generator, dtype=torch.float64).to(part) for part in outcome]
    return [*outcome, *torch.autograd.grad(outcome, parameters, weights)]


def assert_close(found, expected, tolerance, floor=1e-3):
    for one, other in zip(found, expected, strict=True):
        assert one.shape == other.shape
        scale = max(other.abs().max().item(), floor)
        torch.testing.assert_close(one.double(), other, rtol=tolerance, atol=tolerance * scale)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("sharpness", [1.0, 5.0])
def test_all_prefixes(form, shape, sharpness):
    tensors = inputs(*shape, sharpness)
    lengths = range(1, shape[2] + 1)
    found = with_gradients(pool_prefixes(*tensors, lengths), tensors)
    assert_close(found, with_gradients(plain(*tensors, lengths), tensors), 1e-10)


@pytest.mark.parametrize("shape", SHAPES)
def test_all_prefixes_in_float32(form, shape):
    single = inputs(*shape, dtype=torch.float32)
    double = [tensor.detach().double().requires_grad_() for tensor in single]
    lengths = range(1, shape[2] + 1)
    found = with_gradients(pool_prefixes(*single, lengths), single)
    assert_close(found, with_gradients(plain(*double, lengths), double), 1e-5)


@pytest.mark.parametrize("lengths", [range(3, 5), range(4, 5), range(2, 6)])
def test_some_prefixes(form, lengths):
    tensors = inputs(4, 2, 6, 3, 5)
    found = with_gradients(pool_prefixes(*tensors, lengths), tensors)
    assert_close(found, with_gradients(plain(*tensors, lengths), tensors), 1e-10)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_large_scores_do_not_underflow(form, dtype):
    """The scores increase to ±500, so exp(score − maximum) is 0 for all samples of a short prefix."""
    tensors = inputs(2, 2, 12, 4, 3, dtype=dtype)
    with torch.no_grad():
        tensors[0][:] = 20.0
        tensors[1][:] = torch.linspace(-12.5, 12.5, 12, dtype=dtype)[:, None]
    expected = [tensor.detach().double().requires_grad_() for tensor in tensors]
    lengths = range(1, 13)
    floor = 100.0  # gradients of queries are almost 0 here, with the rounding error of terms of this size
    scores = tensors[0] @ tensors[1].transpose(2, 3) / 2
    assert scores.max() - scores.min() >= 999
    found = with_gradients(pool_prefixes(*tensors, lengths), tensors)
    tolerance = 1e-5 if dtype == torch.float32 else 1e-12
    assert_close(found, with_gradients(plain(*expected, lengths), expected), tolerance, floor)
    falling = [tensors[0], -tensors[1], *tensors[2:]]
    falling_expected = [expected[0], -expected[1], *expected[2:]]
    found = with_gradients(pool_prefixes(*falling, lengths), tensors)
    assert_close(found, with_gradients(plain(*falling_expected, lengths), expected), tolerance, floor)


def test_gradcheck(form):
    tensors = inputs(2, 2, 4, 2, 3)
    assert torch.autograd.gradcheck(lambda *t: pool_prefixes(*t, range(1, 5)), tensors)


def test_inputs_need_not_be_contiguous(form):
    tensors = inputs(3, 2, 5, 4, 6)
    strided = [torch.stack([tensor, tensor], dim=-1).detach()[..., 0].requires_grad_() for tensor in tensors]
    assert not any(tensor.is_contiguous() for tensor in strided)
    lengths = range(1, 6)
    found = with_gradients(pool_prefixes(*strided, lengths), strided)
    assert_close(found, with_gradients(plain(*tensors, lengths), tensors), 1e-10)


def test_threads_do_not_change_results(monkeypatch):
    pytest.importorskip("numba")
    tensors = inputs(7, 2, 6, 3, 5)
    lengths = range(1, 7)
    together = with_gradients(pool_prefixes(*tensors, lengths), tensors)
    monkeypatch.setattr(kernels, "WORTH_A_THREAD", 1)
    monkeypatch.setattr(torch, "get_num_threads", lambda: 3)
    spread = with_gradients(pool_prefixes(*tensors, lengths), tensors)
    assert all(torch.equal(one, other) for one, other in zip(spread, together, strict=True))


def test_results_are_deterministic(form):
    tensors = inputs(60, 2, 20, 8, 16, dtype=torch.float32)
    lengths = range(1, 21)
    first, second = (with_gradients(pool_prefixes(*tensors, lengths), tensors) for _ in range(2))
    assert all(torch.equal(one, other) for one, other in zip(first, second, strict=True))


def test_nan_input_gives_nan_output(form):
    tensors = [tensor.detach() for tensor in inputs(2, 1, 4, 2, 3, dtype=torch.float32)]
    tensors[1][0, 0, 2] = torch.nan
    heads, fired = pool_prefixes(*tensors, range(1, 5))
    assert heads[0, 2:].isnan().all()
    assert fired[0, 2:].isnan().all()
    assert heads[0, :2].isfinite().all()
    assert heads[1].isfinite().all()


@pytest.mark.parametrize("samples", [1, 3, 7])
def test_windows_equal_unfold(samples):
    x = torch.randn(2, 7, 3, dtype=torch.float64, requires_grad=True)
    found, expected = Windows.apply(x, samples), x.unfold(1, samples, 1).transpose(2, 3)
    assert torch.equal(found, expected)
    weight = torch.randn_like(found)
    assert_close(torch.autograd.grad(found, x, weight), torch.autograd.grad(expected, x, weight), 1e-12)
