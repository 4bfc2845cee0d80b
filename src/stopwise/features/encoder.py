"""A small network from frames to features, and its file."""

from __future__ import annotations

import os
from pathlib import Path

import torch
from torch import Tensor, nn

from stopwise.persistence import tensors as storage
from stopwise.persistence.tensors import TensorFileError
from stopwise.validation import check_integer, check_real

KIND = "stopwise-frame-encoder"
SETTINGS = ("channels", "height", "width", "dim", "hidden")
# Strided convolutions go on until the grid is this small; what is where in it then still counts.
GRID = 4
WIDTHS = (16, 32, 64, 64, 96, 96, 128, 128)


class SmallCNN(nn.Module):
    """Frames (B, C, H, W) to features (B, dim).

    Convolutions of stride 2 down to a grid of 4 x 4 or less, then two dense layers over the whole grid: where
    something is seen tells as much as what, and an average over the frame would drown the few pixels of a
    frame that is mostly hidden.

    Parameters
    ----------
    channels, height, width
        The shape of a frame.
    dim
        Number of features.
    hidden
        The value of pixels that are not shown, such as 1.0 for white in `datasets.NosaicSeries` (uint8 is
        read as 0..1); None: every pixel is shown. A hidden pixel counts as 0, and a channel of its own tells
        which are hidden: a value close to that of hidden pixels is then not mistaken for it.

    Examples
    --------
    >>> encoder = SmallCNN(1, 28, 28, dim=32).eval()
    >>> encoder(torch.zeros(5, 1, 28, 28)).shape
    torch.Size([5, 32])
    """

    def __init__(
        self, channels: int, height: int, width: int, dim: int = 64, hidden: float | None = None
    ) -> None:
        super().__init__()
        self.channels = check_integer("channels", channels, 1)
        self.height = check_integer("height", height, 1)
        self.width = check_integer("width", width, 1)
        self.dim = check_integer("dim", dim, 1)
        self.hidden = None if hidden is None else check_real("hidden", hidden)
        rows, columns, wide = self.height, self.width, self.channels + (hidden is not None)
        # Standardises the channels; no weights of its own.
        layers: list[nn.Module] = [nn.BatchNorm2d(wide, affine=False)]
        for number, out in enumerate(WIDTHS):
            if max(rows, columns) <= GRID:
                break
            size = 5 if number == 0 else 3
            layers += [
                nn.Conv2d(wide, out, size, stride=2, padding=size // 2, bias=False),
                nn.BatchNorm2d(out),
                nn.ReLU(),
            ]
            rows, columns, wide = (rows + 1) // 2, (columns + 1) // 2, out
        self.grid = nn.Sequential(*layers)
        # Past the last width the grid of a huge frame is averaged down.
        self.pool = nn.AdaptiveAvgPool2d(GRID) if max(rows, columns) > GRID else nn.Identity()
        cells = GRID**2 if max(rows, columns) > GRID else rows * columns
        self.dense = nn.Sequential(
            nn.Flatten(), nn.Linear(cells * wide, 128), nn.ReLU(), nn.Linear(128, self.dim)
        )

    def forward(self, x: Tensor) -> Tensor:
        """Return the features (B, dim) of frames (B, C, H, W)."""
        if x.ndim != 4 or tuple(x.shape[1:]) != (self.channels, self.height, self.width):
            raise ValueError(
                f"`x` must have shape (B, {self.channels}, {self.height}, {self.width}), as this encoder was "
                f"made for; got shape {tuple(x.shape)}."
            )
        if self.hidden is not None:
            shown = (x != self.hidden).any(dim=1, keepdim=True)  # (B, 1, H, W)
            x = torch.cat([x * shown, shown.to(x.dtype)], dim=1)
        return self.dense(self.pool(self.grid(x)))


def save_encoder(path: str | os.PathLike[str], encoder: SmallCNN) -> None:
    """Write an encoder to one file: weights and a readable description, in safetensors.

    Examples
    --------
    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "encoder.safetensors"
    >>> save_encoder(path, SmallCNN(3, 54, 54, dim=32))
    >>> load_encoder(path).dim
    32
    """
    if not isinstance(encoder, SmallCNN):
        raise TypeError(
            f"`encoder` must be a SmallCNN; got {type(encoder).__name__}. Save the weights of a network of "
            "your own with safetensors.torch.save_model."
        )
    settings = {name: getattr(encoder, name) for name in SETTINGS}
    storage.write(Path(path), encoder.state_dict(), {"kind": KIND, "version": 1, **settings})


def load_encoder(path: str | os.PathLike[str]) -> SmallCNN:
    """Read an encoder that `save_encoder` wrote; nothing in the file can run code.

    Raises
    ------
    FileNotFoundError
        When there is no such file.
    TensorFileError
        When the file is damaged or holds something else.
    """
    path = Path(path)
    tensors, about = storage.read(path)
    if about.get("kind") != KIND or about.get("version") != 1:
        raise TensorFileError(
            f"{path} holds no frame encoder of a version this stopwise reads (its kind is "
            f"{about.get('kind')!r}, version {about.get('version')!r})."
        )
    try:
        encoder = SmallCNN(**{name: about[name] for name in SETTINGS})
        encoder.load_state_dict(tensors)
    except (KeyError, TypeError, ValueError, RuntimeError) as error:
        raise TensorFileError(f"{path} does not describe a frame encoder: {error}") from error
    return encoder.eval()
