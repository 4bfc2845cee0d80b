import math

import numpy as np
import pytest
import torch

from stopwise.llr import LOSSES, lllr, lsel, multiplet_cross_entropy
from stopwise.llr.losses import class_weights

Y = [0, 0, 0, 1, 2, 0, 1]  # imbalanced
LENGTHS = [5, 3, 1, 4, 5, 2, 5]


def scores_of(*shape, seed=0, scale=2.0):
    return torch.from_numpy(np.random.default_rng(seed).normal(size=shape, scale=scale))


def lsel_by_definition(scores, k):
    """Return log(1 + Σ_{l≠k} exp(−λ_kl)) of K scores."""
    return math.log(1 + sum(math.exp(-(scores[k] - s)) for j, s in enumerate(scores) if j != k))


def lllr_by_definition(scores, k):
    """Return the mean over l≠k of |1 − σ(λ_kl)|."""
    terms = [abs(1 - 1 / (1 + math.exp(-(scores[k] - s)))) for j, s in enumerate(scores) if j != k]
    return sum(terms) / len(terms)


def mean_by_class(values, y):
    """Average over steps, then over the series of a class, then over classes, by plain loops."""
    means = []
    for k in sorted(set(y)):
        own = [sum(v) / len(v) for v, label in zip(values, y) if label == k]
        means.append(sum(own) / len(own))
    return sum(means) / len(means)


DEFINITIONS = [(lsel, lsel_by_definition), (lllr, lllr_by_definition)]


@pytest.mark.parametrize(("loss", "definition"), DEFINITIONS)
@pytest.mark.parametrize("classes", [3, 5])
def test_loss_equals_its_definition_averaged_by_class(loss, definition, classes):
    scores = scores_of(len(Y), 5, classes)
    expected = mean_by_class([[definition(step, y) for step in s] for s, y in zip(scores.tolist(), Y)], Y)
    assert loss(scores, torch.tensor(Y)).item() == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize(("loss", "definition"), DEFINITIONS)
def test_padded_steps_are_excluded(loss, definition):
    scores = scores_of(len(Y), 5, 3)
    inside = [s[:length] for s, length in zip(scores.tolist(), LENGTHS)]
    expected = mean_by_class([[definition(step, y) for step in s] for s, y in zip(inside, Y)], Y)
    found = loss(scores, torch.tensor(Y), torch.tensor(LENGTHS)).item()
    assert found == pytest.approx(expected, rel=1e-12)
    assert found != pytest.approx(loss(scores, torch.tensor(Y)).item(), rel=1e-3)


def multiplets_by_definition(logits, length, k):
    """Return the cross-entropies of every prefix of every window of a series, by plain loops."""
    windows, samples, _ = logits.shape
    values = []
    for start in range(windows):
        complete = start + samples <= length
        if not complete and start > 0:
            continue  # only a series shorter than one window contributes an incomplete one
        for m in range(samples):
            if start + m < length:
                values.append(lsel_by_definition(logits[start, m].tolist(), k))
    return values


def test_multiplet_cross_entropy_equals_plain_loops_over_windows_and_prefixes():
    logits = scores_of(len(Y), 3, 3, 3)  # windows of 3 samples on series of 5 steps
    for lengths in (None, LENGTHS):  # some of LENGTHS are shorter than a window
        each = [multiplets_by_definition(z, n, y) for z, n, y in zip(logits, lengths or [5] * len(Y), Y)]
        assert lengths is None or sorted({len(values) for values in each}) == [1, 2, 3, 6, 9]
        given = None if lengths is None else torch.tensor(lengths)
        found = multiplet_cross_entropy(logits, torch.tensor(Y), given)
        assert found.item() == pytest.approx(mean_by_class(each, Y), rel=1e-12)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("llr", [1e4, -1e4])
def test_losses_and_gradients_are_finite_for_huge_llrs(llr, dtype):
    for loss in LOSSES.values():
        scores = torch.tensor([[[llr, 0.0, 0.0]]], dtype=dtype, requires_grad=True)
        value = loss(scores, torch.tensor([0]))
        value.backward()
        assert torch.isfinite(value)
        assert torch.isfinite(scores.grad).all()
    assert lsel(scores, torch.tensor([0])).item() == pytest.approx(max(-llr, 0) + math.log(2) * (llr < 0))


def loss_with_padding(loss, shape, padding, scale):
    logits = scores_of(*shape, scale=scale).float()
    lengths = torch.tensor(LENGTHS)
    steps = torch.arange(shape[1])
    padded = steps >= lengths[:, None]  # (B, T) steps, or (B, W) starts of windows
    if len(shape) == 4:
        padded = (steps[:, None] + torch.arange(shape[2])) >= lengths[:, None, None]
    logits[padded] = padding
    logits.requires_grad_()
    value = loss(logits, torch.tensor(Y), lengths)
    value.backward()
    return value.item(), logits.grad


@pytest.mark.parametrize("scale", [1.0, 1e4], ids=["small", "huge"])
@pytest.mark.parametrize("padding", [1e30, -1e30, math.inf, -math.inf, math.nan])
@pytest.mark.parametrize(
    ("loss", "shape"), [(lsel, (7, 5, 3)), (lllr, (7, 5, 3)), (multiplet_cross_entropy, (7, 3, 3, 3))]
)
def test_padding_changes_neither_loss_nor_gradient(loss, shape, padding, scale):
    value, gradient = loss_with_padding(loss, shape, padding, scale)
    clean_value, clean_gradient = loss_with_padding(loss, shape, 0.0, scale)
    assert value == clean_value
    assert torch.equal(gradient, clean_gradient)
    assert scale > 1 or gradient.abs().sum() > 0  # with huge LLRs the gradient of the sigmoid vanishes


@pytest.mark.parametrize("loss", [lsel, lllr])
def test_weighted_loss_is_weighted_sum_of_series_means(loss):
    scores, y, lengths = scores_of(len(Y), 5, 3), torch.tensor(Y), torch.tensor(LENGTHS)
    weight = torch.linspace(0.0, 2.0, len(Y), dtype=torch.float64)
    each = [loss(scores[i : i + 1], y[i : i + 1], lengths[i : i + 1]).item() for i in range(len(Y))]
    expected = sum(w * value for w, value in zip(weight.tolist(), each))
    assert loss(scores, y, lengths, weight).item() == pytest.approx(expected, rel=1e-12)
    by_class = loss(scores, y, lengths, class_weights(y, 3, torch.float64))
    assert by_class.item() == pytest.approx(loss(scores, y, lengths).item(), rel=1e-12)


def test_class_weights_sum_to_1_and_are_equal_between_classes():
    y = torch.tensor(Y)
    weights = class_weights(y, 5)  # classes 3 and 4 are absent
    assert weights.sum().item() == pytest.approx(1)
    for k in range(3):
        assert weights[y == k].sum().item() == pytest.approx(1 / 3)
        assert len(weights[y == k].unique()) == 1


@pytest.mark.parametrize("loss", [lsel, lllr])
def test_gradients_equal_finite_differences(loss):
    scores = scores_of(len(Y), 5, 3).requires_grad_()
    assert torch.autograd.gradcheck(lambda s: loss(s, torch.tensor(Y), torch.tensor(LENGTHS)), scores)
