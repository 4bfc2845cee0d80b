"""From videos to series of features on disk."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from stopwise.features.backbones import Backbone
from stopwise.features.encoding import encode
from stopwise.features.fitting import device_of, fit_encoder
from stopwise.features.layouts import Clip, Layout
from stopwise.features.output import Output, read_fitted, write_fitted
from stopwise.features.shelf import Shelf
from stopwise.features.splits import TRAIN
from stopwise.features.video import Footage, Sampling, VideoError, read_frames
from stopwise.features.weights import fingerprint
from stopwise.progress import Reporter
from stopwise.validation import check_integer


def extract(
    layout: Layout,
    backbone: Backbone,
    out: str | os.PathLike[str],
    *,
    frames: int = 50,
    stride: int | None = None,
    fit: dict[str, Any] | None = None,
    batch_size: int = 64,
    workers: int = 1,
    device: str = "cpu",
    progress: bool | str = "auto",
) -> dict[str, Any]:
    """Turn videos into series of features that `datasets.read(out / "train")` and `stopwise train` take.

    A run that is killed goes on where it stopped when it is called again with the same arguments, and ends
    with the same features. A video that cannot be decoded is left out and told of.

    Parameters
    ----------
    layout
        The videos, from `find_clips`.
    backbone
        What makes features of pictures, from `build_backbone` or one's own; it is moved to `device`.
    out
        A folder for train_X.npy, train_y.npy (the names of the classes), train_lengths.npy where lengths
        differ, train_names.npy and train_groups.npy; the same for test; and features.json, the report.
        Series stand in order of class and name. What is needed on the way is kept in its folder `work`, as
        large as the result (with `fit`: as twice the frames), and cleared away in the end. One run at a time
        may write to a folder.
    frames, stride
        Which frames, as in `Sampling`.
    fit
        Not None: the backbone is first trained on the single frames of the training videos, with these
        arguments of `fit_encoder`, and kept as encoder.safetensors.
    batch_size
        How many frames go through the backbone at once; those of one video at most.
    workers
        How many videos are decoded at once, beside the backbone's own work.
    device
        A torch device.
    progress
        True: a bar on a terminal, lines elsewhere; False: nothing; "auto": a bar on a terminal only.

    Returns
    -------
    report
        What features.json holds: settings, classes, parts, skipped and damaged videos, missing ones, notes.

    Examples
    --------
    Two videos of noise, and a file that is none:

    >>> import av, tempfile
    >>> from stopwise.features import build_backbone, find_clips
    >>> folder, rng = Path(tempfile.mkdtemp()), np.random.default_rng(0)
    >>> for name in ("run/a.mp4", "walk/b.mp4"):
    ...     (folder / name).parent.mkdir()
    ...     with av.open(str(folder / name), "w") as video:
    ...         stream = video.add_stream("mpeg4", rate=10)
    ...         stream.width = stream.height = 32
    ...         for picture in rng.integers(0, 256, (6, 32, 32, 3), dtype=np.uint8):
    ...             video.mux(stream.encode(av.VideoFrame.from_ndarray(picture, format="rgb24")))
    ...         video.mux(stream.encode())
    >>> _ = (folder / "walk" / "c.mp4").write_text("not a video")
    >>> report = extract(find_clips(folder, test_fraction=0), build_backbone("small"), folder / "features")
    >>> report["parts"]
    {'train': {'videos': 2, 'classes': 2, 'steps': [6, 6], 'features': 64}}
    >>> report["skipped"][0]["video"]
    'walk/c.mp4'
    >>> from stopwise import datasets
    >>> datasets.read(folder / "features" / "train")
    LabelledSeries(2 series of 6 steps, 2 classes)
    """
    check_integer("batch_size", batch_size, 1)
    check_integer("workers", workers, 1)
    sampling = Sampling(frames, stride, backbone.size, backbone.short_side)
    settings = {
        "backbone": backbone.name,
        "weights": fingerprint(backbone.net),
        "trained": backbone.trained or fit is not None,
        "frames": frames,
        "stride": stride,
        "size": backbone.size,
        "fit": fit,
    }
    output = Output(Path(out), layout, settings)
    if (report := output.finished()) is not None:
        return report
    _move(backbone, device)
    output.begin()
    if fit is None:
        shelf = Shelf(output.work / "features")
        step: Callable[[np.ndarray], np.ndarray] = partial(_features, backbone, batch_size)
        _fill(shelf, layout.clips, sampling, step, workers, progress, "features")
        parts = {
            part: shelf.gather(clips, output.work / f"{part}_X.npy") for part, clips in output.usable(shelf)
        }
    else:
        shelf = Shelf(output.work / "frames")
        _fill(shelf, layout.clips, sampling, np.asarray, workers, progress, "frames")
        parts = _fit(shelf, backbone, output, fit, batch_size, progress)
    return output.finish(shelf, parts)


def _move(backbone: Backbone, device: str) -> None:
    """Move a backbone to a device that must be there."""
    try:
        backbone.net.to(device).eval()
    except (AssertionError, RuntimeError) as error:
        reason = str(error).splitlines()[0]
        raise ValueError(
            f"`device` must be a torch device of this machine; got {device!r} ({reason})."
        ) from error


def _fill(
    shelf: Shelf,
    clips: Sequence[Clip],
    sampling: Sampling,
    step: Callable[[np.ndarray], np.ndarray],
    workers: int,
    progress: bool | str,
    title: str,
) -> None:
    """Put what `step` makes of each video's frames on the shelf."""
    left = [clip for clip in clips if not shelf.done(clip)]
    with Reporter(title, len(clips), progress) as reporter:
        reporter.skip(len(clips) - len(left))
        for clip, future in _ahead(left, sampling, workers):
            try:
                footage = future.result()
            except VideoError as error:
                shelf.refuse(clip, str(error))
                reporter.advance(f"skipped {clip.name}: {error}")
                continue
            shelf.put(clip, step(footage.frames), footage.notes)
            reporter.advance(clip.name)


def _ahead(clips: Sequence[Clip], sampling: Sampling, workers: int) -> Iterator[tuple[Clip, Future[Footage]]]:
    """Yield the videos in order while the next ones are being decoded."""
    waiting: deque[tuple[Clip, Future[Footage]]] = deque()
    with ThreadPoolExecutor(workers) as pool:
        try:
            for clip in clips:
                waiting.append((clip, pool.submit(read_frames, clip.path, sampling)))
                if len(waiting) > workers:
                    yield waiting.popleft()
            while waiting:
                yield waiting.popleft()
        finally:
            pool.shutdown(cancel_futures=True)


@torch.inference_mode()
def _features(backbone: Backbone, batch_size: int, frames: np.ndarray) -> np.ndarray:
    """Return the features (t, d) of one video's frames (t, S, S, 3).

    Videos are not mixed in a batch: their features do not depend on which were done before a run was killed.
    """
    device = device_of(backbone.net)
    parts = []
    for start in range(0, len(frames), batch_size):
        pixels = torch.from_numpy(frames[start : start + batch_size]).to(device)  # (B, S, S, 3)
        part = backbone.net(pixels.permute(0, 3, 1, 2).to(torch.float32) / 255)
        if part.ndim != 2 or len(part) != len(pixels):
            raise ValueError(
                f"`backbone` must map pictures (B, 3, S, S) to features (B, d); {backbone.name} gave shape "
                f"{tuple(part.shape)} for {len(pixels)} pictures. Flatten or pool what it gives."
            )
        parts.append(part.to("cpu", torch.float32).numpy())
    features = np.concatenate(parts)
    if not np.isfinite(features).all():
        raise FloatingPointError(
            f"the backbone {backbone.name} gives NaN or infinity: its weights are damaged or do not fit. "
            "Fetch them again."
        )
    return features


def _fit(
    shelf: Shelf,
    backbone: Backbone,
    output: Output,
    recipe: dict[str, Any],
    batch_size: int,
    progress: bool | str,
) -> dict[str, np.ndarray]:
    """Train the backbone on single frames, write the features of all, return the lengths (n,) by part."""
    usable = dict(output.usable(shelf))
    lengths, frames = {}, {}
    for part, clips in usable.items():
        path = output.work / f"{part}_frames.npy"
        lengths[part] = shelf.gather(clips, path)
        frames[part] = np.load(path, mmap_mode="r", allow_pickle=False)  # (n, T, S, S, 3) uint8
    if not read_fitted(backbone.net, output.work):
        labels = np.array([clip.label for clip in usable[TRAIN]])
        fit_encoder(
            frames[TRAIN], labels, lengths=lengths[TRAIN], encoder=backbone.net, progress=progress, **recipe
        )
        write_fitted(backbone.net, output.work)
    for part in usable:
        encode(
            backbone.net,
            frames[part],
            lengths=lengths[part],
            batch_size=batch_size,
            out=output.work / f"{part}_X.npy",
            progress=progress,
        )
    return lengths
