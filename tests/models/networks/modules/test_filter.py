"""Tests of the filter over hidden states against plain sums, exact scores and finite differences."""

import itertools

import numpy as np
import pytest
import torch

from stopwise.datasets import hidden_markov
from stopwise.datasets.hidden_markov import transitions
from stopwise.models.networks.modules import AccumulatorModule
from stopwise.models.networks.modules.filter import FLOOR, HiddenStateFilter, _Forward

D, H, K, M, T, B = 3, 2, 4, 3, 5, 2


def made(seed=0):
    torch.manual_seed(seed)
    net = HiddenStateFilter(D, H, K, M).double()
    for parameter in net.parameters():
        parameter.data.normal_()
    return net


def inputs(seed=1):
    rng = np.random.default_rng(seed)
    return torch.from_numpy(rng.normal(size=(T, B, H))), torch.from_numpy(rng.normal(size=(T, B, D)))


def log_likelihoods(net, features, x):
    """Return log p(x_1..x_t | k) (t, K) of one series, up to a common term, by a sum over all state paths."""
    transition, start = (part.softmax(-1).detach().numpy() for part in (net.transition, net.start))
    class_bias = net.class_bias.detach().numpy()
    emission = np.concatenate([x, features], 1) @ net.emission.weight.detach().numpy().T
    emission = emission + net.emission.bias.detach().numpy()
    found = np.empty((len(x), K))
    for t, k in itertools.product(range(len(x)), range(K)):
        total = 0.0
        for path in itertools.product(range(M), repeat=t + 1):
            chance = start[k, path[0]]
            for before, after in itertools.pairwise(path):
                chance *= transition[k, before, after]
            total += chance * np.exp(
                sum(emission[s, state] + class_bias[k, state] for s, state in enumerate(path))
            )
        found[t, k] = np.log(total)
    return found


def test_sums_of_increments_equal_likelihoods_over_all_state_paths():
    net, (features, x) = made(), inputs()
    with torch.no_grad():
        scores = net(features, x).cumsum(0).numpy()
    for b in range(B):
        expected = log_likelihoods(net, features[:, b].numpy(), x[:, b].numpy())
        expected -= expected.mean(1, keepdims=True)
        np.testing.assert_allclose(scores[:, b], expected, atol=1e-10)


def test_increments_have_mean_0_over_classes():
    with torch.no_grad():
        np.testing.assert_allclose(made()(*inputs()).mean(-1), 0, atol=1e-12)


def test_hand_written_gradients_equal_finite_differences():
    rng = np.random.default_rng(2)
    shapes = (T, B, M), (K, M, M), (K, M)
    parts = [torch.from_numpy(rng.uniform(0.1, 1, size=shape)) for shape in shapes]
    parts = [part.requires_grad_() for part in (parts[0].log(), *parts[1:])]
    assert torch.autograd.gradcheck(_Forward.apply, parts)


def test_gradients_of_the_parameters_and_inputs_equal_finite_differences():
    net, given = made(), inputs()
    names = [name for name, _ in net.named_parameters()]

    def increments(features, x, *values):
        return torch.func.functional_call(net, dict(zip(names, values)), (features, x))

    values = [value.detach().clone() for _, value in net.named_parameters()]
    assert torch.autograd.gradcheck(increments, [part.requires_grad_() for part in (*given, *values)])


def exact_network(classes, states, channels, stay, separation):
    """Return a network with the parameters of the hidden-Markov world."""
    rng = np.random.default_rng([0, 1])  # as in `hidden_markov` with world=0
    means = rng.standard_normal((states, channels))
    means = separation * means / np.linalg.norm(means, axis=1, keepdims=True)
    net = AccumulatorModule(channels, classes, None, body="filter", hidden=2, states=states)
    with torch.no_grad():
        net.filter.emission.weight.zero_()[:, :channels] = torch.from_numpy(means)
        net.filter.emission.bias.copy_(torch.from_numpy(-0.5 * (means**2).sum(1)))
        net.filter.transition.copy_(
            torch.from_numpy(transitions(classes, states, stay)).clamp(min=1e-30).log()
        )
        net.filter.start.zero_()
    return net


@pytest.mark.parametrize(("classes", "states", "stay", "separation"), [(2, 3, 0.5, 2.0), (3, 5, 0.2, 4.0)])
def test_scores_with_the_true_parameters_are_the_exact_ones(classes, states, stay, separation):
    size = {"classes": classes, "states": states, "stay": stay, "separation": separation}
    X, _, truth = hidden_markov(200, length=200, **size)
    scores = exact_network(channels=4, **size).score(X).astype(np.float64)
    ours, exact = (one - one.mean(-1, keepdims=True) for one in (scores, truth))
    assert np.abs(exact).max() > 50
    np.testing.assert_allclose(ours, exact, rtol=1e-4, atol=1e-4)


def test_extreme_samples_give_finite_bounded_increments_and_gradients():
    net = exact_network(2, 3, 4, 0.5, 2.0)
    x = torch.from_numpy(np.random.default_rng(0).normal(size=(3, 6, 4))).float() * 1e4
    scores = net(x).scores
    scores.square().sum().backward()
    increments = torch.diff(scores, dim=1, prepend=torch.zeros(3, 1, 2))
    assert increments.abs().max() <= -np.log(FLOOR)
    assert all(torch.isfinite(value.grad).all() for value in net.parameters() if value.grad is not None)


def test_untrained_network_scores_are_those_of_the_filter():
    net = AccumulatorModule(D, K, None, body="filter", hidden=H, states=M)
    x = torch.randn(B, T, D)
    with torch.no_grad():
        alone = net.filter(net.body(x).transpose(0, 1), x.transpose(0, 1)).cumsum(0).transpose(0, 1)
        torch.testing.assert_close(net(x).scores, alone)
