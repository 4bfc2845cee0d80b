"""Compare the hand-written recurrence of the window LSTM, with and without numba, with an unrolled cell."""

import pytest
import torch

from stopwise.models.networks.kernels import fused as kernels
from stopwise.models.networks.kernels.recurrence import B2BLOG, B2BSQRT, TANH, Squash, WindowStates
from stopwise.models.networks.modules.activations import b2blog, b2bsqrt

SQUASHES = [Squash(TANH), Squash(B2BSQRT, 0.1), Squash(B2BSQRT, 1.0), Squash(B2BSQRT, 10.0), Squash(B2BLOG)]


def inputs(steps, batch, hidden, dtype=torch.float64):
    generator = torch.Generator().manual_seed(steps + batch + hidden)
    projected = torch.randn(steps, batch, 4 * hidden, dtype=dtype, generator=generator)
    recurrent = torch.randn(4 * hidden, hidden, dtype=dtype, generator=generator) / hidden**0.5
    return projected.requires_grad_(), recurrent.requires_grad_()


def unrolled(projected, recurrent, samples, squash):
    """Compute the states with plain autograd, one window and one step at a time."""
    kinds = {TANH: torch.tanh, B2BSQRT: lambda x: b2bsqrt(x, squash.alpha), B2BLOG: b2blog}
    act = kinds[squash.kind]
    steps, batch, width = projected.shape
    windows = []
    for start in range(steps - samples + 1):
        h = c = projected.new_zeros(batch, width // 4)
        states = []
        for m in range(samples):
            i, f, o, candidate = (projected[start + m] + h @ recurrent.T).chunk(4, dim=1)
            c = torch.sigmoid(f) * c + torch.sigmoid(i) * act(candidate)
            h = torch.sigmoid(o) * act(c)
            states.append(h)
        windows.append(torch.stack(states))
    return torch.stack(windows, dim=1)  # (M, W, B, H)


def values_and_gradients(states, *parameters):
    generator = torch.Generator().manual_seed(1)  # a different output gradient for each state
    weight = torch.randn(states.shape, dtype=torch.float64, generator=generator).to(states)
    return states, *torch.autograd.grad(states, parameters, weight)


def assert_close(found, expected, tolerance):
    for one, other in zip(found, expected, strict=True):
        assert one.shape == other.shape
        torch.testing.assert_close(one, other, rtol=tolerance, atol=tolerance * other.abs().max().item())


@pytest.mark.parametrize("squash", SQUASHES)
@pytest.mark.parametrize(
    ("steps", "batch", "hidden", "samples"),
    [
        (1, 1, 1, 1),
        (5, 1, 3, 1),
        (6, 3, 5, 2),
        (11, 2, 7, 7),
        (50, 4, 9, 50),
        (54, 3, 16, 50),
        (50, 31, 16, 11),
    ],
)
def test_states_and_gradients_equal_unrolled_cell(form, squash, steps, batch, hidden, samples):
    pair = inputs(steps, batch, hidden)
    found = values_and_gradients(WindowStates.apply(*pair, samples, squash), *pair)
    expected = values_and_gradients(unrolled(*pair, samples, squash), *pair)
    assert_close(found, expected, 1e-10)


@pytest.mark.parametrize("squash", SQUASHES)
def test_float32_is_close_to_float64(form, squash):
    double = inputs(50, 20, 16)
    single = [tensor.detach().float().requires_grad_() for tensor in double]
    found = values_and_gradients(WindowStates.apply(*single, 11, squash), *single)
    expected = values_and_gradients(unrolled(*double, 11, squash), *double)
    assert_close([tensor.double() for tensor in found], expected, 1e-5)


@pytest.mark.parametrize("squash", SQUASHES)
def test_gradcheck(form, squash):
    pair = inputs(5, 2, 3)
    assert torch.autograd.gradcheck(lambda *tensors: WindowStates.apply(*tensors, 3, squash), pair)


def test_inputs_need_not_be_contiguous(form):
    projected, recurrent = inputs(9, 4, 6)
    strided = projected.detach().transpose(0, 1).contiguous().transpose(0, 1).requires_grad_()
    wide = torch.cat([recurrent, recurrent], dim=1).detach()[:, :6].requires_grad_()
    assert not strided.is_contiguous()
    assert not wide.is_contiguous()
    found = values_and_gradients(WindowStates.apply(strided, wide, 4, SQUASHES[2]), strided, wide)
    expected = values_and_gradients(
        WindowStates.apply(projected, recurrent, 4, SQUASHES[2]), projected, recurrent
    )
    assert_close(found, expected, 1e-12)


def test_expanded_gradient_is_accepted(form):
    pair = inputs(6, 2, 3)
    found = torch.autograd.grad(WindowStates.apply(*pair, 3, SQUASHES[0]).sum(), pair)
    expected = torch.autograd.grad(unrolled(*pair, 3, SQUASHES[0]).sum(), pair)
    assert_close(found, expected, 1e-10)


def test_second_backward_pass_gives_equal_gradients(form):
    pair = inputs(7, 3, 4)
    total = WindowStates.apply(*pair, 4, SQUASHES[1]).square().sum()
    first = torch.autograd.grad(total, pair, retain_graph=True)
    second = torch.autograd.grad(total, pair)
    assert all(torch.equal(one, other) for one, other in zip(first, second, strict=True))


def test_results_are_deterministic(form):
    pair = [tensor.detach().float().requires_grad_() for tensor in inputs(30, 64, 32)]

    def run():
        return values_and_gradients(WindowStates.apply(*pair, 11, SQUASHES[2]), *pair)

    first, second = run(), run()
    assert all(torch.equal(one, other) for one, other in zip(first, second, strict=True))


def test_threads_do_not_change_results(monkeypatch):
    pytest.importorskip("numba")
    pair = inputs(9, 5, 4)
    together = values_and_gradients(WindowStates.apply(*pair, 4, SQUASHES[2]), *pair)
    monkeypatch.setattr(kernels, "WORTH_A_THREAD", 1)
    monkeypatch.setattr(torch, "get_num_threads", lambda: 3)
    spread = values_and_gradients(WindowStates.apply(*pair, 4, SQUASHES[2]), *pair)
    assert all(torch.equal(one, other) for one, other in zip(spread, together, strict=True))


@pytest.mark.parametrize("squash", SQUASHES)
def test_nan_input_gives_nan_output(form, squash):
    projected, recurrent = inputs(4, 3, 2, torch.float32)
    with torch.no_grad():
        projected[1, 2] = torch.nan
    states = WindowStates.apply(projected, recurrent, 2, squash)
    assert states[1, 0, 2].isnan().all()
    assert states[:, 1, 2].isnan().all()
    assert not states[:, :, :2].isnan().any()


@pytest.mark.parametrize("squash", SQUASHES)
def test_huge_inputs_saturate_the_gates(form, squash):
    projected = torch.full((3, 2, 8), 1e4)
    projected[1] = -1e4
    recurrent = torch.zeros(8, 2)
    found = WindowStates.apply(projected, recurrent, 2, squash)
    expected = unrolled(projected.double(), recurrent.double(), 2, squash)
    torch.testing.assert_close(found.double(), expected, rtol=1e-5, atol=1e-30)
