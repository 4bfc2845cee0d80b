"""Backbones: networks that map images to features, built by name or user-defined."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor, nn

from stopwise.features.encoder import SmallCNN, load_encoder
from stopwise.features.resnet import RESNETS, ResNet, ResNetFeatures
from stopwise.features.weights import PROJECTION_PREFIX, load_weights, read_weights
from stopwise.validation import check_choice, check_integer

BACKBONES = ("small", *RESNETS)
PROJECTION = f"{PROJECTION_PREFIX}weight"
# Per channel: red, green, blue.
IMAGENET_MEAN, IMAGENET_STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


@dataclass(frozen=True)
class Backbone:
    """A network that maps images to features, and the size of its images.

    Parameters
    ----------
    net
        A torch module that maps images (B, 3, size, size) with values in [0, 1] to features (B, d).
    name
        Name for reports and error messages.
    size
        Side length of the square images, in pixels.
    short_side
        Length to which the shorter side of a frame is resized before the center is cropped. If None,
        `size` × 8 / 7.
    trained
        Whether the weights are trained; False if they are random.

    Examples
    --------
    A user-defined network:

    >>> own = Backbone(nn.Sequential(nn.AvgPool2d(16), nn.Flatten()), "means", size=32)
    >>> own.net(torch.zeros(2, 3, 32, 32)).shape
    torch.Size([2, 12])
    """

    net: nn.Module
    name: str = "own"
    size: int = 224
    short_side: int | None = None
    trained: bool = True


class Standardized(nn.Module):
    """A network whose input images are first standardized by the mean and standard deviation of ImageNet.

    Examples
    --------
    >>> white = Standardized(nn.Identity())(torch.ones(1, 3, 1, 1))
    >>> white.flatten()
    tensor([2.2489, 2.4286, 2.6400])
    """

    def __init__(self, net: nn.Module) -> None:
        super().__init__()
        self.net = net
        self.mean: Tensor
        self.std: Tensor
        self.register_buffer("mean", torch.tensor(IMAGENET_MEAN).reshape(3, 1, 1), persistent=False)
        self.register_buffer("std", torch.tensor(IMAGENET_STD).reshape(3, 1, 1), persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        """Return the output of the network for images (B, 3, H, W) with values in [0, 1]."""
        return self.net((x - self.mean) / self.std)


def build_backbone(
    name: str = "resnet50",
    weights: str | Path | None = None,
    *,
    size: int | None = None,
    dim: int | None = None,
    seed: int = 0,
) -> Backbone:
    """Build a backbone by name.

    Parameters
    ----------
    name
        "small" for a `SmallCNN`, to be trained on your own frames; or "resnet18", "resnet34", "resnet50",
        "resnet101" or "resnet152".
    weights
        Path of a local file with weights. For a ResNet, a .safetensors file or a torch state_dict, with
        torchvision's names; for "small", a file saved by `save_encoder`. If None, the weights are random.
    size
        Side length of the images, in pixels. If None, 224 for a ResNet; for "small", the size saved in
        `weights`, or 64 without weights.
    dim
        Number of features. For "small" with random weights, None means 64. For a ResNet, a linear layer
        projects its features to this number; None means the projection in `weights`, if there is one, or
        none. A projection that is not in `weights` is random: train it, with `extract(..., fit=...)`.
    seed
        Seed of random weights.

    Returns
    -------
    backbone
        The network, in evaluation mode, as a `Backbone`.

    Raises
    ------
    FileNotFoundError
        If `weights` does not exist.
    ValueError
        If `weights` is damaged or does not match the network.

    Examples
    --------
    >>> backbone = build_backbone("resnet18", size=64)
    >>> backbone.trained, backbone.net(torch.zeros(2, 3, 64, 64)).shape
    (False, torch.Size([2, 512]))
    """
    check_choice("backbone", name, BACKBONES)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(check_integer("seed", seed, 0))
        if name == "small":
            return _small(weights, size, 64 if dim is None else check_integer("dim", dim, 1))
        projected = None if weights is None else read_weights(weights).get(PROJECTION)
        if dim is None and projected is not None:
            dim = len(projected)
        net = ResNet(name, dim=None if dim is None else check_integer("dim", dim, 1))
    if weights is not None:
        load_weights(net, weights)
    return Backbone(
        Standardized(ResNetFeatures(net)).eval(),
        name,
        224 if size is None else check_integer("size", size, 32),
        trained=weights is not None and (net.projection is None or projected is not None),
    )


def _small(weights: str | Path | None, size: int | None, dim: int) -> Backbone:
    if weights is None:
        side = 64 if size is None else check_integer("size", size, 8)
        return Backbone(SmallCNN(3, side, side, dim=dim).eval(), "small", side, side, trained=False)
    net = load_encoder(weights)
    if net.channels != 3 or net.height != net.width or size not in (None, net.height):
        raise ValueError(
            f"{weights} is for frames of {net.channels} channels and {net.height}×{net.width} pixels; here "
            f"images have 3 channels and are square{'' if size is None else f', {size}×{size} pixels'}. "
            "Omit `size`, or train another encoder."
        )
    return Backbone(net, "small", net.height, net.height)
