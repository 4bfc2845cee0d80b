"""A small network that maps frames to features, and its file format."""

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
# Strided convolutions reduce a frame to a grid of at most this size; the dense layers see all its positions.
GRID = 4
WIDTHS = (16, 32, 64, 64, 96, 96, 128, 128)


class SmallCNN(nn.Module):
    """A small convolutional network that maps frames (B, C, H, W) to features (B, dim).

    Convolutions of stride 2 reduce a frame to a grid of at most 4 x 4; two dense layers follow. The grid is
    not averaged, because positions matter and an average would keep little of a frame with few visible
    pixels.

    Parameters
    ----------
    channels
        Number of channels C of a frame.
    height, width
        Height H and width W of a frame, in pixels.
    dim
        Number of features.
    hidden
        Value of hidden pixels, such as 1.0 for white in `datasets.NosaicSeries`, whose uint8 frames are
        scaled to [0, 1]. Hidden pixels are set to 0, and an additional channel marks the visible ones, so
        that values close to `hidden` are not confused with it. If None, no pixel is hidden.

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
        # Standardizes the channels; has no weights.
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
        # If the grid of a huge frame is still larger after the last width, it is averaged.
        self.pool = nn.AdaptiveAvgPool2d(GRID) if max(rows, columns) > GRID else nn.Identity()
        cells = GRID**2 if max(rows, columns) > GRID else rows * columns
        self.dense = nn.Sequential(
            nn.Flatten(), nn.Linear(cells * wide, 128), nn.ReLU(), nn.Linear(128, self.dim)
        )

    def forward(self, x: Tensor) -> Tensor:
        """Return the features (B, dim) of frames (B, C, H, W)."""
        if x.ndim != 4 or tuple(x.shape[1:]) != (self.channels, self.height, self.width):
            raise ValueError(
                f"`x` must have shape (B, {self.channels}, {self.height}, {self.width}), the frames of this "
                f"encoder; got shape {tuple(x.shape)}."
            )
        if self.hidden is not None:
            visible = (x != self.hidden).any(dim=1, keepdim=True)  # (B, 1, H, W)
            x = torch.cat([x * visible, visible.to(x.dtype)], dim=1)
        return self.dense(self.pool(self.grid(x)))


def save_encoder(path: str | os.PathLike[str], encoder: SmallCNN) -> None:
    """Save an encoder, with its weights and settings, to a safetensors file.

    Parameters
    ----------
    path
        The file to write.
    encoder
        The encoder to save.

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
            f"`encoder` must be a SmallCNN; got {type(encoder).__name__}. Save the weights of your own "
            "network with safetensors.torch.save_model."
        )
    settings = {name: getattr(encoder, name) for name in SETTINGS}
    storage.write(Path(path), encoder.state_dict(), {"kind": KIND, "version": 1, **settings})


def load_encoder(path: str | os.PathLike[str]) -> SmallCNN:
    """Load an encoder from a file written by `save_encoder`.

    Loading a file cannot run code.

    Parameters
    ----------
    path
        The file to read.

    Returns
    -------
    encoder
        The encoder, in evaluation mode.

    Raises
    ------
    FileNotFoundError
        If the file does not exist.
    TensorFileError
        If the file is damaged or holds something else.

    Examples
    --------
    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "encoder.safetensors"
    >>> encoder = SmallCNN(1, 28, 28, dim=16).eval()
    >>> save_encoder(path, encoder)
    >>> frames = torch.rand(2, 1, 28, 28)
    >>> bool((load_encoder(path)(frames) == encoder(frames)).all())
    True
    """
    path = Path(path)
    tensors, about = storage.read(path)
    if about.get("kind") != KIND or about.get("version") != 1:
        raise TensorFileError(
            f"{path} does not hold a frame encoder that this version of stopwise supports (its kind is "
            f"{about.get('kind')!r}, version {about.get('version')!r}). Save the encoder again."
        )
    try:
        with torch.device("meta"):  # no memory, until the sizes are compared with the weights in the file
            encoder = SmallCNN(**{name: about[name] for name in SETTINGS})
        types = {name: value.dtype for name, value in encoder.state_dict().items()}
        if types != {name: value.dtype for name, value in tensors.items()}:
            raise ValueError("the weights have other names or types than those of an encoder")
        encoder.load_state_dict(tensors, assign=True)
    except (KeyError, TypeError, ValueError, RuntimeError, OverflowError) as error:
        raise TensorFileError(f"{path} does not describe a valid frame encoder: {error}") from error
    return encoder.eval()
