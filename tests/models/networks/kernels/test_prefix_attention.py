"""Compare the sums over the tokens of every prefix, with and without numba, with plain attention."""

from types import SimpleNamespace

import pytest
import torch
import torch.nn.functional as F

from stopwise.models.networks.kernels import fused as kernels
from stopwise.models.networks.kernels.prefix_attention import TokenVariance, Windows, pool_prefixes

SHAPES = [
    (1, 1, 1, 1, 1),
    (3, 2, 2, 3, 5),
    (1, 3, 7, 4, 9),
    (5, 2, 7, 1, 3),
    (3, 2, 50, 16, 32),
    (40, 1, 11, 5, 7),
    (2, 3, 9, 20, 37),
]


CHANNELS, EPSILON = 6, 1e-5  # of the tokens with a LayerNorm


def inputs(rows, heads, samples, size, units, sharpness=1.0, dtype=torch.float64):
    """Return q, k, v, units, expand."""
    shapes = [(rows, heads, samples, size)] * 3 + [(rows, samples, units), (units, heads * size)]
    return drawn(shapes, rows + samples, sharpness, dtype)


def normalized_inputs(rows, heads, samples, size, units, sharpness=1.0, dtype=torch.float64):
    """Return q, k, v, tokens, out, gain, offset, expand, bias."""
    shapes = [(rows, heads, samples, size)] * 3 + [(rows, samples, CHANNELS), (CHANNELS, heads * size)]
    shapes += [(CHANNELS,), (CHANNELS,), (units, CHANNELS), (units,)]
    return drawn(shapes, rows + samples, sharpness, dtype)


def drawn(shapes, seed, sharpness, dtype):
    generator = torch.Generator().manual_seed(seed)
    tensors = [torch.randn(shape, dtype=torch.float64, generator=generator) for shape in shapes]
    tensors[0] *= sharpness
    return [tensor.to(dtype).requires_grad_() for tensor in tensors]


def pool_normalized(q, k, v, tokens, out, gain, offset, expand, bias, lengths):
    """Call `pool_prefixes` with the units and variances of ``tokens + out a``."""
    centered, out = tokens - tokens.mean(-1, keepdim=True), out - out.mean(0)
    own, cross = centered.square().mean(-1, keepdim=True) + EPSILON, centered @ out * (2 / CHANNELS)
    variance = TokenVariance(own, cross, out.T @ out / CHANNELS, expand @ offset + bias)
    weight = expand * gain
    return pool_prefixes(q, k, v, centered @ weight.T, weight @ out, lengths, variance)


def attended(q, k, v, i):
    """Return the heads (R, i, h·d) of the tokens of one prefix, with a plain softmax."""
    weights = (q[:, :, :i] @ k[:, :, :i].transpose(2, 3) / q.shape[3] ** 0.5).softmax(-1)
    return (weights @ v[:, :, :i]).transpose(1, 2).flatten(2)


def plain(q, k, v, units, expand, lengths):
    """Compute the sums one prefix at a time."""
    heads, fired = [], []
    for i in lengths:
        mixed = attended(q, k, v, i)
        heads.append(mixed.sum(1))
        fired.append((units[:, :i] + mixed @ expand.T).clamp(min=0).sum(1))
    return torch.stack(heads, dim=1), torch.stack(fired, dim=1)


def plain_normalized(q, k, v, tokens, out, gain, offset, expand, bias, lengths):
    """Compute the sums one prefix at a time, with a LayerNorm of all components of the tokens."""
    heads, fired = [], []
    for i in lengths:
        mixed = attended(q, k, v, i)
        heads.append(mixed.sum(1))
        wide = F.layer_norm(tokens[:, :i] + mixed @ out.T, (CHANNELS,), gain, offset, EPSILON)
        fired.append((wide @ expand.T + bias).clamp(min=0).sum(1))
    return torch.stack(heads, dim=1), torch.stack(fired, dim=1)


@pytest.fixture(params=["plain", "layer_norm"])
def task(request):
    """Return inputs, the tested function and a plain one, without and with a LayerNorm before the units."""
    if request.param == "plain":
        return SimpleNamespace(inputs=inputs, pool=pool_prefixes, plain=plain)
    return SimpleNamespace(inputs=normalized_inputs, pool=pool_normalized, plain=plain_normalized)


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
def test_all_prefixes(form, task, shape, sharpness):
    tensors = task.inputs(*shape, sharpness)
    lengths = range(1, shape[2] + 1)
    found = with_gradients(task.pool(*tensors, lengths), tensors)
    assert_close(found, with_gradients(task.plain(*tensors, lengths), tensors), 1e-10)


@pytest.mark.parametrize("shape", SHAPES)
def test_all_prefixes_in_float32(form, task, shape):
    single = task.inputs(*shape, dtype=torch.float32)
    double = [tensor.detach().double().requires_grad_() for tensor in single]
    lengths = range(1, shape[2] + 1)
    found = with_gradients(task.pool(*single, lengths), single)
    assert_close(found, with_gradients(task.plain(*double, lengths), double), 1e-5)


@pytest.mark.parametrize("lengths", [range(3, 5), range(4, 5), range(2, 6)])
def test_some_prefixes(form, task, lengths):
    tensors = task.inputs(4, 2, 6, 3, 5)
    found = with_gradients(task.pool(*tensors, lengths), tensors)
    assert_close(found, with_gradients(task.plain(*tensors, lengths), tensors), 1e-10)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_large_scores_do_not_underflow(form, task, dtype):
    """The scores increase to ±500, so exp(score − maximum) is 0 for all samples of a short prefix."""
    tensors = task.inputs(2, 2, 12, 4, 3, dtype=dtype)
    with torch.no_grad():
        tensors[0][:] = 20.0
        tensors[1][:] = torch.linspace(-12.5, 12.5, 12, dtype=dtype)[:, None]
    expected = [tensor.detach().double().requires_grad_() for tensor in tensors]
    lengths = range(1, 13)
    floor = 100.0  # gradients of queries are almost 0 here, with the rounding error of terms of this size
    scores = tensors[0] @ tensors[1].transpose(2, 3) / 2
    assert scores.max() - scores.min() >= 999
    found = with_gradients(task.pool(*tensors, lengths), tensors)
    tolerance = 1e-5 if dtype == torch.float32 else 1e-12
    assert_close(found, with_gradients(task.plain(*expected, lengths), expected), tolerance, floor)
    falling = [tensors[0], -tensors[1], *tensors[2:]]
    falling_expected = [expected[0], -expected[1], *expected[2:]]
    found = with_gradients(task.pool(*falling, lengths), tensors)
    assert_close(found, with_gradients(task.plain(*falling_expected, lengths), expected), tolerance, floor)


def test_gradcheck(form, task):
    tensors = task.inputs(2, 2, 4, 2, 3)
    assert torch.autograd.gradcheck(lambda *t: task.pool(*t, range(1, 5)), tensors)


def test_inputs_need_not_be_contiguous(form, task):
    tensors = task.inputs(3, 2, 5, 4, 6)
    strided = [torch.stack([tensor, tensor], dim=-1).detach()[..., 0].requires_grad_() for tensor in tensors]
    assert not any(tensor.is_contiguous() for tensor in strided)
    lengths = range(1, 6)
    found = with_gradients(task.pool(*strided, lengths), strided)
    assert_close(found, with_gradients(task.plain(*tensors, lengths), tensors), 1e-10)


def test_threads_do_not_change_results(monkeypatch, task):
    pytest.importorskip("numba")
    tensors = task.inputs(7, 2, 6, 3, 5)
    lengths = range(1, 7)
    together = with_gradients(task.pool(*tensors, lengths), tensors)
    monkeypatch.setattr(kernels, "WORTH_A_THREAD", 1)
    monkeypatch.setattr(torch, "get_num_threads", lambda: 3)
    spread = with_gradients(task.pool(*tensors, lengths), tensors)
    assert all(torch.equal(one, other) for one, other in zip(spread, together, strict=True))


def test_results_are_deterministic(form, task):
    tensors = task.inputs(60, 2, 20, 8, 16, dtype=torch.float32)
    lengths = range(1, 21)
    first, second = (with_gradients(task.pool(*tensors, lengths), tensors) for _ in range(2))
    assert all(torch.equal(one, other) for one, other in zip(first, second, strict=True))


def test_nan_input_gives_nan_output(form, task):
    tensors = [tensor.detach() for tensor in task.inputs(2, 1, 4, 2, 3, dtype=torch.float32)]
    tensors[1][0, 0, 2] = torch.nan
    heads, fired = task.pool(*tensors, range(1, 5))
    assert heads[0, 2:].isnan().all()
    assert fired[0, 2:].isnan().all()
    assert heads[0, :2].isfinite().all()
    assert heads[1].isfinite().all()


def variances(own, dtype):
    """Return inputs of `pool_prefixes`, for one head of one component, with these own variances (M,)."""
    tensors = inputs(1, 1, len(own), 1, 2, dtype=dtype)
    more = [torch.tensor(own)[None, :, None], torch.zeros(1, len(own), 1), torch.eye(1), torch.ones(2)]
    return tensors, [tensor.to(dtype).requires_grad_() for tensor in more]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_negative_variance_is_replaced_and_has_no_gradient(form, dtype):
    tensors, more = variances([4.0, -1e6, -1e6, 4.0], dtype)
    found = with_gradients(pool_prefixes(*tensors, range(1, 5), TokenVariance(*more)), [*tensors[:3], *more])
    assert all(part.isfinite().all() for part in found)
    d_own, d_cross, d_square, _ = found[-4:]
    assert d_own[0, :, 0].ne(0).tolist() == [True, False, False, True]
    assert d_cross[0, :, 0].ne(0).tolist() == [True, False, False, True]
    assert d_square.ne(0).all()


def test_nan_in_a_token_stays_in_its_prefixes(form):
    tensors, more = variances([4.0, 4.0, torch.nan, 4.0], torch.float32)
    heads, fired = pool_prefixes(*tensors, range(1, 5), TokenVariance(*more))
    assert heads.isfinite().all()
    assert fired[0].isnan().all(1).tolist() == [False, False, True, True]
    assert fired[0, :2].isfinite().all()


@pytest.mark.parametrize("size", [1e-3, 1e-4])
def test_almost_vanishing_variance(form, size):
    """All tokens attend to almost equal values, and almost cancel what they get."""
    tensors = normalized_inputs(3, 2, 9, 4, 5)
    v, tokens, out = tensors[2:5]
    with torch.no_grad():
        v[:] = v[:, :, :1] + size * v
        tokens *= size
        tokens -= v[:, :, 0].flatten(1)[:, None] @ out.T
    lengths = range(1, 10)
    found = with_gradients(pool_normalized(*tensors, lengths), tensors)
    assert_close(found, with_gradients(plain_normalized(*tensors, lengths), tensors), 1e-8)


@pytest.mark.parametrize("samples", [1, 3, 7])
def test_windows_equal_unfold(samples):
    x = torch.randn(2, 7, 3, dtype=torch.float64, requires_grad=True)
    found, expected = Windows.apply(x, samples), x.unfold(1, samples, 1).transpose(2, 3)
    assert torch.equal(found, expected)
    weight = torch.randn_like(found)
    assert_close(torch.autograd.grad(found, x, weight), torch.autograd.grad(expected, x, weight), 1e-12)
