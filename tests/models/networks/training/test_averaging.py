"""Compare averages of weights with their definitions."""

import pytest
import torch
from small_worlds import network, same_weights, task, world
from torch import nn

from stopwise.models.networks.training import loop
from stopwise.models.networks.training.averaging import WeightAverage
from stopwise.models.networks.training.loop import TrainingRun, train


def test_average_is_uniform_first_and_exponential_later():
    net = nn.Linear(1, 1)
    average = WeightAverage(net, decay=0.75)
    values = torch.randn(12, generator=torch.Generator().manual_seed(0)).tolist()
    expected = 0.0
    for step, value in enumerate(values, start=1):
        nn.init.constant_(net.weight, value)
        average.update()
        expected = sum(values[:step]) / step if step <= 4 else 0.75 * expected + 0.25 * value
    assert average.state()["weight"].item() == pytest.approx(expected, rel=1e-5)


def weights_after_each_step(monkeypatch):
    """Record the weights after every optimizer step."""
    seen, real = [], TrainingRun._step

    def step(self, *arguments):
        loss = real(self, *arguments)
        seen.append(nn.utils.parameters_to_vector(self.net.parameters()).detach().clone())
        return loss

    monkeypatch.setattr(loop.TrainingRun, "_step", step)
    return seen


def test_trained_network_has_the_average_weights(monkeypatch):
    seen = weights_after_each_step(monkeypatch)
    net = network()
    train(net, task(weight_average=1.0, max_epochs=3, batch_size=20))
    found = nn.utils.parameters_to_vector(net.parameters())
    torch.testing.assert_close(found, torch.stack(seen).mean(0))
    assert len(seen) == 9


def test_average_does_not_change_the_steps_and_is_validated(monkeypatch):
    plain, averaged = [], []
    for weights, options in ((plain, {}), (averaged, {"weight_average": 0.9})):
        with monkeypatch.context() as patch:
            seen = weights_after_each_step(patch)
            net = network()
            run = task(world(), world(seed=1), max_epochs=3, batch_size=20, **options)
            history = train(net, run)
            weights += [seen, net, history]
    assert all(torch.equal(one, other) for one, other in zip(plain[0], averaged[0], strict=True))
    assert not same_weights(plain[1], averaged[1])
    assert plain[2][0]["validation_loss"] != averaged[2][0]["validation_loss"]


def test_epochs_of_some_series_read_each_series_once_per_pass(monkeypatch):
    rows, real = [], TrainingRun._step

    def step(self, own, weights):
        rows.append(own)
        return real(self, own, weights)

    monkeypatch.setattr(loop.TrainingRun, "_step", step)
    history = train(network(), task(world(), world(seed=1), epoch_series=20, max_epochs=6, batch_size=10))
    assert len(history) == 6
    for first in (0, 6):
        read = torch.cat([torch.from_numpy(part) for part in rows[first : first + 6]])
        assert sorted(read.tolist()) == list(range(60))
    assert not all((one == other).all() for one, other in zip(rows[:6], rows[6:]))
