"""Tests of the parameters of Tandemformer."""

import pytest
import torch
from small_worlds import examples, gaussian, small_model

from stopwise.models import Tandemformer

X, Y, _ = gaussian(40)


def fitted(**params):
    return small_model("tandemformer", **params).fit(examples(X, Y))


def test_parameters_reach_the_network():
    net = fitted(
        order=2, blocks=2, heads=3, head_size=5, feed_forward=7, mlp=6, pooling="one-token",
        positions="learned", formula="oblivion", layer_norm=True, dropout=0.25, width=None,
    ).net_  # fmt: skip
    assert len(net.blocks) == 2
    block = net.blocks[0]
    assert (block.heads, block.out.in_features, block.expand.out_features) == (3, 15, 7)
    assert (net.readout.in_features, net.pooling, net.formula) == (6, "one-token", "oblivion")
    assert isinstance(block.norm1, torch.nn.LayerNorm)
    assert block.dropout.p == net.head[1].p == 0.25
    assert net.places.shape == (3, 3)
    assert fitted(order=1, width=5, positions="learned").net_.places.shape == (2, 5)


@pytest.mark.parametrize(("channels", "size"), [(1, 32), (31, 32), (32, 32), (33, 33)])
def test_tokens_of_few_channels_are_widened(channels, size):
    net = Tandemformer().build(channels, classes=2, order=3, steps=8)
    assert net.size == size
    assert (net.embed is None) == (channels >= 32)  # as in the paper: the samples are the tokens
    assert Tandemformer(width=None).build(channels, 2, 3, 8).size == channels


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"heads": 0}, "`heads` must be >= 1; got 0"),
        ({"width": 0}, "`width` must be >= 1; got 0"),
        ({"width": "wide"}, "`width` must be an integer, None or 'auto'; got 'wide'"),
        ({"pooling": "npp"}, "`pooling` must be one of .*Did you mean 'nsp'"),
        ({"formula": "tandm"}, "`formula` must be one of .*Did you mean 'tandem'"),
    ],
)
def test_invalid_options_raise(params, message):
    with pytest.raises(ValueError, match=message):
        fitted(**params)
