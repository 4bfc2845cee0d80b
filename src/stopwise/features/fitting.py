"""Training of a frame encoder: single frames are classified by the label of their series.

Random numbers depend only on the seed and the epoch; the global generator of torch is not changed.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from stopwise.data.labels import known_indices, learn_classes
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
    """Train an encoder to classify single frames by the label of their series.

    An epoch uses a few random frames of each series, distributed over its length, so that long videos take
    no more time than short ones. All classes have the same weight.

    Parameters
    ----------
    frames
        (n, T, H, W) or (n, T, H, W, C), uint8 (scaled to [0, 1]) or float: an array, a memory map, or an
        object with `shape`, `dtype` and indexing by rows, such as `datasets.NosaicSeries`.
    y
        (n,) labels of any type.
    lengths
        (n,) numbers of frames, for padded series. If None, all series have T frames.
    encoder
        A torch module that maps frames (B, C, H, W) to features (B, d); it is trained in place on its device.
        If None, a new `SmallCNN` is trained.
    head
        A torch module that maps features (B, d) to logits (B, K); it is trained together with the encoder.
        If None, a linear layer is used and then discarded.
    dim
        Number of features of a new `SmallCNN`.
    hidden
        Value of hidden pixels in `frames` for a new `SmallCNN`, such as 255 in `datasets.NosaicSeries`. If
        None, no pixel is hidden.
    epochs
        Number of epochs.
    batch_size
        Number of frames per batch.
    frames_per_series
        Number of frames drawn from each series per epoch.
    learning_rate
        Initial learning rate of AdamW; it decreases to 0 over the epochs (cosine schedule).
    weight_decay
        Weight decay of AdamW.
    validation_data
        (frames, y) or (frames, y, lengths). The weights of the epoch with the lowest loss on these data are
        kept. If None, the weights of the last epoch are kept.
    seed
        Seed of the weights and of the frames. The same seed gives the same encoder on the same machine.
    progress
        Whether to report progress. True shows a bar on a terminal and prints lines elsewhere; "auto" shows a
        bar on a terminal only; False shows nothing.

    Returns
    -------
    encoder
        The trained encoder, in evaluation mode.

    Raises
    ------
    FloatingPointError
        If the training loss becomes infinite or NaN.

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
    classes, labels = learn_classes(y, len(videos))
    validation = None if validation_data is None else _check_validation(validation_data, videos, classes)
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
            encoder = SmallCNN(*videos.frame_shape, dim=dim, hidden=_scale_hidden(hidden, videos))
        elif hidden is not None:
            raise ValueError(
                "`hidden` can only be used if `encoder` is None. For an existing encoder, set it with "
                "SmallCNN(..., hidden=...)."
            )
        device = device_of(encoder)
        if head is None:
            head = nn.Linear(output_dim(encoder, videos), len(classes))
        model = nn.Sequential(encoder, head.to(device))
        training = _EncoderTraining(
            model, videos, labels, validation, len(classes), seed, batch_size, frames_per_series
        )
        training.run(epochs, learning_rate, weight_decay, progress)
    return encoder.eval()


class _EncoderTraining:
    """One training run of an encoder and its head."""

    def __init__(
        self,
        model: nn.Module,
        videos: Frames,
        labels: np.ndarray,
        validation: tuple[Frames, np.ndarray] | None,
        classes: int,
        seed: int,
        batch_size: int,
        frames_per_series: int,
    ) -> None:
        self.model, self.videos, self.labels, self.validation = model, videos, labels, validation
        self.classes, self.seed = classes, seed
        self.batch_size, self.frames_per_series = batch_size, frames_per_series
        self.device = device_of(model)

    def run(self, epochs: int, rate: float, decay: float, progress: bool | str) -> None:
        trainable = [p for p in self.model.parameters() if p.requires_grad]
        self.optimizer = torch.optim.AdamW(trainable, rate, weight_decay=decay)
        best, lowest = None, math.inf
        with Reporter("training the encoder", epochs, progress) as reporter:
            for epoch in range(1, epochs + 1):
                note = f"loss {self._epoch(epoch, epochs, rate):.3f}"
                if self.validation is not None:
                    loss, accuracy = self._validate(*self.validation)
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
                    f"(currently {rate:g}), or scale float frames to about 0..1."
                )
        return total / seen

    @property
    def _series_per_batch(self) -> int:
        return max(1, self.batch_size // self.frames_per_series)

    def _batches(
        self, videos: Frames, permutation: np.ndarray, rng: np.random.Generator
    ) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Yield rows (B,) and times (B,): one random frame from each of a few equal parts of each series."""
        each = self.frames_per_series
        for start in range(0, len(permutation), self._series_per_batch):
            rows = np.repeat(np.sort(permutation[start : start + self._series_per_batch]), each)
            position = np.tile(np.arange(each), len(rows) // each) + rng.random(len(rows))
            yield rows, (position / each * videos.lengths[rows]).astype(np.int64)

    def _loss(
        self, videos: Frames, labels: np.ndarray, weights: np.ndarray, rows: np.ndarray, times: np.ndarray
    ) -> tuple[Tensor, Tensor]:
        """Return the weighted mean cross-entropy, and the logits (B, K)."""
        logits = self.model(videos.read(rows, times).to(self.device))
        y = torch.from_numpy(labels[rows]).to(self.device)
        weight = torch.from_numpy(weights[rows]).to(self.device)
        losses = nn.functional.cross_entropy(logits, y, reduction="none")
        return (losses * weight).mean(), logits

    @torch.no_grad()
    def _validate(self, videos: Frames, labels: np.ndarray) -> tuple[float, float]:
        """Return the loss and the accuracy, averaged by class, on the same frames after every epoch."""
        self.model.eval()
        weights = _class_weights(labels, self.classes)
        loss, correct, seen = 0.0, 0.0, 0
        for rows, times in self._batches(videos, np.arange(len(videos)), np.random.default_rng(self.seed)):
            batch_loss, logits = self._loss(videos, labels, weights, rows, times)
            hits = logits.argmax(1).cpu().numpy() == labels[rows]
            loss, correct = (
                loss + batch_loss.item() * len(rows),
                correct + float((hits * weights[rows]).sum()),
            )
            seen += len(rows)
        return loss / seen, correct / seen


def device_of(module: nn.Module) -> torch.device:
    """Return the device of the first weight or buffer of a module; the CPU if it has none."""
    first = next(iter([*module.parameters(), *module.buffers()]), None)
    return torch.device("cpu") if first is None else first.device


def _class_weights(labels: np.ndarray, classes: int) -> np.ndarray:
    """Return weights (n,), float32, with mean 1 and the same total for every class that occurs."""
    counts = np.bincount(labels, minlength=classes)
    return (len(labels) / (np.count_nonzero(counts) * counts[labels])).astype(np.float32)


@torch.no_grad()
def output_dim(encoder: nn.Module, videos: Frames) -> int:
    """Return the number of features d, found by encoding one frame."""
    was_training = encoder.training
    first = videos.read(np.zeros(1, np.int64), np.zeros(1, np.int64)).to(device_of(encoder))
    features = encoder.eval()(first)
    encoder.train(was_training)
    if not isinstance(features, Tensor) or features.ndim != 2 or len(features) != 1:
        shape = tuple(features.shape) if isinstance(features, Tensor) else type(features).__name__
        raise ValueError(
            f"`encoder` must map frames (B, C, H, W) to features (B, d); it returned {shape} for one "
            f"frame of shape {tuple(first.shape)}. Flatten or pool its output."
        )
    return features.shape[1]


def _scale_hidden(hidden: float | None, videos: Frames) -> float | None:
    """Return the value of hidden pixels in the input of the encoder, where uint8 is scaled to 0..1."""
    if hidden is None:
        return None
    value = check_real("hidden", hidden, -math.inf, math.inf, open_low=True, open_high=True)
    return torch.tensor([value]).div_(255).item() if videos.is_bytes else value


def _check_validation(data: Any, videos: Frames, classes: np.ndarray) -> tuple[Frames, np.ndarray]:
    """Return the validation frames and their class indices."""
    if not isinstance(data, tuple | list) or len(data) not in (2, 3):
        given = f"{len(data)} item(s)" if isinstance(data, tuple | list) else type(data).__name__
        raise ValueError(f"`validation_data` must be (frames, y) or (frames, y, lengths); got {given}.")
    frames = Frames(data[0], data[2] if len(data) == 3 else None, "validation_data")
    if frames.frame_shape != videos.frame_shape:
        raise ValueError(
            f"`validation_data` must have frames like `frames`, (C, H, W) = {videos.frame_shape}; "
            f"got {frames.frame_shape}."
        )
    return frames, known_indices("`validation_data`: y", data[1], len(frames), classes)
