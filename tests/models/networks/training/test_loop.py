"""Tests of the training loop: loss, optimizer steps, early stopping, randomness and reports."""

import math

import numpy as np
import pytest
import torch
from small_worlds import examples, network, same_weights, task, world

from stopwise.models import Evidence, Integrator, Training
from stopwise.models.networks.training import loop
from stopwise.models.networks.training.loop import train


def loss_by_definition(net, data, ratio=1.0):
    """Compute r · LSEL + (1−r) · multiplet cross-entropy, averaged by class, one series at a time."""
    each = []
    for i, k in enumerate(data.y):
        x, _ = data.read(np.array([i]))
        with torch.no_grad():
            evidence = net(torch.from_numpy(x), multiplets=True)
        means = []
        for logits in evidence:
            logits = logits.double().numpy().reshape(-1, 3)
            means.append(np.mean(np.log(np.exp(logits - logits[:, [k]]).sum(1))))
        each.append(ratio * means[0] + (1 - ratio) * means[1])
    return np.mean([np.mean(np.array(each)[data.y == k]) for k in np.unique(data.y)])


# Learning


@pytest.mark.parametrize("optimizer", ["adam", "rmsprop"])
@pytest.mark.parametrize(("loss", "ratio"), [("lsel", 1.0), ("lllr", 0.5), ("lsel", 0.0)])
def test_loss_decreases_on_easy_data(optimizer, loss, ratio):
    net, held = network(), world(seed=1)
    easy = task(
        world(), held, loss=loss, llre_ratio=ratio,
        max_epochs=15, batch_size=10, learning_rate=0.01, optimizer=optimizer,
    )  # fmt: skip
    before = loss_by_definition(net, held, ratio=0.5)
    history = train(net, easy)
    assert history[-1]["train_loss"] < 0.5 * history[0]["train_loss"]
    assert loss_by_definition(net, held, ratio=0.5) < 0.7 * before
    assert not net.training


def test_history_has_one_record_per_epoch():
    history = train(network(), task(world(), world(seed=1), max_epochs=3))
    assert [record["epoch"] for record in history] == [1, 2, 3]
    assert {frozenset(record) for record in history} == {
        frozenset(["epoch", "train_loss", "learning_rate", "validation_loss"])
    }
    without = train(network(), task(max_epochs=2))
    assert "validation_loss" not in without[0]
    assert without[0]["train_loss"] == history[0]["train_loss"]


@pytest.mark.parametrize("unequal", [False, True])
@pytest.mark.parametrize("ratio", [1.0, 0.3])
@pytest.mark.parametrize("batch_size", [1000, 7])
def test_losses_are_averaged_by_class_over_all_data(unequal, ratio, batch_size):
    train_set, held = world(unequal=unequal), world(n=30, seed=1, unequal=unequal)
    net = network(order=2)
    expected = loss_by_definition(net, train_set, ratio)
    # The learning rate is so small that the weights do not change during the epoch.
    (record,) = train(
        net, task(train_set, held, llre_ratio=ratio, max_epochs=1, batch_size=batch_size, learning_rate=1e-12)
    )
    assert record["train_loss"] == pytest.approx(expected, rel=1e-5)
    assert record["validation_loss"] == pytest.approx(loss_by_definition(net, held, ratio), rel=1e-5)


# The first step of RMSprop divides the gradient by the root of 1/100 of its square, that of Adam by its own.
@pytest.mark.parametrize(("optimizer", "share"), [("rmsprop", 0.1), ("adam", 1.0)])
@pytest.mark.parametrize("epsilon", [1e-8, 1e-2])
def test_step_on_full_batch_uses_gradient_of_class_averaged_loss(optimizer, share, epsilon):
    data, net, twin = world(unequal=True), network(), network()
    train(net, task(data, max_epochs=1, batch_size=1000, optimizer=optimizer, epsilon=epsilon))
    total = torch.zeros(())
    for i, k in enumerate(data.y):
        x, _ = data.read(np.array([i]))
        scores = twin(torch.from_numpy(x)).scores[0]
        loss = torch.nn.functional.cross_entropy(scores, torch.full((len(scores),), int(k)))
        total = total + loss / (3 * np.count_nonzero(data.y == k))
    total.backward()
    for (name, p), after in zip(twin.named_parameters(), net.parameters()):
        expected = p - 1e-3 * p.grad / (share * p.grad.abs() + epsilon)
        torch.testing.assert_close(after, expected, rtol=1e-3, atol=1e-5, msg=name)


class Idle(Integrator):
    """Integrator whose parameters have no effect, so that only weight decay changes them."""

    def __init__(self):
        super().__init__(3, 3, 0)
        self.matrix, self.lags = (torch.nn.Parameter(torch.ones(shape)) for shape in ((2, 2), (2, 2, 2)))
        self.bias, self.vector = (torch.nn.Parameter(torch.ones(shape)) for shape in ((2, 2), (2,)))
        self.frozen = torch.nn.Parameter(torch.ones(2, 2), requires_grad=False)

    def evidence(self, x, multiplets):
        idle = sum(0 * p.sum() for p in self.parameters())
        return Evidence(x + idle, None)


@pytest.mark.parametrize("optimizer", ["adam", "rmsprop"])
def test_weight_decay_changes_matrices_only(optimizer):
    net = Idle()
    train(net, task(max_epochs=2, weight_decay=0.1, optimizer=optimizer))
    moved = {name for name, p in net.named_parameters() if not (p == 1).all()}
    assert moved == {"matrix", "lags"}
    assert (net.matrix < 1).all()


def test_biases_of_the_accumulator_do_not_decay():
    net = network(order=3)
    matrices = loop._optimizer(net, Training(weight_decay=0.1)).param_groups[0]["params"]
    decayed = {name for name, p in net.named_parameters() if any(p is one for one in matrices)}
    assert decayed == {"body.lags", "head.weight"}


@pytest.fixture
def steps(monkeypatch):
    """Record the learning rate and the norm of the gradient at each step of RMSprop."""
    seen = []
    real = torch.optim.RMSprop.step

    def step(self, *args):
        gradients = [p.grad for group in self.param_groups for p in group["params"]]
        rates = {group["lr"] for group in self.param_groups}
        seen.append((rates, math.sqrt(sum(float((gradient**2).sum()) for gradient in gradients))))
        return real(self, *args)

    monkeypatch.setattr(torch.optim.RMSprop, "step", step)
    return seen


def test_gradients_are_clipped(steps):
    options = {"max_epochs": 2, "batch_size": 10, "optimizer": "rmsprop"}
    train(network(), task(**options))
    free = [norm for _, norm in steps]
    clip = float(np.median(free[:6]))
    steps.clear()
    train(network(), task(**options, gradient_clip=clip))
    clipped = [norm for _, norm in steps]
    assert max(free) > 1.1 * clip
    assert max(clipped) == pytest.approx(clip, rel=1e-4)
    assert clipped[0] == pytest.approx(min(free[0], clip), rel=1e-4)


def test_cosine_schedule_decreases_to_zero(steps):
    options = {"max_epochs": 4, "batch_size": 25, "optimizer": "rmsprop", "learning_rate": 0.02}
    history = train(network(), task(**options, schedule="cosine"))
    total = 4 * 3  # epochs of 60 series in batches of 25
    expected = [0.01 * (1 + math.cos(math.pi * i / total)) for i in range(total)]
    assert all(len(rates) == 1 for rates, _ in steps)
    assert [rates.pop() for rates, _ in steps] == pytest.approx(expected)
    assert [record["learning_rate"] for record in history] == pytest.approx(expected[2::3])


def test_constant_schedule_is_constant(steps):
    train(network(), task(max_epochs=2, optimizer="rmsprop", learning_rate=0.02))
    assert all(rates == {0.02} for rates, _ in steps)


def overfitting(patience):
    """Return a task with labels that do not depend on the series, so that the validation loss increases."""
    noise = world(shift=0), world(seed=1, shift=0)
    return task(*noise, max_epochs=30, batch_size=10, learning_rate=0.02, patience=patience)


def test_early_stopping_keeps_the_best_weights():
    noise, net = overfitting(patience=4), network(order=3, products=0)
    losses = [record["validation_loss"] for record in train(net, noise)]
    best = int(np.argmin(losses))
    assert len(losses) == best + 1 + 4 < 30
    assert losses[-1] > 1.02 * losses[best]
    assert loss_by_definition(net, noise.validation_set) == pytest.approx(losses[best], rel=1e-5)


def test_without_patience_all_epochs_run_and_best_weights_are_kept():
    noise, net = overfitting(patience=None), network(order=3)
    losses = [record["validation_loss"] for record in train(net, noise)]
    assert len(losses) == 30
    assert loss_by_definition(net, noise.validation_set) == pytest.approx(min(losses), rel=1e-5)


# Randomness


@pytest.mark.parametrize("optimizer", ["adam", "rmsprop"])
def test_same_seed_gives_same_weights_and_other_seed_does_not(optimizer):
    nets = []
    for seed in (3, 3, 4):
        net = network(dropout=0.3)
        train(net, task(world(), world(seed=1), seed=seed, max_epochs=3, batch_size=10, optimizer=optimizer))
        nets.append(net)
    assert same_weights(nets[0], nets[1])
    assert not same_weights(nets[0], nets[2])


def test_global_random_state_is_neither_changed_nor_used():
    nets = []
    for state in (1, 2):
        net = network(dropout=0.3)
        torch.manual_seed(state)
        np.random.seed(state)  # noqa: NPY002
        before = torch.get_rng_state(), np.random.get_state()[1].copy()  # noqa: NPY002
        train(net, task(world(), world(seed=1), max_epochs=2, batch_size=10))
        assert torch.equal(torch.get_rng_state(), before[0])
        np.testing.assert_array_equal(np.random.get_state()[1], before[1])  # noqa: NPY002
        nets.append(net)
    assert same_weights(*nets)


# Divergence


def test_divergence_raises_error_with_options_to_change():
    message = (
        r"diverged: the loss is (nan|inf) in epoch 1, step \d+\. Lower `training.learning_rate` "
        r"\(now 1e\+30\) or set `training.gradient_clip` \(now None\)"
    )
    with pytest.raises(FloatingPointError, match=message):
        train(network(), task(max_epochs=3, batch_size=10, learning_rate=1e30))


def test_divergence_on_validation_data_raises():
    near = world(seed=1)
    far = examples(np.sign(near.read(np.arange(60))[0]) * np.float32(3e38), near.y)
    with pytest.raises(FloatingPointError, match=r"is (nan|inf) on the validation data after epoch 1\."):
        train(network(), task(world(), far, max_epochs=3))


# Reports of each epoch


def test_progress_is_printed(capsys):
    train(network(), task(world(), world(seed=1), max_epochs=2), progress=True, title="fitting")
    line = capsys.readouterr().err
    assert line.startswith("fitting: 2/2 loss ")
    assert " · validation " in line


def test_on_epoch_receives_each_record_with_network_in_eval_mode():
    seen, net = [], network(dropout=0.5)

    def look(record):
        seen.append(record)
        assert not net.training

    history = train(net, task(max_epochs=3), on_epoch=look)
    assert seen == history
    plain = network(dropout=0.5)
    train(plain, task(max_epochs=3))
    assert same_weights(net, plain)


def test_error_in_on_epoch_stops_training():
    seen = []

    def stop(record):
        seen.append(record["epoch"])
        if record["epoch"] == 2:
            raise KeyError("enough")

    with pytest.raises(KeyError, match="enough"):
        train(network(), task(max_epochs=9), on_epoch=stop)
    assert seen == [1, 2]
