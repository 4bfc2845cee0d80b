"""With the same weights, the baselines compute the same scores as the networks of this package."""

import numpy as np
import pytest
import torch

from stopwise.bench.baselines import PrefixEncoder, Shape, SlicedLSTM, threshold_sweep
from stopwise.metrics import sat_curve
from stopwise.models.networks.modules import LSTMModule, TandemformerModule

SHAPES = [Shape(3, 7, 5, 4, 3, order) for order in (0, 1, 3, 6)]


@pytest.mark.parametrize("shape", SHAPES)
def test_sliced_lstm_equals_the_tanh_network(shape):
    theirs = SlicedLSTM(shape).double()
    ours = LSTMModule(
        shape.channels, shape.classes, shape.order, activation="tanh", hidden=shape.hidden
    ).double()
    order = [0, 1, 3, 2]  # PyTorch stores the candidate before the output gate
    with torch.no_grad():
        for mine, parts in {
            ours.lstm.input: [theirs.lstm.weight_ih_l0],
            ours.lstm.recurrent: [theirs.lstm.weight_hh_l0],
            ours.lstm.bias: [theirs.lstm.bias_ih_l0, theirs.lstm.bias_hh_l0],
        }.items():
            gates = sum(parts).chunk(4)
            mine.copy_(torch.cat([gates[i] for i in order]))
        ours.head[-1].load_state_dict(theirs.head.state_dict())
    x = shape.series()[0].double()
    torch.testing.assert_close(ours(x).scores, theirs(x), rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("shape", SHAPES)
def test_prefix_encoder_equals_the_tandemformer(shape):
    theirs = PrefixEncoder(shape).double()
    ours = TandemformerModule(shape.channels, shape.classes, shape.order).double()
    for name in ("qkv", "out", "expand", "contract"):
        getattr(ours.blocks[0], name).load_state_dict(getattr(theirs, name).state_dict())
    ours.read.load_state_dict(theirs.read.state_dict())
    ours.head[-1].load_state_dict(theirs.head.state_dict())
    x = shape.series()[0].double()
    torch.testing.assert_close(ours(x).scores, theirs(x), rtol=1e-10, atol=1e-12)


def test_threshold_sweep_lies_on_the_exact_curve():
    rng = np.random.default_rng(0)
    scores, y = rng.standard_normal((60, 8, 4)).cumsum(1), np.arange(60) % 4
    curve = sat_curve(scores, y)
    for a, (time, error) in zip([0.0, 0.5, 2.0, 9.0], threshold_sweep(scores, y, [0.0, 0.5, 2.0, 9.0])):
        point = curve.at_threshold(a)
        assert (point.mean_time, point.error) == pytest.approx((time, error))
