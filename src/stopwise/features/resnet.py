"""Residual networks for images, with torchvision's names of weights.

Published ImageNet weights can be loaded (`backbones.build_backbone`) without torchvision.
"""

from __future__ import annotations

from torch import Tensor, nn

from stopwise.validation import check_choice

WIDTHS = (64, 128, 256, 512)


class BasicBlock(nn.Module):
    """Two 3×3 convolutions and a shortcut: the block of ResNet-18 and 34."""

    expansion = 1

    def __init__(self, channels: int, width: int, stride: int) -> None:
        super().__init__()
        self.conv1 = _conv(channels, width, 3, stride)
        self.bn1 = nn.BatchNorm2d(width)
        self.conv2 = _conv(width, width, 3)
        self.bn2 = nn.BatchNorm2d(width)
        self.downsample = _shortcut(channels, width, stride)

    def forward(self, x: Tensor) -> Tensor:
        """Map (B, C, H, W) to (B, width, H / stride, W / stride)."""
        y = self.bn1(self.conv1(x)).relu()
        y = self.bn2(self.conv2(y))
        return (y + (x if self.downsample is None else self.downsample(x))).relu()


class Bottleneck(nn.Module):
    """1×1, 3×3 and 1×1 convolutions and a shortcut: the block of ResNet-50, 101 and 152.

    The stride is in the 3×3 convolution, as in torchvision.
    """

    expansion = 4

    def __init__(self, channels: int, width: int, stride: int) -> None:
        super().__init__()
        self.conv1 = _conv(channels, width, 1)
        self.bn1 = nn.BatchNorm2d(width)
        self.conv2 = _conv(width, width, 3, stride)
        self.bn2 = nn.BatchNorm2d(width)
        self.conv3 = _conv(width, width * self.expansion, 1)
        self.bn3 = nn.BatchNorm2d(width * self.expansion)
        self.downsample = _shortcut(channels, width * self.expansion, stride)

    def forward(self, x: Tensor) -> Tensor:
        """Map (B, C, H, W) to (B, 4 width, H / stride, W / stride)."""
        y = self.bn1(self.conv1(x)).relu()
        y = self.bn2(self.conv2(y)).relu()
        y = self.bn3(self.conv3(y))
        return (y + (x if self.downsample is None else self.downsample(x))).relu()


RESNETS: dict[str, tuple[type[BasicBlock] | type[Bottleneck], tuple[int, int, int, int]]] = {
    "resnet18": (BasicBlock, (2, 2, 2, 2)),
    "resnet34": (BasicBlock, (3, 4, 6, 3)),
    "resnet50": (Bottleneck, (3, 4, 6, 3)),
    "resnet101": (Bottleneck, (3, 4, 23, 3)),
    "resnet152": (Bottleneck, (3, 8, 36, 3)),
}


class ResNet(nn.Module):
    """A residual network of one of the five standard depths.

    Parameters
    ----------
    name
        "resnet18", "resnet34", "resnet50", "resnet101" or "resnet152".
    classes
        Number of outputs of the last layer `fc`.
    dim
        Number of features, to which a linear layer `projection` maps the averaged feature maps. If None,
        there is no such layer, and the number depends on the depth.

    Examples
    --------
    >>> import torch
    >>> net = ResNet("resnet18")
    >>> sum(p.numel() for p in net.parameters())
    11689512
    >>> net.features(torch.zeros(2, 3, 64, 64)).shape, net.dim
    (torch.Size([2, 512]), 512)
    """

    def __init__(self, name: str, classes: int = 1000, dim: int | None = None) -> None:
        super().__init__()
        block, depths = RESNETS[check_choice("name", name, RESNETS)]
        self.conv1 = nn.Conv2d(3, 64, kernel_size=7, stride=2, padding=3, bias=False)
        self.bn1 = nn.BatchNorm2d(64)
        self.maxpool = nn.MaxPool2d(kernel_size=3, stride=2, padding=1)
        channels = 64
        for number, (width, depth) in enumerate(zip(WIDTHS, depths), start=1):
            blocks = []
            for place in range(depth):
                stride = 2 if number > 1 and place == 0 else 1
                blocks.append(block(channels, width, stride))
                channels = width * block.expansion
            self.add_module(f"layer{number}", nn.Sequential(*blocks))
        self.dim = channels if dim is None else dim
        self.projection = None if dim is None else nn.Linear(channels, dim)
        self.fc = nn.Linear(channels, classes)
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")

    def features(self, x: Tensor) -> Tensor:
        """Map images (B, 3, H, W) to features (B, dim): averaged feature maps, projected if `dim` was set."""
        x = self._averaged(x)
        return x if self.projection is None else self.projection(x)

    def _averaged(self, x: Tensor) -> Tensor:
        x = self.maxpool(self.bn1(self.conv1(x)).relu())
        for number in range(1, len(WIDTHS) + 1):
            x = self.get_submodule(f"layer{number}")(x)
        return x.mean(dim=(2, 3))

    def forward(self, x: Tensor) -> Tensor:
        """Map images (B, 3, H, W) to logits (B, classes)."""
        return self.fc(self._averaged(x))


class ResNetFeatures(nn.Module):
    """A `ResNet` that returns its features instead of logits.

    Examples
    --------
    >>> import torch
    >>> ResNetFeatures(ResNet("resnet18"))(torch.zeros(2, 3, 32, 32)).shape
    torch.Size([2, 512])
    """

    def __init__(self, net: ResNet) -> None:
        super().__init__()
        self.net = net

    def forward(self, x: Tensor) -> Tensor:
        """Map images (B, 3, H, W) to features (B, dim)."""
        return self.net.features(x)


def _conv(channels: int, width: int, kernel: int, stride: int = 1) -> nn.Conv2d:
    return nn.Conv2d(channels, width, kernel, stride, padding=kernel // 2, bias=False)


def _shortcut(channels: int, width: int, stride: int) -> nn.Sequential | None:
    """Return the layers that adapt the shortcut to the shape of the output, or None if it has that shape."""
    if channels == width and stride == 1:
        return None
    return nn.Sequential(_conv(channels, width, 1, stride), nn.BatchNorm2d(width))
