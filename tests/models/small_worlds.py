"""Small data sets, networks and models, shared by several tests and by scripts that tests start."""

import numpy as np
import torch

from stopwise.data.examples import Examples
from stopwise.data.series import SeriesSet
from stopwise.models import (
    Accumulator,
    B2BsqrtTandem,
    Evidence,
    Integrator,
    Tandemformer,
    TanhTandem,
    Training,
)
from stopwise.models.networks.modules import AccumulatorModule, LSTMModule, TandemformerModule
from stopwise.models.networks.training.loop import Task
from stopwise.models.networks.training.objective import Objective

CHANNELS = CLASSES = 3

# Class and parameters of one small model per kind, by name.
SMALL = {
    "accumulator": (Accumulator, {"hidden": 4}),
    "b2bsqrt": (B2BsqrtTandem, {"hidden": 4}),
    "tanh": (TanhTandem, {"hidden": 4}),
    "tandemformer": (Tandemformer, {"head_size": 4, "feed_forward": 4, "mlp": 4}),
}


class Reader:
    """Reads series in single precision and counts them."""

    def __init__(self, X, lengths=None):
        self.series, self.count = SeriesSet(X, lengths), 0

    def __call__(self, rows):
        self.count += len(rows)
        x, lengths = self.series.batch(rows)
        return x.astype(np.float32), lengths


def examples(X, y, *, classes=None, lengths=None, groups=None):
    """Return labeled series without centering or scaling."""
    read, y = Reader(X, lengths), np.asarray(y)
    classes = int(y.max()) + 1 if classes is None else classes
    return Examples(read, y, classes, read.series.channels, read.series.lengths, groups)


def world(n=60, seed=0, shift=1.5, steps=6, unequal=False, shares=(0.5, 0.3, 0.2)):
    """Return three classes of unequal size; the mean of class k is `shift` in channel k."""
    rng = np.random.default_rng(seed)
    y = np.repeat(np.arange(CLASSES), [round(n * share) for share in shares])
    X = [
        rng.normal(size=(rng.integers(2, steps + 1) if unequal else steps, CHANNELS))
        + shift * np.eye(CLASSES)[k]
        for k in y
    ]
    return examples(X if unequal else np.stack(X), y)


def gaussian(n, offset=1.0, classes=2, channels=3, steps=6, seed=0):
    """Return series (n, T, C) of independent Gaussian samples, labels (n,) and true scores (n, T, K)."""
    rng = np.random.default_rng(seed)
    y = rng.permutation(np.arange(n) % classes)
    X = rng.normal(size=(n, steps, channels)) + offset * np.eye(classes, channels)[y][:, None]
    return X, y, offset * X[..., :classes].cumsum(1)


def autoregressive(n, order, channels=2, steps=12, weight=0.8, seed=0):
    """Return series (n, T, C) of two classes with opposite signs of the dependence on lag `order`."""
    rng = np.random.default_rng(seed)
    y = rng.permutation(np.arange(n) % 2)
    X = rng.normal(size=(n, steps, channels))
    for t in range(order, steps):
        X[:, t] += weight * np.where(y, 1, -1)[:, None] * X[:, t - order]
    return X, y


def network(model="accumulator", order=1, seed=0, **params):
    """Return an untrained network with 3 channels and 3 classes."""
    torch.manual_seed(seed)
    if model == "tandemformer":
        return TandemformerModule(CHANNELS, CLASSES, order, **params)
    params = {"hidden": 8} | params
    if model == "accumulator":
        return AccumulatorModule(CHANNELS, CLASSES, order, **params)
    return LSTMModule(CHANNELS, CLASSES, order, activation=model, **params)


def task(train_set=None, validation_set=None, *, loss="lsel", llre_ratio=1.0, seed=0, **training):
    """Return a task with a small constant learning rate and, by default, no validation set."""
    training = Training(**{"learning_rate": 1e-3, "schedule": "constant"} | training).checked()
    train_set = world() if train_set is None else train_set
    return Task(train_set, validation_set, Objective(loss, llre_ratio), training, seed)


def small_model(name, **params):
    """Return a small untrained model. By default, `fit` trains one epoch without the slower polishing."""
    kind, sizes = SMALL[name]
    return kind(**{"order": 1, "polish": False, "training": Training(max_epochs=1)} | sizes | params)


def same_weights(a, b):
    """Whether two networks, or two dicts of tensors, have exactly the same weights."""
    a, b = ({**net.state_dict()} if isinstance(net, torch.nn.Module) else net for net in (a, b))
    return a.keys() == b.keys() and all(torch.equal(a[name], b[name]) for name in a)


class Linear(Integrator):
    """Custom network with evidence that is linear in the samples."""

    def __init__(self, channels, classes, order, gain=1.0, dropout=0.0):
        super().__init__(channels, classes, order)
        self.head = torch.nn.Linear(channels, classes)
        self.gain, self.dropout = gain, torch.nn.Dropout(dropout)

    @property
    def readout(self):
        return self.head

    def evidence(self, x, multiplets):
        logits = self.head(self.dropout(self.gain * x))  # (B, T, K)
        return Evidence(logits.cumsum(1), logits[:, :, None] if multiplets else None)
