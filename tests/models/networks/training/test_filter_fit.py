"""Tests of the fit of the filter body: the start, and the choice between start, polish and training."""

import numpy as np
import pytest
import torch
from scipy.stats import multivariate_normal
from small_worlds import Linear, examples, gaussian, task, world

from stopwise.datasets import hidden_markov
from stopwise.metrics import llr_error
from stopwise.models.networks.modules import AccumulatorModule
from stopwise.models.networks.training import filter_fit
from stopwise.models.networks.training.compare import gain, held_out_lsel
from stopwise.models.networks.training.hidden_markov import HiddenMarkov

X, Y, _ = hidden_markov(600, length=30, seed=0)


def network(channels=4, classes=2, states=3):
    torch.manual_seed(0)
    return AccumulatorModule(channels, classes, None, body="filter", hidden=4, states=states)


def test_start_scores_are_close_to_the_exact_ones():
    net = network()
    report = filter_fit.start_filter(net, task(examples(X, Y)))
    fresh, _, truth = hidden_markov(500, length=30, seed=1)
    assert llr_error(net.score(fresh).astype(np.float64), truth).relative < 0.1
    assert 1 < report["iterations"] <= 100


def test_network_scores_equal_log_likelihoods_of_the_written_models():
    rng = np.random.default_rng(0)
    root = rng.normal(size=(4, 4))
    model = HiddenMarkov(
        rng.normal(size=(3, 4)),
        root @ root.T + np.eye(4),
        rng.dirichlet(np.ones(3), size=(2, 3)),
        rng.dirichlet(np.ones(3), size=2),
        rng.normal(size=(2, 4)),
    )
    net = network()
    filter_fit.write_models(net, model)
    expected = []
    for x in X[:5, :4]:
        likelihood = np.zeros((4, 2))
        for k in range(2):
            means = model.means + model.offsets[k]
            density = [multivariate_normal(mean, np.linalg.inv(model.precision)).pdf(x) for mean in means]
            belief = model.start[k] * np.array(density)[:, 0]
            likelihood[0, k] = belief.sum()
            for t in range(1, 4):
                belief = belief @ model.transition[k] * np.array(density)[:, t]
                likelihood[t, k] = belief.sum()
        expected.append(np.log(likelihood[:, 1] / likelihood[:, 0]))
    scores = net.score(X[:5, :4])
    np.testing.assert_allclose(scores[..., 1] - scores[..., 0], expected, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("skip", [True, False])
def test_start_is_precise_where_the_classes_differ_in_their_means(skip):
    data, y, _ = gaussian(500, offset=1.5, steps=20)
    net = AccumulatorModule(3, 2, None, body="filter", hidden=4, states=3, skip=skip)
    filter_fit.start_filter(net, task(examples(data, y)))
    fresh, _, truth = gaussian(500, offset=1.5, steps=20, seed=1)
    scores = net.score(fresh.astype(np.float32)).astype(np.float64)
    # Without the sample in the head, only the states can tell the classes apart.
    assert (llr_error(scores, truth).relative < 0.1) == skip


@pytest.mark.parametrize("factor", [1, 32])
def test_overconfident_start_is_scaled_down(factor):
    # Repeating each sample makes the models count its evidence several times.
    data, y, _ = gaussian(400, offset=0.7, steps=6)
    repeated = np.repeat(data, factor, axis=1)
    net = network(channels=3)
    report = filter_fit.start_filter(net, task(examples(repeated, y)))
    assert (report["scale"] < 0.2) == (factor > 1)
    if factor == 1:
        assert report["scale"] == 1.0


def test_start_depends_on_the_seed_only():
    nets = [network(), network()]
    for net in nets:
        filter_fit.start_filter(net, task(examples(X, Y)))
    assert all(torch.equal(a, b) for a, b in zip(nets[0].parameters(), nets[1].parameters()))


def test_start_reads_a_limited_number_of_series(monkeypatch):
    monkeypatch.setattr(filter_fit, "MOST_SERIES", 50)
    monkeypatch.setattr(filter_fit, "FEW_SERIES", 20)
    data = examples(X, Y)
    filter_fit.start_filter(network(), task(data))
    assert data.read.count == 50 + 20 + 20 * len(filter_fit.SCALES)


def test_start_with_unequal_lengths_and_three_classes():
    net = network(channels=3, classes=3, states=4)
    filter_fit.start_filter(net, task(world(unequal=True)))
    assert np.isfinite(net.score(np.zeros((2, 5, 3), np.float32))).all()


def scaled(factor):
    """Return a network whose scores are the first channels times a factor."""
    net = Linear(3, 3, 0)
    with torch.no_grad():
        net.head.weight.copy_(factor * torch.eye(3))
        net.head.bias.zero_()
    return net


@pytest.mark.parametrize(
    ("factors", "expected"),
    [
        ({"start": 0.0, "polished": 1.0, "trained": 1.0}, "polished"),
        ({"start": 1.5, "polished": 1.52, "trained": 0.0}, "start"),
        ({"start": 0.0, "polished": 0.3, "trained": 1.0}, "trained"),
    ],
)
def test_later_stage_is_kept_only_if_clearly_better(factors, expected):
    given = task(validation_set=world(n=200))
    chosen, seen = filter_fit.choose_stage({name: scaled(one) for name, one in factors.items()}, given)
    assert chosen == expected
    assert [record["stage"] for record in seen] == list(factors)


def test_without_validation_series_the_last_stage_is_kept():
    assert filter_fit.choose_stage({"start": scaled(1.0), "trained": scaled(0.0)}, task()) == (
        "trained",
        None,
    )


def test_gain_is_the_weighted_mean_of_paired_differences():
    rng = np.random.default_rng(0)
    before, after, weights = rng.random(40), rng.random(40), rng.random(40)
    found = gain(before, after, weights)
    differences = [w * (a - b) for w, a, b in zip(weights, before, after)]
    assert found.mean == pytest.approx(sum(differences) / 40)
    assert found.standard_error == pytest.approx(np.std(differences, ddof=1) / np.sqrt(40))


@pytest.mark.parametrize(
    ("before", "clear"),
    [
        ([1.0, 1.1], False),
        ([1.01, 1.1095], True),
        ([1.4, 0.79], True),
        ([1.4, 0.71], False),
        ([1.4, 0.4], False),
    ],
    ids=["none", "small and certain", "large and uncertain", "small and uncertain", "negative"],
)
def test_gain_is_clear_if_it_is_certain_or_large(before, clear):
    assert gain(np.array(before), np.array([1.0, 1.1]), np.ones(2)).is_clear == clear


def test_held_out_loss_ignores_padding():
    held = world(n=30, unequal=True)
    losses = held_out_lsel(scaled(1.0), task(validation_set=held, batch_size=7))
    for i in range(len(held)):
        x, lengths = held.read(np.array([i]))
        scores = x[0, : lengths[0], :3].cumsum(0).astype(np.float64)
        own = np.log(np.exp(scores).sum(1)) - scores[:, held.y[i]]
        assert losses[i] == pytest.approx(own.mean(), rel=1e-5)
