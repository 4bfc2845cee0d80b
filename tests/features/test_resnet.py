"""ResNets: torchvision's names and shapes, and blocks compared with a slow computation."""

import numpy as np
import pytest
import torch
from torch import nn

from stopwise.features.resnet import RESNETS, BasicBlock, Bottleneck, ResNet

# Published numbers of parameters, with 1000 classes.
PARAMETERS = {
    "resnet18": 11_689_512,
    "resnet34": 21_797_672,
    "resnet50": 25_557_032,
    "resnet101": 44_549_160,
    "resnet152": 60_192_808,
}


@pytest.mark.parametrize("name", RESNETS)
def test_numbers_of_parameters_equal_the_published_ones(name):
    with torch.device("meta"):
        net = ResNet(name)
    assert sum(p.numel() for p in net.parameters()) == PARAMETERS[name]


def norm(name, width):
    shapes = {f"{name}.{part}": (width,) for part in ("weight", "bias", "running_mean", "running_var")}
    return shapes | {f"{name}.num_batches_tracked": ()}


def torchvision_names(kernels, expansion, depths):
    """Return the names and shapes of torchvision's weights, derived from the table in the paper."""
    shapes = {"conv1.weight": (64, 3, 7, 7)} | norm("bn1", 64)
    channels = 64
    for number, depth in enumerate(depths, start=1):
        width = 32 * 2**number
        for place in range(depth):
            block, wide = f"layer{number}.{place}", channels
            for i, kernel in enumerate(kernels, start=1):
                out = width * expansion if i == len(kernels) else width
                shapes[f"{block}.conv{i}.weight"] = (out, wide, kernel, kernel)
                shapes |= norm(f"{block}.bn{i}", out)
                wide = out
            if place == 0 and channels != wide:
                shapes[f"{block}.downsample.0.weight"] = (wide, channels, 1, 1)
                shapes |= norm(f"{block}.downsample.1", wide)
            channels = wide
    return shapes | {"fc.weight": (1000, channels), "fc.bias": (1000,)}


@pytest.mark.parametrize(
    ("name", "kernels", "expansion", "depths"),
    [
        ("resnet18", (3, 3), 1, (2, 2, 2, 2)),
        ("resnet50", (1, 3, 1), 4, (3, 4, 6, 3)),
        ("resnet152", (1, 3, 1), 4, (3, 8, 36, 3)),
    ],
)
def test_names_and_shapes_equal_those_of_torchvision(name, kernels, expansion, depths):
    with torch.device("meta"):
        own = {key: tuple(value.shape) for key, value in ResNet(name).state_dict().items()}
    assert own == torchvision_names(kernels, expansion, depths)


def slow_conv(x, weight, stride):
    """Convolve (C, H, W) with (O, C, k, k), padded by k // 2, one position at a time."""
    k = weight.shape[2]
    x = np.pad(x, ((0, 0), (k // 2, k // 2), (k // 2, k // 2)))
    rows, columns = ((side - k) // stride + 1 for side in x.shape[1:])
    y = np.empty((len(weight), rows, columns))
    for i in range(rows):
        for j in range(columns):
            patch = x[:, i * stride : i * stride + k, j * stride : j * stride + k]
            y[:, i, j] = (weight * patch).sum(axis=(1, 2, 3))
    return y


def slow_norm(x, state, name):
    mean, var, weight, bias = (
        state[f"{name}.{part}"][:, None, None] for part in ("running_mean", "running_var", "weight", "bias")
    )
    return (x - mean) / np.sqrt(var + 1e-5) * weight + bias


def slow_block(x, state, strides):
    y = x
    for i, stride in enumerate(strides, start=1):
        y = slow_norm(slow_conv(y, state[f"conv{i}.weight"], stride), state, f"bn{i}")
        if i < len(strides):
            y = np.maximum(y, 0)
    if "downsample.0.weight" in state:
        x = slow_norm(slow_conv(x, state["downsample.0.weight"], max(strides)), state, "downsample.1")
    return np.maximum(y + x, 0)


@pytest.mark.parametrize(
    ("block", "channels", "stride", "strides"),
    [
        (BasicBlock, 4, 1, (1, 1)),
        (BasicBlock, 6, 2, (2, 1)),
        (Bottleneck, 16, 1, (1, 1, 1)),
        (Bottleneck, 6, 2, (1, 2, 1)),
    ],
)
def test_blocks_agree_with_a_slow_computation(block, channels, stride, strides):
    net = block(channels, 4, stride).double().eval()
    for module in net.modules():
        if isinstance(module, nn.BatchNorm2d):
            nn.init.normal_(module.running_mean)
            nn.init.uniform_(module.running_var, 0.5, 2)
            nn.init.normal_(module.weight)
            nn.init.normal_(module.bias)
    x = torch.randn(2, channels, 7, 6, dtype=torch.float64)
    state = {name: value.numpy() for name, value in net.state_dict().items()}
    with torch.no_grad():
        fast = net(x).numpy()
    slow = np.stack([slow_block(one, state, strides) for one in x.numpy()])
    np.testing.assert_allclose(fast, slow, atol=1e-10)
    assert slow.max() > 0


def test_layers_halve_the_image_five_times():
    net = ResNet("resnet18", classes=7).eval()
    seen = {}
    for number in (1, 2, 3, 4):
        net.get_submodule(f"layer{number}").register_forward_hook(
            lambda _, __, y, number=number: seen.update({number: tuple(y.shape[1:])})
        )
    with torch.no_grad():
        assert net(torch.randn(1, 3, 96, 64)).shape == (1, 7)
    assert seen == {1: (64, 24, 16), 2: (128, 12, 8), 3: (256, 6, 4), 4: (512, 3, 2)}


def test_unknown_name_raises():
    with pytest.raises(
        ValueError, match=r"`name` must be one of 'resnet18', .* got 'resnet51'. Did you mean"
    ):
        ResNet("resnet51")
