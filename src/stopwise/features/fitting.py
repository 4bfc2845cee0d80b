"""Training of a frame encoder: single frames against the label of their series.

All randomness comes from (seed, epoch); torch's own generator is left as it was.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from stopwise.features.encoder import SmallCNN
from stopwise.features.frames import Frames
from stopwise.progress import Reporter
from stopwise.validation import check_integer, check_real


def fit_encoder(
    frames: Any,
    y: Any,
    *,
    lengths: Any = None,
    encoder: nn.Module | None = None,
    head: nn.Module | None = None,
    dim: int = 64,
    hidden: float | None = None,
    epochs: int = 10,
    batch_size: int = 64,
    frames_per_series: int = 2,
    learning_rate: float = 4e-3,
    weight_decay: float = 1e-4,
    validation_data: tuple[Any, ...] | None = None,
    seed: int = 0,
    progress: bool | str = "auto",
) -> nn.Module:
    """Train an encoder of single frames to tell the class of the series they come from.

    In an epoch every series gives a few frames, spread over its length, drawn anew each time: an epoch of
    very long videos costs no more than one of short ones. Every class has the same weight.

    Parameters
    ----------
    frames
        (n, T, H, W) or (n, T, H, W, C), uint8 (read as 0..1) or float: an array, a memory map, or an object
        with `shape`, `dtype` and indexing by rows, such as `datasets.NosaicSeries`.
    y
        (n,) labels of any type.
    lengths
        (n,) numbers of frames, for series padded at their ends.
    encoder
        A torch module from (B, C, H, W) to (B, d), trained in place, on the device it is on; None: a new
        `SmallCNN`.
    head
        A torch module from features (B, d) to logits (B, K), trained along; None: a linear one, dropped.
    dim
        Number of features of a new `SmallCNN`.
    hidden
        The value in `frames` of pixels that are not shown, such as 255 in `datasets.NosaicSeries`, which a
        new `SmallCNN` then tells from those that are; None: every pixel is shown.
    epochs, batch_size, learning_rate, weight_decay
        As usual; a batch is so many frames. AdamW; the rate falls to 0 over the epochs (cosine).
    frames_per_series
        How many frames a series gives in an epoch.
    validation_data
        (frames, y) or (frames, y, lengths): the weights of the epoch with the lowest loss on it are kept.
        Without it, those of the last.
    seed
        The same seed gives the same encoder on the same machine.
    progress
        True: a bar on a terminal, lines elsewhere; False: nothing; "auto": a bar on a terminal only.

    Returns
    -------
    encoder
        In evaluation mode.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> y = np.repeat([0, 1], 20)
    >>> frames = rng.random((40, 5, 8, 8)) + y[:, None, None, None]
    >>> from stopwise.features import encode
    >>> encoder = fit_encoder(frames, y, dim=4, epochs=2, batch_size=32)
    >>> encode(encoder, frames).shape
    (40, 5, 4)
    """
    videos = Frames(frames, lengths)
    classes, labels = _class_indices(y, len(videos))
    held = None if validation_data is None else _check_held(validation_data, videos, classes)
    check_integer("epochs", epochs, 1)
    check_integer("batch_size", batch_size, 2)
    check_integer("frames_per_series", frames_per_series, 1)
    check_real("learning_rate", learning_rate, 0, open_low=True, open_high=True)
    check_real("weight_decay", weight_decay, 0, open_high=True)
    check_integer("seed", seed, 0)
    devices = {p.device for p in encoder.parameters() if p.device.type == "cuda"} if encoder else set()
    with torch.random.fork_rng(list(devices)):
        torch.manual_seed(np.random.SeedSequence([seed, 0]).generate_state(1)[0].item())
        if encoder is None:
            encoder = SmallCNN(*videos.frame_shape, dim=dim, hidden=_in_units(hidden, videos))
        elif hidden is not None:
            raise ValueError(
                "`hidden` goes with a new encoder: SmallCNN(..., hidden=...) sets it in one's own."
            )
        device = device_of(encoder)
        if head is None:
            head = nn.Linear(width_of(encoder, videos), len(classes))
        model = nn.Sequential(encoder, head.to(device))
        run = _Run(model, videos, labels, held, len(classes), seed, batch_size, frames_per_series)
        run.execute(epochs, learning_rate, weight_decay, progress)
    return encoder.eval()


class _Run:
    """One training run."""

    def __init__(
        self,
        model: nn.Module,
        videos: Frames,
        labels: np.ndarray,
        held: tuple[Frames, np.ndarray] | None,
        classes: int,
        seed: int,
        batch_size: int,
        frames_per_series: int,
    ) -> None:
        self.model, self.videos, self.labels, self.held = model, videos, labels, held
        self.classes, self.seed = classes, seed
        self.batch_size, self.frames_per_series = batch_size, frames_per_series
        self.device = device_of(model)

    def execute(self, epochs: int, rate: float, decay: float, progress: bool | str) -> None:
        learned = [p for p in self.model.parameters() if p.requires_grad]
        self.optimizer = torch.optim.AdamW(learned, rate, weight_decay=decay)
        best, lowest = None, math.inf
        with Reporter("training the encoder", epochs, progress) as reporter:
            for epoch in range(1, epochs + 1):
                note = f"loss {self._epoch(epoch, epochs, rate):.3f}"
                if self.held is not None:
                    loss, accuracy = self._validate(*self.held)
                    note += f", validation loss {loss:.3f}, accuracy {accuracy:.1%}"
                    if loss < lowest:
                        lowest = loss
                        best = {name: value.clone() for name, value in self.model.state_dict().items()}
                reporter.advance(note)
        if best is not None:
            self.model.load_state_dict(best)

    def _epoch(self, epoch: int, epochs: int, rate: float) -> float:
        """Train for one epoch; return the mean loss."""
        torch.manual_seed(np.random.SeedSequence([self.seed, epoch]).generate_state(1)[0].item())
        rng = np.random.default_rng([self.seed, epoch])
        weights = _class_weights(self.labels, self.classes)
        self.model.train()
        total, seen = 0.0, 0
        steps = -(-len(self.videos) // self._series_per_batch)
        batches = self._batches(self.videos, rng.permutation(len(self.videos)), rng)
        for number, (rows, times) in enumerate(batches):
            done = (epoch - 1 + number / steps) / epochs
            for group in self.optimizer.param_groups:
                group["lr"] = rate * 0.5 * (1 + math.cos(math.pi * done))
            self.optimizer.zero_grad(set_to_none=True)
            loss, _ = self._loss(self.videos, self.labels, weights, rows, times)
            loss.backward()
            self.optimizer.step()
            total, seen = total + loss.item() * len(rows), seen + len(rows)
            if not math.isfinite(total):
                raise FloatingPointError(
                    f"Training diverged: the loss is {loss.item()} in epoch {epoch}. Lower `learning_rate` "
                    f"(now {rate:g}), or scale float frames to about 0..1."
                )
        return total / seen

    @property
    def _series_per_batch(self) -> int:
        return max(1, self.batch_size // self.frames_per_series)

    def _batches(
        self, videos: Frames, order: np.ndarray, rng: np.random.Generator
    ) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Yield rows (B,) and times (B,): of each series a few frames, one from each stretch of it."""
        each = self.frames_per_series
        for start in range(0, len(order), self._series_per_batch):
            rows = np.repeat(np.sort(order[start : start + self._series_per_batch]), each)
            place = np.tile(np.arange(each), len(rows) // each) + rng.random(len(rows))
            yield rows, (place / each * videos.lengths[rows]).astype(np.int64)

    def _loss(
        self, videos: Frames, labels: np.ndarray, weights: np.ndarray, rows: np.ndarray, times: np.ndarray
    ) -> tuple[Tensor, Tensor]:
        """Return the weighted mean of the cross-entropy, and the logits (B, K)."""
        logits = self.model(videos.read(rows, times).to(self.device))
        y = torch.from_numpy(labels[rows]).to(self.device)
        weight = torch.from_numpy(weights[rows]).to(self.device)
        losses = nn.functional.cross_entropy(logits, y, reduction="none")
        return (losses * weight).mean(), logits

    @torch.no_grad()
    def _validate(self, videos: Frames, labels: np.ndarray) -> tuple[float, float]:
        """Return loss and accuracy, means of the classes', on frames that are the same after every epoch."""
        self.model.eval()
        weights = _class_weights(labels, self.classes)
        loss, right, seen = 0.0, 0.0, 0
        for rows, times in self._batches(videos, np.arange(len(videos)), np.random.default_rng(self.seed)):
            own, logits = self._loss(videos, labels, weights, rows, times)
            hits = logits.argmax(1).cpu().numpy() == labels[rows]
            loss, right = loss + own.item() * len(rows), right + float((hits * weights[rows]).sum())
            seen += len(rows)
        return loss / seen, right / seen


def device_of(module: nn.Module) -> torch.device:
    """Return the device a module is on: that of its first weight or buffer."""
    first = next(iter([*module.parameters(), *module.buffers()]), None)
    return torch.device("cpu") if first is None else first.device


def _class_weights(labels: np.ndarray, classes: int) -> np.ndarray:
    """Return weights (n,), float32, with mean 1 that give every class present the same share."""
    counts = np.bincount(labels, minlength=classes)
    return (len(labels) / (np.count_nonzero(counts) * counts[labels])).astype(np.float32)


@torch.no_grad()
def width_of(encoder: nn.Module, videos: Frames) -> int:
    """Return d, found by a look at one frame."""
    was_training = encoder.training
    first = videos.read(np.zeros(1, np.int64), np.zeros(1, np.int64)).to(device_of(encoder))
    features = encoder.eval()(first)
    encoder.train(was_training)
    if not isinstance(features, Tensor) or features.ndim != 2 or len(features) != 1:
        shape = tuple(features.shape) if isinstance(features, Tensor) else type(features).__name__
        raise ValueError(
            f"`encoder` must map frames (B, C, H, W) to features (B, d); it gave {shape} for one frame of "
            f"shape {tuple(first.shape)}. Flatten or pool what it gives."
        )
    return features.shape[1]


def _in_units(hidden: float | None, videos: Frames) -> float | None:
    """Return the value of hidden pixels as the encoder sees it."""
    if hidden is None:
        return None
    value = check_real("hidden", hidden, -math.inf, math.inf, open_low=True, open_high=True)
    return torch.tensor([value]).div_(255).item() if videos.is_bytes else value


def _class_indices(y: Any, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the classes (K,) and class indices (n,)."""
    labels = np.asarray(y)
    if labels.shape != (n,):
        raise ValueError(f"`y` must have shape ({n},), one label per series; got shape {labels.shape}.")
    classes, indices = np.unique(labels, return_inverse=True)
    if len(classes) < 2:
        raise ValueError(f"`y` must hold at least 2 classes; got {classes.tolist()}. Nothing to tell apart.")
    return classes, indices.astype(np.int64)


def _check_held(data: Any, videos: Frames, classes: np.ndarray) -> tuple[Frames, np.ndarray]:
    """Return the validation frames and their class indices."""
    if not isinstance(data, tuple | list) or len(data) not in (2, 3):
        raise ValueError("`validation_data` must be (frames, y) or (frames, y, lengths).")
    held = Frames(data[0], data[2] if len(data) == 3 else None, "validation_data")
    if held.frame_shape != videos.frame_shape:
        raise ValueError(
            f"`validation_data` must have frames like `frames`, (C, H, W) = {videos.frame_shape}; "
            f"got {held.frame_shape}."
        )
    labels = np.asarray(data[1])
    if labels.shape != (len(held),) or not np.isin(labels, classes).all():
        raise ValueError(
            f"`validation_data` must have one label per series, {len(held)}, all of them among those of `y`; "
            f"got shape {labels.shape} with labels {np.unique(labels)[:10].tolist()}."
        )
    return held, np.searchsorted(classes, labels)
